//! The statements, the same for every database but for its clock.

use std::time::Duration;

use crate::LeaseName;
use crate::protocol::{Claim, Request};

/// Which lease, and for whom.
#[derive(Clone)]
pub(super) struct Lease {
    pub(super) name: LeaseName,
    pub(super) holder: String,
    pub(super) ttl_ms: i64,
    /// Longest time of one attempt.
    pub(super) timeout: Duration,
}

/// What differs between databases.
pub(super) struct Dialect {
    /// The clock in Unix milliseconds, read when the statement runs rather than
    /// when its transaction began.
    pub(super) now: &'static str,
    /// The greater of two numbers.
    pub(super) greatest: &'static str,
    /// The type of an integer key.
    pub(super) id: &'static str,
    /// The type of the other integers.
    pub(super) integer: &'static str,
}

/// The statements of one lease. Parameter 1 is its key.
pub(super) struct Statements {
    pub(super) create: String,
    /// Parameter 2: the epoch.
    pub(super) seed: String,
    pub(super) read: String,
    /// Parameters: see [`Acquire`].
    pub(super) acquire: String,
    /// Parameters: 2 holder, 3 epoch, 4 TTL.
    pub(super) renew: String,
    /// Parameters: 2 holder, 3 epoch.
    pub(super) release: String,
    /// Takes the write lock and changes nothing.
    pub(super) touch: String,
}

/// Parameters 2 to 9 of an acquisition, in this order.
pub(super) struct Acquire<'a> {
    pub(super) holder: &'a str,
    pub(super) floor: i64,
    pub(super) ttl_ms: i64,
    pub(super) seen_holder: &'a str,
    pub(super) seen_epoch: i64,
    pub(super) not_after_ms: i64,
    /// Whatever the expiry says.
    pub(super) regardless: bool,
    /// Though not lapsed, if the expiry is still this one.
    pub(super) unchanged: Option<i64>,
}

impl Statements {
    pub(super) fn new(name: &LeaseName, dialect: &Dialect) -> Self {
        let (table, key) = match name {
            LeaseName::Shared => ("meta_lease", "id"),
            LeaseName::Named(_) => ("aedile_lease", "name"),
        };
        let Dialect {
            now,
            greatest,
            id,
            integer,
        } = dialect;
        let key_type = match name {
            LeaseName::Shared => format!("{id} PRIMARY KEY"),
            LeaseName::Named(_) => "TEXT NOT NULL PRIMARY KEY".to_owned(),
        };
        let row = format!("holder, epoch, expires_at_ms, {now} AS now_ms");
        Self {
            create: format!(
                "CREATE TABLE IF NOT EXISTS {table} ({key} {key_type}, holder TEXT NOT NULL, \
                 epoch {integer} NOT NULL, expires_at_ms {integer} NOT NULL)"
            ),
            seed: format!(
                "INSERT INTO {table} ({key}, holder, epoch, expires_at_ms) \
                 VALUES ($1, '', $2, 0) ON CONFLICT ({key}) DO NOTHING"
            ),
            read: format!("SELECT {row} FROM {table} WHERE {key} = $1"),
            acquire: format!(
                "UPDATE {table} SET holder = $2, epoch = {greatest}(epoch, $3) + 1, \
                 expires_at_ms = {now} + $4 \
                 WHERE {key} = $1 AND holder = $5 AND epoch = $6 AND {now} <= $7 \
                 AND (expires_at_ms < {now} OR $8 OR expires_at_ms = $9) RETURNING {row}"
            ),
            renew: format!(
                "UPDATE {table} SET expires_at_ms = {now} + $4 \
                 WHERE {key} = $1 AND holder = $2 AND epoch = $3 AND expires_at_ms >= {now} \
                 RETURNING {row}"
            ),
            release: format!(
                "UPDATE {table} SET expires_at_ms = 0 \
                 WHERE {key} = $1 AND holder = $2 AND epoch = $3 RETURNING {row}"
            ),
            touch: format!("UPDATE {table} SET epoch = epoch WHERE {key} = $1 AND 1 = 0"),
        }
    }
}

impl Lease {
    /// The parameters of an acquisition; `None` for another request.
    pub(super) fn acquire<'a>(&'a self, request: &'a Request) -> Option<Acquire<'a>> {
        let Request::Acquire {
            seen,
            claim,
            floor,
            not_after_ms,
        } = request
        else {
            return None;
        };
        Some(Acquire {
            holder: &self.holder,
            floor: super::stored(*floor),
            ttl_ms: self.ttl_ms,
            seen_holder: &seen.holder,
            seen_epoch: super::stored(seen.epoch),
            not_after_ms: *not_after_ms,
            regardless: matches!(claim, Claim::Own | Claim::Native),
            unchanged: (*claim == Claim::Unchanged).then_some(seen.expires_at_ms),
        })
    }
}
