//! What a revision says.

use serde::{Deserialize, Serialize};

use super::{LARGEST, VERSION};

/// What an operator did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Action {
    /// Another module.
    Deploy,
    /// Another configuration, schedule, limit or fence.
    Set,
    /// It is to run.
    Enable,
    /// It is to rest.
    Disable,
    /// More grants.
    Grant,
    /// Fewer grants.
    Revoke,
    /// The setting of an earlier revision again.
    Rollback,
    /// A canary takes over.
    Promote,
    /// The module that is built into the binary again.
    Reset,
    /// It is to be gone.
    Remove,
    /// A module and its setting out of a bundle.
    Import,
}

impl Action {
    /// The word for it, as in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deploy => "deploy",
            Self::Set => "set",
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Grant => "grant",
            Self::Revoke => "revoke",
            Self::Rollback => "rollback",
            Self::Promote => "promote",
            Self::Reset => "reset",
            Self::Remove => "remove",
            Self::Import => "import",
        }
    }
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// Which module is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawModule", into = "RawModule")]
pub enum ModuleRef {
    /// The one of this name in each node's own binary.
    Embedded,
    /// One in object storage.
    Stored(StoredModule),
}

/// A module in object storage, named by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredModule {
    /// SHA-256 of its bytes, in lower-case hexadecimal.
    pub digest: String,
    /// How many bytes it has.
    pub size: u64,
    /// The text of its minisign signature.
    pub signature: Option<String>,
    /// Where it came from, for people: `file:kv_ttl.wasm`, or
    /// `oci://…@sha256:…`.
    pub source: Option<String>,
}

impl ModuleRef {
    /// The digest; none of the embedded one, which each binary has its own of.
    pub fn digest(&self) -> Option<&str> {
        match self {
            Self::Embedded => None,
            Self::Stored(stored) => Some(&stored.digest),
        }
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RawModule {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    embedded: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
}

impl TryFrom<RawModule> for ModuleRef {
    type Error = String;

    fn try_from(raw: RawModule) -> Result<Self, String> {
        match raw {
            RawModule {
                embedded: true,
                digest: None,
                size: None,
                signature: None,
                source: None,
            } => Ok(Self::Embedded),
            RawModule {
                embedded: false,
                digest: Some(digest),
                size: Some(size),
                signature,
                source,
            } => {
                let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
                if digest.len() != 64 || !digest.bytes().all(hex) {
                    return Err(format!(
                        "`{}` is no SHA-256 in lower-case hexadecimal",
                        digest.escape_debug()
                    ));
                }
                Ok(Self::Stored(StoredModule {
                    digest,
                    size,
                    signature,
                    source,
                }))
            }
            _ => Err("`module` is neither embedded nor a digest with its size".to_owned()),
        }
    }
}

impl From<ModuleRef> for RawModule {
    fn from(module: ModuleRef) -> Self {
        match module {
            ModuleRef::Embedded => Self {
                embedded: true,
                ..Self::default()
            },
            ModuleRef::Stored(stored) => Self {
                embedded: false,
                digest: Some(stored.digest),
                size: Some(stored.size),
                signature: stored.signature,
                source: stored.source,
            },
        }
    }
}

/// When ticks are due; what is not set is the manifest's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Schedule {
    /// From one tick's start to the next, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<u64>,
    /// Up to this much is added at random, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    /// A cron expression, in UTC by the database's clock, instead of an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Only when an operator asks for a tick.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub on_demand: bool,
}

/// The limits that differ from the defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitChanges {
    /// Bytes of linear memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Time of its own code a tick, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<u64>,
    /// Time of a tick from start to end, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
    /// Bytes that one host call may carry in each direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_call_bytes: Option<u64>,
    /// Bytes of log lines a tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// Commands a tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<u64>,
    /// Requests to the store a tick.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_operations: Option<u64>,
}

