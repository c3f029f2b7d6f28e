//! A new version on trial: it plans on the same view as the old one, and what
//! both would do is compared. Nothing of it is applied.
//!
//! Both plan in a dry run, and only then the old one ticks: so what differs is
//! what the versions make of the same view and time, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use aedile_clock::UnixMillis;
use aedile_engine::Control;
use aedile_log::View;
use aedile_state::Command;

use super::tick::tick_seeded;
use super::{Identity, Ticked};
use crate::backend::{Backend as _, Dry, Live, Noted, Trouble};
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::schedule::Failure;
use crate::source::{Loaded, Trial};

/// Most differences that are named.
const NAMED: usize = 3;

/// How a revision on trial does on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    revision: u64,
    of: u32,
    done: u32,
    differing: u32,
    last: Option<String>,
}

/// What one tick on trial came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// There are more to come.
    On {
        /// What the new version would have done else; none if nothing.
        difference: Option<String>,
    },
    /// It was the last.
    Passed {
        /// The figures of the trial, for people.
        summary: String,
        /// What the new version would have done else; none if nothing.
        difference: Option<String>,
    },
    /// The new version failed.
    Failed(String),
    /// It says nothing: the view, or the store, was not to be had.
    Nothing,
}

impl Progress {
    /// A trial begins, goes on, or is over.
    pub(crate) fn of(&mut self, trial: Option<&Trial>) {
        let revision = trial.map_or(0, |trial| trial.revision);
        if self.revision != revision {
            *self = Self {
                revision,
                of: trial.map_or(0, |trial| trial.ticks),
                ..Self::default()
            };
        }
    }

    /// Ticks done, those that differed, and the last difference.
    pub(crate) fn figures(&self) -> (u32, u32, Option<String>) {
        (self.done, self.differing, self.last.clone())
    }

    /// Take note of a comparison.
    fn compared(&mut self, difference: Option<String>) -> Step {
        self.done = self.done.saturating_add(1);
        if difference.is_some() {
            self.differing = self.differing.saturating_add(1);
            self.last.clone_from(&difference);
        }
        if self.done < self.of {
            return Step::On { difference };
        }
        let ticks = match self.done {
            1 => "1 tick".to_owned(),
            done => format!("{done} ticks"),
        };
        let summary = match (&self.last, self.differing) {
            (Some(last), differing) => {
                format!("{ticks} on trial, {differing} of them differ; the last: {last}")
            }
            (None, _) => format!("{ticks} on trial, none of them differs"),
        };
        Step::Passed {
            summary,
            difference,
        }
    }
}

/// What a dry run would do, each thing with how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Intent(BTreeMap<String, u64>);

impl Intent {
    fn of(noted: Noted) -> Self {
        let mut intent = Self::default();
        for delete in noted.deletes {
            intent.add(format!("delete {}", delete.key));
        }
        for expiry in noted.expires {
            intent.add(format!("expire reservation {}", expiry.id));
        }
        for command in noted.proposed {
            match command {
                Command::CleanDestroyedObjects { objects } => {
                    for object in objects {
                        intent.add(format!("clean {object}"));
                    }
                }
                // Those that lapsed are listed one by one.
                Command::ExpirePreparedObjects { .. } => {}
                Command::PutKv { key, value } | Command::PutKvIfAbsent { key, value } => {
                    intent.add(format!("put {key} = {}", text(&value)));
                }
                Command::DeleteKv { key } => intent.add(format!("delete key {key}")),
                other => intent.add(format!("{other:?}")),
            }
        }
        intent
    }

    fn add(&mut self, what: String) {
        *self.0.entry(what).or_default() += 1;
    }

    /// What `self` has beyond the other.
    fn beyond<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (&'a str, u64)> {
        self.0.iter().filter_map(|(what, times)| {
            let more = times.saturating_sub(other.0.get(what).copied().unwrap_or(0));
            (more > 0).then_some((what.as_str(), more))
        })
    }

    /// What the new version would do else than the old one, for people; none if
    /// nothing.
    fn difference(old: &Self, new: &Self) -> Option<String> {
        let side = |word: &str, all: Vec<(&str, u64)>| {
            let total: u64 = all.iter().map(|(_, times)| times).sum();
            let named: Vec<&str> = all.iter().take(NAMED).map(|(what, _)| *what).collect();
            let more = match all.len() > NAMED {
                true => ", …",
                false => "",
            };
            (total > 0).then(|| format!("{total} {word} ({}{more})", named.join(", ")))
        };
        let sides: Vec<String> = [
            side("more", new.beyond(old).collect()),
            side("fewer", old.beyond(new).collect()),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!sides.is_empty()).then(|| sides.join(", "))
    }
}

