//! One deployed plugin: its newest revisions, and what of them runs.

use std::sync::Arc;

use aedile_clock::BootInstant;
use aedile_engine::Plugin;
use aedile_state::State;

use super::Deployed;
use super::entry::{Base, Entry, Verdict, choose};
use super::fetch::Job;
use crate::control::{self, Action, ModuleRef, StoredModule, grant_command, revision_key};
use crate::source::Problem;
use crate::source::load::{Loaded, Trial};
use crate::status::{RolledBack, Wanted, WantedState};

/// Revisions that are looked at: a fallback lies further back only if as many
/// newer ones cannot run.
const DEPTH: u64 = 64;

/// Who rolls a revision back by itself: the name of the node follows.
pub(crate) const SELF: &str = "aedile@";

/// What runs, and of what it was put together.
#[derive(Clone, Debug)]
struct Chosen {
    /// What runs by itself; none where a trial stands alone.
    base: Option<Arc<Loaded>>,
    trial: Option<u64>,
    enabled: bool,
    loaded: Arc<Loaded>,
}

/// One deployed plugin.
#[derive(Clone, Debug, Default)]
pub(super) struct Deployment {
    /// Number of the newest revision.
    pub(super) head: u64,
    /// The newest first.
    entries: Vec<Entry>,
    chosen: Option<Chosen>,
}

/// The number of the newest revision. `known` is one that was seen before.
pub(super) fn head(state: &State, name: &str, known: Option<u64>) -> u64 {
    let mut head = known.unwrap_or(0);
    let there = |number: u64| state.kv_get(&revision_key(name, number)).is_some();
    // The log went back, or the first look: ask for the newest.
    if head == 0 || !there(head) {
        return match control::latest(state, name) {
            Some(Ok(revision)) => revision.number,
            Some(Err(damaged)) => damaged.number.unwrap_or(0),
            None => 0,
        };
    }
    while there(head + 1) {
        head += 1;
    }
    head
}

impl Deployment {
    /// Read the newest revisions; what is known of one is kept.
    pub(super) fn read(&mut self, state: &State, name: &str, head: u64) {
        let mut known = std::mem::take(&mut self.entries);
        self.head = head;
        self.entries = (head.saturating_sub(DEPTH) + 1..=head)
            .rev()
            .filter_map(|number| {
                let record = match control::revision(state, name, number)? {
                    Ok(revision) => Ok(revision.record),
                    Err(damaged) => Err(damaged.to_string()),
                };
                let verdict = known
                    .iter_mut()
                    .find(|entry| entry.number == number && entry.record == record)
                    .map_or(Verdict::Unknown, |entry| {
                        std::mem::replace(&mut entry.verdict, Verdict::Unknown)
                    });
                Some(Entry {
                    number,
                    record,
                    verdict,
                })
            })
            .collect();
    }

    fn whole(&self) -> bool {
        self.entries.last().is_none_or(|entry| entry.number == 1)
    }

    /// Decide what runs; what is to be loaded for it.
    pub(super) fn settle(
        &mut self,
        name: &str,
        builtin: Option<&Arc<Loaded>>,
        now: BootInstant,
    ) -> Vec<Job> {
        let wants = builtin.map(|loaded| loaded.manifest().grants.as_slice());
        let choice = choose(&self.entries, now, wants, self.whole());
        for (place, beyond) in choice.ruled_out {
            self.entries[place].verdict = Verdict::NeedsApproval(beyond);
        }
        let base = match choice.base {
            Base::Entry(place) => self.ready(place),
            Base::Embedded => builtin.cloned(),
            Base::Nothing => None,
            Base::Wait => self.chosen.as_ref().and_then(|chosen| chosen.base.clone()),
        };
        let trial = choice.trial.then(|| self.ready(0)).flatten();
        self.run(base, trial);
        self.forget();
        choice
            .load
            .into_iter()
            .filter_map(|place| {
                let entry = &mut self.entries[place];
                let Ok(record) = &entry.record else {
                    return None;
                };
                let job = Job {
                    name: name.to_owned(),
                    number: entry.number,
                    record: record.clone(),
                    compiled: None,
                };
                if !matches!(entry.verdict, Verdict::Failed(_)) {
                    entry.verdict = Verdict::Fetching;
                } else if let Verdict::Failed(failed) = &mut entry.verdict {
                    // Shown as failed while it is tried again.
                    failed.again = BootInstant::from_boot(std::time::Duration::MAX);
                }
                Some(job)
            })
            .collect()
    }

