//! The forms of a database URL.

use std::path::PathBuf;

use crate::LeaseError;

/// Where the lease's row is.
#[derive(Clone)]
pub(crate) enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL URL.
    Postgres(String),
}

impl Database {
    pub(crate) fn parse(url: &str) -> Result<Self, LeaseError> {
        let wrong = |reason| LeaseError::Url {
            url: mask(url),
            reason,
        };
        if let Some(rest) = url.strip_prefix("sqlite:") {
            let path = rest.strip_prefix("//").unwrap_or(rest);
            if path == ":memory:" || path.starts_with("file::memory:") {
                return Err(wrong(
                    "a database in memory cannot be shared between nodes; give a file",
                ));
            }
            if path.is_empty() {
                return Err(wrong("the path is missing: sqlite:PATH"));
            }
            if path.contains('?') {
                return Err(wrong("no options are taken after the path"));
            }
            return Ok(Self::Sqlite(PathBuf::from(path)));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url.to_owned()));
        }
        Err(wrong(
            "expected sqlite:PATH or postgres://user@host:port/database",
        ))
    }
}

/// The URL with every password in it blotted out.
pub(crate) fn mask(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let (rest, query) = match url.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (url, None),
    };
    let mut shown = String::with_capacity(url.len());
    match rest.rsplit_once('@') {
        Some((login, host)) => {
            let start = login.find("://").map_or(0, |at| at + 3);
            let (scheme, login) = login.split_at(start);
            shown.push_str(scheme);
            match login.split_once(':') {
                Some((user, _)) => {
                    shown.push_str(user);
                    shown.push_str(":***");
                }
                None => shown.push_str(login),
            }
            shown.push('@');
            shown.push_str(host);
        }
        None => shown.push_str(rest),
    }
    let mut mark = '?';
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        shown.push(mark);
        mark = '&';
        match pair.split_once('=') {
            Some((key, _)) if key.to_ascii_lowercase().contains("pass") => {
                shown.push_str(key);
                shown.push_str("=***");
            }
            _ => shown.push_str(pair),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_shared_or_read_are_refused_with_the_reason() {
        for (url, reason) in [
            ("sqlite::memory:", "in memory"),
            ("sqlite:", "path is missing"),
            ("sqlite:a?mode=ro", "no options"),
            ("mysql://h/db", "expected"),
        ] {
            let text = Database::parse(url).err().expect(url).to_string();
            assert!(text.contains(reason), "{url}: {text}");
        }
    }

    #[test]
    fn passwords_are_blotted_out() {
        assert_eq!(
            mask("postgres://u:s@cr:et@h:1/db?sslpassword=x&a=b"),
            "postgres://u:***@h:1/db?sslpassword=***&a=b"
        );
        assert_eq!(mask("sqlite:a@b.db"), "sqlite:a@b.db");
    }
}
