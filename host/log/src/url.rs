//! Where the metadata is: the URL forms that PicoMQ takes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

use crate::LogError;

/// Which database a [`MetaUrl`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A SQLite file.
    Sqlite,
    /// A PostgreSQL server.
    Postgres,
}

/// The metadata database: `sqlite:PATH`, `sqlite://PATH` or `postgres://…`.
///
/// Its display never shows a password.
#[derive(Clone)]
pub struct MetaUrl(Form);

#[derive(Clone)]
enum Form {
    Sqlite(PathBuf),
    Postgres { url: String, shown: String },
}

impl MetaUrl {
    /// A SQLite file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self(Form::Sqlite(path.into()))
    }

    /// Which database it names.
    pub fn backend(&self) -> Backend {
        match self.0 {
            Form::Sqlite(_) => Backend::Sqlite,
            Form::Postgres { .. } => Backend::Postgres,
        }
    }

    /// The file of a SQLite database.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            Form::Sqlite(path) => Some(path),
            Form::Postgres { .. } => None,
        }
    }

    /// The URL with its password, for those that connect by it.
    pub fn expose(&self) -> String {
        match &self.0 {
            Form::Sqlite(path) => format!("sqlite:{}", path.display()),
            Form::Postgres { url, .. } => url.clone(),
        }
    }
}

impl FromStr for MetaUrl {
    type Err = LogError;

    fn from_str(url: &str) -> Result<Self, LogError> {
        let wrong = |reason: &str| LogError::Url {
            url: mask(url),
            reason: reason.to_owned(),
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
            return Ok(Self(Form::Sqlite(PathBuf::from(path))));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            if let Err(error) = PgConnectOptions::from_str(url) {
                return Err(wrong(&error.to_string()));
            }
            return Ok(Self(Form::Postgres {
                url: url.to_owned(),
                shown: mask(url),
            }));
        }
        if url.starts_with("mysql:") || url.starts_with("mariadb:") {
            return Err(wrong(
                "MariaDB and MySQL are not supported yet; sqlite:PATH and postgres://… are",
            ));
        }
        Err(wrong(
            "expected sqlite:PATH or postgres://user@host:port/database",
        ))
    }
}

/// The URL with its password, and what a query says of one, blotted out.
fn mask(url: &str) -> String {
    let (rest, query) = match url.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (url, None),
    };
    let mut shown = match rest.rsplit_once('@') {
        Some((before, host)) => {
            let login = before.find("://").map_or(0, |at| at + 3);
            match before[login..].find(':') {
                Some(colon) => format!("{}:***@{host}", &before[..login + colon]),
                None => rest.to_owned(),
            }
        }
        None => rest.to_owned(),
    };
    if let Some(query) = query {
        let pairs: Vec<String> = query
            .split('&')
            .map(|pair| match pair.split_once('=') {
                Some((key, _)) if key.to_ascii_lowercase().contains("pass") => {
                    format!("{key}=***")
                }
                _ => pair.to_owned(),
            })
            .collect();
        shown.push('?');
        shown.push_str(&pairs.join("&"));
    }
    shown
}

impl fmt::Display for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Form::Postgres { shown, .. } => f.write_str(shown),
        }
    }
}

impl fmt::Debug for MetaUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MetaUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_picomq_are_taken() {
        for (text, shown) in [
            ("sqlite:./data/meta.db", "sqlite:./data/meta.db"),
            ("sqlite:///var/lib/meta.db", "sqlite:/var/lib/meta.db"),
            ("sqlite://meta.db", "sqlite:meta.db"),
            ("postgres://u@h:5432/db", "postgres://u@h:5432/db"),
            ("postgresql://u:secret@h/db", "postgresql://u:***@h/db"),
            (
                "postgres://h/db?password=secret&a=b",
                "postgres://h/db?password=***&a=b",
            ),
        ] {
            let url: MetaUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn a_wrong_url_says_why_and_keeps_its_secret() {
        for (text, part) in [
            ("sqlite::memory:", "cannot be shared"),
            ("sqlite:", "path is missing"),
            ("mysql://u:secret@h/db", "not supported yet"),
            ("http://u:secret@h/db", "expected sqlite:PATH"),
            (
                "postgres://u:secret@h:notaport/db",
                "postgres://u:***@h:notaport/db",
            ),
        ] {
            let error = text.parse::<MetaUrl>().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
