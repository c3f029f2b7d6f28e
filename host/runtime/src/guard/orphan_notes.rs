//! How long each orphan has been one: notes in the key-value map, so that a new
//! holder goes on where the last stopped.
//!
//! Age is counted on a clock of its own, which only runs from sweep to sweep and
//! by at most a quarter of the grace each time: a database clock that leaps, or
//! a cluster that was asleep for a month, makes no orphan old. Nothing here
//! looks at the store's clock or at when bytes were written.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use aedile_state::{Command, ObjectId, State};
use serde::{Deserialize, Serialize};

/// Below it all of the notes are; in the control range, where no plugin writes.
pub(crate) const PREFIX: &str = "aedile/orphans/";
const CLOCK: &str = "aedile/orphans/clock";
const SEEN: &str = "aedile/orphans/seen/";
/// Most ids in one note.
const CHUNK: usize = 1000;
/// The clock is not written more often than this: an idle sweep appends nothing.
const TICK_MS: i64 = 60_000;

/// The clock that ages are counted on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clock {
    /// Where it stands, in milliseconds.
    counted: i64,
    /// The database's time when it was set.
    at: i64,
}

/// Ids that the same sweep saw for the first time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Seen {
    /// The database's time then.
    first_seen: i64,
    /// Where the clock of ages stood.
    since: i64,
    ids: BTreeSet<u64>,
}

/// How old an orphan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age {
    /// The database's time when a complete sweep first saw it, in milliseconds.
    pub(crate) first_seen: i64,
    /// What counts of the time since then.
    pub(crate) counted: Duration,
}

/// What a sweep makes of the notes.
#[derive(Debug, Default)]
pub(crate) struct Aged {
    pub(crate) ages: HashMap<ObjectId, Age>,
    /// What brings the notes up to date; nothing if they are.
    pub(crate) commands: Vec<Command>,
    /// Time that passed since the last sweep and was not counted.
    pub(crate) skipped: Duration,
}

/// Bring the notes of this view up to date with a complete sweep: what is no
/// orphan any more is forgotten, what is new is noted, unless it may go at once.
pub(crate) fn age(state: &State, orphans: &BTreeSet<ObjectId>, now: i64, grace: Duration) -> Aged {
    let mut aged = Aged::default();
    let before = state
        .kv_get(CLOCK)
        .and_then(|value| serde_json::from_slice::<Clock>(value).ok());
    let clock = advance(before, now, grace, &mut aged);

    let mut noted = 0;
    for (key, value) in state.kv_scan(SEEN, None) {
        let seen: Option<Seen> = serde_json::from_slice(value).ok();
        // What cannot be read, or lies ahead of the clock, counts from now on.
        let Some(mut seen) = seen.filter(|seen| seen.since <= clock.counted) else {
            aged.commands.push(Command::DeleteKv {
                key: key.to_owned(),
            });
            continue;
        };
        let count = seen.ids.len();
        seen.ids.retain(|&id| orphans.contains(&ObjectId(id)));
        let age = Age {
            first_seen: seen.first_seen,
            counted: millis(clock.counted - seen.since),
        };
        for &id in &seen.ids {
            // Two holders may have noted it: the shorter age counts.
            let known = aged.ages.entry(ObjectId(id)).or_insert(age);
            if known.counted > age.counted {
                *known = age;
            }
        }
        noted += seen.ids.len();
        if seen.ids.is_empty() {
            aged.commands.push(Command::DeleteKv {
                key: key.to_owned(),
            });
        } else if seen.ids.len() < count {
            aged.commands.push(put(key.to_owned(), &seen));
        }
    }

    let new: Vec<u64> = orphans
        .iter()
        .filter(|id| !aged.ages.contains_key(id))
        .map(|id| id.0)
        .collect();
    let age = Age {
        first_seen: now,
        counted: Duration::ZERO,
    };
    aged.ages.extend(new.iter().map(|&id| (ObjectId(id), age)));
    if !grace.is_zero() {
        noted += new.len();
        for chunk in new.chunks(CHUNK) {
            let seen = Seen {
                first_seen: now,
                since: clock.counted,
                ids: chunk.iter().copied().collect(),
            };
            aged.commands
                .push(put(format!("{SEEN}{now}-{}", chunk[0]), &seen));
        }
    }

    match before {
        None if noted == 0 => {}
        Some(_) if noted == 0 => aged.commands.push(Command::DeleteKv {
            key: CLOCK.to_owned(),
        }),
        Some(before) if (0..TICK_MS).contains(&(now.saturating_sub(before.at))) => {}
        _ => aged.commands.push(put(CLOCK.to_owned(), &clock)),
    }
    aged
}

