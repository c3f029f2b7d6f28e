//! Parked objects: what cannot be deleted, kept in the replicated key-value map.
//!
//! At the end of its curve an object is written there by the holder, with its
//! reason. From then on no holder tries it by itself: it is out of the pages of
//! the destroyed queue on every node, across handovers and restarts, until the
//! operator has it retried or forgotten. The mark stays in the queue.
//!
//! # Layout, below [`PREFIX`]
//! - `chunk/NNNNNNNN`: up to [`CHUNK`] objects as JSON. Only the holder writes
//!   chunks, many objects in one row; two holders at a time can lose an entry,
//!   which then takes its curve once more.
//! - `request/…`: what an operator asks for, each under a key of its own and
//!   never overwritten. The holder carries it out and removes it in one row; if
//!   there is none, the next holder does.
//!
//! No plugin may write there. A value that cannot be read is left as it is and
//! named; its objects are tried again, and nothing is written over it.

mod edit;
mod index;
mod keep;
mod request;
#[cfg(test)]
mod tests;

use aedile_state::{ObjectId, State};
use serde::{Deserialize, Serialize};

pub(crate) use index::ParkedIndex;
pub(crate) use keep::keep;
pub use request::{Asked, Request};

/// Where all of it is.
pub const PREFIX: &str = "aedile/parked/";
/// Most objects under one key.
pub const CHUNK: usize = 1000;
/// Most keys: what does not fit is tried on, once an hour.
const CHUNKS: usize = 100;
/// The form of a value.
const VERSION: u32 = 1;

const CHUNK_PREFIX: &str = "aedile/parked/chunk/";
const REQUEST_PREFIX: &str = "aedile/parked/request/";

/// A parked object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ParkedObject {
    /// The object.
    pub id: u64,
    /// Why it could not be deleted, the last time.
    pub reason: String,
    /// Since when it has been parked, in Unix milliseconds by the database's clock.
    pub since: i64,
    /// How often it was tried.
    pub tries: u32,
}

/// A value that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParkedProblem {
    /// Its key.
    pub key: String,
    /// What is wrong, and what to do.
    pub text: String,
}

/// One key's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) number: u32,
    pub(crate) objects: Vec<ParkedObject>,
}

/// Everything that is parked, as a view has it.
#[derive(Clone, Debug, Default)]
pub struct Parked {
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) requests: Vec<(String, Request)>,
    /// Numbers of chunks whose value cannot be read.
    pub(crate) taken: Vec<u32>,
    /// What cannot be read.
    pub problems: Vec<ParkedProblem>,
}

/// A chunk's value. Objects that share a reason share its text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    version: u32,
    reasons: Vec<String>,
    /// Id, number of the reason, since, tries.
    objects: Vec<(u64, usize, i64, u32)>,
}

impl Parked {
    /// Read what a view has.
    pub fn read(state: &State) -> Self {
        let mut parked = Self::default();
        for (key, value) in state.kv_scan(PREFIX, None) {
            if let Err(text) = parked.take(key, value) {
                parked.problems.push(ParkedProblem {
                    key: key.to_owned(),
                    text: format!(
                        "{text}; it is left as it is. Mend the value, or remove the key to have \
                         its objects tried again"
                    ),
                });
            }
        }
        parked
    }

    fn take(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        if key.starts_with(REQUEST_PREFIX) {
            let request = Request::decode(value)?;
            self.requests.push((key.to_owned(), request));
            return Ok(());
        }
        let number = key
            .strip_prefix(CHUNK_PREFIX)
            .and_then(|number| number.parse().ok())
            .filter(|&number| chunk_key(number) == key)
            .ok_or_else(|| "it is no key of Aedile's".to_owned())?;
        match decode(value) {
            Ok(objects) => self.chunks.push(Chunk { number, objects }),
            Err(text) => {
                self.taken.push(number);
                return Err(text);
            }
        }
        Ok(())
    }

    /// The parked objects, by key and place.
    pub fn objects(&self) -> impl Iterator<Item = &ParkedObject> {
        self.chunks.iter().flat_map(|chunk| &chunk.objects)
    }

    /// What operators have asked for and no holder has carried out yet.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter().map(|(_, request)| request)
    }

    /// One object's entry.
    pub fn get(&self, id: ObjectId) -> Option<&ParkedObject> {
        self.objects().find(|parked| parked.id == id.0)
    }
}

fn chunk_key(number: u32) -> String {
    format!("{CHUNK_PREFIX}{number:08}")
}

fn decode(value: &[u8]) -> Result<Vec<ParkedObject>, String> {
    let form: Form = serde_json::from_slice(value)
        .map_err(|error| format!("the value is no list of parked objects ({error})"))?;
    if form.version != VERSION {
        return Err(format!(
            "the value has the form {}, this version of Aedile knows {VERSION}",
            form.version
        ));
    }
    form.objects
        .into_iter()
        .map(|(id, reason, since, tries)| {
            let reason = form
                .reasons
                .get(reason)
                .ok_or_else(|| format!("object {id} names reason {reason}, which is not listed"))?;
            Ok(ParkedObject {
                id,
                reason: reason.clone(),
                since,
                tries,
            })
        })
        .collect()
}

fn encode(objects: &[ParkedObject]) -> Vec<u8> {
    let mut reasons: Vec<String> = Vec::new();
    let mut numbers: std::collections::HashMap<&str, usize> = std::collections::HashMap::new();
    let rows = objects
        .iter()
        .map(|parked| {
            let number = *numbers.entry(&parked.reason).or_insert_with(|| {
                reasons.push(parked.reason.clone());
                reasons.len() - 1
            });
            (parked.id, number, parked.since, parked.tries)
        })
        .collect();
    let form = Form {
        version: VERSION,
        reasons,
        objects: rows,
    };
    serde_json::to_vec(&form).unwrap_or_default()
}
