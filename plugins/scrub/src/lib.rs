//! Compares the catalog with the storage: is every object there, with the size
//! that was committed? It reports and deletes nothing.
//!
//! A pass goes through the catalog by ids, a portion each tick; where it is
//! stands in the key-value map, so that another holder goes on there. What the
//! storage lacks is noted, and is a loss only if a later view still has it:
//!
//! 1. bytes are uploaded before their object is committed, and leave only after
//!    it left the catalog;
//! 2. a note is written after the storage was asked, so a view that has the note
//!    is a view of a later time;
//! 3. an object that was live in the view before the question and is live in a
//!    view with the note was live when the storage said that it has nothing.
//!
//! Of a composite, whose size in the catalog is that of what it links, only the
//! existence is compared.

mod config;
mod notes;
#[cfg(test)]
mod tests;

use aedile_plugin::{Answer, Failure, Host, HostError, Object, ObjectId, Plugin, Put, Report};

pub use config::Config;
use notes::{Finding, KEPT, Pass, Wrong, finding_key, findings, key};

/// Objects that are read from the view at once.
const PAGE: u32 = 1000;

/// Entries that are written in one call.
const CALL: usize = 500;

/// So many objects, and none of them there: that is the wrong storage.
const SUSPECT: u64 = 20;

/// Objects that a line names.
const NAMED: usize = 10;

/// The plugin.
#[derive(Debug)]
pub struct Scrub;

impl Plugin for Scrub {
    type Config = Config;
    const MANIFEST: &'static str = include_str!("../manifest.json");

    fn validate(config: &Config) -> Result<(), String> {
        config.validate()
    }

    fn tick(host: &mut impl Host, config: &Config) -> Result<Report, Failure> {
        let now = host.now();
        let before = Pass::load(host);
        let every = i64::try_from(config.pass_interval.as_millis()).unwrap_or(i64::MAX);
        let due = before.as_ref().is_none_or(|pass| {
            // A time that lies far ahead is no time of ours.
            pass.ended
                && (now >= pass.began.saturating_add(every)
                    || pass.began > now.saturating_add(every))
        });
        let mut pass = match &before {
            Some(pass) if !due => pass.clone(),
            _ => Pass::begin(now),
        };
        let mut work = Work::load(host, &pass);
        let mut end = work.again(host);
        if end.is_ok() && !pass.ended {
            end = work.through(host, config, &mut pass);
        }
        if work.looked >= SUSPECT && work.there == 0 {
            return Err(Failure::Reject(format!(
                "none of {} objects of the catalog is in the storage: look whether it is the right one",
                work.looked
            )));
        }
        if let Err(HostError::Unavailable(reason)) = &end
            && work.looked == 0
        {
            return Err(HostError::Unavailable(reason.clone()).into());
        }
        work.note(host, &pass, before.as_ref() != Some(&pass))?;
        if let Err(error) = end {
            host.warn(&format!("stopped early: {error:?}"));
        }
        let ended = pass.ended && before.is_none_or(|before| !before.ended || due);
        Ok(work.report(host, &pass, ended))
    }
}

/// What a tick finds out.
#[derive(Debug, Default)]
struct Work {
    now: i64,
    pass: i64,
    /// What was noted before, as it is after this tick.
    known: Vec<(ObjectId, Finding)>,
    puts: Vec<Put>,
    deletes: Vec<String>,
    /// Objects looked up, and those of them that the storage has.
    looked: u64,
    there: u64,
    /// Objects of the pass that were looked up.
    checked: u64,
    /// New suspects: the next tick decides.
    suspects: u64,
    /// Findings beyond those that are kept.
    unkept: u64,
    /// Losses that became certain in this tick.
    losses: Vec<(ObjectId, Finding)>,
    /// Findings that are none any more.
    settled: u64,
}

impl Work {
    fn load(host: &impl Host, pass: &Pass) -> Self {
        let (known, damaged) = findings(host);
        Self {
            now: host.now(),
            pass: pass.began,
            known,
            deletes: damaged,
            ..Self::default()
        }
    }

    /// Looks again at what was noted: suspects at once, losses once in a pass.
    fn again(&mut self, host: &mut impl Host) -> Result<(), HostError> {
        let mut left = Vec::new();
        let mut end = Ok(());
        for (id, mut finding) in std::mem::take(&mut self.known) {
            let fresh = finding.confirmed && finding.pass == self.pass;
            if fresh || end.is_err() || host.should_stop() {
                left.push((id, finding));
                continue;
            }
            let wrong = match host.object(id) {
                None => Ok(None),
                Some(object) => self.look(host, &object),
            };
            match wrong {
                Err(error) => {
                    end = Err(error);
                    left.push((id, finding));
                }
                Ok(None) => {
                    self.deletes.push(finding_key(host, id));
                    self.settled += u64::from(finding.confirmed);
                }
                Ok(Some(wrong)) => {
                    let certain = !finding.confirmed;
                    finding.wrong = wrong;
                    finding.confirmed = true;
                    finding.pass = self.pass;
                    self.put(host, id, &finding);
                    if certain {
                        self.losses.push((id, finding.clone()));
                    }
                    left.push((id, finding));
                }
            }
        }
        self.known = left;
        end
    }

