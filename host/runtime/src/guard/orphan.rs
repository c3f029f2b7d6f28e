//! The decision whether bytes in the store are an orphan's, and whether a sweep
//! may take anything at all.
//!
//! Pure functions over views, what is known of the composites, and figures. Why
//! each rule is there, and why together they never take live data, is written
//! down in `docs/safety.md`.

use std::fmt;
use std::time::Duration;

use aedile_state::{ObjectId, State};

use super::LinkIndex;
use crate::error::RuntimeError;

/// What the operator sets for the sweep for orphans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrphanOptions {
    /// For how long an object must have been seen as an orphan before its bytes
    /// may go, by the database's clock. 0, or 1 min to 365 d; default 24 h. 0 is for
    /// tests: an upload that commits late loses its data.
    pub grace: Duration,
    /// Orphans up to which the breaker never trips. Default 1000.
    pub breaker_count: u64,
    /// Share of the data objects in the store, in percent, up to which the
    /// breaker never trips. 0 to 100; default 10.
    pub breaker_percent: u8,
}

impl Default for OrphanOptions {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(24 * 3600),
            breaker_count: 1000,
            breaker_percent: 10,
        }
    }
}

impl OrphanOptions {
    /// Shortest grace besides 0.
    pub const SHORTEST_GRACE: Duration = Duration::from_secs(60);
    /// Longest grace.
    pub const LONGEST_GRACE: Duration = Duration::from_secs(365 * 24 * 3600);

    pub(crate) fn validate(&self) -> Result<(), RuntimeError> {
        let grace = self.grace;
        let fits = grace.is_zero() || (Self::SHORTEST_GRACE..=Self::LONGEST_GRACE).contains(&grace);
        if !fits {
            return Err(RuntimeError::Option {
                option: "orphan-grace",
                reason: format!(
                    "{} is neither 0s nor in the range {} to {}",
                    humantime::format_duration(grace),
                    humantime::format_duration(Self::SHORTEST_GRACE),
                    humantime::format_duration(Self::LONGEST_GRACE)
                ),
            });
        }
        if self.breaker_percent > 100 {
            return Err(RuntimeError::Option {
                option: "orphan-breaker-percent",
                reason: format!("{} is out of the range 0 to 100", self.breaker_percent),
            });
        }
        Ok(())
    }

    /// Why a sweep with these figures must not delete anything: so many orphans
    /// at once look like a catalog that has lost something, or the wrong store.
    pub(crate) fn breaker(&self, candidates: u64, objects: u64) -> Option<String> {
        let share = u128::from(candidates) * 100;
        let most = u128::from(objects) * u128::from(self.breaker_percent);
        (candidates > self.breaker_count && share > most).then(|| {
            format!(
                "{candidates} of the {objects} data objects in the store are known to no view: \
                 more than {} and more than {} %. A catalog that was restored from an older copy, \
                 or a store that another cluster uses, looks like this. If it is right, raise \
                 --orphan-breaker-count above {candidates}",
                self.breaker_count, self.breaker_percent
            )
        })
    }
}

/// Why an object in the store is no orphan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The catalog has not given out its id.
    Unissued,
    /// It is live.
    Live,
    /// It is reserved: its upload may be under way.
    Reserved,
    /// It is marked destroyed: what is to happen to it is the cleaner's to do.
    Marked,
    /// A composite that is live or marked links it.
    Linked(ObjectId),
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unissued => f.write_str("the catalog has not given out its id"),
            Self::Live => f.write_str("the object is live: the catalog has it"),
            Self::Reserved => f.write_str("the object is reserved: an upload may be under way"),
            Self::Marked => f.write_str("the object is marked destroyed"),
            Self::Linked(by) => write!(f, "composite {by} links the object"),
        }
    }
}

