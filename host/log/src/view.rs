//! What a client of the log sees: views and answers.

use std::fmt;

use aedile_state::{Applied, Changes, Outcome, Rejection, State, Value};

/// The state after a known number of rows. Immutable; a clone of its state
/// costs nothing.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Index of the last row that it contains; 0 for the empty log.
    pub index: u64,
    /// The state after that row.
    pub state: State,
}

/// What became of a proposed command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It stands in the log and changed the state.
    Applied(Applied),
    /// It stands in the log and changed nothing: somebody did it before. The
    /// value is the log's own answer, `Unit` where that is an error.
    Redundant(Value),
    /// It stands in the log and the rules of the state refused it.
    Rejected(Rejection),
    /// The reply to the append was lost and a snapshot covers the index where
    /// the row would stand: it may or may not have happened.
    Unknown,
    /// It does not stand in the log: the term that it was fenced with is over.
    /// The text says what the lease row holds now.
    FencedOut(String),
}

impl From<Outcome> for Answer {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Ok(Applied {
                value,
                changes: Changes::None,
            }) => Self::Redundant(value),
            Ok(applied) => Self::Applied(applied),
            Err(Rejection::Redundant) => Self::Redundant(Value::Unit),
            Err(rejection) => Self::Rejected(rejection),
        }
    }
}

/// How the client stands to its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LogHealth {
    /// Rows arrive and are applied.
    #[default]
    Healthy,
    /// The database does not answer; the client goes on trying.
    Unreachable {
        /// Since when, on the boot-time clock.
        since: aedile_clock::BootInstant,
        /// The last error.
        error: String,
    },
    /// A row or a snapshot cannot be decoded. Nothing is applied past it.
    Poisoned {
        /// Index of the row, or of the snapshot.
        index: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// Log and snapshot end before what this client has already applied: a
    /// restored backup, or a failover that lost rows.
    WentBack {
        /// The last index that was applied here.
        applied: u64,
        /// Where the database ends now, or why it is not the same log.
        found: String,
    },
    /// A snapshot of another node contradicts what was applied here. It is
    /// remembered in the database, also across restarts, until the operator
    /// clears it; then the log is read anew.
    Diverged {
        /// Index of the snapshot.
        index: u64,
        /// The first section that differs.
        section: String,
        /// What contradicts what, and what to do.
        reason: String,
    },
}

impl fmt::Display for LogHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Healthy => f.write_str("healthy"),
            Self::Unreachable { error, .. } => {
                write!(f, "the metadata database does not answer: {error}")
            }
            Self::Poisoned { index, reason } => {
                write!(f, "the log cannot be read at index {index}: {reason}")
            }
            Self::WentBack { applied, found } => write!(
                f,
                "the log went back: index {applied} was applied here, but {found}; \
                 was a backup restored, or did a failover lose rows? Restart this node \
                 once that is settled"
            ),
            Self::Diverged { reason, .. } => {
                write!(f, "this node has diverged from the cluster: {reason}")
            }
        }
    }
}

impl LogHealth {
    /// Whether the client will never apply another row.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Poisoned { .. } | Self::WentBack { .. })
    }

    /// Whether the client neither applies nor appends as things stand: it has
    /// ended, or waits for the operator.
    pub fn has_stopped(&self) -> bool {
        self.is_final() || matches!(self, Self::Diverged { .. })
    }
}