/// A value, for people: long ones by what tells them apart.
fn text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if text.len() <= 64 => text.escape_debug().to_string(),
        _ => {
            use std::hash::{DefaultHasher, Hash as _, Hasher as _};
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            format!("{} bytes ({:08x})", value.len(), hasher.finish() as u32)
        }
    }
}

/// Let both versions plan on one view, and compare.
pub(crate) async fn step(
    guards: &Arc<Guards<Live>>,
    loaded: &Loaded,
    trial: &Trial,
    identity: &Identity,
    control: impl Fn() -> Control,
    progress: impl FnOnce(&mut dyn FnMut(&mut Progress) -> Step) -> Option<Step>,
) -> Step {
    let backend = &guards.backend;
    let pinned = async { Ok::<_, Trouble>((backend.fresh().await?, backend.now().await?)) };
    let Ok((view, now)) = pinned.await else {
        return Step::Nothing;
    };
    let seed = crate::entropy::tick_seed(loaded.plugin.digest(), view.index);
    let plan = async |loaded: &Loaded| {
        let scratch = scratch(guards, &view, now);
        let pinned = (scratch.backend.latest(), seed);
        let ticked = tick_seeded(&scratch, loaded, identity, control(), pinned, |host| {
            Box::new(host)
        })
        .await;
        (ticked, Intent::of(scratch.backend.take_noted()))
    };
    let (ticked, new) = plan(&trial.loaded).await;
    match failure(&ticked) {
        Some(Ok(error)) => return Step::Failed(error),
        Some(Err(())) => return Step::Nothing,
        None => {}
    }
    let old = if loaded.shadow {
        Intent::default()
    } else {
        plan(loaded).await.1
    };
    let difference = Intent::difference(&old, &new);
    progress(&mut |progress| progress.compared(difference.clone())).unwrap_or(Step::Nothing)
}

/// How a tick on trial failed: with an error of its own, or without saying
/// anything about the version.
fn failure(ticked: &Ticked) -> Option<Result<String, ()>> {
    match ticked.end.failure {
        None if ticked.end.lost => Some(Err(())),
        None => None,
        Some(Failure::Retry(_)) => Some(Err(())),
        Some(Failure::Reject | Failure::Fault) => Some(Ok(ticked.end.text.clone())),
    }
}

/// A dry run over a view, with the rules of the term.
fn scratch(guards: &Guards<Live>, view: &Arc<View>, now: UnixMillis) -> Arc<Guards<Dry>> {
    let backend = &guards.backend;
    let dry = Dry::new(
        View::clone(view),
        now,
        backend.store.clone(),
        backend.clock.clone(),
    );
    Arc::new(
        Guards::new(
            dry,
            Arc::new(Aside::new(Tries::Once)),
            StoreTrust::new(guards.trust.confirmed()),
            guards.entropy.clone(),
        )
        .with_orphans(guards.orphans.options()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intent(all: &[&str]) -> Intent {
        let mut intent = Intent::default();
        for what in all {
            intent.add((*what).to_owned());
        }
        intent
    }

    #[test]
    fn what_differs_is_counted_and_named() {
        let old = intent(&["a", "b", "b"]);
        assert_eq!(Intent::difference(&old, &old), None);
        let new = intent(&["a", "b", "c", "d", "e", "f"]);
        assert_eq!(
            Intent::difference(&old, &new).as_deref(),
            Some("4 more (c, d, e, …), 1 fewer (b)")
        );
    }

    #[test]
    fn the_last_tick_decides_and_sums_up() {
        let mut progress = Progress {
            of: 3,
            ..Progress::default()
        };
        let on = progress.compared(None);
        assert_eq!(on, Step::On { difference: None });
        let _ = progress.compared(Some("1 more (x)".to_owned()));
        let Step::Passed { summary, .. } = progress.compared(None) else {
            panic!("it was the last");
        };
        assert_eq!(
            summary,
            "3 ticks on trial, 1 of them differ; the last: 1 more (x)"
        );
    }
}
