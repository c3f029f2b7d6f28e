//! The next revision.

use aedile_log::{Answer, Log, LogError};
use aedile_state::{Command, Value};

use super::read::read;
use super::{Damaged, LARGEST, LAST, Record, Revision, is_name, latest, revision, revision_key};

/// What became of a revision.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    /// It stands.
    Written {
        /// Its number.
        number: u64,
    },
    /// Somebody else wrote the revision of this number first.
    Lost {
        /// What they wrote.
        winner: Box<Result<Revision, Damaged>>,
    },
    /// The newest revision says the same already: nothing was written.
    Unchanged {
        /// Its number; 0 if there is none.
        number: u64,
    },
}

/// Why a revision was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The log did not take it.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It would not be a plugin's name.
    #[error(
        "`{0}` is no plugin's name: 1 to 64 characters of a-z, 0-9 and `-`, beginning with a letter"
    )]
    Name(String),
    /// The setting is too large for the metadata.
    #[error(
        "the setting has {found} bytes as JSON; at most {LARGEST} are kept: shorten the configuration"
    )]
    TooLarge {
        /// How large it is.
        found: usize,
    },
    /// There is no revision of the number that this one is to follow.
    #[error("`{name}` has no revision {number} to follow")]
    NoPrevious {
        /// The plugin.
        name: String,
        /// The number.
        number: u64,
    },
    /// The log refused the row, or did not tell what became of it.
    #[error(
        "it is not known whether the revision was written ({0}); `aedile plugin history` shows it if it was"
    )]
    Unknown(String),
}

/// Write the revision that follows `previous`, which is 0 if there is none. The
/// time is the database's.
///
/// # Errors
/// The log does not take it; nothing was written then, unless it is
/// [`ControlError::Unknown`].
pub async fn write(
    log: &Log,
    name: &str,
    previous: u64,
    mut record: Record,
) -> Result<Written, ControlError> {
    if !is_name(name) {
        return Err(ControlError::Name(name.escape_debug().to_string()));
    }
    let state = &log.view().state;
    let before = match previous {
        0 => None,
        number => Some(revision(state, name, number).ok_or_else(|| {
            let name = name.to_owned();
            ControlError::NoPrevious { name, number }
        })?),
    };
    let newest = latest(state, name).and_then(|newest| match newest {
        Ok(revision) => Some(revision.number),
        Err(damaged) => damaged.number,
    });
    let is_newest = newest.unwrap_or(0) == previous;
    if let Some(Ok(before)) = &before
        && is_newest
        && before.record.same_setting(&record)
    {
        return Ok(Written::Unchanged { number: previous });
    }
    if before.is_none() && is_newest && record.removed {
        return Ok(Written::Unchanged { number: 0 });
    }
    let number = previous + 1;
    if number > LAST {
        return Err(ControlError::Unknown(format!(
            "{LAST} is the last revision"
        )));
    }
    record.at_ms = log.database_now().await?.0;
    let key = revision_key(name, number);
    let value = record
        .encode()
        .map_err(|found| ControlError::TooLarge { found })?;
    let put = Command::PutKvIfAbsent {
        key: key.clone(),
        value: value.clone(),
    };
    let answer = log.propose(vec![put]).await?.into_iter().next();
    match answer {
        Some(Answer::Applied(_)) => Ok(Written::Written { number }),
        // A reply that was lost: the row that stands is this one.
        Some(Answer::Redundant(Value::Bytes(Some(known)))) if known == value => {
            Ok(Written::Written { number })
        }
        Some(Answer::Redundant(Value::Bytes(Some(known)))) => Ok(Written::Lost {
            winner: Box::new(read(name, &key, &known)),
        }),
        other => Err(ControlError::Unknown(match other {
            Some(Answer::Rejected(rejection)) => rejection.to_string(),
            _ => "the answer was lost".to_owned(),
        })),
    }
}
