//! How each plugin has been doing on this node, across terms.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock};
use tokio::sync::watch;

use super::Ticked;
use crate::entropy::Entropy;
use crate::schedule::{Policy, Record};
use crate::source::{Loaded, PluginSet};
use crate::status::{LastTick, PluginState, PluginStatus};

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
    running: bool,
    last: Option<LastTick>,
    ticks: u64,
    failed: u64,
    loads: u64,
    metrics: BTreeMap<String, f64>,
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
        }
        drop(entries);
        self.touch();
    }

    /// When a plugin may run at the earliest; at once if it has no debts.
    pub(crate) fn not_before(&self, name: &str) -> Option<BootInstant> {
        self.entries().get(name).and_then(|entry| entry.not_before)
    }

    /// A tick begins.
    pub(crate) fn began(&self, name: &str) {
        if let Some(entry) = self.entries().get_mut(name) {
            entry.running = true;
            entry.next = None;
        }
        self.touch();
    }

    /// A tick has ended: how long to wait before the next.
    pub(crate) fn ended(&self, loaded: &Loaded, ticked: &Ticked, entropy: &Entropy) -> Duration {
        let mut entries = self.entries();
        let entry = entries.entry(loaded.name().to_owned()).or_default();
        entry.running = false;
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
        let wait = match ticked.end.failure {
            None => {
                if !ticked.end.lost {
                    entry.record.succeeded();
                }
                entry.not_before = None;
                if ticked.goes_on() {
                    Duration::ZERO
                } else {
                    loaded.rhythm.wait(ticked.took, entropy)
                }
            }
            Some(failure) => {
                entry.failed += 1;
                let text = ticked.end.text.clone();
                let wait = entry.record.failed(failure, text, &self.policy, entropy);
                entry.not_before = Some(self.clock.boot() + wait);
                wait
            }
        };
        let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        entry.next = Some(self.clock.unix().0.saturating_add(wait_ms));
        drop(entries);
        self.touch();
        wait
    }

    /// The term is over: nothing is due.
    pub(crate) fn rest(&self) {
        for entry in self.entries().values_mut() {
            entry.running = false;
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

    /// How the plugins stand.
    pub(crate) fn status(&self, set: &PluginSet, leads: bool) -> Vec<PluginStatus> {
        let entries = self.entries();
        set.plugins
            .iter()
            .map(|(name, loaded)| {
                let empty = Entry::default();
                let entry = entries.get(name).unwrap_or(&empty);
                PluginStatus {
                    name: name.clone(),
                    version: loaded.manifest().version.to_string(),
                    digest: loaded.plugin.digest().to_owned(),
                    origin: loaded.origin.clone(),
                    state: entry.state(loaded, leads),
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
            .collect()
    }
}

impl Entry {
    fn state(&self, loaded: &Loaded, leads: bool) -> PluginState {
        if !loaded.settings.enabled {
            PluginState::Disabled
        } else if self.running {
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
