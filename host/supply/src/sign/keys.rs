//! The keys that are trusted.

use std::fmt;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use minisign_verify::PublicKey;
use serde::{Serialize, Serializer};

use super::read_text;
use crate::SupplyError;

/// The longest file of keys.
const LONGEST_FILE: u64 = 64 * 1024;

/// How many keys may be trusted. Each one more is one more verification.
const MOST_KEYS: usize = 64;

/// The number by which minisign tells keys apart. It is a hint, not a proof:
/// anyone can make a key with a given id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(u64);

impl KeyId {
    /// The id inside a line of a key or of a signature.
    pub(super) fn of(line: &str) -> Option<Self> {
        let bytes = STANDARD.decode(line.trim()).ok()?;
        let id = bytes.get(2..10)?.try_into().ok()?;
        Some(Self(u64::from_le_bytes(id)))
    }
}

/// As minisign prints it.
impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}", self.0)
    }
}

impl Serialize for KeyId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A key that is trusted.
#[derive(Clone, Debug)]
pub(super) struct TrustedKey {
    pub(super) id: KeyId,
    pub(super) key: PublicKey,
}

/// The keys whose signatures count.
#[derive(Clone, Debug, Default)]
pub struct TrustedKeys(Vec<TrustedKey>);

impl TrustedKeys {
    /// Keys from a text: items with commas between them, each a public key as
    /// minisign prints it, or the path of a file with such keys, one a line.
    ///
    /// # Errors
    /// If an item is neither, or a file cannot be read or holds no key.
    pub fn parse(text: &str) -> Result<Self, SupplyError> {
        let mut keys = Self::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            match key(item) {
                Ok(key) => keys.add(key, item)?,
                Err(reason) if looks_like_a_key(item) => return Err(bad(item, reason)),
                Err(_) => keys.read(Path::new(item))?,
            }
        }
        Ok(keys)
    }

    /// The keys of a file: lines that are keys, comments of minisign, and empty
    /// ones.
    fn read(&mut self, path: &Path) -> Result<(), SupplyError> {
        let text = read_text(path, LONGEST_FILE)?
            .ok_or_else(|| bad(&path.display().to_string(), "the file is not a short text"))?;
        let mut any = false;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line.starts_with("untrusted comment:") {
                continue;
            }
            let place = format!("{}:{}", path.display(), number + 1);
            let key = key(line).map_err(|reason| bad(&place, reason))?;
            self.add(key, &place)?;
            any = true;
        }
        if !any {
            return Err(bad(&path.display().to_string(), "the file holds no key"));
        }
        Ok(())
    }

    fn add(&mut self, key: TrustedKey, place: &str) -> Result<(), SupplyError> {
        if self.0.iter().any(|known| known.key == key.key) {
            return Ok(());
        }
        if self.0.len() == MOST_KEYS {
            return Err(bad(place, "more than 64 keys"));
        }
        self.0.push(key);
        Ok(())
    }

    /// Whether no key is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Their ids, in the order given.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.0.iter().map(|key| key.id)
    }

    /// Those with an id.
    pub(super) fn with_id(&self, id: KeyId) -> impl Iterator<Item = &PublicKey> {
        let found = self.0.iter().filter(move |key| key.id == id);
        found.map(|key| &key.key)
    }

    /// Their ids for a message.
    pub(super) fn listed(&self) -> String {
        let ids: Vec<_> = self.ids().map(|id| id.to_string()).collect();
        ids.join(", ")
    }
}

fn key(line: &str) -> Result<TrustedKey, &'static str> {
    let key = PublicKey::from_base64(line).map_err(|error| match error {
        minisign_verify::Error::UnsupportedAlgorithm => "its algorithm is not Ed25519",
        _ => "it is not the base64 of 42 bytes",
    })?;
    let id = KeyId::of(line).ok_or("it is not the base64 of 42 bytes")?;
    Ok(TrustedKey { id, key })
}

/// Whether an item was meant for a key, so that the error speaks of one.
fn looks_like_a_key(item: &str) -> bool {
    item.starts_with("RW") && (40..80).contains(&item.len()) && !Path::new(item).exists()
}

fn bad(place: &str, reason: impl Into<String>) -> SupplyError {
    SupplyError::BadKey {
        place: format!("`{}`", place.escape_debug()),
        reason: reason.into(),
    }
}
