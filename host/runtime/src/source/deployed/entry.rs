//! A revision as this node knows it, and which of them is to run.

use std::collections::BTreeSet;
use std::sync::Arc;

use aedile_clock::BootInstant;
use aedile_engine::Grant;

use crate::control::{Action, Record};
use crate::source::load::Loaded;

/// What this node has found out about a revision.
#[derive(Clone, Debug)]
pub(super) enum Verdict {
    /// Nothing yet.
    Unknown,
    /// Its module is being fetched.
    Fetching,
    /// Its module is being compiled.
    Compiling,
    /// It can run.
    Ready(Arc<Loaded>),
    /// It wants more than it was granted.
    NeedsApproval(Vec<Grant>),
    /// It can never run here.
    Refused(String),
    /// It could not be had.
    Failed(Failed),
}

/// Why a revision could not be had, and when it is tried again.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) reason: String,
    /// Nobody has to do anything for it to succeed.
    pub(super) passing: bool,
    pub(super) tries: u32,
    pub(super) again: BootInstant,
}

impl Verdict {
    pub(super) fn loading(&self) -> bool {
        matches!(self, Self::Fetching | Self::Compiling)
    }
}

/// A revision: what it says, or why that cannot be read.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) record: Result<Record, String>,
    pub(super) verdict: Verdict,
}

impl Entry {
    /// For how many ticks it is on trial; 0 if it is not.
    pub(super) fn canary(&self) -> u32 {
        match &self.record {
            Ok(record) if record.enabled && !record.removed => record.canary,
            _ => 0,
        }
    }
}

/// What is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The entry at this place.
    Entry(usize),
    /// What the binary has, as this node is configured.
    Embedded,
    /// Nothing.
    Nothing,
    /// That is not known yet: what runs goes on.
    Wait,
}

/// Which revisions are to run, and which are to be loaded to find that out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) base: Base,
    /// The newest, if it is on trial and ready.
    pub(super) trial: bool,
    pub(super) load: Vec<usize>,
    /// Entries that an operator's revocation rules out.
    pub(super) ruled_out: Vec<(usize, Vec<Grant>)>,
}

/// The newest revision that can run. What an operator took back by a newer
/// revision stays taken back, whichever older one is chosen; and nothing older
/// than a removal comes back.
///
/// `builtin` are the grants that the binary's own module of this name wants;
/// `whole` says that the entries reach back to the first revision.
pub(super) fn choose(
    entries: &[Entry],
    now: BootInstant,
    builtin: Option<&[Grant]>,
    whole: bool,
) -> Choice {
    let mut choice = Choice {
        base: Base::Nothing,
        trial: false,
        load: Vec::new(),
        ruled_out: Vec::new(),
    };
    let mut ceiling: Option<BTreeSet<String>> = None;
    for (place, entry) in entries.iter().enumerate() {
        let Ok(record) = &entry.record else {
            continue;
        };
        if record.removed {
            if place == 0 && builtin.is_some() {
                choice.base = Base::Embedded;
            }
            return choice;
        }
        if record.action == Action::Revoke {
            let granted = record.grants.iter().cloned();
            ceiling = Some(match ceiling {
                None => granted.collect(),
                Some(ceiling) => granted.filter(|grant| ceiling.contains(grant)).collect(),
            });
        }
        let on_trial = entry.canary() > 0;
        if on_trial && place > 0 {
            // A trial that nobody decided: never promoted.
            continue;
        }
        match &entry.verdict {
            Verdict::Ready(loaded) => {
                let beyond = beyond(&loaded.manifest().grants, ceiling.as_ref());
                if !beyond.is_empty() {
                    choice.ruled_out.push((place, beyond));
                } else if on_trial {
                    choice.trial = true;
                } else {
                    choice.base = Base::Entry(place);
                    return choice;
                }
            }
            Verdict::Unknown if on_trial => choice.load.push(place),
            Verdict::Unknown => {
                choice.load.push(place);
                choice.base = Base::Wait;
                return choice;
            }
            loading if loading.loading() && !on_trial => {
                choice.base = Base::Wait;
                return choice;
            }
            Verdict::Failed(failed) if now >= failed.again => choice.load.push(place),
            _ => {}
        }
    }
    if let Some(wants) = builtin.filter(|_| whole)
        && beyond(wants, ceiling.as_ref()).is_empty()
    {
        choice.base = Base::Embedded;
    }
    choice
}

fn beyond(wants: &[Grant], ceiling: Option<&BTreeSet<String>>) -> Vec<Grant> {
    let Some(ceiling) = ceiling else {
        return Vec::new();
    };
    wants
        .iter()
        .filter(|grant| !ceiling.contains(&grant.to_string()))
        .copied()
        .collect()
}
