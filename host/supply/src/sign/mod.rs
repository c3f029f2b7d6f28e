//! Signatures in minisign's format: Ed25519 over the BLAKE2b hash of a module,
//! with a trusted comment that is signed too.
//!
//! A signature says who vouches for these bytes. The name of the plugin is in
//! the bytes (its manifest), so that a signed module cannot pose as another. It
//! does not say which version is wanted: that is the revision's.

mod keys;
mod trust;

use std::path::Path;

pub use keys::{KeyId, TrustedKeys};
pub use trust::{Trust, Verdict};

use crate::SupplyError;

/// The longest text that is taken for a signature. Minisign's have 300 bytes
/// and the trusted comment.
const LONGEST: usize = 4096;

/// A signature that was parsed and not yet verified.
struct Signature {
    key: KeyId,
    inner: minisign_verify::Signature,
}

impl Signature {
    fn parse(text: &str, place: &str) -> Result<Self, SupplyError> {
        let bad = |reason: &str| SupplyError::BadSignature {
            place: place.to_owned(),
            reason: reason.to_owned(),
        };
        if text.len() > LONGEST {
            return Err(bad("it is longer than 4096 bytes"));
        }
        let lines: Vec<&str> = text.lines().collect();
        if lines.len() < 4 {
            return Err(bad("it has fewer than the four lines of one"));
        }
        if lines[4..].iter().any(|line| !line.trim().is_empty()) {
            return Err(bad("something follows its fourth line"));
        }
        let inner = minisign_verify::Signature::decode(text).map_err(|error| match error {
            minisign_verify::Error::UnsupportedAlgorithm => {
                bad("its algorithm is not Ed25519 as minisign writes it")
            }
            _ => bad("a line of it is malformed"),
        })?;
        let key = KeyId::of(lines[1]).ok_or_else(|| bad("its second line is malformed"))?;
        Ok(Self { key, inner })
    }

    /// The signed comment, on one line and without control characters.
    fn comment(&self) -> String {
        let mut shown = String::new();
        for c in self.inner.trusted_comment().chars() {
            match c {
                '\t' => shown.push(' '),
                c if c.is_control() => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        shown
    }
}

/// Read a signature from a file, as minisign writes it beside a module. It is
/// well formed; whether it holds is [`Trust::check`]'s to say.
///
/// # Errors
/// If the file cannot be read or is no signature.
pub fn read_signature(path: &Path) -> Result<String, SupplyError> {
    let text = read_text(path, LONGEST as u64)?.ok_or_else(|| SupplyError::BadSignature {
        place: path.display().to_string(),
        reason: "it is not a short text".to_owned(),
    })?;
    Signature::parse(&text, &path.display().to_string())?;
    Ok(text)
}

/// Whether a text from elsewhere, as from an annotation, is a signature.
///
/// # Errors
/// If it is none; `place` names it then.
pub fn check_signature_text(text: &str, place: &str) -> Result<(), SupplyError> {
    Signature::parse(text, place).map(drop)
}

/// A short text; none if it is longer or not UTF-8.
fn read_text(path: &Path, longest: u64) -> Result<Option<String>, SupplyError> {
    use std::io::Read as _;
    let failed = |source| SupplyError::File {
        path: path.to_owned(),
        action: "read",
        source,
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(longest + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > longest {
        return Ok(None);
    }
    Ok(String::from_utf8(bytes).ok())
}

#[cfg(test)]
mod tests;
