//! Trims streams by age and size, and deletes abandoned ones.
//!
//! **Age.** Data is appended to a stream in the order of its offsets, and an
//! object is committed after its data was appended; a compaction gives its
//! object a later time, never an earlier one. So all that lies below the end of
//! an object was appended at or before the time at which that object was
//! committed. A stream is trimmed to the highest end of an object that was
//! committed longer ago than `max-age`: nothing younger goes.
//!
//! **Size.** What lies in objects of several streams cannot be counted for one
//! of them and counts as nothing. A stream is trimmed to the end of its oldest
//! objects as long as those behind it have `max-bytes` or more: never less is
//! kept.
//!
//! **Abandoned streams.** PicoMQ deletes a stream by its name first: a crash
//! leaves a closed stream that nothing names. It is deleted once its newest data
//! is older than `delete-unnamed-after`, which its last object shows only if it
//! reaches to the stream's end. A stream without any object shows nothing, and
//! stays.
//!
//! The host checks each item again, and the log the epoch. A trim marks
//! nothing: the plugin `trimmed` takes what lies below out of the catalog.

mod config;
mod names;
#[cfg(test)]
mod tests;

use aedile_plugin::{
    Answer, Failure, Host, Plugin, Report, Stream, StreamAt, StreamCursor, StreamId, StreamObject,
    TimestampMs, Trim,
};

pub use config::{Config, Rule};
use names::Names;

/// Streams, and objects of a stream, that are read at once.
const PAGE: u32 = 1000;

/// Streams that are sent in one call.
const CALL: usize = 256;

/// The plugin.
#[derive(Debug)]
pub struct Retention;

impl Plugin for Retention {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let names = Names::load(host, config);
        let mut work = Work::default();
        let waiting = work.gather(host, config, &names);
        let end = work.send(host);
        if names.disputed > 0 {
            host.warn(&format!(
                "{} streams have names under different rules and are left alone",
                names.disputed
            ));
        }
        if names.unreadable > 0 {
            host.warn(&format!(
                "{} names cannot be read: no stream is deleted, as one of them may be its name",
                names.unreadable
            ));
        }
        for (name, by) in [
            ("trimmed", work.trimmed),
            ("deleted", work.deleted),
            ("rejected", work.rejected),
        ] {
            if by > 0 {
                host.count(name, by);
            }
        }
        if let Some(why) = &work.example {
            host.warn(&format!("{} streams were rejected: {why}", work.rejected));
        }
        match end {
            Ok(()) => Ok(work.report(waiting)),
            Err(failure) if work.done() == 0 => Err(failure),
            Err(failure) => {
                host.warn(&format!("stopped early: {failure:?}"));
                Ok(work.report(false))
            }
        }
    }
}

/// What a tick gathers and has done.
#[derive(Debug, Default)]
struct Work {
    trims: Vec<Trim>,
    deletes: Vec<StreamAt>,
    trimmed: u64,
    deleted: u64,
    rejected: u64,
    unknown: u64,
    example: Option<String>,
}

impl Work {
    /// Goes through the streams until the last, the tick's budget or the host's
    /// word ends it. Says whether more may be waiting.
    fn gather(&mut self, host: &impl Host, config: &Config, names: &Names) -> bool {
        let now = host.now();
        let mut after = None;
        loop {
            let page = host.streams(after, PAGE);
            let Some(last) = page.last() else {
                return false;
            };
            after = Some(last.id);
            for stream in &page {
                let gathered = self.trims.len() + self.deletes.len();
                if gathered >= config.streams_per_tick as usize || host.should_stop() {
                    return true;
                }
                if stream.opened {
                    let rule = names.rule(stream.id).and_then(|at| config.rules.get(at));
                    if let Some(start_offset) = rule.and_then(|rule| cut(host, now, stream, rule)) {
                        self.trims.push(Trim {
                            id: stream.id,
                            epoch: stream.epoch,
                            start_offset,
                        });
                    }
                } else if let Some(age) = config.delete_unnamed_after
                    && names.unnamed(stream.id)
                    && abandoned(host, before(now, age), stream)
                {
                    self.deletes.push(StreamAt {
                        id: stream.id,
                        epoch: stream.epoch,
                    });
                }
            }
        }
    }

