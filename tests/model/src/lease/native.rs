//! A PicoMQ node as it contends: its own wall clock says what has lapsed and is
//! written into the row.

use aedile_lease::protocol::Row;

use super::database::Change;
use super::setup::{NATIVE, TTL, UNIT_MS};

/// A PicoMQ node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Native {
    /// How far its wall clock is ahead of the database's, in units.
    pub skew: i8,
    /// The epoch at which it believes to lead.
    pub leads: Option<u64>,
    /// It has made its attempt of this unit.
    pub tried: bool,
    /// It was stopped by an interrupt.
    pub stopped: bool,
}

impl Native {
    pub(super) fn new(skew: i8) -> Self {
        Self {
            skew,
            leads: None,
            tried: false,
            stopped: false,
        }
    }

    /// One attempt of its keeper: renew what it holds, or acquire.
    pub(super) fn attempt(&mut self, row: &mut Option<Row>, database_ms: i64) -> Change {
        self.tried = true;
        let Some(row) = row else {
            self.leads = None;
            return Change::None;
        };
        let wall = database_ms + i64::from(self.skew) * UNIT_MS;
        let until = wall + i64::try_from(TTL.as_millis()).unwrap_or(i64::MAX);
        if let Some(epoch) = self.leads {
            if row.holder == NATIVE && row.epoch == epoch && row.expires_at_ms >= wall {
                row.expires_at_ms = until;
                return Change::Renewed(epoch);
            }
            self.leads = None;
            return Change::None;
        }
        if row.expires_at_ms < wall || row.holder == NATIVE {
            NATIVE.clone_into(&mut row.holder);
            row.epoch += 1;
            row.expires_at_ms = until;
            self.leads = Some(row.epoch);
            return Change::Acquired(row.epoch);
        }
        Change::None
    }

    /// It releases what it holds and is gone. Its loops may still run: it releases
    /// first.
    pub(super) fn stop(&mut self, row: &mut Option<Row>) {
        self.stopped = true;
        if let (Some(epoch), Some(row)) = (self.leads.take(), row)
            && row.holder == NATIVE
            && row.epoch == epoch
        {
            row.expires_at_ms = 0;
        }
    }
}
