//! What can go wrong between a module's author and its deployment.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::sign::KeyId;

/// Why a module, a signature, a bundle or a registry is refused or not to be had.
///
/// The text says what was wrong, where, and what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SupplyError {
    /// An item of the trusted keys is none.
    #[error(
        "trusted key {place}: {reason}; give a public key as minisign prints it (RW…), or a file with one"
    )]
    BadKey {
        /// The item, or its file and line.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A signature is required, but no key is trusted.
    #[error("a signature is required but no key is trusted; set trusted-keys as well")]
    NoKeys,
    /// A text is no signature of minisign.
    #[error("{place} is no minisign signature: {reason}; make one with `minisign -S -m MODULE`")]
    BadSignature {
        /// Whose.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A signature is required and there is none.
    #[error(
        "the module is not signed, and require-signature is set; sign it with one of the trusted keys ({trusted})"
    )]
    Unsigned {
        /// Ids of the trusted keys.
        trusted: String,
    },
    /// The signature is by a key that is not trusted.
    #[error("the module is signed with the key {key}, which is not trusted; trusted are {trusted}")]
    UnknownKey {
        /// The key of the signature.
        key: KeyId,
        /// Ids of the trusted keys.
        trusted: String,
    },
    /// The signature does not fit the module.
    #[error(
        "the signature with the key {key} does not fit the module: one of the two was changed; sign these very bytes"
    )]
    WrongSignature {
        /// The key of the signature.
        key: KeyId,
    },
    /// The signature is of minisign's old form.
    #[error(
        "the signature with the key {key} is of minisign's legacy form, over the bytes instead of their hash; sign again without -l"
    )]
    LegacySignature {
        /// The key of the signature.
        key: KeyId,
    },
    /// A reference into a registry is none.
    #[error(
        "`{text}` is no reference into a registry: {reason}; write oci://REGISTRY/REPOSITORY:TAG"
    )]
    BadReference {
        /// The text, without what may be a secret.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Credentials cannot be used.
    #[error("credentials for the registry {registry}: {reason}")]
    BadCredentials {
        /// The registry.
        registry: String,
        /// What is wrong with them.
        reason: String,
    },
    /// The registry does not answer, or says that it cannot now. Worth a retry.
    #[error("the registry {registry} does not serve the request: {reason}; try again later")]
    Unavailable {
        /// The registry.
        registry: String,
        /// What happened.
        reason: String,
    },
    /// The registry refuses access.
    #[error(
        "the registry {registry} refuses access to `{repository}`: {reason}; log in with `docker login`, or set registry-user and registry-password"
    )]
    Denied {
        /// The registry.
        registry: String,
        /// The repository in it.
        repository: String,
        /// What it said.
        reason: String,
    },
    /// The registry has nothing by that name.
    #[error("{reference} does not exist: {reason}; check repository and tag")]
    NotFound {
        /// What was asked for.
        reference: String,
        /// What the registry said.
        reason: String,
    },
    /// The registry answers with what the protocol does not allow.
    #[error("the registry {registry} gives an answer that cannot be used: {reason}")]
    BadAnswer {
        /// The registry.
        registry: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An artifact is not laid out as a Wasm module.
    #[error("{reference} is not laid out as a Wasm module: found {found}; expected {expected}")]
    Layout {
        /// The artifact.
        reference: String,
        /// What was found: media types.
        found: String,
        /// What was expected: media types.
        expected: String,
    },
    /// What is to be pushed is no module.
    #[error("it is no Wasm module: {reason}")]
    NotWasm {
        /// Why not.
        reason: String,
    },
    /// A module is larger than allowed.
    #[error("{place} has {size} bytes; the limit is {limit}")]
    TooLarge {
        /// What.
        place: String,
        /// Its size, or the least that it has.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// Bytes are not those that their digest names.
    #[error("{place} has the digest {found}, expected {expected}: it was changed or damaged")]
    WrongDigest {
        /// What.
        place: String,
        /// The digest of what is there.
        found: String,
        /// The digest by which it was asked for.
        expected: String,
    },
    /// A file is no bundle, or a damaged one.
    #[error("{} is no usable bundle: {reason}; export it again", path.display())]
    BadBundle {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A bundle of a version that this program does not know.
    #[error(
        "{} is a bundle of version {found}; this program reads version {known}: use the aedile that wrote it, or a newer one", path.display()
    )]
    BundleVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version that is known.
        known: u64,
    },
    /// A file cannot be read or written.
    #[error("{} cannot be {action}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried, as `read`.
        action: &'static str,
        /// Why not.
        source: io::Error,
    },
}

/// What the caller can do about a [`SupplyError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupplyErrorKind {
    /// Correct the configuration or the command line.
    Configuration,
    /// The module, signature, artifact or bundle is not acceptable. Trying again
    /// gives the same.
    Refused,
    /// Try again later; until then what runs goes on.
    Unavailable,
    /// Get access first.
    Denied,
    /// Ask for something that exists.
    Missing,
}

impl SupplyError {
    /// What the caller can do.
    #[must_use]
    pub fn kind(&self) -> SupplyErrorKind {
        match self {
            Self::BadKey { .. }
            | Self::NoKeys
            | Self::BadReference { .. }
            | Self::BadCredentials { .. }
            | Self::File { .. } => SupplyErrorKind::Configuration,
            Self::Unavailable { .. } => SupplyErrorKind::Unavailable,
            Self::Denied { .. } => SupplyErrorKind::Denied,
            Self::NotFound { .. } => SupplyErrorKind::Missing,
            Self::BadSignature { .. }
            | Self::Unsigned { .. }
            | Self::UnknownKey { .. }
            | Self::WrongSignature { .. }
            | Self::LegacySignature { .. }
            | Self::BadAnswer { .. }
            | Self::Layout { .. }
            | Self::NotWasm { .. }
            | Self::TooLarge { .. }
            | Self::WrongDigest { .. }
            | Self::BadBundle { .. }
            | Self::BundleVersion { .. } => SupplyErrorKind::Refused,
        }
    }
}
