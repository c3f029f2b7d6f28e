//! The run history: ticks that did something or failed.
//!
//! A backlog drains in many ticks without a pause; they are one run, written
//! when the streak ends or has lasted a while.

use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{BootInstant, SharedClock, UnixMillis};
use aedile_log::{Log, RunRecord};

use super::{Identity, Ticked};
use crate::backend::chain;
use crate::source::{Loaded, Trial};

/// Longest streak that one record stands for.
const STREAK: Duration = Duration::from_secs(5);
/// How long a record may take to be written; it is dropped then.
const WRITE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Streak {
    began: BootInstant,
    started: UnixMillis,
    ticks: u64,
    done: u64,
    failed: u64,
    effects: u64,
    cpu_ms: u64,
}

/// Writes the runs of one plugin.
#[derive(Debug)]
pub(crate) struct Runs {
    log: Log,
    clock: SharedClock,
    identity: Arc<Identity>,
    streak: Option<Streak>,
}

impl Runs {
    pub(crate) fn new(log: Log, clock: SharedClock, identity: Arc<Identity>) -> Self {
        Self {
            log,
            clock,
            identity,
            streak: None,
        }
    }

    /// Take note of a tick; write what is complete.
    pub(crate) async fn note(&mut self, loaded: &Loaded, ticked: &Ticked) {
        if self.streak.is_none() && !ticked.worth_a_record() {
            return;
        }
        let streak = self.streak.get_or_insert(Streak {
            began: self.clock.boot(),
            started: ticked.started,
            ticks: 0,
            done: 0,
            failed: 0,
            effects: 0,
            cpu_ms: 0,
        });
        streak.ticks += 1;
        streak.done += ticked.done;
        streak.failed += ticked.failed;
        streak.effects += ticked.effects;
        streak.cpu_ms += u64::try_from(ticked.cpu.as_millis()).unwrap_or(u64::MAX);
        let long = self.clock.boot().since(streak.began) >= STREAK;
        if ticked.goes_on() && !long {
            return;
        }
        let Some(streak) = self.streak.take() else {
            return;
        };
        let mut detail = serde_json::json!({
            "ticks": streak.ticks,
            "done": streak.done,
            "failed": streak.failed,
            "effects": streak.effects,
            "cpu_ms": streak.cpu_ms,
            "peak_memory": ticked.peak_memory,
            "log_dropped": ticked.log_dropped,
        });
        if !ticked.asked.is_empty() {
            detail["asked_by"] = ticked.asked.clone().into();
        }
        if let Some(revision) = loaded.revision {
            detail["revision"] = revision.into();
        }
        let record = RunRecord {
            started: streak.started,
            outcome: ticked.end.outcome.to_owned(),
            summary: ticked.end.text.clone(),
            detail,
            ..self.record(loaded)
        };
        self.write(loaded, record).await;
    }

    /// Note what a revision on trial would have done else, or how it ended.
    pub(crate) async fn trial(&self, trial: &Trial, outcome: &str, summary: String) {
        let loaded = &trial.loaded;
        let record = RunRecord {
            outcome: outcome.to_owned(),
            summary,
            detail: serde_json::json!({ "revision": trial.revision }),
            ..self.record(loaded)
        };
        self.write(loaded, record).await;
    }

    fn record(&self, loaded: &Loaded) -> RunRecord {
        let now = self.clock.unix();
        RunRecord {
            id: 0,
            plugin: loaded.name().to_owned(),
            version: loaded.manifest().version.to_string(),
            digest: loaded.plugin.digest().to_owned(),
            node: self.identity.node.clone(),
            epoch: self.identity.epoch,
            started: now,
            ended: now,
            outcome: String::new(),
            summary: String::new(),
            detail: serde_json::Value::Null,
        }
    }

    async fn write(&self, loaded: &Loaded, record: RunRecord) {
        let records = self.log.records();
        match self.clock.timeout(WRITE, records.run(&record)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(plugin = loaded.name(), error = %chain(&error), "a run was not recorded");
            }
            Err(elapsed) => {
                tracing::warn!(plugin = loaded.name(), error = %elapsed, "a run was not recorded");
            }
        }
    }
}
