//! What a driver's error means for an append, for a reader, and for a person.

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
            if CONNECTION_LOST.iter().any(|lost| code.starts_with(lost)) {
                unreachable(reason)
            } else if is_read_only(&code) {
                Judged::Refused(LogError::ReadOnly {
                    url: url.to_owned(),
                    reason,
                })
            } else {
                refused(reason)
            }
        }
        // The pool gave no connection: nothing was sent.
        sqlx::Error::PoolTimedOut => Judged::Refused(LogError::Unreachable {
            url: url.to_owned(),
            reason: "no connection within the time allowed".to_owned(),
        }),
        sqlx::Error::PoolClosed => Judged::Refused(LogError::Closed),
        other => unreachable(other.to_string()),
    }
}

/// Whether a code says that writing is not allowed: PostgreSQL's read-only
/// transaction and missing privilege, SQLite's READONLY family.
fn is_read_only(code: &str) -> bool {
    match code {
        "25006" | "42501" => true,
        // SQLite's extended codes carry the primary one in the low byte.
        other => other.len() < 5 && other.parse::<u32>().is_ok_and(|code| code & 0xff == 8),
    }
}
