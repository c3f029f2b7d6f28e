//! The runs of a trial.

use std::sync::{Arc, Mutex};

use aedile_engine::Control;
use aedile_log::View;
use tokio_util::sync::CancellationToken;

use super::differ::difference;
use super::watched::{Journal, SharedJournal, Stop, Watched, lock};
use super::{Divergence, Ground, RESTLESS, Subject, Trial, TrialError, TrialTick};
use crate::backend::{Backend as _, Dry, World};
use crate::entropy::Entropy;
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::pass::left_over;
use crate::source::{Granting, Loaded, load};
use crate::term::{Identity, Ticked, tick_on};

/// Ticks after which a run is given up whatever it does.
const TICKS: usize = 10_000;
/// Ticks in a row that may ask for a retry after an attack.
const RETRIES: usize = 3;
/// Ticks of which the one that must not run twice is looked for.
const DOUBLED: usize = 32;

/// How a run ended.
#[derive(Debug)]
struct Ended {
    /// The states between which it rests: one, as a rule.
    rest: Vec<World>,
    ticks: Vec<Ticked>,
    journal: SharedJournal,
    guards: Arc<Guards<Dry>>,
    /// Why it does not rest.
    failure: Option<String>,
}

/// What is done to the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disturb {
    Nothing,
    /// Run each tick twice on the view that it began with.
    Double,
    /// Only this one.
    DoubleOne(usize),
    /// At this call.
    At(usize, Stop),
}

/// A plugin on its ground.
#[derive(Debug)]
pub(super) struct Attack<'a> {
    ground: &'a Ground,
    pub(super) loaded: Arc<Loaded>,
    identity: Identity,
    start: World,
}

impl<'a> Attack<'a> {
    pub(super) async fn prepare(ground: &'a Ground, subject: &Subject) -> Result<Self, TrialError> {
        let granting = match subject.grant_wanted {
            true => Granting::Builtin,
            false => Granting::Settings,
        };
        let loaded = load(
            &ground.engine,
            subject.bytes.clone(),
            subject.settings.clone(),
            granting,
            "trial".to_owned(),
        )
        .await
        .map_err(|unfit| TrialError::Unfit(unfit.text))?;
        Ok(Self {
            ground,
            loaded,
            identity: Identity {
                node: "trial".to_owned(),
                epoch: 1,
            },
            start: World {
                view: Arc::new(ground.view.clone()),
                ..World::default()
            },
        })
    }

    /// A holder that knows nothing but the state.
    pub(super) fn holder(&self, world: World) -> Arc<Guards<Dry>> {
        let ground = self.ground;
        let backend = Dry::of(
            world,
            ground.now,
            ground.store.clone(),
            ground.clock.clone(),
        );
        let guards = Guards::new(
            backend,
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(ground.confirm_empty_store),
            Arc::new(Entropy::new(Some(1))),
        );
        Arc::new(guards.with_orphans(ground.orphans))
    }

    pub(super) fn start(&self) -> World {
        self.start.clone()
    }

    /// One tick of a holder on a view.
    pub(super) async fn tick(
        &self,
        guards: &Arc<Guards<Dry>>,
        journal: &SharedJournal,
        view: Arc<View>,
    ) -> Ticked {
        let control = Control {
            authority: Arc::new(|| true),
            stop: CancellationToken::new(),
        };
        let journal = journal.clone();
        tick_on(
            guards,
            &self.loaded,
            &self.identity,
            control,
            view,
            |host| Box::new(Watched { host, journal }),
        )
        .await
    }

    /// Tick until nothing changes any more.
    async fn settle(&self, disturb: Disturb) -> Ended {
        let journal = match disturb {
            Disturb::Nothing => Journal::default(),
            Disturb::Double | Disturb::DoubleOne(_) => Journal::quiet(),
            Disturb::At(at, how) => Journal::stopping(at, how),
        };
        let mut ended = Ended {
            rest: Vec::new(),
            ticks: Vec::new(),
            journal: Arc::new(Mutex::new(journal)),
            guards: self.holder(self.start()),
            failure: None,
        };
        let mut seen = vec![self.start()];
        let (mut retries, mut disturbed) = (0, false);
        while ended.ticks.len() < TICKS {
            let number = ended.ticks.len();
            let view = ended.guards.backend.latest();
            let mut ticked = self.tick(&ended.guards, &ended.journal, view.clone()).await;
            if disturb == Disturb::Double || disturb == Disturb::DoubleOne(number) {
                let twin = self.holder(ended.guards.backend.world());
                ticked = self.tick(&twin, &ended.journal, view).await;
                ended.guards = twin;
            }
            ended.ticks.push(ticked.clone());
            if lock(&ended.journal).stopped && !disturbed {
                // Another holder goes on; also after a lost answer, when this
                // one may have set an object aside.
                disturbed = true;
                ended.guards = self.holder(ended.guards.backend.world());
                continue;
            }
            if ticked.end.outcome == "retry" && disturb != Disturb::Nothing && retries < RETRIES {
                retries += 1;
                ended.guards = self.holder(ended.guards.backend.world());
                continue;
            }
            retries = 0;
            if ticked.end.failure.is_some() || ticked.end.lost {
                ended.failure = Some(format!("{}: {}", ticked.end.outcome, ticked.end.text));
                return ended;
            }
            if ticked.goes_on() {
                continue;
            }
            let world = ended.guards.backend.world();
            if let Some(at) = seen
                .iter()
                .position(|past| difference(past, &world).is_none())
            {
                ended.rest = seen.split_off(at);
                return ended;
            }
            if seen.len() > RESTLESS {
                let last = seen.last().and_then(|last| difference(last, &world));
                ended.failure = Some(format!(
                    "it does not come to rest: {RESTLESS} ticks at the same time, and each changes \
                     something; the last: {}",
                    last.unwrap_or_default()
                ));
                return ended;
            }
            seen.push(world);
        }
        ended.failure = Some(format!("it still asks for more after {TICKS} ticks"));
        ended
    }

