//! The revisions of a view.

use aedile_state::State;

use super::{PREFIX, Record, VERSION, is_name, revision_key};

/// A revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Its number, from 1.
    pub number: u64,
    /// What it says.
    pub record: Record,
}

/// Why a value cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A later version of Aedile wrote it.
    #[error(
        "it has the form {0}, and this version of Aedile knows {VERSION}; upgrade this node to run it"
    )]
    Version(u64),
    /// It is not what it should be.
    #[error("the value is no revision ({0})")]
    Unreadable(String),
    /// The key is not one that Aedile makes.
    #[error("it is no key of Aedile's")]
    Key,
}

/// An entry that cannot be read. It is left as it is, and what ran before it
/// goes on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key `{key}`: {damage}")]
pub struct Damaged {
    /// Its key.
    pub key: String,
    /// The number of the revision; none if the key has none.
    pub number: Option<u64>,
    /// What is wrong.
    pub damage: Damage,
}

/// Names of the plugins that have revisions, in order; those that were removed
/// are among them.
pub fn names(state: &State) -> Vec<String> {
    let mut names = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let next = state.kv_scan(PREFIX, after.as_deref()).next();
        let Some((key, _)) = next else {
            // Of keys `a-b/` comes before `a/`.
            names.sort();
            return names;
        };
        let Some((name, _)) = key[PREFIX.len()..].split_once('/') else {
            after = Some(key.to_owned());
            continue;
        };
        let revisions = format!("{PREFIX}{name}/rev/");
        if is_name(name) && state.kv_scan(&revisions, None).next().is_some() {
            names.push(name.to_owned());
        }
        // `0` follows `/`: all keys of this name lie before it.
        after = Some(format!("{PREFIX}{name}0"));
    }
}

/// All revisions of a plugin, oldest first.
pub fn history(state: &State, name: &str) -> Vec<Result<Revision, Damaged>> {
    state
        .kv_scan(&format!("{PREFIX}{name}/rev/"), None)
        .map(|(key, value)| read(name, key, value))
        .collect()
}

/// The newest revision of a plugin; none if it has none. What an operator wants
/// is unknown while it cannot be read.
pub fn latest(state: &State, name: &str) -> Option<Result<Revision, Damaged>> {
    state
        .kv_scan(&format!("{PREFIX}{name}/rev/"), None)
        .filter(|(key, _)| number(name, key).is_some())
        .last()
        .map(|(key, value)| read(name, key, value))
}

/// One revision of a plugin; none if there is none of this number.
pub fn revision(state: &State, name: &str, number: u64) -> Option<Result<Revision, Damaged>> {
    let key = revision_key(name, number);
    let value = state.kv_get(&key)?;
    Some(read(name, &key, value))
}

/// What a rollback of a revision goes back to: the newest older one that wants
/// something else. Left out are those that cannot be read, removals, canaries, and
/// what lies between a rollback and the revision that it restored.
pub fn before(state: &State, name: &str, number: u64) -> Option<Revision> {
    let all: Vec<Revision> = history(state, name).into_iter().flatten().collect();
    let find = |number: u64| all.iter().find(|revision| revision.number == number);
    let current = find(number)?;
    let mut origin = current;
    while let Some(earlier) = origin.record.of.filter(|&of| of < origin.number) {
        origin = find(earlier)?;
    }
    all.iter()
        .rev()
        .filter(|revision| revision.number < origin.number)
        .filter(|revision| !revision.record.removed && revision.record.canary == 0)
        .find(|revision| {
            !current
                .record
                .back_to(revision)
                .same_setting(&current.record.promoted())
        })
        .cloned()
}

pub(super) fn read(name: &str, key: &str, value: &[u8]) -> Result<Revision, Damaged> {
    let number = number(name, key);
    let damaged = |damage| Damaged {
        key: key.to_owned(),
        number,
        damage,
    };
    let Some(number) = number else {
        return Err(damaged(Damage::Key));
    };
    match Record::decode(value) {
        Ok(record) => Ok(Revision { number, record }),
        Err(damage) => Err(damaged(damage)),
    }
}

/// The number in a key; none if it is not spelled as Aedile spells it.
fn number(name: &str, key: &str) -> Option<u64> {
    let (_, digits) = key.rsplit_once('/')?;
    let number = digits.parse().ok().filter(|&number| number > 0)?;
    (revision_key(name, number) == key).then_some(number)
}
