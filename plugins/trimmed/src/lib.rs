//! Takes objects that lie wholly below the start of their stream out of the
//! catalog. They are marked destroyed then, and the cleaner deletes them.
//!
//! A trim moves the start of a stream and marks nothing. PicoMQ's own clean-up
//! of what lies below is always rejected by its log, so without this plugin a
//! trimmed object stays until its stream is deleted. The host checks each
//! object again: one that ends above the start of its stream is refused.
//!
//! Objects that hold several streams are not touched: only their owner can
//! rewrite them.

mod config;
#[cfg(test)]
mod tests;

use aedile_plugin::{
    Answer, Compaction, Failure, Host, ObjectId, Plugin, Report, Stream, StreamCursor, StreamId,
};

pub use config::Config;

/// Streams, and objects of a stream, that are read at once.
const PAGE: u32 = 1000;

/// Compactions that are sent in one call.
const CALL: usize = 64;

/// The plugin.
#[derive(Debug)]
pub struct Trimmed;

impl Plugin for Trimmed {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let mut work = Work::default();
        let end = work.through(host, config);
        for (name, by) in [("unindexed", work.done), ("rejected", work.rejected)] {
            if by > 0 {
                host.count(name, by);
            }
        }
        if let Some((stream, why)) = &work.example {
            host.warn(&format!(
                "{} objects were rejected; stream {stream}: {why}",
                work.rejected
            ));
        }
        match end {
            Ok(waiting) => Ok(work.report(waiting)),
            Err(failure) if work.done == 0 => Err(failure),
            Err(failure) => {
                let reason = match &failure {
                    Failure::Retry(retry) => &retry.reason,
                    Failure::Reject(text) => text,
                };
                host.warn(&format!("stopped early: {reason}"));
                Ok(work.report(false))
            }
        }
    }
}

/// What a tick gathers and has done.
#[derive(Debug, Default)]
struct Work {
    pending: Vec<Compaction>,
    /// Objects gathered so far, sent or not.
    gathered: u32,
    /// Objects that left the catalog.
    done: u64,
    rejected: u64,
    unknown: u64,
    /// The first stream of which something was rejected, and why.
    example: Option<(StreamId, String)>,
}

impl Work {
    /// Works through the streams until the last, the tick's budget or the
    /// host's word ends it. Says whether more may be waiting.
    fn through(&mut self, host: &mut impl Host, config: &Config) -> Result<bool, Failure> {
        let mut after = None;
        loop {
            let page = host.streams(after, PAGE);
            let Some(last) = page.last() else {
                self.send(host)?;
                return Ok(false);
            };
            after = Some(last.id);
            // What lies at offset 0 cannot be trimmed, and a stream that was
            // never opened has nothing.
            let begun = |stream: &&Stream| stream.start_offset > 0 && stream.epoch >= 0;
            for stream in page.iter().filter(begun) {
                if host.should_stop() || !self.gather(host, config, stream)? {
                    self.send(host)?;
                    return Ok(true);
                }
            }
        }
    }

    /// Gathers what lies below the start of a stream. False once the tick's
    /// budget is used up.
    fn gather(
        &mut self,
        host: &mut impl Host,
        config: &Config,
        stream: &Stream,
    ) -> Result<bool, Failure> {
        let mut cursor: Option<StreamCursor> = None;
        let mut objects = Vec::new();
        loop {
            let page = host.stream_objects(stream.id, cursor, PAGE);
            // They are in the order of their first offsets: the first that
            // begins at or above the start ends the search.
            let below = page
                .iter()
                .take_while(|object| object.start_offset < stream.start_offset);
            let mut seen = 0;
            for object in below {
                seen += 1;
                if object.end_offset > stream.start_offset {
                    continue;
                }
                if self.gathered == config.objects_per_tick {
                    self.push(stream, &mut objects);
                    return Ok(false);
                }
                self.gathered += 1;
                objects.push(object.id);
                if objects.len() == config.objects_per_command as usize {
                    self.push(stream, &mut objects);
                    if self.pending.len() >= CALL {
                        self.send(host)?;
                    }
                }
            }
            match page.last() {
                Some(last) if seen == page.len() => {
                    cursor = Some(StreamCursor {
                        start_offset: last.start_offset,
                        id: last.id,
                    });
                }
                _ => {
                    self.push(stream, &mut objects);
                    return Ok(true);
                }
            }
        }
    }

    fn push(&mut self, stream: &Stream, objects: &mut Vec<ObjectId>) {
        if !objects.is_empty() {
            self.pending.push(Compaction {
                id: stream.id,
                epoch: stream.epoch,
                objects: std::mem::take(objects),
            });
        }
    }

    fn send(&mut self, host: &mut impl Host) -> Result<(), Failure> {
        let pending = std::mem::take(&mut self.pending);
        for call in pending.chunks(CALL) {
            let answers = host.compact_away(call)?;
            for (compaction, answer) in call.iter().zip(answers) {
                let count = compaction.objects.len() as u64;
                match answer {
                    Answer::Applied => self.done += count,
                    // Another holder was first.
                    Answer::Redundant => {}
                    // The next tick sees whether it was applied.
                    Answer::Unknown => self.unknown += count,
                    Answer::Rejected(rule) => {
                        self.rejected += count;
                        self.example.get_or_insert((compaction.id, rule));
                    }
                }
            }
        }
        Ok(())
    }

    fn report(&self, waiting: bool) -> Report {
        let mut parts = Vec::new();
        for (count, what) in [
            (self.done, "unindexed"),
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
            format!("trimmed objects: {}", parts.join(", "))
        };
        Report {
            summary,
            done: self.done,
            failed: self.rejected,
            more: waiting && self.done > 0,
        }
    }
}

aedile_plugin::export!(Trimmed);
