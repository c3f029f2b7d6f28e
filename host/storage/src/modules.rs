//! Plugin modules: objects below `aedile/modules/`, each named by the digest of
//! its bytes.
//!
//! A name says what must lie under it, so a module is written once and never
//! changed; what comes back is compared with its name before anybody sees it.
//! Nothing here deletes one.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::str::FromStr;

use bytes::Bytes;
use object_store::GetRange;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::store::{Backend, on_file};
use crate::{StorageError, Store};

/// Where the modules are.
pub const MODULE_PREFIX: &str = "aedile/modules/";

/// The largest module that is stored, in bytes.
pub const MODULE_BYTES: u64 = 32 << 20;

/// SHA-256 of a module's bytes, as they were uploaded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ModuleDigest([u8; 32]);

impl ModuleDigest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The key under which the module lies.
    pub fn key(&self) -> String {
        format!("{MODULE_PREFIX}{self}")
    }
}

impl fmt::Display for ModuleDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ModuleDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleDigest({self})")
    }
}

impl From<ModuleDigest> for String {
    fn from(digest: ModuleDigest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for ModuleDigest {
    type Error = ModuleError;

    fn try_from(text: String) -> Result<Self, ModuleError> {
        text.parse()
    }
}

impl FromStr for ModuleDigest {
    type Err = ModuleError;

    fn from_str(text: &str) -> Result<Self, ModuleError> {
        let mut digest = [0; 32];
        let lower = !text.bytes().any(|byte| byte.is_ascii_uppercase());
        match hex::decode_to_slice(text, &mut digest) {
            Ok(()) if lower => Ok(Self(digest)),
            _ => Err(ModuleError::BadDigest {
                text: text.to_owned(),
            }),
        }
    }
}

/// Why a module cannot be stored or handed out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError {
    /// A text that is no digest.
    #[error("`{text}` is no digest; expected 64 digits of lower-case hexadecimal, as SHA-256 has")]
    BadDigest {
        /// The text.
        text: String,
    },
    /// The module is larger than what is stored.
    #[error("the module has {size} bytes; at most {MODULE_BYTES} are stored")]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// Nothing lies under the name.
    #[error("the storage has no module {digest} (key {key}); upload it again by deploying it", key = digest.key())]
    Missing {
        /// The digest asked for.
        digest: ModuleDigest,
    },
    /// What lies under the name is something else.
    #[error(
        "what the storage holds as module {digest} is not that module: {found}; it was damaged or \
         replaced. Deploy the same file again to mend it"
    )]
    Damaged {
        /// The digest asked for.
        digest: ModuleDigest,
        /// What is there.
        found: String,
    },
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ModuleError {
    /// Whether the same request may succeed later without anybody's doing.
    pub fn transient(&self) -> bool {
        matches!(
            self,
            Self::Storage(
                StorageError::Throttled { .. }
                    | StorageError::Unreachable { .. }
                    | StorageError::Failed { .. }
            )
        )
    }
}

/// What storing a module came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct PutModule {
    /// Its digest.
    pub digest: ModuleDigest,
    /// Whether it was written; false if the very same lay there already.
    pub written: bool,
}

impl Store {
    /// Store a module unless it is there. A damaged one is written anew.
    ///
    /// # Errors
    /// It is too large, or the store's.
    pub async fn put_module(&self, bytes: Bytes) -> Result<PutModule, ModuleError> {
        let size = bytes.len() as u64;
        if size > MODULE_BYTES {
            return Err(ModuleError::TooLarge { size });
        }
        let digest = ModuleDigest::of(&bytes);
        match self.module(&digest, size).await {
            Ok(_) => {
                return Ok(PutModule {
                    digest,
                    written: false,
                });
            }
            Err(ModuleError::Missing { .. }) => {}
            Err(ModuleError::Damaged { found, .. }) => {
                tracing::warn!(%digest, %found, "a damaged module is written anew");
            }
            Err(error) => return Err(error),
        }
        let key = digest.key();
        match self.backend() {
            Backend::File(store) => {
                // Random, so that two who store it at once do not share a file.
                let apart = format!("{key}.{:016x}", RandomState::new().hash_one(&key));
                on_file(store, move |store| store.put_key(&key, &apart, &bytes)).await?;
            }
            Backend::S3(store) => store.put_key(&key, bytes).await?,
        }
        Ok(PutModule {
            digest,
            written: true,
        })
    }

    /// Whether a module of this digest lies in the store; its bytes are not
    /// looked at.
    ///
    /// # Errors
    /// The store's.
    pub async fn has_module(&self, digest: &ModuleDigest) -> Result<bool, ModuleError> {
        let key = digest.key();
        let found = match self.backend() {
            Backend::File(store) => on_file(store, move |store| store.head_key(&key)).await?,
            Backend::S3(store) => store.head_key(&key).await?,
        };
        Ok(found.is_some())
    }

    /// A module's bytes, with this size and digest and no other.
    ///
    /// # Errors
    /// It is not there, it is something else, or the store's.
    pub async fn module(&self, digest: &ModuleDigest, size: u64) -> Result<Bytes, ModuleError> {
        if size > MODULE_BYTES {
            return Err(ModuleError::TooLarge { size });
        }
        let key = digest.key();
        // One byte more shows that there is more; none of S3's ranges is empty.
        let most = size + 1;
        let found = match self.backend() {
            Backend::File(store) => {
                on_file(store, move |store| store.read_key(&key, Some(0), most)).await?
            }
            Backend::S3(store) => {
                let range = GetRange::Bounded(0..most);
                store.read_key(&key, range, most).await?
            }
        };
        let digest = *digest;
        let Some((bytes, there)) = found else {
            return Err(ModuleError::Missing { digest });
        };
        if there != size || bytes.len() as u64 != size {
            return Err(ModuleError::Damaged {
                digest,
                found: format!("it has {there} bytes instead of {size}"),
            });
        }
        let now = ModuleDigest::of(&bytes);
        if now != digest {
            return Err(ModuleError::Damaged {
                digest,
                found: format!("its digest is {now}"),
            });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{KeyKind, key_kind};

    #[test]
    fn a_digest_is_written_one_way() {
        let digest = ModuleDigest::of(b"");
        let text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), text);
        assert_eq!(text.parse::<ModuleDigest>().expect("a digest"), digest);
        for wrong in ["", "e3", &text.to_uppercase(), &format!("{text}0"), "../x"] {
            let error = wrong.parse::<ModuleDigest>().expect_err(wrong).to_string();
            assert!(error.contains("64 digits"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_modules_key_is_a_data_objects(bytes: Vec<u8>) {
            let key = ModuleDigest::of(&bytes).key();
            prop_assert_eq!(key_kind(&key), KeyKind::Module);
            // Nor is the file that stands beside it for a moment.
            prop_assert_eq!(key_kind(&format!("{key}.00ff")), KeyKind::Module);
        }
    }
}
