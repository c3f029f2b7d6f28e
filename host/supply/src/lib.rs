//! Where a plugin's module comes from, and whether it may be trusted.
//!
//! Three things, each usable alone: minisign signatures and the keys that are
//! trusted ([`Trust`]), modules in OCI registries (`Registry`, with the feature
//! `oci`), and bundles, one file that carries a plugin to a site without a
//! network ([`Bundle`]). It is not a cache and not a resolver of versions: it
//! knows nothing of the log, of leases or of what runs.
//!
//! What holds:
//! 1. A module is named by the SHA-256 of its bytes, whatever way it came:
//!    `what_is_pulled_is_what_was_pushed`, `a_changed_byte_is_found`.
//! 2. With trusted keys, a signature that does not verify is an error, never
//!    the same as none: `a_wrong_signature_is_never_taken_for_none`.
//! 3. A tag is resolved once; what is pulled is told by digest:
//!    `istio_37463_a_tag_that_moves_changes_nothing_that_was_pulled`.
//! 4. A bundle is checked whole before a byte of it is handed on:
//!    `every_flipped_byte_of_a_bundle_is_found`.
//!
//! Read in this order: `sign` (keys, then the rule), `oci` (reference, layout,
//! registry), `bundle`, `error`.
//!
//! ```
//! use aedile_supply::{Trust, TrustedKeys, Verdict};
//!
//! let keys = TrustedKeys::parse("RWS1YkvaE/22NAlzIvAcSaft/hfcFbItDhkE+vnOvgi71l5inNfLFPSB")?;
//! let trust = Trust::new(keys, false)?;
//! assert_eq!(trust.check(b"\0asm", None)?, Verdict::Unsigned);
//!
//! let strict = Trust::new(trust.keys().clone(), true)?;
//! assert!(strict.check(b"\0asm", None).is_err());
//! # Ok::<(), aedile_supply::SupplyError>(())
//! ```

mod bundle;
mod digest;
mod error;
#[cfg(feature = "oci")]
mod oci;
mod sign;

pub use bundle::Bundle;
pub use digest::sha256_hex;
pub use error::{SupplyError, SupplyErrorKind};
#[cfg(feature = "oci")]
pub use oci::{
    Credentials, OciReference, Package, Pulled, Registry, RegistryOptions, SIGNATURE_ANNOTATION,
};
pub use sign::{KeyId, Trust, TrustedKeys, Verdict, check_signature_text, read_signature};