/// Let the clock of ages run up to now.
fn advance(before: Option<Clock>, now: i64, grace: Duration, aged: &mut Aged) -> Clock {
    let Some(before) = before else {
        return Clock {
            counted: 0,
            at: now,
        };
    };
    let most = i64::try_from(grace.as_millis() / 4)
        .unwrap_or(i64::MAX)
        .max(TICK_MS);
    // A clock that went back counts nothing.
    let passed = now.saturating_sub(before.at).max(0);
    let counted = passed.min(most);
    aged.skipped = millis(passed - counted);
    Clock {
        counted: before.counted.saturating_add(counted),
        at: now,
    }
}

/// Take ids that are gone out of the notes.
pub(crate) fn forget(state: &State, gone: &BTreeSet<ObjectId>) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut left = false;
    for (key, value) in state.kv_scan(SEEN, None) {
        let Ok(mut seen) = serde_json::from_slice::<Seen>(value) else {
            continue;
        };
        let count = seen.ids.len();
        seen.ids.retain(|&id| !gone.contains(&ObjectId(id)));
        left |= !seen.ids.is_empty();
        if seen.ids.is_empty() {
            commands.push(Command::DeleteKv {
                key: key.to_owned(),
            });
        } else if seen.ids.len() < count {
            commands.push(put(key.to_owned(), &seen));
        }
    }
    if !left && state.kv_get(CLOCK).is_some() {
        commands.push(Command::DeleteKv {
            key: CLOCK.to_owned(),
        });
    }
    commands
}

fn put(key: String, value: &impl Serialize) -> Command {
    Command::PutKv {
        key,
        // Numbers and lists of numbers: this cannot fail.
        value: serde_json::to_vec(value).unwrap_or_default(),
    }
}

fn millis(count: i64) -> Duration {
    Duration::from_millis(u64::try_from(count).unwrap_or(0))
}

/// Whether a command writes notes: a plan lists orphans, not notes.
pub(crate) fn is_note(command: &Command) -> bool {
    match command {
        Command::PutKv { key, .. } | Command::DeleteKv { key } => key.starts_with(PREFIX),
        _ => false,
    }
}