    fn ready(&self, place: usize) -> Option<Arc<Loaded>> {
        match &self.entries.get(place)?.verdict {
            Verdict::Ready(loaded) => Some(loaded.clone()),
            _ => None,
        }
    }

    /// Whether the newest revision lets it run at all: what rests, rests at once,
    /// whichever version is there.
    fn enabled(&self) -> bool {
        match self.entries.first().map(|entry| &entry.record) {
            Some(Ok(record)) => record.enabled,
            _ => true,
        }
    }

    fn run(&mut self, base: Option<Arc<Loaded>>, trial: Option<Arc<Loaded>>) {
        let enabled = self.enabled();
        let number = trial.as_ref().and_then(|trial| trial.revision);
        let same = |chosen: &Chosen| {
            let base_is = match (&chosen.base, &base) {
                (None, None) => true,
                (Some(before), Some(base)) => Arc::ptr_eq(before, base),
                _ => false,
            };
            base_is && chosen.trial == number && chosen.enabled == enabled
        };
        if self.chosen.as_ref().is_some_and(same) {
            return;
        }
        let Some(stem) = base.clone().or_else(|| trial.clone()) else {
            self.chosen = None;
            return;
        };
        let rests = !enabled && stem.settings.enabled;
        let loaded = if trial.is_none() && !rests {
            stem
        } else {
            let mut loaded = Loaded::clone(&stem);
            loaded.settings.enabled &= enabled;
            loaded.shadow = base.is_none();
            loaded.trial = trial.map(|trial| {
                Arc::new(Trial {
                    revision: trial.revision.unwrap_or(self.head),
                    ticks: self.entries.first().map_or(0, Entry::canary),
                    loaded: trial,
                })
            });
            Arc::new(loaded)
        };
        self.chosen = Some(Chosen {
            base,
            trial: number,
            enabled,
            loaded,
        });
    }

    /// Let go of what neither runs nor is on trial.
    fn forget(&mut self) {
        let base = self.chosen.as_ref().and_then(|chosen| chosen.base.as_ref());
        let trial = self.chosen.as_ref().and_then(|chosen| chosen.trial);
        for (place, entry) in self.entries.iter_mut().enumerate() {
            let Verdict::Ready(loaded) = &entry.verdict else {
                continue;
            };
            let runs = base.is_some_and(|base| Arc::ptr_eq(base, loaded));
            if !runs && trial != Some(entry.number) && place > 0 {
                entry.verdict = Verdict::Unknown;
            }
        }
    }

    pub(super) fn compiling(&mut self, number: u64) {
        if let Some(entry) = self.entry(number)
            && matches!(entry.verdict, Verdict::Fetching)
        {
            entry.verdict = Verdict::Compiling;
        }
    }

    pub(super) fn found(&mut self, number: u64, verdict: Verdict) {
        if let Some(entry) = self.entry(number) {
            entry.verdict = verdict;
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.number == number)
    }

    pub(super) fn tries(&self, number: u64) -> u32 {
        let entry = self.entries.iter().find(|entry| entry.number == number);
        match entry.map(|entry| &entry.verdict) {
            Some(Verdict::Failed(failed)) => failed.tries,
            _ => 0,
        }
    }

    /// When a failed revision is due to be tried again.
    pub(super) fn due(&self) -> Option<BootInstant> {
        self.entries
            .iter()
            .filter_map(|entry| match &entry.verdict {
                Verdict::Failed(failed) => Some(failed.again),
                _ => None,
            })
            .min()
    }

