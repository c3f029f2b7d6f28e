//! What is kept in the key-value map: where a pass is, and what it found.

use aedile_plugin::{Host, ObjectId, TimestampMs};
use serde::{Deserialize, Serialize};

/// Findings that are kept. More are counted.
pub(crate) const KEPT: usize = 1000;

/// Where a pass over the catalog is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pass {
    /// When it began.
    pub(crate) began: TimestampMs,
    /// The last object that was looked up.
    pub(crate) after: Option<ObjectId>,
    /// Whether every object was.
    pub(crate) ended: bool,
    /// Objects looked up so far.
    pub(crate) checked: u64,
}

impl Pass {
    pub(crate) fn begin(now: TimestampMs) -> Self {
        Self {
            began: now,
            after: None,
            ended: false,
            checked: 0,
        }
    }

    /// The pass that is under way or was the last; none at the first tick, or
    /// where something else stands.
    pub(crate) fn load(host: &impl Host) -> Option<Self> {
        let bytes = host.kv_get(&key(host, "pass"))?;
        let pass = serde_json::from_slice(&bytes).ok();
        if pass.is_none() {
            host.warn("the note of the last pass is damaged; the catalog is gone through anew");
        }
        pass
    }
}

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Wrong {
    /// The storage has nothing of it.
    Missing,
    /// The storage has this many bytes, which are not those committed.
    Size(u64),
}

/// An object with which something is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Finding {
    /// What the storage said.
    pub(crate) wrong: Wrong,
    /// The size in the catalog.
    pub(crate) committed: u64,
    /// When it was first seen.
    pub(crate) since: TimestampMs,
    /// Whether a later view still had the object, so that it is a loss.
    pub(crate) confirmed: bool,
    /// The pass in which it was looked up last.
    pub(crate) pass: TimestampMs,
}

/// The findings of the view, by object; what is damaged is returned as keys.
pub(crate) fn findings(host: &impl Host) -> (Vec<(ObjectId, Finding)>, Vec<String>) {
    let prefix = key(host, "found/");
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    let mut after: Option<String> = None;
    loop {
        let page = host.kv_scan(&prefix, after.as_deref(), 500);
        let Some(last) = page.last() else {
            return (found, damaged);
        };
        after = Some(last.key.clone());
        for entry in page {
            let id = entry.key[prefix.len()..].parse().ok();
            let finding = serde_json::from_slice(&entry.value).ok();
            match id.zip(finding) {
                Some(pair) => found.push(pair),
                None => damaged.push(entry.key),
            }
        }
    }
}

/// The key of an object's finding.
pub(crate) fn finding_key(host: &impl Host, id: ObjectId) -> String {
    key(host, &format!("found/{id:020}"))
}

/// A key of this plugin.
pub(crate) fn key(host: &impl Host, rest: &str) -> String {
    format!("aedile/kv/{}/{rest}", host.plugin())
}
