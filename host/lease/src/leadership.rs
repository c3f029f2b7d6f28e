//! What a keeper tells its owner.

use std::time::Duration;

use aedile_clock::BootInstant;

use crate::{Authority, LeaseName};

/// One uninterrupted holding of a lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Which lease.
    pub lease: LeaseName,
    /// The fencing token: greater than that of every earlier term.
    pub epoch: u64,
    /// The holder's name in the row.
    pub holder: String,
}

/// The lease's row as it was last seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// The holder's name; empty if there never was one.
    pub holder: String,
    /// The epoch in the row.
    pub epoch: u64,
    /// What was left of the lease by the database's clock when it was read;
    /// zero if it had lapsed or was released.
    pub expires_in: Duration,
    /// Whether the holder is one of PicoMQ's own nodes.
    pub native: bool,
}

/// Where this node stands.
#[derive(Clone, Debug)]
pub enum Leadership {
    /// It does not contend. Its own term, if it had one, waits for its owner to
    /// end it; its authority may still hold for what is being finished.
    Ineligible {
        /// Why.
        reason: String,
    },
    /// It contends, and somebody else holds the lease or nobody does.
    Follower {
        /// The row as last seen; `None` before the first answer of the
        /// database and just after a term was lost.
        seen: Option<Seen>,
    },
    /// It holds the lease.
    Holder {
        /// The term.
        term: Term,
        /// The permission to act, renewed as long as the term lasts.
        authority: Authority,
    },
    /// The database does not answer, or answers with an error.
    Unreachable {
        /// Since when.
        since: BootInstant,
        /// The last error.
        error: String,
    },
    /// The database answers but takes no writes: a standby, or read-only.
    WrongRole {
        /// What it is.
        detail: String,
    },
}

impl Leadership {
    /// The term and its authority, of a holder.
    pub fn holding(&self) -> Option<(&Term, &Authority)> {
        match self {
            Self::Holder { term, authority } => Some((term, authority)),
            _ => None,
        }
    }
}