/// What this view knows of an object in the store; none if nothing.
///
/// `links` must know what every composite of the view links, those that are
/// only marked included.
pub fn known(state: &State, links: &LinkIndex, id: ObjectId) -> Option<Known> {
    if id >= state.next_object_id() {
        Some(Known::Unissued)
    } else if state.is_live(id) {
        Some(Known::Live)
    } else if state.is_reserved(id) {
        Some(Known::Reserved)
    } else if state.mark(id).is_some() {
        Some(Known::Marked)
    } else {
        links.held_by(state, id).map(Known::Linked)
    }
}

#[cfg(test)]
mod tests {
    use aedile_state::Operation;
    use aedile_storage::Composite;

    use super::*;
    use crate::guard::testing::{NOW, World};

    // juicefs#5194: what is pending is not what is leaked.
    #[test]
    fn juicefs_5194_reserved_marked_and_linked_objects_are_no_orphans() {
        let mut world = World::new();
        let live = world.objects(1)[0];
        let marked = world.marked(1, Operation::Delete)[0];
        let kept = world.marked(1, Operation::KeepData)[0];
        let lapsed = world.reserve(1, 0)[0];
        let (composite, parts) = world.composite();
        world.clean(&parts);
        let next = world.state.next_object_id();
        let mut links = LinkIndex::default();
        let found = Composite::Links(parts.iter().map(|id| id.0).collect());
        let now = aedile_clock::BootInstant::from_boot(std::time::Duration::ZERO);
        links.record(&world.state, composite, found, now);
        let judge = |world: &World, id| known(&world.state, &links, id);
        assert_eq!(judge(&world, live), Some(Known::Live));
        assert_eq!(judge(&world, marked), Some(Known::Marked));
        assert_eq!(judge(&world, kept), Some(Known::Marked));
        // A reservation protects whatever its deadline says.
        assert_eq!(judge(&world, lapsed), Some(Known::Reserved));
        assert_eq!(judge(&world, parts[1]), Some(Known::Linked(composite)));
        assert_eq!(judge(&world, next), Some(Known::Unissued));
        assert_eq!(judge(&world, ObjectId(u64::MAX)), Some(Known::Unissued));

        world.apply(aedile_state::Command::ExpirePreparedObjects { now_ms: NOW });
        assert_eq!(judge(&world, lapsed), None);
        world.clean(&[kept]);
        assert_eq!(judge(&world, kept), None);
        // Its composite is marked, by whatever operation: it protects until the
        // mark is gone.
        for operation in [
            Operation::KeepData,
            Operation::Delete,
            Operation::DeepDelete,
        ] {
            world.compact(&[composite], &[operation]);
            assert_eq!(judge(&world, parts[0]), Some(Known::Linked(composite)));
        }
        world.clean(&[composite]);
        assert_eq!(judge(&world, parts[0]), None);
    }

    // ravel#528, ravel#1777: records were lost, and the data behind them was
    // deleted without an alarm.
    #[test]
    fn ravel_1777_many_orphans_at_once_trip_the_breaker() {
        let options = OrphanOptions::default();
        assert_eq!(options.breaker(1000, 1000), None, "few are taken");
        assert_eq!(options.breaker(1001, 10_010), None, "10 % are taken");
        let text = options.breaker(1002, 10_010).expect("both bounds exceeded");
        assert!(text.contains("1002 of the 10010"), "{text}");
        assert!(text.contains("--orphan-breaker-count"), "{text}");
        let raised = OrphanOptions {
            breaker_count: 1002,
            ..options
        };
        assert_eq!(raised.breaker(1002, 10_010), None);
        assert!(options.breaker(u64::MAX, u64::MAX).is_some());
    }

    // iceberg#4194: a grace shorter than the work it waits for loses data.
    #[test]
    fn iceberg_4194_a_grace_is_0_or_at_least_a_minute() {
        let of = |seconds| OrphanOptions {
            grace: Duration::from_secs(seconds),
            ..OrphanOptions::default()
        };
        for seconds in [0, 60, 86_400] {
            of(seconds).validate().expect("valid");
        }
        for seconds in [1, 59, 366 * 86_400] {
            let error = of(seconds)
                .validate()
                .expect_err("out of range")
                .to_string();
            assert!(error.contains("orphan-grace"), "{error}");
        }
    }
}