    fn send(&mut self, host: &mut impl Host) -> Result<(), Failure> {
        for call in std::mem::take(&mut self.trims).chunks(CALL) {
            let answers = host.trim_stream(call)?;
            self.trimmed += self.tally(call.iter().map(|trim| trim.id), answers);
        }
        for call in std::mem::take(&mut self.deletes).chunks(CALL) {
            let answers = host.delete_stream(call)?;
            self.deleted += self.tally(call.iter().map(|at| at.id), answers);
        }
        Ok(())
    }

    /// How many were applied.
    fn tally(&mut self, ids: impl Iterator<Item = StreamId>, answers: Vec<Answer>) -> u64 {
        let mut applied = 0;
        for (id, answer) in ids.zip(answers) {
            match answer {
                Answer::Applied => applied += 1,
                // Another holder was first.
                Answer::Redundant => {}
                // The next tick sees whether it was applied.
                Answer::Unknown => self.unknown += 1,
                Answer::Rejected(rule) => {
                    self.rejected += 1;
                    self.example
                        .get_or_insert_with(|| format!("stream {id}: {rule}"));
                }
            }
        }
        applied
    }

    fn done(&self) -> u64 {
        self.trimmed + self.deleted
    }

    fn report(&self, waiting: bool) -> Report {
        let mut parts = Vec::new();
        for (count, what) in [
            (self.trimmed, "trimmed"),
            (self.deleted, "deleted"),
            (self.unknown, "with an unknown answer"),
            (self.rejected, "rejected"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let summary = if parts.is_empty() {
            String::new()
        } else {
            format!("streams: {}", parts.join(", "))
        };
        Report {
            summary,
            done: self.done(),
            failed: self.rejected,
            more: waiting && self.done() > 0,
        }
    }
}

fn before(now: TimestampMs, age: std::time::Duration) -> TimestampMs {
    let age = TimestampMs::try_from(age.as_millis()).unwrap_or(TimestampMs::MAX);
    now.saturating_sub(age)
}

/// Where a stream is to begin by a rule; none if it may stay as it is.
fn cut(host: &impl Host, now: TimestampMs, stream: &Stream, rule: &Rule) -> Option<u64> {
    let old = rule.max_age.map(|age| before(now, age));
    let mut excess = rule.max_bytes.map(|most| {
        let mut total = 0_u64;
        each(host, stream, |object| {
            total = total.saturating_add(object.size)
        });
        total.saturating_sub(most)
    });
    let mut start = stream.start_offset;
    each(host, stream, |object| {
        if old.is_some_and(|old| object.committed <= old) {
            start = start.max(object.end_offset);
        }
        // The oldest go as long as what is behind them is enough.
        match &mut excess {
            Some(left) if object.size <= *left => {
                *left -= object.size;
                start = start.max(object.end_offset);
            }
            // One that is too large ends it: those behind it are newer.
            Some(left) => *left = 0,
            None => {}
        }
    });
    // An object that claims to reach past its stream is damage.
    let start = start.min(stream.end_offset);
    (start > stream.start_offset).then_some(start)
}

/// Whether a closed stream's last object reaches its end and is old enough.
fn abandoned(host: &impl Host, old: TimestampMs, stream: &Stream) -> bool {
    let mut last: Option<StreamObject> = None;
    let mut young = false;
    each(host, stream, |object| {
        young |= object.committed > old;
        if last.is_none_or(|last| object.end_offset > last.end_offset) {
            last = Some(*object);
        }
    });
    !young && last.is_some_and(|last| last.end_offset == stream.end_offset)
}

/// The objects of a stream that reach above its start, by first offset.
fn each(host: &impl Host, stream: &Stream, mut of: impl FnMut(&StreamObject)) {
    let mut cursor: Option<StreamCursor> = None;
    loop {
        let page = host.stream_objects(stream.id, cursor, PAGE);
        let Some(last) = page.last() else {
            return;
        };
        cursor = Some(StreamCursor {
            start_offset: last.start_offset,
            id: last.id,
        });
        for object in page
            .iter()
            .filter(|object| object.end_offset > stream.start_offset)
        {
            of(object);
        }
    }
}

aedile_plugin::export!(Retention);
