//! Counts the streams and names those that hold the most records.
//!
//! The count is kept below the plugin's own prefix, as `report`, and written
//! again only when it differs. A tick looks at so many streams and no more; what
//! it has counted until then is kept as `pass`, so that the next tick goes on
//! there, on whichever node it runs.

mod census;
#[cfg(test)]
mod tests;

use aedile_plugin::{Answer, Failure, Host, Plugin, Put, Report, StreamId};
use serde::Deserialize;

use census::Census;

/// Most streams in one page.
const PAGE: u32 = 2000;

/// The plugin.
#[derive(Debug)]
pub struct StreamCensus;

/// The configuration.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// How many of the largest streams are named, 1 to 100.
    pub top: u32,
    /// Streams looked at in one tick, 1 to 100 000.
    pub streams_per_tick: u32,
    /// Warn of a named stream that holds more records than this.
    pub warn_records: Option<u64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            top: 10,
            streams_per_tick: 20_000,
            warn_records: None,
        }
    }
}

impl Plugin for StreamCensus {
    type Config = Config;

    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        range("top", u64::from(config.top), 1, 100)?;
        range(
            "streams-per-tick",
            config.streams_per_tick.into(),
            1,
            100_000,
        )?;
        range(
            "warn-records",
            config.warn_records.unwrap_or(0),
            0,
            (1 << 53) - 1,
        )
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        Self::validate(config).map_err(Failure::Reject)?;
        let pass = own_key(host, "pass");
        let most = config.top as usize;
        let stored = host.kv_get(&pass);
        let resumed = stored
            .and_then(|text| String::from_utf8(text).ok())
            .and_then(|text| Census::read(&text, most));
        let going_on = resumed.is_some();
        let (mut census, after) = match resumed {
            Some((census, after)) => (census, Some(after)),
            None => (Census::new(most), None),
        };
        let counted = count(host, &mut census, after, config.streams_per_tick);
        if let Some(after) = counted.left_after {
            put(host, pass, format!("after {after}\n{census}"))?;
            return Ok(Report {
                summary: format!("{} streams so far", census.streams),
                done: counted.looked.into(),
                failed: 0,
                more: true,
            });
        }
        host.gauge("streams", census.streams as f64);
        host.gauge("open_streams", census.open as f64);
        host.gauge("records", census.records as f64);
        let changed = publish(host, &census, config.warn_records)?;
        // Only now: a tick that ends in between counts the rest again, no more.
        if going_on {
            accepted(host.delete_kv(&[pass])?)?;
        }
        if !changed {
            return Ok(Report::idle());
        }
        let Census {
            streams,
            open,
            records,
            ..
        } = census;
        Ok(Report {
            summary: format!("{streams} streams, {open} open, {records} records"),
            done: counted.looked.into(),
            failed: 0,
            more: false,
        })
    }
}

/// What one tick counted.
struct Counted {
    looked: u32,
    /// The last stream looked at, if there may be more.
    left_after: Option<StreamId>,
}

/// Counts the streams after this one, until there are no more, or the tick has
/// looked at as many as it may, or should stop.
fn count(host: &impl Host, census: &mut Census, mut after: Option<StreamId>, most: u32) -> Counted {
    let mut looked = 0;
    while looked < most && (looked == 0 || !host.should_stop()) {
        let page = host.streams(after, PAGE.min(most - looked));
        let Some(last) = page.last() else {
            return Counted {
                looked,
                left_after: None,
            };
        };
        after = Some(last.id);
        looked += page.len() as u32;
        page.iter().for_each(|stream| census.add(stream));
    }
    Counted {
        looked,
        left_after: after,
    }
}

/// Writes the report if it differs from the one that is there.
fn publish(host: &mut impl Host, census: &Census, most: Option<u64>) -> Result<bool, Failure> {
    let (key, text) = (own_key(host, "report"), census.to_string());
    if host.kv_get(&key).as_deref() == Some(text.as_bytes()) {
        return Ok(false);
    }
    put(host, key, text)?;
    for (id, records) in &census.top {
        if let Some(most) = most.filter(|most| records > most) {
            host.warn(&format!(
                "stream {id} holds {records} records, more than {most}"
            ));
        }
    }
    Ok(true)
}

/// A key that this plugin may write.
fn own_key(host: &impl Host, name: &str) -> String {
    format!("aedile/kv/{}/{name}", host.plugin())
}

fn put(host: &mut impl Host, key: String, text: String) -> Result<(), Failure> {
    let value = text.into_bytes();
    accepted(host.put_kv(&[Put { key, value }])?)
}

/// What was redundant or is unknown needs nothing done.
fn accepted(answers: Vec<Answer>) -> Result<(), Failure> {
    for answer in answers {
        if let Answer::Rejected(rule) = answer {
            return Err(Failure::Reject(rule));
        }
    }
    Ok(())
}

fn range(key: &str, value: u64, least: u64, most: u64) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{key} is {value}; it must be {least} to {most}"))
}

aedile_plugin::export!(StreamCensus);
