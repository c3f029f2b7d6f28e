//! Where a module lies in a registry.

use std::fmt;
use std::str::FromStr;

use oci_client::Reference;

use crate::SupplyError;
use crate::digest::is_sha256_hex;

const SCHEME: &str = "oci://";

/// `oci://REGISTRY/REPOSITORY`, with `:TAG`, `@sha256:DIGEST` or both.
///
/// The registry and one of tag and digest have to be said: a default would be
/// a guess about what is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciReference(Reference);

impl OciReference {
    /// The registry: a host, and a port if one was given.
    #[must_use]
    pub fn registry(&self) -> &str {
        self.0.registry()
    }

    /// The repository in the registry.
    #[must_use]
    pub fn repository(&self) -> &str {
        self.0.repository()
    }

    /// The tag, if one was given.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.0.tag()
    }

    /// The digest, `sha256:` and hex, if one was given.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        self.0.digest()
    }

    /// Whether it names one content for ever.
    #[must_use]
    pub fn is_pinned(&self) -> bool {
        self.digest().is_some()
    }

    pub(super) fn pinned(&self, digest: &str) -> Self {
        Self(self.0.clone_with_digest(digest.to_owned()))
    }

    pub(super) fn inner(&self) -> &Reference {
        &self.0
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.0)
    }
}

impl FromStr for OciReference {
    type Err = SupplyError;

    fn from_str(text: &str) -> Result<Self, SupplyError> {
        let bad = |reason: &str| SupplyError::BadReference {
            text: shown(text),
            reason: reason.to_owned(),
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| bad("it does not begin with oci://"))?;
        let Some((registry, _)) = rest.split_once('/') else {
            return Err(bad("it names no registry"));
        };
        if registry.contains('@') {
            return Err(bad(
                "credentials do not belong into it; set registry-user and registry-password",
            ));
        }
        if !registry.contains(['.', ':']) && registry != "localhost" {
            return Err(bad(
                "its first part is no registry: that is a host with a dot or a port",
            ));
        }
        let parsed: Reference = rest.parse().map_err(|error| bad(&format!("{error}")))?;
        if parsed.registry() != registry {
            return Err(bad("its first part is no registry"));
        }
        if let Some(digest) = parsed.digest() {
            let hex = digest.strip_prefix("sha256:").unwrap_or_default();
            if !is_sha256_hex(hex) {
                return Err(bad(
                    "its digest is not sha256: and 64 lower-case hex digits",
                ));
            }
        } else if parsed.tag().is_none()
            || rest.rsplit('/').next() == parsed.repository().rsplit('/').next()
        {
            return Err(bad("it says neither a tag nor a digest"));
        }
        Ok(Self(parsed))
    }
}

/// The text without what stands before an `@` in its first part: a secret.
fn shown(text: &str) -> String {
    let text = text.escape_debug().to_string();
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = text[start..].find('/').map_or(text.len(), |at| start + at);
    match text[start..end].rfind('@') {
        Some(at) => format!("{}…{}", &text[..start], &text[start + at..]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<OciReference, SupplyError> {
        text.parse()
    }

    #[test]
    fn a_reference_is_printed_as_it_is_written() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for text in [
            "oci://ghcr.io/pico/kv-ttl:1.2.3".to_owned(),
            "oci://localhost:5000/kv-ttl:latest".to_owned(),
            "oci://localhost/a/b/c:x".to_owned(),
            "oci://127.0.0.1:5000/kv-ttl:1".to_owned(),
            format!("oci://ghcr.io/pico/kv-ttl@{digest}"),
            format!("oci://ghcr.io/pico/kv-ttl:1@{digest}"),
        ] {
            let reference = parse(&text).expect(&text);
            assert_eq!(reference.to_string(), text);
            assert_eq!(reference.is_pinned(), text.contains('@'));
        }
    }

    #[test]
    fn a_pinned_one_has_no_tag() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let pinned = parse("oci://ghcr.io/a/b:1").expect("one").pinned(&digest);
        assert_eq!(pinned.to_string(), format!("oci://ghcr.io/a/b@{digest}"));
    }

    #[test]
    fn what_is_no_reference_is_refused_with_the_reason() {
        for (text, expect) in [
            ("ghcr.io/a/b:1", "does not begin with oci://"),
            ("oci://kv-ttl:1", "names no registry"),
            ("oci://pico/kv-ttl:1", "is no registry"),
            ("oci://ghcr.io/pico/kv-ttl", "neither a tag nor a digest"),
            ("oci://ghcr.io/Pico/kv-ttl:1", "no reference"),
            ("oci://ghcr.io/pico/kv-ttl:", "no reference"),
            ("oci://ghcr.io/pico/kv-ttl@sha256:12", "no reference"),
            ("oci://ghcr.io/:1", "no reference"),
            ("oci://", "names no registry"),
            ("oci://ghcr.io/a\u{1b}[2J:1", "\\u{1b}[2J"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(expect), "{text}: {error}");
        }
        let upper = format!("oci://ghcr.io/a@sha256:{}", "0A".repeat(32));
        assert!(parse(&upper).is_err());
        let long = format!("oci://ghcr.io/a@sha512:{}", "0a".repeat(64));
        assert!(parse(&long).is_err());
    }

    #[test]
    fn a_password_in_a_reference_is_not_repeated() {
        let error = parse("oci://me:hunter2@ghcr.io/a:1").expect_err("refused");
        let text = error.to_string();
        assert!(
            !text.contains("hunter2") && text.contains("ghcr.io"),
            "{text}"
        );
        assert!(text.contains("registry-password"), "{text}");
    }
}
