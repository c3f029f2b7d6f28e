//! From a record to what a plugin runs with.

use std::time::Duration;

use aedile_engine::{Grant, Limits};

use super::{LimitChanges, Record};
use crate::source::{PluginSettings, ScheduleSettings};

/// A setting in a record that this version cannot carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct RecordError {
    /// The field.
    pub field: &'static str,
    /// What is wrong with it and what would be right.
    pub reason: String,
}

fn wrong(field: &'static str, reason: impl ToString) -> RecordError {
    RecordError {
        field,
        reason: reason.to_string(),
    }
}

impl Record {
    /// What the plugin runs with.
    ///
    /// # Errors
    /// The first setting that is out of its range, or that a later version of
    /// Aedile wrote.
    pub fn settings(&self) -> Result<PluginSettings, RecordError> {
        for text in &self.grants {
            text.parse::<Grant>()
                .map_err(|error| wrong("grants", error))?;
        }
        for prefix in &self.kv_prefixes {
            check_prefix(prefix).map_err(|reason| wrong("kv_prefixes", reason))?;
        }
        if let Some(lease) = &self.lease {
            return Err(wrong(
                "lease",
                format!(
                    "a lease of its own (`{}`) is not known to this version; upgrade this node",
                    lease.escape_debug()
                ),
            ));
        }
        let schedule = &self.schedule;
        let ways = [
            schedule.interval_ms.is_some(),
            schedule.cron.is_some(),
            schedule.on_demand,
        ];
        if ways.into_iter().filter(|way| *way).count() > 1 {
            return Err(wrong(
                "schedule",
                "it is an interval, a cron expression, or on demand: one of the three",
            ));
        }
        Ok(PluginSettings {
            enabled: self.enabled && !self.removed,
            fenced: self.fenced,
            grants: self.grants.clone(),
            kv_prefixes: self.kv_prefixes.clone(),
            schedule: ScheduleSettings {
                interval: schedule.interval_ms.map(Duration::from_millis),
                jitter: schedule.jitter_ms.map(Duration::from_millis),
                cron: schedule.cron.clone(),
                on_demand: schedule.on_demand,
            },
            config: self.config.clone().into(),
            limits: self.limits.over(Limits::default())?,
        })
    }
}

impl LimitChanges {
    /// The limits with these changes.
    ///
    /// # Errors
    /// The first that is out of its range.
    pub fn over(&self, mut limits: Limits) -> Result<Limits, RecordError> {
        let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        if let Some(bytes) = self.memory {
            limits.memory = size(bytes);
        }
        if let Some(time) = self.cpu_ms {
            limits.cpu = Duration::from_millis(time);
        }
        if let Some(time) = self.wall_ms {
            limits.wall = Duration::from_millis(time);
        }
        if let Some(bytes) = self.host_call_bytes {
            limits.host_call_bytes = size(bytes);
        }
        if let Some(bytes) = self.log_bytes {
            limits.log_bytes = size(bytes);
        }
        if let Some(count) = self.commands {
            limits.commands = count;
        }
        if let Some(count) = self.storage_operations {
            limits.storage_operations = count;
        }
        limits.validate().map_err(|error| wrong("limits", error))?;
        Ok(limits)
    }
}

/// What a module wants and its record does not grant. It runs when nothing is
/// lacking.
pub fn lacking(wanted: &[Grant], record: &Record) -> Vec<Grant> {
    wanted
        .iter()
        .filter(|wanted| !record.grants.iter().any(|text| *text == wanted.to_string()))
        .copied()
        .collect()
}

/// The command that gives these grants.
pub fn grant_command(name: &str, grants: &[Grant]) -> String {
    let mut text = format!("aedile plugin grant {name}");
    for grant in grants {
        text.push(' ');
        text.push_str(&grant.to_string());
    }
    text
}

/// Whether keys below a prefix may be granted: never the control range, of which
/// only the plugins' own part can be.
///
/// # Errors
/// Why not.
pub fn check_prefix(prefix: &str) -> Result<(), String> {
    if prefix.is_empty() {
        return Err("an empty prefix would grant every key; name the keys".to_owned());
    }
    if "aedile/".starts_with(prefix)
        || (prefix.starts_with("aedile/") && !prefix.starts_with("aedile/kv/"))
    {
        return Err(format!(
            "`{}` reaches into the control range `aedile/`, which no plugin may write",
            prefix.escape_debug()
        ));
    }
    Ok(())
}