/// One revision of a plugin: the whole setting as it is to be, and who wants it
/// so and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was done.
    pub action: Action,
    /// Who did it.
    pub who: String,
    /// Why; may be empty.
    #[serde(default)]
    pub why: String,
    /// When, in Unix milliseconds by the database's clock. [`super::write`] fills
    /// it in.
    pub at_ms: i64,
    /// The revision that this one takes its setting from: of a rollback the
    /// earlier one, of a promotion the canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The module.
    pub module: ModuleRef,
    /// Version of the module, as its manifest has it; empty for an embedded one.
    pub version: String,
    /// Whether it runs.
    pub enabled: bool,
    /// Whether its commands land only while the term stands.
    pub fenced: bool,
    /// What it is granted, as text.
    pub grants: Vec<String>,
    /// Prefixes besides its own below which it may write keys.
    pub kv_prefixes: Vec<String>,
    /// When its ticks are due.
    pub schedule: Schedule,
    /// Its configuration.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// Its limits.
    pub limits: LimitChanges,
    /// The lease whose holder runs it; none: the shared one.
    pub lease: Option<String>,
    /// For how many ticks it plans beside the version before it, without effect.
    pub canary: u32,
    /// Whether it is gone.
    pub removed: bool,
}

impl Record {
    /// A first revision: nothing is set, and nothing granted that could change
    /// anything.
    pub fn new(action: Action, module: ModuleRef, version: String) -> Self {
        Self {
            action,
            who: String::new(),
            why: String::new(),
            at_ms: 0,
            of: None,
            module,
            version,
            enabled: true,
            fenced: false,
            grants: super::HARMLESS.map(str::to_owned).to_vec(),
            kv_prefixes: Vec::new(),
            schedule: Schedule::default(),
            config: serde_json::Map::new(),
            limits: LimitChanges::default(),
            lease: None,
            canary: 0,
            removed: false,
        }
    }

    /// The same setting, made the wish of somebody.
    #[must_use]
    pub fn by(mut self, action: Action, who: &str, why: &str) -> Self {
        self.action = action;
        who.clone_into(&mut self.who);
        why.clone_into(&mut self.why);
        self
    }

    /// The setting of an earlier revision in the place of this one: what a
    /// rollback writes. Whether it runs stays as it is, and a grant or a prefix
    /// that was taken away since is not given back.
    #[must_use]
    pub fn back_to(&self, earlier: &super::Revision) -> Self {
        let still = |then: &[String], now: &[String]| {
            then.iter()
                .filter(|&text| now.contains(text))
                .cloned()
                .collect()
        };
        let then = &earlier.record;
        Self {
            action: Action::Rollback,
            of: Some(earlier.number),
            enabled: self.enabled,
            grants: still(&then.grants, &self.grants),
            kv_prefixes: still(&then.kv_prefixes, &self.kv_prefixes),
            canary: 0,
            removed: false,
            ..then.clone()
        }
    }

    /// The same setting without a canary: what a promotion writes.
    #[must_use]
    pub fn promoted(&self) -> Self {
        Self {
            action: Action::Promote,
            canary: 0,
            ..self.clone()
        }
    }

    /// Whether both want the same: who, why and when do not count, nor where the
    /// module came from.
    pub fn same_setting(&self, other: &Self) -> bool {
        let setting = |record: &Self| {
            let mut plain = record.clone().by(Action::Set, "", "");
            plain.at_ms = 0;
            plain.of = None;
            plain.grants.sort();
            plain.grants.dedup();
            plain.kv_prefixes.sort();
            plain.kv_prefixes.dedup();
            if let ModuleRef::Stored(stored) = &mut plain.module {
                stored.source = None;
            }
            plain
        };
        setting(self) == setting(other)
    }

    /// As it lies in the map.
    pub(super) fn encode(&self) -> Result<Vec<u8>, usize> {
        let bytes = serde_json::to_vec(&Form {
            v: VERSION,
            record: self.clone(),
        })
        .unwrap_or_default();
        if bytes.is_empty() || bytes.len() > LARGEST {
            return Err(bytes.len());
        }
        Ok(bytes)
    }

    /// Out of the map: the form if it is another one, or what is wrong.
    pub(super) fn decode(value: &[u8]) -> Result<Self, super::Damage> {
        #[derive(Deserialize)]
        struct Versioned {
            v: u64,
        }
        let wrong = |error: serde_json::Error| super::Damage::Unreadable(error.to_string());
        let Versioned { v } = serde_json::from_slice(value).map_err(wrong)?;
        if v != VERSION {
            return Err(super::Damage::Version(v));
        }
        serde_json::from_slice(value).map_err(wrong)
    }
}

/// A record with the number of its form before it. Of the form 1 further keys
/// may appear beside those known, as long as they change nothing of what a node
/// does: whatever would, gets another number.
#[derive(Serialize)]
struct Form {
    v: u64,
    #[serde(flatten)]
    record: Record,
}
