//! Drains the destroyed queue: deletes bytes from storage, then cleans what is
//! gone from the queue.
//!
//! The order of each chunk is fixed: bytes first, then the mark, right after.
//! A crash between the two repeats one chunk, and a delete of what is gone
//! succeeds. A mark that keeps its data is cleaned without a storage call.
//!
//! What cannot be deleted is left in the queue and never delays the rest: this
//! tick goes past it, and the host backs it off and hides it from the next ones.

mod config;
mod tally;
#[cfg(test)]
mod tests;

use aedile_plugin::{Failure, Host, Mark, Plugin, Report};

pub use config::Config;
use tally::Tally;

/// The plugin.
#[derive(Debug)]
pub struct Cleaner;

impl Plugin for Cleaner {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let mut tally = Tally::default();
        let (waiting, failure) = match drain(host, config, &mut tally) {
            Ok(waiting) => (waiting, None),
            Err(failure) => (false, Some(failure)),
        };
        tally.count(host);
        if let Some(line) = tally.left_line() {
            host.warn(&line);
        }
        match failure {
            // What was done must not go unreported; the next tick meets the
            // same failure with nothing done.
            Some(failure) if tally.cleaned == 0 => Err(failure),
            Some(failure) => {
                host.warn(&format!("stopped early: {}", reason(&failure)));
                Ok(tally.report(false))
            }
            None => Ok(tally.report(waiting)),
        }
    }
}

/// Works off the queue until it ends, the tick's budget is used up, the host
/// asks to stop or the store as a whole is in doubt. Says whether more waits.
fn drain(host: &mut impl Host, config: &Config, tally: &mut Tally) -> Result<bool, Failure> {
    let mut cursor = None;
    let mut budget = config.objects_per_tick;
    loop {
        let page = host.destroyed(cursor, config.batch.min(budget));
        if page.is_empty() {
            return Ok(false);
        }
        for chunk in page.chunks(config.chunk as usize) {
            if host.should_stop() {
                return Ok(true);
            }
            clean_chunk(host, chunk, tally)?;
            if tally.store_suspect {
                return Ok(false);
            }
        }
        cursor = page.last().map(|mark| mark.seq);
        budget = budget.saturating_sub(u32::try_from(page.len()).unwrap_or(u32::MAX));
        if budget == 0 {
            return Ok(!host.destroyed(cursor, 1).is_empty());
        }
    }
}

/// Deletes the bytes of a chunk and cleans what is gone, in queue order.
fn clean_chunk(host: &mut impl Host, chunk: &[Mark], tally: &mut Tally) -> Result<(), Failure> {
    let doomed: Vec<_> = chunk
        .iter()
        .filter(|mark| tally::has_bytes(mark))
        .map(|mark| mark.id)
        .collect();
    let outcomes = if doomed.is_empty() {
        Vec::new()
    } else {
        host.delete(&doomed)?
    };
    let mut outcomes = outcomes.into_iter();
    let mut gone = Vec::with_capacity(chunk.len());
    for mark in chunk {
        let is_gone = if tally::has_bytes(mark) {
            // No outcome: nobody confirmed anything, so it stays.
            outcomes
                .next()
                .is_some_and(|outcome| tally.deleted(mark.id, outcome))
        } else {
            tally.kept += 1;
            true
        };
        if is_gone {
            gone.push(mark.id);
        }
    }
    if gone.is_empty() {
        return Ok(());
    }
    for (id, answer) in gone.iter().zip(host.clean_destroyed(&gone)?) {
        tally.answered(*id, answer);
    }
    Ok(())
}

fn reason(failure: &Failure) -> &str {
    match failure {
        Failure::Retry(retry) => &retry.reason,
        Failure::Reject(text) => text,
    }
}

aedile_plugin::export!(Cleaner);
