//! The lease row and what the statements of `host/lease/src/store/statements.rs`
//! do to it, each whole and alone, as a database carries them out.

use aedile_lease::protocol::{Claim, Reply, Request, Row};

use super::setup::{TTL, Variant};

/// Who asks, and when by the clock that judges.
#[derive(Clone, Debug)]
pub(super) struct Caller<'a> {
    /// The name under which it asks.
    pub(super) holder: &'a str,
    /// The database's clock; for [`Variant::NodeClockJudges`] the caller's.
    pub(super) now_ms: i64,
    /// What was broken.
    pub(super) variant: Variant,
}

/// What a statement did to the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// It was acquired at this epoch.
    Acquired(u64),
    /// It was renewed; it stood at this epoch.
    Renewed(u64),
    /// It was released.
    Released,
    /// It was made anew.
    Seeded,
}

/// Carry out a request.
pub(super) fn perform(
    row: &mut Option<Row>,
    request: &Request,
    caller: &Caller<'_>,
) -> (Reply, Change) {
    let now = caller.now_ms;
    let ttl = i64::try_from(TTL.as_millis()).unwrap_or(i64::MAX);
    let by_name = |row: &Row| row.holder == caller.holder;
    let mut change = Change::None;
    if let (Request::Seed { epoch }, None) = (request, &row) {
        let epoch = match caller.variant {
            Variant::EpochReset => 0,
            _ => *epoch,
        };
        *row = Some(Row {
            holder: String::new(),
            epoch,
            expires_at_ms: 0,
            now_ms: 0,
        });
        change = Change::Seeded;
    }
    let Some(found) = row else {
        return (Reply::Missing, change);
    };
    match request {
        Request::Read | Request::Seed { .. } => {}
        Request::Acquire {
            seen,
            claim,
            floor,
            not_after_ms,
        } => {
            let tied = found.holder == seen.holder && found.epoch == seen.epoch;
            let untied = caller.variant == Variant::UntiedClaim && *claim == Claim::Own;
            let free = found.expires_at_ms < now
                || matches!(claim, Claim::Own | Claim::Native)
                || (*claim == Claim::Unchanged && found.expires_at_ms == seen.expires_at_ms);
            if !((tied || untied) && free && now <= *not_after_ms) {
                return (Reply::Refused, change);
            }
            let floor = match caller.variant {
                Variant::EpochReset => 0,
                _ => *floor,
            };
            caller.holder.clone_into(&mut found.holder);
            found.epoch = found.epoch.max(floor) + 1;
            found.expires_at_ms = now + ttl;
            change = Change::Acquired(found.epoch);
        }
        Request::Renew { epoch } => {
            let term = found.epoch == *epoch || caller.variant == Variant::RenewalByName;
            if !(by_name(found) && term && found.expires_at_ms >= now) {
                return (Reply::Refused, change);
            }
            found.expires_at_ms = now + ttl;
            change = Change::Renewed(found.epoch);
            // Who asks for a name alone takes the success for its own term's.
            let answer = Row {
                epoch: *epoch,
                now_ms: now,
                ..found.clone()
            };
            return (Reply::Row(answer), change);
        }
        Request::Release { epoch } => {
            let term = found.epoch == *epoch || caller.variant == Variant::ReleaseByName;
            if !(by_name(found) && term) {
                return (Reply::Refused, change);
            }
            found.expires_at_ms = 0;
            change = Change::Released;
        }
    }
    let answer = Row {
        now_ms: now,
        ..found.clone()
    };
    if change == Change::Released && caller.variant == Variant::EpochReset {
        *row = None;
    }
    (Reply::Row(answer), change)
}
