//! The rule: what a signature, or its absence, means for a module.

use std::fmt;

use serde::Serialize;

use super::{KeyId, Signature, TrustedKeys};
use crate::SupplyError;

/// Which signatures count, and whether one must be there.
///
/// | trusted keys | signature | required | outcome |
/// |---|---|---|---|
/// | none | any | – | [`Verdict::Unchecked`] |
/// | some | of one of them, over these bytes | – | [`Verdict::Signed`] |
/// | some | any other | – | an error |
/// | some | none | no | [`Verdict::Unsigned`] |
/// | some | none | yes | an error |
#[derive(Clone, Debug, Default)]
pub struct Trust {
    keys: TrustedKeys,
    required: bool,
}

/// What is known of who vouches for a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Verdict {
    /// A trusted key signed these bytes.
    Signed {
        /// The key.
        key: KeyId,
        /// The comment that was signed with them.
        comment: String,
    },
    /// It is not signed, and need not be.
    Unsigned,
    /// No key is trusted, so nothing was checked.
    Unchecked,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed { key, comment } if comment.is_empty() => {
                write!(f, "signed with the trusted key {key}")
            }
            Self::Signed { key, comment } => {
                write!(f, "signed with the trusted key {key}: {comment}")
            }
            Self::Unsigned => f.write_str("not signed"),
            Self::Unchecked => f.write_str("not checked: no key is trusted"),
        }
    }
}

impl Trust {
    /// Trust these keys, and take nothing that is not signed if `required`.
    ///
    /// # Errors
    /// If a signature is required and no key is trusted: nothing could run.
    pub fn new(keys: TrustedKeys, required: bool) -> Result<Self, SupplyError> {
        if required && keys.is_empty() {
            return Err(SupplyError::NoKeys);
        }
        Ok(Self { keys, required })
    }

    /// The keys.
    #[must_use]
    pub fn keys(&self) -> &TrustedKeys {
        &self.keys
    }

    /// Whether a signature must be there.
    #[must_use]
    pub fn required(&self) -> bool {
        self.required
    }

    /// Judge a module with the signature that came with it, if one did.
    ///
    /// # Errors
    /// As the table above says. A signature that does not hold is an error even
    /// if none is required: it is never the same as none.
    pub fn check(&self, module: &[u8], signature: Option<&str>) -> Result<Verdict, SupplyError> {
        if self.keys.is_empty() {
            return Ok(Verdict::Unchecked);
        }
        let Some(text) = signature else {
            return if self.required {
                Err(SupplyError::Unsigned {
                    trusted: self.keys.listed(),
                })
            } else {
                Ok(Verdict::Unsigned)
            };
        };
        let signature = Signature::parse(text, "what came with the module")?;
        let key = signature.key;
        let mut known = false;
        for candidate in self.keys.with_id(key) {
            known = true;
            match candidate.verify(module, &signature.inner, false) {
                Ok(()) => {
                    return Ok(Verdict::Signed {
                        key,
                        comment: signature.comment(),
                    });
                }
                Err(minisign_verify::Error::UnexpectedAlgorithm) => {
                    return Err(SupplyError::LegacySignature { key });
                }
                Err(_) => {}
            }
        }
        if known {
            Err(SupplyError::WrongSignature { key })
        } else {
            Err(SupplyError::UnknownKey {
                key,
                trusted: self.keys.listed(),
            })
        }
    }
}