/// The notes as they are, for tests.
#[cfg(test)]
pub(crate) fn noted(state: &State) -> std::collections::BTreeMap<String, Vec<u8>> {
    state
        .kv_scan(PREFIX, None)
        .map(|(key, value)| (key.to_owned(), value.to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;
    const DAY: Duration = Duration::from_secs(86_400);
    const START: i64 = 1_800_000_000_000;

    /// A catalog whose notes are brought up to date by sweeps.
    #[derive(Default)]
    struct Notes(State);

    impl Notes {
        fn sweep(&mut self, orphans: &[u64], now: i64, grace: Duration) -> Aged {
            let orphans = orphans.iter().copied().map(ObjectId).collect();
            let aged = age(&self.0, &orphans, now, grace);
            self.apply(&aged.commands);
            aged
        }

        fn apply(&mut self, commands: &[Command]) {
            for command in commands {
                self.0.apply(command).expect("accepted");
            }
        }
    }

    fn hours(aged: &Aged, id: u64) -> u64 {
        aged.ages[&ObjectId(id)].counted.as_secs() / 3600
    }

    #[test]
    fn ages_run_from_the_first_sweep_and_a_known_object_begins_anew() {
        let mut notes = Notes::default();
        let first = notes.sweep(&[1, 2], START, DAY);
        assert_eq!((hours(&first, 1), first.commands.len()), (0, 2));
        for hour in 1..=24 {
            let aged = notes.sweep(&[1, 2, 3], START + hour * HOUR, DAY);
            assert_eq!(hours(&aged, 1), hour as u64);
            assert_eq!(hours(&aged, 3), hour as u64 - 1);
            assert_eq!(aged.ages[&ObjectId(3)].first_seen, START + HOUR);
        }
        // Known for one sweep, it is forgotten.
        notes.sweep(&[2, 3], START + 25 * HOUR, DAY);
        let aged = notes.sweep(&[1, 2, 3], START + 26 * HOUR, DAY);
        assert_eq!((hours(&aged, 1), hours(&aged, 2)), (0, 26));
        // And with the last orphan the last note goes.
        notes.sweep(&[], START + 27 * HOUR, DAY);
        assert!(noted(&notes.0).is_empty());
    }

    // quickwit#5848, icechunk#2310, icechunk#2368, datahike#885: clocks that were
    // wrong made data old.
    #[test]
    fn quickwit_5848_a_clock_that_leaps_a_month_makes_nothing_old() {
        let mut notes = Notes::default();
        notes.sweep(&[1], START, DAY);
        let month = START + 30 * 24 * HOUR;
        let aged = notes.sweep(&[1, 2], month, DAY);
        assert_eq!((hours(&aged, 1), hours(&aged, 2)), (6, 0));
        assert_eq!(aged.skipped, millis(30 * 24 * HOUR - 6 * HOUR));
        // And back: it stands still, then runs on.
        let back = notes.sweep(&[1, 2], START + HOUR, DAY);
        assert_eq!(hours(&back, 1), 6);
        let on = notes.sweep(&[1, 2], START + 2 * HOUR, DAY);
        assert_eq!((hours(&on, 1), hours(&on, 2)), (7, 1));
    }

    #[test]
    fn a_sweep_that_finds_the_same_appends_nothing() {
        let mut notes = Notes::default();
        notes.sweep(&[1, 2], START, DAY);
        for ms in [0, 1, 59_999] {
            let again = notes.sweep(&[1, 2], START + ms, DAY);
            assert!(again.commands.is_empty(), "after {ms} ms");
        }
        let later = notes.sweep(&[1, 2], START + 60_000, DAY);
        assert_eq!(later.commands.len(), 1, "the clock alone");
        assert!(notes.sweep(&[], START, DAY).commands.len() == 2);
        assert!(notes.sweep(&[], START, DAY).commands.is_empty());
    }

    #[test]
    fn without_a_grace_nothing_is_noted() {
        let mut notes = Notes::default();
        let aged = notes.sweep(&[1, 2], START, Duration::ZERO);
        assert_eq!((aged.ages.len(), aged.commands.len()), (2, 0));
    }

    #[test]
    fn notes_are_chunked_and_only_the_changed_chunk_is_written_again() {
        let mut notes = Notes::default();
        let all: Vec<u64> = (0..2500).collect();
        assert_eq!(notes.sweep(&all, START, DAY).commands.len(), 4);
        let longest = noted(&notes.0).values().map(Vec::len).max();
        assert!(longest.is_some_and(|bytes| bytes < 8192), "{longest:?}");
        let without: Vec<u64> = all.iter().copied().filter(|&id| id != 1500).collect();
        let aged = notes.sweep(&without, START, DAY);
        assert_eq!(aged.commands.len(), 1);
        let gone = (0..2000).map(ObjectId).collect();
        let commands = forget(&notes.0, &gone);
        assert_eq!(commands.len(), 2);
        notes.apply(&commands);
        assert_eq!(noted(&notes.0).len(), 2, "a chunk and the clock");
        let commands = forget(&notes.0, &(0..2500).map(ObjectId).collect());
        notes.apply(&commands);
        assert!(noted(&notes.0).is_empty());
    }

    #[test]
    fn a_note_that_cannot_be_read_or_lies_ahead_makes_nothing_old() {
        let mut notes = Notes::default();
        notes.sweep(&[1], START, DAY);
        let ahead = Seen {
            first_seen: 0,
            since: HOUR,
            ids: BTreeSet::from([2]),
        };
        let garbled = Command::PutKv {
            key: format!("{SEEN}x"),
            value: b"{\"first_seen\":0".to_vec(),
        };
        notes.apply(&[put(format!("{SEEN}y"), &ahead), garbled]);
        let aged = notes.sweep(&[1, 2, 3], START, DAY);
        for id in [1, 2, 3] {
            assert_eq!(hours(&aged, id), 0, "{id}");
        }
        assert_eq!(
            noted(&notes.0).len(),
            3,
            "both are gone, a new one is there"
        );
        // Two holders noted it: the shorter age counts.
        let twice = Seen {
            first_seen: 5,
            since: -10 * HOUR,
            ids: BTreeSet::from([1]),
        };
        notes.apply(&[put(format!("{SEEN}z"), &twice)]);
        assert_eq!(hours(&notes.sweep(&[1, 2, 3], START, DAY), 1), 0);
    }
}
