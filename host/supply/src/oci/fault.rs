//! What a registry's failure means for the caller.

use std::error::Error;
use std::fmt::Write as _;

use oci_client::errors::{DigestError, OciDistributionError, OciErrorCode};

use super::OciReference;
use crate::SupplyError;

/// The longest text of a registry that is repeated.
const LONGEST: usize = 300;

pub(super) fn of(error: &OciDistributionError, about: &OciReference) -> SupplyError {
    use OciDistributionError as E;
    let registry = about.registry().to_owned();
    match error {
        E::UnauthorizedError { .. } => denied(about, "not authorized"),
        E::AuthenticationFailure(text) => denied(about, text),
        E::RegistryError { envelope, .. } => {
            let mut said = String::new();
            for error in &envelope.errors {
                let _ = write!(
                    said,
                    "{}{:?} {}",
                    separator(&said),
                    error.code,
                    error.message
                );
            }
            let code = envelope.errors.first().map(|error| &error.code);
            match code {
                Some(OciErrorCode::Unauthorized | OciErrorCode::Denied) => denied(about, &said),
                Some(
                    OciErrorCode::ManifestUnknown
                    | OciErrorCode::NameUnknown
                    | OciErrorCode::BlobUnknown
                    | OciErrorCode::NotFound,
                ) => missing(about, &said),
                Some(OciErrorCode::Toomanyrequests) => SupplyError::Unavailable {
                    registry,
                    reason: line(&said),
                },
                _ => SupplyError::BadAnswer {
                    registry,
                    reason: line(&said),
                },
            }
        }
        E::ServerError { code, message, .. } => {
            let said = format!("HTTP {code} {message}");
            match code {
                401 | 403 => denied(about, &said),
                404 => missing(about, &said),
                429 | 500..=599 => SupplyError::Unavailable {
                    registry,
                    reason: line(&said),
                },
                _ => SupplyError::BadAnswer {
                    registry,
                    reason: line(&said),
                },
            }
        }
        E::DigestError(DigestError::VerificationError { expected, actual }) => {
            SupplyError::WrongDigest {
                place: format!("what {registry} gives for {about}"),
                found: line(actual),
                expected: line(expected),
            }
        }
        E::RequestError(error) => match error.status().map(|status| status.as_u16()) {
            Some(401 | 403) => denied(about, &chain(error)),
            Some(404) => missing(about, &chain(error)),
            Some(400..=499) => SupplyError::BadAnswer {
                registry,
                reason: chain(error),
            },
            _ => SupplyError::Unavailable {
                registry,
                reason: chain(error),
            },
        },
        other => SupplyError::BadAnswer {
            registry,
            reason: chain(other),
        },
    }
}

fn denied(about: &OciReference, said: &str) -> SupplyError {
    SupplyError::Denied {
        registry: about.registry().to_owned(),
        repository: about.repository().to_owned(),
        reason: line(said),
    }
}

fn missing(about: &OciReference, said: &str) -> SupplyError {
    SupplyError::NotFound {
        reference: about.to_string(),
        reason: line(said),
    }
}

fn separator(said: &str) -> &'static str {
    if said.is_empty() { "" } else { "; " }
}

/// An error with what caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            let _ = write!(text, ": {cause_text}");
        }
        next = cause.source();
    }
    line(&text)
}

/// A foreign text on one line, without control characters, not too long.
fn line(text: &str) -> String {
    let mut shown: String = text
        .trim()
        .chars()
        .take(LONGEST)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if shown.len() < text.trim().len() {
        shown.push('…');
    }
    shown
}