    /// Every module of it that is compiled.
    pub(super) fn compiled(&self) -> impl Iterator<Item = (&StoredModule, &Plugin)> {
        self.entries.iter().filter_map(|entry| {
            let module = entry.record.as_ref().ok().map(|record| &record.module);
            match (module, &entry.verdict) {
                (Some(ModuleRef::Stored(stored)), Verdict::Ready(loaded)) => {
                    Some((stored, &loaded.plugin))
                }
                _ => None,
            }
        })
    }

    pub(super) fn chosen(&self) -> Option<&Arc<Loaded>> {
        self.chosen.as_ref().map(|chosen| &chosen.loaded)
    }

    /// Whether the newest revision says that it is gone.
    pub(super) fn removed(&self) -> bool {
        let newest = self.entries.first().map(|entry| &entry.record);
        matches!(newest, Some(Ok(record)) if record.removed)
    }

    pub(super) fn status(&self, name: &str) -> Deployed {
        let Some(newest) = self.entries.first() else {
            return Deployed::default();
        };
        let (digest, version) = match &newest.record {
            Ok(record) => (
                record.module.digest().unwrap_or_default().to_owned(),
                record.version.clone(),
            ),
            Err(_) => Default::default(),
        };
        Deployed {
            wanted: Wanted {
                number: newest.number,
                digest,
                version,
                state: wanted(name, newest),
            },
            rolled_back: self.rolled_back(),
        }
    }

    fn rolled_back(&self) -> Option<RolledBack> {
        let [newest, bad, ..] = self.entries.as_slice() else {
            return None;
        };
        let record = newest.record.as_ref().ok()?;
        let by = record.who.strip_prefix(SELF)?;
        let bad_record = bad.record.as_ref().ok()?;
        (record.action == Action::Rollback).then(|| RolledBack {
            number: bad.number,
            version: bad_record.version.clone(),
            digest: bad_record.module.digest().unwrap_or_default().to_owned(),
            by: by.to_owned(),
            why: record.why.clone(),
            at: record.at_ms,
        })
    }

    /// Why the newest revision does not run; none if it does or soon will.
    pub(super) fn problem(&self, name: &str) -> Option<Problem> {
        let newest = self.entries.first()?;
        let text = match wanted(name, newest) {
            WantedState::Refused { reason } | WantedState::Retrying { reason, .. } => reason,
            WantedState::NeedsApproval { missing, command } => format!(
                "it wants grants that it was not given ({}); `{command}` gives them",
                missing.join(", ")
            ),
            _ => return None,
        };
        Some(Problem {
            origin: format!("revision {}", newest.number),
            plugin: Some(name.to_owned()),
            text,
            keeps_running: self
                .chosen
                .as_ref()
                .is_some_and(|chosen| chosen.base.is_some()),
        })
    }
}

fn wanted(name: &str, newest: &Entry) -> WantedState {
    match &newest.record {
        Err(reason) => {
            return WantedState::Refused {
                reason: reason.clone(),
            };
        }
        Ok(record) if record.removed => return WantedState::Running,
        Ok(_) => {}
    }
    match &newest.verdict {
        Verdict::Unknown | Verdict::Fetching => WantedState::Fetching,
        Verdict::Compiling => WantedState::Compiling,
        Verdict::Ready(_) if newest.canary() > 0 => WantedState::Canary {
            done: 0,
            of: newest.canary(),
            differing: 0,
            last: None,
        },
        Verdict::Ready(_) => WantedState::Running,
        Verdict::NeedsApproval(missing) => WantedState::NeedsApproval {
            missing: missing.iter().map(ToString::to_string).collect(),
            command: grant_command(name, missing),
        },
        Verdict::Refused(reason) => WantedState::Refused {
            reason: reason.clone(),
        },
        Verdict::Failed(failed) if failed.passing => WantedState::Retrying {
            reason: failed.reason.clone(),
            tries: failed.tries,
        },
        Verdict::Failed(failed) => WantedState::Refused {
            reason: failed.reason.clone(),
        },
    }
}
