//! Keeps secrets out of whatever is printed.
//!
//! The parts mask what they know to be secret. This is the second line: every
//! line that leaves the process through the log or as an error is searched for
//! the secrets that this process was given.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::{PoisonError, RwLock};

/// A text shorter than this would mask innocent words.
const SHORTEST: usize = 4;

/// What stands in a secret's place.
const MASK: &str = "***";

static SECRETS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Remember a secret.
pub(crate) fn register(secret: &str) {
    if secret.len() < SHORTEST {
        return;
    }
    let mut secrets = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    if !secrets.iter().any(|known| known == secret) {
        secrets.push(secret.to_owned());
    }
}

/// Remember the password in a URL, as written and as meant.
pub(crate) fn register_url(text: &str) {
    // Not by a URL parser alone: what it refuses may hold a password too.
    if let Some((_, rest)) = text.split_once("://")
        && let Some((user, _)) = rest.rsplit_once('@')
        && let Some((_, password)) = user.split_once(':')
    {
        register(password);
        let decoded = percent_decoded(password);
        register(&decoded);
    }
    let query = text.split_once('?').map_or("", |(_, query)| query);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let key = key.to_lowercase();
        if ["password", "secret", "token", "sslkey"]
            .iter()
            .any(|word| key.contains(word))
        {
            register(&value);
        }
    }
}

/// Remember the credentials that the environment holds.
pub(crate) fn register_environment() {
    for name in ["AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "PGPASSWORD"] {
        if let Ok(secret) = std::env::var(name) {
            register(&secret);
        }
    }
}

/// The text without any secret.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    let mut masked = Cow::Borrowed(text);
    for secret in secrets.iter() {
        if masked.contains(secret.as_str()) {
            masked = Cow::Owned(masked.replace(secret.as_str(), MASK));
        }
    }
    masked
}

fn percent_decoded(text: &str) -> String {
    // A form's plus would be a space; in a URL's password it is a plus.
    let pair = format!("p={}", text.replace('+', "%2B"));
    url::form_urlencoded::parse(pair.as_bytes())
        .map(|(_, value)| value.into_owned())
        .next()
        .unwrap_or_default()
}

/// Standard error, with secrets masked. The log writes a line at a time.
#[derive(Debug)]
pub(crate) struct MaskedStderr;

impl Write for MaskedStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) => io::stderr().write_all(mask(text).as_bytes())?,
            Err(_) => io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_masked_as_written_and_as_meant() {
        register_url("postgres://pico:hun%2Fter2@db/pico");
        assert_eq!(mask("bad: hun%2Fter2"), "bad: ***");
        assert_eq!(mask("bad: hun/ter2"), "bad: ***");
        register_url("postgres://db/pico?password=s3cr3t-query");
        assert_eq!(mask("x s3cr3t-query y"), "x *** y");
        register_url("-2@s3://b?secret_access_key=qwertyuiop");
        assert_eq!(mask("qwertyuiop"), "***");
    }

    #[test]
    fn a_password_in_what_is_no_url_is_masked() {
        register_url("postgres://pico:broken pass@word@db:port/pico");
        assert_eq!(mask("near broken pass@word"), "near ***");
    }

    #[test]
    fn a_short_text_masks_nothing() {
        register("a");
        assert_eq!(mask("a cat"), "a cat");
    }
}
