//! Since when a key has had its present value.

use aedile_plugin::{TimestampMs, host::Job};

/// The longest key that a host takes, in bytes.
const LONGEST: usize = 1024;

/// What is kept for a key: 6 bytes of time and 4 bytes that tell its value from
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// When a tick first saw the value.
    pub(crate) since: TimestampMs,
    /// A hash of the value.
    pub(crate) fingerprint: u32,
}

impl Seen {
    /// What there is to keep for a value seen now.
    pub(crate) fn new(now: TimestampMs, value: &[u8]) -> Self {
        Self {
            since: now,
            fingerprint: fingerprint(value),
        }
    }

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = self.since.to_le_bytes()[..6].to_vec();
        bytes.extend(self.fingerprint.to_le_bytes());
        bytes
    }

    /// None for bytes that this plugin did not write; the key counts as new.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (since, fingerprint) = bytes.split_first_chunk::<6>()?;
        let mut wide = [0; 8];
        wide[..6].copy_from_slice(since);
        Some(Self {
            since: TimestampMs::from_le_bytes(wide),
            fingerprint: u32::from_le_bytes(fingerprint.try_into().ok()?),
        })
    }
}

/// FNV-1a, 64 bits folded to 32.
pub(crate) fn fingerprint(value: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as u32
}

/// Where this plugin keeps things.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// What the entries begin with; the key follows.
    pub(crate) seen: String,
    /// The key after which the next tick goes on, if one tick is not enough.
    pub(crate) cursor: String,
}

impl Places {
    pub(crate) fn new(job: &impl Job) -> Self {
        let own = format!("aedile/kv/{}/", job.plugin());
        Self {
            seen: format!("{own}seen/"),
            cursor: format!("{own}cursor"),
        }
    }

    /// The entry of a key; none if it would be longer than a host takes.
    pub(crate) fn entry(&self, key: &str) -> Option<String> {
        (self.seen.len() + key.len() <= LONGEST).then(|| format!("{}{key}", self.seen))
    }
}