    pub(super) async fn run(&self, most: usize) -> Trial {
        let manifest = self.loaded.manifest();
        let mut trial = Trial {
            plugin: manifest.name.clone(),
            version: manifest.version.to_string(),
            digest: self.loaded.plugin.digest().to_owned(),
            index: self.start.view.index,
            now: self.ground.now.0,
            ..Trial::default()
        };
        let until = self.start.view.state.next_mark_seq();
        let plain = self.settle(Disturb::Nothing).await;
        self.tell(&plain, until, &mut trial);
        if trial.failure.is_some() {
            return trial;
        }
        let points = points(&trial);
        trial.attacks = points.len() + 1;
        if most == 0 {
            return trial;
        }
        let doubled = self.settle(Disturb::Double).await;
        trial.tried = 1;
        if let Some(text) = other_end(&plain, &doubled) {
            let divergence = self.doubled(&plain, text).await;
            trial.divergences.push(divergence);
        }
        // Spread evenly where there are too many.
        let most = most.saturating_sub(1).min(points.len());
        for nth in 0..most {
            let (at, how) = points[nth * points.len() / most];
            let ended = self.settle(Disturb::At(at, how)).await;
            trial.tried += 1;
            if let Some(difference) = other_end(&plain, &ended) {
                trial.divergences.push(Divergence {
                    attack: words(how).to_owned(),
                    at: Some(at + 1),
                    call: trial.sent.get(at).cloned(),
                    stop: Some(how),
                    difference,
                });
            }
        }
        trial
    }

    /// What the undisturbed run did.
    fn tell(&self, plain: &Ended, until: u64, trial: &mut Trial) {
        let guards = &plain.guards;
        let noted = guards.backend.take_noted();
        let state = guards.backend.latest().state.clone();
        let left = left_over(guards, &state, until);
        trial.ticks = plain.ticks.iter().map(told).collect();
        trial.commands = noted.commands;
        trial.deletes = noted.deletes;
        trial.cleans = noted.cleans;
        trial.expires = noted.expires;
        trial.refused = left.refused;
        trial.refused.extend(left.conflicts);
        trial.store_suspect = guards.doubt(&state);
        trial.failure = plain.failure.clone();
        let journal = lock(&plain.journal);
        trial.sent = journal.sent.clone();
        trial.boundary = journal.boundary.clone();
    }

    /// Which tick must not run twice.
    async fn doubled(&self, plain: &Ended, text: String) -> Divergence {
        let mut divergence = Divergence {
            attack: "each tick run twice on the view that it began with".to_owned(),
            at: None,
            call: None,
            stop: None,
            difference: text,
        };
        for number in 0..plain.ticks.len().min(DOUBLED) {
            let one = self.settle(Disturb::DoubleOne(number)).await;
            if let Some(text) = other_end(plain, &one) {
                divergence.attack = format!(
                    "tick {} run twice on the view that it began with",
                    number + 1
                );
                divergence.difference = text;
                break;
            }
        }
        divergence
    }
}

/// Every call with every way to stop it.
fn points(trial: &Trial) -> Vec<(usize, Stop)> {
    let calls = trial.sent.iter().enumerate();
    calls
        .flat_map(|(at, sent)| {
            let half = (sent.items > 1).then_some(Stop::Half);
            [
                Some(Stop::Before),
                half,
                Some(Stop::After),
                Some(Stop::AnswerLost),
            ]
            .into_iter()
            .flatten()
            .map(move |how| (at, how))
        })
        .collect()
}

fn words(how: Stop) -> &'static str {
    match how {
        Stop::Before => "stopped before the call had any effect",
        Stop::After => "stopped right after the call, with its whole effect",
        Stop::Half => "stopped in the middle of the call, with the first half of its items done",
        Stop::AnswerLost => "the call's answer was lost, with its whole effect",
    }
}

/// In what an end differs from that of the undisturbed run; none if in nothing.
fn other_end(plain: &Ended, other: &Ended) -> Option<String> {
    if let Some(failure) = &other.failure {
        return Some(failure.clone());
    }
    let same = |world: &World| {
        plain
            .rest
            .iter()
            .any(|rest| difference(rest, world).is_none())
    };
    if other.rest.iter().any(same) {
        return None;
    }
    let (expected, found) = (plain.rest.first()?, other.rest.first()?);
    difference(expected, found)
}

fn told(ticked: &Ticked) -> TrialTick {
    TrialTick {
        outcome: ticked.end.outcome.to_owned(),
        text: ticked.end.text.clone(),
        more: ticked.more,
        done: ticked.done,
        failed: ticked.failed,
        effects: ticked.effects,
        counters: ticked.counters.clone(),
        gauges: ticked.gauges.clone(),
    }
}