    /// Goes on with the pass.
    fn through(
        &mut self,
        host: &mut impl Host,
        config: &Config,
        pass: &mut Pass,
    ) -> Result<(), HostError> {
        let mut left = config.objects_per_tick;
        while left > 0 {
            let page = host.objects(pass.after, left.min(PAGE));
            if page.is_empty() {
                pass.ended = true;
                return Ok(());
            }
            for object in page {
                if host.should_stop() {
                    return Ok(());
                }
                let wrong = self.look(host, &object)?;
                if let Some(wrong) = wrong {
                    self.suspect(host, &object, wrong);
                }
                pass.after = Some(object.id);
                pass.checked += 1;
                self.checked += 1;
                left -= 1;
            }
        }
        Ok(())
    }

    fn look(&mut self, host: &impl Host, object: &Object) -> Result<Option<Wrong>, HostError> {
        let stored = host.head(object.id)?;
        self.looked += 1;
        let Some(stored) = stored else {
            return Ok(Some(Wrong::Missing));
        };
        self.there += 1;
        let same = if object.composite {
            stored.size > 0
        } else {
            stored.size == object.size
        };
        Ok((!same).then_some(Wrong::Size(stored.size)))
    }

    fn suspect(&mut self, host: &impl Host, object: &Object, wrong: Wrong) {
        if self.known.iter().any(|(id, _)| *id == object.id) {
            return;
        }
        if self.known.len() >= KEPT {
            self.unkept += 1;
            return;
        }
        let finding = Finding {
            wrong,
            committed: object.size,
            since: self.now,
            confirmed: false,
            pass: self.pass,
        };
        self.put(host, object.id, &finding);
        self.known.push((object.id, finding));
        self.suspects += 1;
    }

    fn put(&mut self, host: &impl Host, id: ObjectId, finding: &Finding) {
        // Neither a map with keys that are no texts nor an error of a writer.
        if let Ok(value) = serde_json::to_vec(finding) {
            let key = finding_key(host, id);
            self.puts.push(Put { key, value });
        }
    }

    /// Writes what is new, the findings before the place in the pass: a crash
    /// between the two only looks up a portion again.
    fn note(&mut self, host: &mut impl Host, pass: &Pass, moved: bool) -> Result<(), Failure> {
        if moved && let Ok(value) = serde_json::to_vec(pass) {
            let key = key(host, "pass");
            self.puts.push(Put { key, value });
        }
        let mut refused = None;
        for entries in self.puts.chunks(CALL) {
            refused = refused.or(rejection(host.put_kv(entries)?));
        }
        for keys in self.deletes.chunks(CALL) {
            refused = refused.or(rejection(host.delete_kv(keys)?));
        }
        match refused {
            Some(why) => Err(Failure::Reject(format!("a note cannot be kept: {why}"))),
            None => Ok(()),
        }
    }

    fn report(&self, host: &mut impl Host, pass: &Pass, ended: bool) -> Report {
        if self.checked > 0 {
            host.count("checked", self.checked);
        }
        let count = |of: fn(&Wrong) -> bool| {
            let certain = self.known.iter().filter(|(_, finding)| finding.confirmed);
            certain.filter(|(_, finding)| of(&finding.wrong)).count() as u64
        };
        let missing = count(|wrong| *wrong == Wrong::Missing);
        let sizes = count(|wrong| matches!(wrong, Wrong::Size(_)));
        if ended || !self.losses.is_empty() || self.settled > 0 {
            host.gauge("missing", missing as f64);
            host.gauge("wrong_size", sizes as f64);
        }
        if self.unkept > 0 {
            host.error(&format!(
                "{} more objects are missing or of another size; {KEPT} are kept",
                self.unkept
            ));
        }
        let mut parts = Vec::new();
        if !self.losses.is_empty() {
            let line = losses(&self.losses);
            host.error(&line);
            parts.push(line);
        }
        if self.settled > 0 {
            parts.push(format!("{} findings are settled", self.settled));
        }
        if ended {
            parts.push(format!(
                "{} objects compared: {missing} missing, {sizes} of another size",
                pass.checked
            ));
        }
        Report {
            summary: parts.join("; "),
            done: self.checked,
            failed: self.losses.len() as u64,
            // A suspect is looked at again at once, in the next view.
            more: self.suspects > 0,
        }
    }
}

/// The losses in a line.
fn losses(found: &[(ObjectId, Finding)]) -> String {
    let mut named: Vec<_> = found
        .iter()
        .take(NAMED)
        .map(|(id, finding)| match finding.wrong {
            Wrong::Missing => format!("{id} ({} bytes) is missing", finding.committed),
            Wrong::Size(size) => format!("{id} has {size} bytes, not {}", finding.committed),
        })
        .collect();
    if found.len() > NAMED {
        named.push(format!("and {} more", found.len() - NAMED));
    }
    format!("live objects are damaged: {}", named.join(", "))
}

/// Why one of them was refused, if so.
fn rejection(answers: Vec<Answer>) -> Option<String> {
    answers.into_iter().find_map(|answer| match answer {
        Answer::Rejected(why) => Some(why),
        _ => None,
    })
}

aedile_plugin::export!(Scrub);
