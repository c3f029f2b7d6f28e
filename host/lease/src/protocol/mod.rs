//! The lease protocol: every decision, and nothing else.
//!
//! [`State::step`] is a pure function of a state, an event and the time. The
//! keeper's thread carries out the actions and decides nothing, so that tests
//! and simulations run exactly what production runs.
//!
//! ```text
//!                 eligible, and the row may be taken
//!   contending ────────────────────────────────────────▶ holding
//!     ▲   ▲                                              │     │
//!     │   └── refused, missing, or out of time ──────────┘     │ the owner's
//!     │                                                        │ ticks ended
//!     └──────── released, or given up after a while ──── releasing
//! ```
//!
//! A holding term whose node has become ineligible is renewed no more: its owner
//! ends its ticks and says so, or its time runs out.

mod sighting;
mod state;
mod turn;

#[cfg(test)]
mod tests;

use std::time::Duration;

use aedile_clock::BootInstant;

use crate::Seen;

pub use state::State;

/// What a keeper was told, as far as the protocol needs it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Our name in the row: no other process has it.
    pub holder: String,
    /// How long a lease lasts without a renewal.
    pub ttl: Duration,
    /// Time between attempts.
    pub interval: Duration,
    /// Authority ends this long before the lease lapses.
    pub margin: Duration,
    /// Longest time of one request, connecting included.
    pub timeout: Duration,
    /// Take the lease from a native holder.
    pub take_over: bool,
    /// The longest TTL of the other contenders that is known beforehand.
    pub others_ttl: Duration,
    /// Seed of the jitter. `None`: no jitter, for a model that explores every
    /// order of events anyway.
    pub seed: Option<u64>,
}

/// The row, and the database's clock in the same statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// Who holds it, or did last.
    pub holder: String,
    /// How often it was acquired.
    pub epoch: u64,
    /// When it lapses, in Unix milliseconds by the database's clock.
    pub expires_at_ms: i64,
    /// The database's clock, in Unix milliseconds.
    pub now_ms: i64,
}

/// Why a row that somebody holds, or held, may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    /// By the database's clock it has lapsed.
    Lapsed,
    /// It is ours, of a term that has ended or of an acquisition whose answer
    /// was lost.
    Own,
    /// It has not changed for longer than any lease lasts: its expiry was
    /// written by a clock that ran ahead.
    Unchanged,
    /// A native node holds it and we were told to take over.
    Native,
}

/// One statement to the database. Each is conditional, and each carries the
/// epoch it is about: one that arrives late finds another epoch and does nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Request {
    /// Read the row and the clock. Writes nothing.
    Read,
    /// Make the row ours at the next epoch, if it is still as seen.
    Acquire {
        /// The row as it was read.
        seen: Row,
        /// Why it may be taken.
        claim: Claim,
        /// The new epoch is greater than this one as well.
        floor: u64,
        /// By the database's clock, in Unix milliseconds: refuse later than that.
        not_after_ms: i64,
    },
    /// Move the expiry of our unlapsed row at this epoch.
    Renew {
        /// The term's epoch.
        epoch: u64,
    },
    /// End our row at this epoch and wake the others.
    Release {
        /// The term's epoch.
        epoch: u64,
    },
    /// Create the table and the row where they are missing, then read.
    Seed {
        /// The epoch of a row that has to be created.
        epoch: u64,
    },
}

/// What the database said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// The row: as read, or as read back from the change.
    Row(Row),
    /// The condition did not hold; nothing was changed.
    Refused,
    /// There is no such row, or no such table.
    Missing,
    /// Another transaction was in the way; nothing was changed.
    Busy(String),
    /// It takes no writes.
    WrongRole(String),
    /// No answer, or an error: what was asked may have happened or not.
    Failed(String),
}

/// What can happen to a keeper.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The instant that [`State::wake`] named has come.
    Timer,
    /// Somebody announced a release.
    Announced,
    /// The idle connection was lost.
    Disconnected,
    /// The answer to a request.
    Reply {
        /// The request's number.
        attempt: u64,
        /// The answer.
        reply: Reply,
    },
    /// The authority of this term was seen ended before its renewal came into
    /// effect.
    Ended {
        /// The term's epoch.
        epoch: u64,
    },
    /// This node may hold the lease, or may not and why.
    Eligible(Result<(), String>),
    /// The ticks of this term have ended.
    OwnerDone {
        /// The term's epoch.
        epoch: u64,
        /// Leave the lease to others for this long. `None`: for one interval if
        /// the node is still eligible, since it gives the lease up by its own
        /// wish.
        cool_down: Option<Duration>,
    },
    /// End. The ticks have ended.
    Stop,
}

/// What the driver has to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a request. None is in flight.
    Send {
        /// Its number, never used before.
        attempt: u64,
        /// What to ask.
        request: Request,
    },
    /// Forget the request in flight and drop the connection it hangs on.
    Cancel {
        /// Its number.
        attempt: u64,
    },
    /// A term begins.
    Open {
        /// Its epoch.
        epoch: u64,
        /// The end of its authority.
        until: BootInstant,
    },
    /// The authority of the term was renewed.
    Extend {
        /// The term's epoch.
        epoch: u64,
        /// The new end.
        until: BootInstant,
    },
    /// The authority of the term is over.
    Close {
        /// The term's epoch.
        epoch: u64,
    },
    /// The lease of this term was released, or nothing more can be done for it.
    Released {
        /// The term's epoch.
        epoch: u64,
    },
    /// The standing changed.
    Publish(Standing),
    /// A native node holds the lease and we wait for it: say so.
    WarnNative {
        /// Its name in the row.
        holder: String,
    },
    /// The end: nothing is held and nothing in flight.
    Stopped,
}

/// Where this node stands; [`crate::Leadership`] without the authority.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It does not contend.
    Ineligible {
        /// Why.
        reason: String,
    },
    /// It contends.
    Follower {
        /// The row as last seen.
        seen: Option<Seen>,
    },
    /// It holds the lease.
    Holder {
        /// The term's epoch.
        epoch: u64,
    },
    /// The database does not answer.
    Unreachable {
        /// Since when.
        since: BootInstant,
        /// The last error.
        error: String,
    },
    /// The database takes no writes.
    WrongRole {
        /// What it is.
        detail: String,
    },
}
