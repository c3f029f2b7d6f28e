//! How each plugin has been doing on this node, across terms.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use tokio::sync::watch;

use super::Ticked;
use super::canary::Progress;
use super::probation::{Probation, Verdict};
use crate::entropy::Entropy;
use crate::schedule::{Policy, Record};
use crate::source::{Loaded, PluginSet};
use crate::status::{LastTick, PluginState, PluginStatus, WantedState};
use crate::stopfile::Stops;

/// Most figures that are kept of a plugin: it may name others in each tick.
const METRICS: usize = 256;

#[derive(Debug, Default)]
struct Entry {
    /// Which module and settings the record is about.
    digest: String,
    config: String,
    record: Record,
    /// Not before this, whatever term it is: failures outlive a term.
    not_before: Option<BootInstant>,
    next: Option<i64>,
    /// What ticks at the moment.
    running: Option<Arc<Loaded>>,
    last: Option<LastTick>,
    ticks: u64,
    failed: u64,
    loads: u64,
    metrics: BTreeMap<String, f64>,
    /// The revision that runs, and how its first ticks go.
    revision: Option<u64>,
    probation: Probation,
    /// How the revision on trial does.
    canary: Progress,
}

/// The records of all plugins.
#[derive(Debug)]
pub(crate) struct Book {
    clock: SharedClock,
    policy: Policy,
    entries: Mutex<BTreeMap<String, Entry>>,
    changed: watch::Sender<u64>,
}

