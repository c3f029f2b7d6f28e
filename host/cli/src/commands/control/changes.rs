//! From flags to what they change in a record.

use std::io::Read as _;
use std::time::Duration;

use aedile_engine::{Grant, Limits};
use aedile_runtime::ScheduleSettings;
use aedile_runtime::control::{LimitChanges, Record, Schedule, check_prefix};
use clap::ArgMatches;
use serde_json::{Map, Value};

use super::refused;
use crate::config::Config;
use crate::settings::{self, Setting};

/// The names of the limits.
const LIMITS: [&str; 7] = [
    "memory",
    "cpu",
    "wall",
    "host-call-bytes",
    "log-bytes",
    "commands",
    "storage-operations",
];
/// Largest configuration that is read, in bytes.
const CONFIG: u64 = 1 << 20;
const SHORTEST: Duration = Duration::from_millis(100);
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Every value of a flag that may be given several times; in the environment,
/// and for names also on the command line, with commas between them.
fn values(leaf: &ArgMatches, setting: Setting) -> anyhow::Result<Vec<String>> {
    let Ok(Some(raw)) = leaf.try_get_raw(setting.name) else {
        return Ok(Vec::new());
    };
    let mut values = Vec::new();
    for value in raw {
        let text = value
            .to_str()
            .ok_or_else(|| refused(format!("--{}: the value is not UTF-8", setting.name)))?;
        values.extend(
            text.split(',')
                .map(str::trim)
                .filter(|value| !value.is_empty())
                .map(str::to_owned),
        );
    }
    Ok(values)
}

/// Add the grants and prefixes of `--grant` and `--kv-prefix`.
pub(crate) fn add_grants(leaf: &ArgMatches, record: &mut Record) -> anyhow::Result<()> {
    for text in values(leaf, settings::GRANT)? {
        add(&mut record.grants, grant(&text)?.to_string());
    }
    for text in values(leaf, settings::KV_PREFIX)? {
        check_prefix(&text).map_err(|reason| refused(format!("--kv-prefix: {reason}")))?;
        add(&mut record.kv_prefixes, text);
    }
    Ok(())
}

pub(super) fn add(list: &mut Vec<String>, text: String) {
    if !list.contains(&text) {
        list.push(text);
    }
}

/// One grant by its name.
pub(super) fn grant(text: &str) -> anyhow::Result<Grant> {
    text.parse().map_err(|error: aedile_engine::UnknownGrant| {
        let hint = if text.contains('*') || text == "all" {
            "; several at once cannot be granted"
        } else {
            ""
        };
        refused(format!("{error}{hint}"))
    })
}

/// Change what `--every`, `--cron`, `--on-demand` and `--jitter` say; tells
/// whether they say anything.
pub(super) fn schedule(config: &Config, schedule: &mut Schedule) -> anyhow::Result<bool> {
    let interval = config.duration(settings::INTERVAL, SHORTEST, YEAR)?;
    let cron = config.text(settings::CRON);
    let on_demand = config.switch(settings::ON_DEMAND)?;
    let ways = [interval.is_some(), cron.is_some(), on_demand];
    let ways = ways.into_iter().filter(|way| *way).count();
    if let Some(cron) = cron {
        aedile_runtime::check_cron(cron).map_err(|reason| config.wrong(settings::CRON, reason))?;
    }
    if ways > 1 {
        return Err(refused(
            "--every, --cron and --on-demand exclude one another: give one of them",
        ));
    }
    if ways == 1 || config.source(settings::ON_DEMAND).is_some() {
        schedule.interval_ms = interval.map(millis);
        schedule.cron = cron.map(str::to_owned);
        schedule.on_demand = on_demand;
    }
    let jitter = config.duration(settings::JITTER, Duration::ZERO, YEAR)?;
    if let Some(jitter) = jitter {
        schedule.jitter_ms = Some(millis(jitter));
    }
    Ok(ways > 0 || jitter.is_some() || config.source(settings::ON_DEMAND).is_some())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Change the limits that `--limit` names; tells whether there are any.
pub(crate) fn limits(leaf: &ArgMatches, limits: &mut LimitChanges) -> anyhow::Result<bool> {
    let given = values(leaf, settings::LIMIT)?;
    for text in &given {
        limit(text, limits).map_err(|reason| refused(format!("--limit {text}: {reason}")))?;
    }
    limits
        .over(Limits::default())
        .map_err(|error| refused(format!("--limit: {}", error.reason)))?;
    Ok(!given.is_empty())
}

fn limit(text: &str, limits: &mut LimitChanges) -> Result<(), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "write NAME=VALUE, as memory=32MiB".to_owned())?;
    let value = value.trim();
    let value = (value != "default").then_some(value);
    let bytes = || value.map(bytes).transpose();
    let time = || value.map(time).transpose();
    let count = || value.map(count).transpose();
    match name.trim() {
        "memory" => limits.memory = bytes()?,
        "cpu" => limits.cpu_ms = time()?,
        "wall" => limits.wall_ms = time()?,
        "host-call-bytes" => limits.host_call_bytes = bytes()?,
        "log-bytes" => limits.log_bytes = bytes()?,
        "commands" => limits.commands = count()?,
        "storage-operations" => limits.storage_operations = count()?,
        _ => return Err(format!("the limits are {}", LIMITS.join(", "))),
    }
    Ok(())
}

fn time(text: &str) -> Result<u64, String> {
    humantime::parse_duration(text)
        .map(millis)
        .map_err(|error| format!("`{text}` is no duration ({error}); write 500ms or 5s"))
}

fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is no whole number"))
}

fn bytes(text: &str) -> Result<u64, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim() {
        "" | "B" => Some(1_u64),
        "KiB" => Some(1 << 10),
        "MiB" => Some(1 << 20),
        "GiB" => Some(1 << 30),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(unit)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .ok_or_else(|| format!("`{text}` is no size; write 1048576 or 32MiB"))
}

/// The configuration that `--plugin-config` gives.
pub(crate) fn plugin_config(config: &Config) -> anyhow::Result<Option<Map<String, Value>>> {
    let Some(text) = config.text(settings::PLUGIN_CONFIG) else {
        return Ok(None);
    };
    let wrong = |reason: String| config.wrong(settings::PLUGIN_CONFIG, reason);
    let read = |from: &mut dyn std::io::Read| {
        let mut text = String::new();
        let read = from.take(CONFIG + 1).read_to_string(&mut text);
        match read {
            Ok(bytes) if bytes as u64 <= CONFIG => Ok(text),
            Ok(_) => Err(format!("it is larger than {CONFIG} bytes")),
            Err(error) => Err(error.to_string()),
        }
    };
    let json = if text.trim_start().starts_with('{') {
        text.to_owned()
    } else if text == "-" {
        read(&mut std::io::stdin()).map_err(|error| wrong(format!("standard input: {error}")))?
    } else {
        std::fs::File::open(text)
            .map_err(|error| error.to_string())
            .and_then(|mut file| read(&mut file))
            .map_err(|error| {
                wrong(format!(
                    "`{text}` is neither a JSON object nor a file that can be read ({error})"
                ))
            })?
    };
    match serde_json::from_str(&json) {
        Ok(Value::Object(values)) => Ok(Some(values)),
        Ok(_) => Err(wrong("a JSON object is wanted: {\"key\": value}".to_owned()).into()),
        Err(error) => Err(wrong(format!("it is not JSON: {error}")).into()),
    }
}

/// Whether its commands are to be fenced, if that is said.
pub(super) fn fenced(config: &Config) -> anyhow::Result<Option<bool>> {
    let said = config.source(settings::FENCED).is_some();
    Ok(said.then(|| config.switch(settings::FENCED)).transpose()?)
}

/// For how many ticks it is to be a canary.
pub(super) fn canary(config: &Config) -> anyhow::Result<u32> {
    let Some(text) = config.text(settings::CANARY) else {
        return Ok(0);
    };
    match text.parse() {
        Ok(ticks @ 1..=10_000) => Ok(ticks),
        _ => Err(config
            .wrong(
                settings::CANARY,
                format!("`{text}` is no number of ticks from 1 to 10000"),
            )
            .into()),
    }
}

/// A schedule out of a node's own settings.
pub(super) fn take_schedule(schedule: &mut Schedule, set: &ScheduleSettings) {
    schedule.interval_ms = set.interval.map(millis);
    schedule.jitter_ms = set.jitter.map(millis);
    schedule.cron.clone_from(&set.cron);
    schedule.on_demand = set.on_demand;
}

/// Limits out of a node's own settings: what differs from the defaults.
pub(super) fn take_limits(limits: &mut LimitChanges, set: &Limits) {
    let plain = Limits::default();
    let size = |set: usize, plain: usize| (set != plain).then_some(set as u64);
    let count = |set: u64, plain: u64| (set != plain).then_some(set);
    let time = |set: Duration, plain: Duration| (set != plain).then(|| millis(set));
    *limits = LimitChanges {
        memory: size(set.memory, plain.memory),
        cpu_ms: time(set.cpu, plain.cpu),
        wall_ms: time(set.wall, plain.wall),
        host_call_bytes: size(set.host_call_bytes, plain.host_call_bytes),
        log_bytes: size(set.log_bytes, plain.log_bytes),
        commands: count(set.commands, plain.commands),
        storage_operations: count(set.storage_operations, plain.storage_operations),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_with_its_unit_and_taken_back() {
        let mut limits = LimitChanges::default();
        for text in [
            "memory=32MiB",
            "cpu=500ms",
            "wall = 20s",
            "host-call-bytes=524288",
            "log-bytes=1KiB",
            "commands=5",
            "storage-operations=6",
        ] {
            limit(text, &mut limits).expect(text);
        }
        let expected = LimitChanges {
            memory: Some(32 << 20),
            cpu_ms: Some(500),
            wall_ms: Some(20_000),
            host_call_bytes: Some(524_288),
            log_bytes: Some(1024),
            commands: Some(5),
            storage_operations: Some(6),
        };
        assert_eq!(limits, expected);
        for name in LIMITS {
            limit(&format!("{name}=default"), &mut limits).expect(name);
        }
        assert_eq!(limits, LimitChanges::default());
    }

    #[test]
    fn a_limit_that_is_none_is_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("memory", "write NAME=VALUE"),
            ("mem=1", "the limits are memory, cpu"),
            ("memory=32MB", "write 1048576 or 32MiB"),
            ("memory=99999999999GiB", "is no size"),
            ("cpu=5", "write 500ms or 5s"),
            ("commands=-1", "no whole number"),
        ] {
            let error = limit(text, &mut LimitChanges::default()).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn no_word_grants_several_at_once() {
        for text in ["*", "commands.*", "all"] {
            let error = grant(text).expect_err(text).to_string();
            assert!(error.contains("several at once"), "{error}");
        }
        assert!(grant("commands").is_err());
        assert_eq!(grant("state").expect("a grant"), Grant::State);
    }
}
