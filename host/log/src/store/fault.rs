//! What a driver's error means for an append, for a reader, and for a person.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::LogError;

/// A driver's error, judged.
#[derive(Debug)]
pub(crate) enum Judged {
    /// A row of that index is there already.
    Taken,
    /// The statement had no effect.
    Refused(LogError),
    /// Whether it had an effect is not known.
    Unknown(LogError),
}

impl Judged {
    /// As an error, whatever the effect.
    pub(crate) fn into_error(self, url: &str, what: &'static str) -> LogError {
        match self {
            Self::Taken => LogError::Database {
                url: url.to_owned(),
                what,
                reason: "a row with that key is there already".to_owned(),
            },
            Self::Refused(error) | Self::Unknown(error) => error,
        }
    }
}

/// PostgreSQL's codes after which the connection is gone and a commit may have
/// happened: connection exceptions, and a server that shuts down.
const CONNECTION_LOST: [&str; 5] = ["08", "57P01", "57P02", "57P03", "57P05"];

/// Judge a driver's error.
pub(crate) fn judge(error: sqlx::Error, url: &str, what: &'static str) -> Judged {
    let refused = |reason: String| {
        Judged::Refused(LogError::Database {
            url: url.to_owned(),
            what,
            reason,
        })
    };
    let unreachable = |reason: String| {
        Judged::Unknown(LogError::Unreachable {
            url: url.to_owned(),
            reason,
        })
    };
    match error {
        sqlx::Error::Database(ref database) => {
            if database.is_unique_violation() {
                return Judged::Taken;
            }
            let code = database.code().unwrap_or_default().into_owned();
            let reason = database.message().to_owned();
            if ends_connection(&**database) || is_io(&code) {
                unreachable(reason)
            } else if code == "14" {
                Judged::Refused(LogError::Unreachable {
                    url: url.to_owned(),
                    reason: format!(
                        "{reason}; where its -wal file holds rows, -shm beside it must be there \
                         or the directory be writable"
                    ),
                })
            } else if code == "26" {
                Judged::Refused(LogError::NotADatabase {
                    url: url.to_owned(),
                    reason,
                })
            } else if is_read_only(&code) {
                Judged::Refused(LogError::ReadOnly {
                    url: url.to_owned(),
                    reason,
                })
            } else {
                refused(reason)
            }
        }
        other => unreachable(other.to_string()),
    }
}

/// What a database said when it was to be connected to.
pub(crate) fn judge_connect(error: &dyn sqlx::error::DatabaseError, url: &str) -> LogError {
    let reason = error.message().to_owned();
    let url = url.to_owned();
    match error.code().as_deref() {
        // SQLite: NOTADB, and CANTOPEN.
        Some("26") => LogError::NotADatabase { url, reason },
        Some("14") => LogError::ReadOnly {
            url,
            reason: format!("{reason}, or the write-ahead log that is kept beside it"),
        },
        Some(code) if is_read_only(code) => LogError::ReadOnly { url, reason },
        _ => LogError::Unreachable { url, reason },
    }
}

/// Whether the server ends the connection with this error.
pub(crate) fn ends_connection(error: &dyn sqlx::error::DatabaseError) -> bool {
    let code = error.code().unwrap_or_default();
    CONNECTION_LOST.iter().any(|lost| code.starts_with(lost))
        || error
            .try_downcast_ref::<PgDatabaseError>()
            .is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

/// Whether SQLite found the file locked by another client.
pub(crate) fn is_busy(error: &dyn sqlx::error::DatabaseError) -> bool {
    is_sqlite(&error.code().unwrap_or_default(), 5)
}

/// Whether a code says that writing is not allowed: PostgreSQL's read-only
/// transaction and missing privilege, SQLite's READONLY family.
fn is_read_only(code: &str) -> bool {
    matches!(code, "25006" | "42501") || is_sqlite(code, 8)
}

/// Whether a code is of SQLite's IOERR family: what was being committed may yet
/// stand in the write-ahead log.
fn is_io(code: &str) -> bool {
    is_sqlite(code, 10)
}

/// Whether a code is of a family of SQLite's: its extended codes carry the
/// primary one in the low byte. PostgreSQL's have five characters.
fn is_sqlite(code: &str, family: u32) -> bool {
    code.len() < 5 && code.parse::<u32>().is_ok_and(|code| code & 0xff == family)
}
