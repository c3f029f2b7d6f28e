//! How large the world is, what may go wrong in it, and what was broken.

use std::time::Duration;

use aedile_lease::protocol::Rules;

/// One unit of the model's time.
pub(super) const UNIT_MS: i64 = 1_000;
/// A lease lasts five units less a millisecond: one that was written at the
/// beginning of a unit has lapsed at the beginning of the fifth after it.
pub(super) const TTL: Duration = Duration::from_millis(4_999);
/// One unit.
pub(super) const MARGIN: Duration = Duration::from_millis(1_000);
/// One unit.
pub(super) const INTERVAL: Duration = Duration::from_millis(1_000);
/// An answer counts in the unit of its request and in the next.
pub(super) const TIMEOUT: Duration = Duration::from_millis(1_001);
/// The database's clock, in Unix milliseconds, at the model's time 0.
pub(super) const DATABASE_MS: i64 = 1_000_000;
/// The nodes' time since boot at the model's time 0.
pub(super) const BOOT: Duration = Duration::from_secs(100);
/// The name of the PicoMQ node.
pub(super) const NATIVE: &str = "node-1-1";

/// The protocol as it is, or broken in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// As it is.
    #[default]
    Sound,
    /// Authority lasts until the very end of the lease.
    NoMargin,
    /// Authority counts from the arrival of the answer.
    WindowFromReply,
    /// A holder's name is its node's, which another node may have as well, and a
    /// renewal asks for the name alone.
    RenewalByName,
    /// A release deletes the row, and the next one begins at epoch 0.
    EpochReset,
    /// Who gives the lease up releases it before the tick has ended.
    ReleaseBeforeStop,
    /// A release asks for the holder's name alone, not for the term.
    ReleaseByName,
    /// A claim to the node's own row does not say which row was read.
    UntiedClaim,
    /// The wall clock of the contender says what has lapsed; node `b`'s is six
    /// units ahead.
    NodeClockJudges,
}

/// The bounds of a world.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The last unit of time.
    pub horizon: u8,
    /// How many pauses, late and lost messages there may be altogether.
    pub faults: u8,
    /// By how many units the nodes' clocks may go wrong altogether.
    pub drift: u8,
    /// Ticks run in a term. Without them a term's owner has nothing to end.
    pub ticks: bool,
    /// How often a holder may give the lease up.
    pub give_ups: u8,
    /// How many nodes may become ineligible.
    pub ills: u8,
    /// How many nodes may be stopped.
    pub stops: u8,
    /// How many failovers there may be that forget.
    pub failovers: u8,
    /// How far the wall clock of a PicoMQ node may be off, in units. Empty: there
    /// is none.
    pub native: Vec<i8>,
    /// Node `b` takes the lease from a PicoMQ node.
    pub take_over: bool,
    /// Nobody holds the lease at first. Otherwise node `a` has just acquired it.
    pub race: bool,
    /// What was broken.
    pub variant: Variant,
}

impl Setup {
    /// Whether two nodes of Aedile may trust that only one of them has authority:
    /// clocks that differ by no more than the margin, and nobody else's wall
    /// clock.
    pub fn promises_one(&self) -> bool {
        self.native.iter().all(|skew| *skew == 0)
    }

    /// What the keeper of this node is told.
    pub fn rules(&self, node: usize) -> Rules {
        let name = match self.variant {
            Variant::RenewalByName => "node",
            _ => ["a", "b"][node],
        };
        Rules {
            holder: name.to_owned(),
            ttl: TTL,
            interval: INTERVAL,
            margin: match self.variant {
                Variant::NoMargin => Duration::ZERO,
                _ => MARGIN,
            },
            timeout: TIMEOUT,
            take_over: self.take_over && node == 1,
            others_ttl: TTL,
            seed: None,
        }
    }
}