impl Book {
    pub(crate) fn new(clock: SharedClock, policy: Policy) -> Self {
        Self {
            clock,
            policy,
            entries: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Rises with every change.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Something about this node has changed.
    pub(crate) fn touch(&self) {
        self.changed
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Take note of the plugins that run now: a new module or configuration
    /// begins with a clean slate.
    pub(crate) fn install(&self, set: &PluginSet) {
        let mut entries = self.entries();
        entries.retain(|name, _| set.plugins.contains_key(name));
        for (name, loaded) in &set.plugins {
            let entry = entries.entry(name.clone()).or_default();
            let digest = loaded.plugin.digest();
            if entry.digest != digest || entry.config != loaded.config {
                if entry.digest != digest {
                    entry.loads += 1;
                }
                digest.clone_into(&mut entry.digest);
                entry.config.clone_from(&loaded.config);
                entry.record = Record::default();
                entry.not_before = None;
            }
            if entry.revision != loaded.revision {
                entry.revision = loaded.revision;
                entry.probation = Probation::default();
            }
            entry.canary.of(loaded.trial.as_deref());
        }
        drop(entries);
        self.touch();
    }

    /// When a plugin may run at the earliest; at once if it has no debts.
    pub(crate) fn not_before(&self, name: &str) -> Option<BootInstant> {
        self.entries().get(name).and_then(|entry| entry.not_before)
    }

    /// A tick begins.
    pub(crate) fn began(&self, loaded: &Arc<Loaded>) {
        if let Some(entry) = self.entries().get_mut(loaded.name()) {
            entry.running = Some(loaded.clone());
            entry.next = None;
        }
        self.touch();
    }

    /// A tick has ended: how long to wait before the next; none if a calendar or
    /// an operator decides.
    pub(crate) fn ended(
        &self,
        loaded: &Loaded,
        ticked: &Ticked,
        entropy: &Entropy,
    ) -> Option<Duration> {
        let mut entries = self.entries();
        let entry = entries.entry(loaded.name().to_owned()).or_default();
        entry.running = None;
        entry.ticks += 1;
        entry.last = Some(LastTick {
            started: ticked.started.0,
            took_ms: u64::try_from(ticked.took.as_millis()).unwrap_or(u64::MAX),
            outcome: ticked.end.outcome.to_owned(),
            summary: ticked.end.text.clone(),
        });
        for (name, by) in &ticked.counters {
            if entry.metrics.len() < METRICS || entry.metrics.contains_key(name) {
                *entry.metrics.entry(name.clone()).or_insert(0.0) += *by as f64;
            }
        }
        for (name, value) in &ticked.gauges {
            if entry.metrics.len() < METRICS || entry.metrics.contains_key(name) {
                entry.metrics.insert(name.clone(), *value);
            }
        }
        entry.failed += u64::from(ticked.end.failure.is_some());
        let wait = match ticked.end.failure {
            // The slate of a newer version, laid while this one ticked, stays clean.
            _ if entry.digest != loaded.plugin.digest() || entry.config != loaded.config => {
                Some(Duration::ZERO)
            }
            None => {
                if !ticked.end.lost {
                    entry.record.succeeded();
                }
                entry.not_before = None;
                if ticked.goes_on() {
                    Some(Duration::ZERO)
                } else {
                    loaded.timetable.wait(ticked.took, entropy)
                }
            }
            Some(failure) => {
                let text = ticked.end.text.clone();
                let wait = entry.record.failed(failure, text, &self.policy, entropy);
                entry.not_before = Some(self.clock.boot() + wait);
                Some(wait)
            }
        };
        drop(entries);
        self.due_in(loaded.name(), wait);
        wait
    }

    /// The next tick is due after this time; none if nothing is due.
    pub(crate) fn due_in(&self, name: &str, wait: Option<Duration>) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.next = wait.map(|wait| {
                let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
                self.clock.unix().0.saturating_add(wait)
            });
        }
        self.touch();
    }

    /// What a tick says about the revision that it ran: its first ones decide.
    pub(crate) fn judge(&self, loaded: &Loaded, ticked: &Ticked, after: u32) -> Verdict {
        match self.entries().get_mut(loaded.name()) {
            Some(entry) if entry.revision == loaded.revision => {
                entry.probation.judge(ticked, after)
            }
            // It ended when the next revision was already there: that one is not
            // judged by it, and this one is not taken back any more.
            _ => Probation::default().judge(ticked, 0),
        }
    }

    /// Change what is known of the revision on trial.
    pub(crate) fn canary<T>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Progress) -> T,
    ) -> Option<T> {
        let changed = self
            .entries()
            .get_mut(name)
            .map(|entry| change(&mut entry.canary));
        self.touch();
        changed
    }

    /// The term is over: nothing is due.
    pub(crate) fn rest(&self) {
        for entry in self.entries().values_mut() {
            entry.running = None;
            entry.next = None;
        }
        self.touch();
    }

    /// Whether there is a plugin that may run, and every one is quarantined.
    pub(crate) fn dead(&self, set: &PluginSet) -> bool {
        let entries = self.entries();
        let mut enabled = set
            .plugins
            .iter()
            .filter(|(_, loaded)| loaded.settings.enabled)
            .peekable();
        enabled.peek().is_some()
            && enabled.all(|(name, _)| entries.get(name).is_some_and(|e| e.record.quarantined))
    }

    /// How the plugins stand: those that run, and those that are wanted and do not.
    pub(crate) fn status(&self, set: &PluginSet, leads: bool, stops: &Stops) -> Vec<PluginStatus> {
        let entries = self.entries();
        let absent = set
            .deployed
            .keys()
            .filter(|name| !set.plugins.contains_key(*name))
            .map(|name| PluginStatus {
                name: name.clone(),
                state: PluginState::Absent,
                ..PluginStatus::default()
            });
        let mut all: Vec<PluginStatus> = set
            .plugins
            .iter()
            .map(|(name, loaded)| {
                let empty = Entry::default();
                let entry = entries.get(name).unwrap_or(&empty);
                if loaded.shadow {
                    return PluginStatus {
                        name: name.clone(),
                        state: PluginState::Absent,
                        schedule: loaded.timetable.text(),
                        limits: (&loaded.settings.limits).into(),
                        ..PluginStatus::default()
                    };
                }
                // A tick goes on with the version that it began with.
                let loaded = entry.running.as_ref().unwrap_or(loaded);
                PluginStatus {
                    name: name.clone(),
                    version: loaded.manifest().version.to_string(),
                    digest: loaded.plugin.digest().to_owned(),
                    origin: loaded.origin.clone(),
                    revision: loaded.revision,
                    wanted: None,
                    rolled_back_from: None,
                    schedule: loaded.timetable.text(),
                    limits: (&loaded.settings.limits).into(),
                    state: entry.state(loaded, leads, stops),
                    last: entry.last.clone(),
                    next: entry.next.filter(|_| leads),
                    ticks: entry.ticks,
                    failed: entry.failed,
                    failures: entry.record.failures,
                    loads: entry.loads,
                    error: entry.record.error.clone(),
                    metrics: entry.metrics.clone(),
                }
            })
            .chain(absent)
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        for plugin in &mut all {
            let Some(deployed) = set.deployed.get(&plugin.name) else {
                continue;
            };
            let mut wanted = deployed.wanted.clone();
            if let WantedState::Canary {
                done,
                differing,
                last,
                ..
            } = &mut wanted.state
                && let Some(entry) = entries.get(&plugin.name)
            {
                (*done, *differing, *last) = entry.canary.figures();
            }
            let other = plugin.revision != Some(wanted.number);
            if wanted.state == WantedState::Running && plugin.state == PluginState::Running && other
            {
                wanted.state = WantedState::Swapping;
            }
            plugin.wanted = Some(wanted);
            plugin.rolled_back_from.clone_from(&deployed.rolled_back);
        }
        all
    }
}

impl Entry {
    fn state(&self, loaded: &Loaded, leads: bool, stops: &Stops) -> PluginState {
        if !loaded.settings.enabled {
            PluginState::Disabled
        } else if stops.stops(loaded.name()) && self.running.is_none() {
            PluginState::Stopped
        } else if self.running.is_some() {
            PluginState::Running
        } else if self.record.quarantined {
            PluginState::Quarantined
        } else if self.record.failures > 0 {
            PluginState::Backoff
        } else if leads {
            PluginState::Waiting
        } else {
            PluginState::Ready
        }
    }
}
