//! What must always hold, and what must happen so that it means something.

use stateright::Property;

use super::model::LeaseModel;
use super::setup::{MARGIN, Setup, TTL, UNIT_MS};
use super::world::World;

/// The names of the properties.
pub mod name {
    /// Two nodes of Aedile never have authority at once. Promised as long as no
    /// two clocks differ by more than the margin within a lease, no database
    /// forgets, and no PicoMQ node's wall clock is off.
    pub const ONE: &str = "one node has authority";
    /// The same after a failover that forgot, once a lease's length has passed.
    pub const ONE_AGAIN: &str = "one node has authority again, a TTL after a failover";
    /// Authority ends a margin before the row's expiry by the database's clock,
    /// less what the node's clock was slow.
    pub const WITHIN: &str = "authority ends a margin before its row lapses";
    /// Every acquisition has a greater epoch than all before. Promised as long as
    /// no database forgets.
    pub const EPOCHS: &str = "epochs only grow";
    /// Each term of a node has a greater epoch than its last, whatever the database
    /// forgot: so no two terms have both holder and epoch in common, and that is
    /// what a fence asks for.
    pub const TERMS: &str = "a node's terms have growing epochs";
    /// No holder gets an epoch that it knew before, whatever the database forgot.
    pub const KNOWN: &str = "what a node was answered it exceeds";
    /// A renewal extends the row of its own term, or nothing.
    pub const OWN_TERM: &str = "a renewal extends its own term";
    /// A lease is released after its tick has ended.
    pub const STOP_FIRST: &str = "a tick has ended when its lease is released";
    /// Two ticks run at once only if the first one's node stood still until its
    /// authority had ended, and has not run since.
    pub const ONE_TICK: &str = "one tick runs, beside at most one that was paused";
    /// The end of the bounded time is reached.
    pub const TO_THE_END: &str = "time goes on to the horizon";
    /// Node `b` gets authority after `a` had it.
    pub const TAKEOVER: &str = "the other node takes over";
    /// A holder was paused until past its term.
    pub const OUTLIVED: &str = "a paused holder finds itself replaced";
    /// Two nodes have authority at once, where that is permitted.
    pub const OVERLAP: &str = "two nodes have authority at once (permitted here)";
    /// An epoch comes twice, where that is permitted.
    pub const SAME_EPOCH: &str = "an epoch comes twice (permitted here)";
    /// A PicoMQ node leads by its own belief while an Aedile node has authority.
    pub const NATIVE_OVERLAP: &str = "a PicoMQ node leads beside ours (permitted here)";
}

/// The properties that these bounds promise.
pub(super) fn of(setup: &Setup) -> Vec<Property<LeaseModel>> {
    let forgets = setup.failovers > 0;
    let mut all = vec![
        Property::always(name::KNOWN, |_, world: &World| {
            !world.breaches.known_repeated
        }),
        Property::always(name::TERMS, |_, world: &World| {
            world.nodes.iter().all(|node| !node.reopened)
        }),
        Property::always(name::OWN_TERM, |_, world: &World| {
            !world.breaches.foreign_renewal
        }),
        Property::sometimes(name::TO_THE_END, |model: &LeaseModel, world: &World| {
            world.now == model.setup.horizon
        }),
        Property::sometimes(name::TAKEOVER, |_, world: &World| {
            world.authority(1).is_some_and(|epoch| epoch > 1)
        }),
    ];
    if forgets {
        all.push(Property::always(name::ONE_AGAIN, |_, world: &World| {
            one(world) || lately_forgotten(world)
        }));
        all.push(Property::sometimes(name::OVERLAP, |_, world: &World| {
            !one(world)
        }));
        all.push(Property::sometimes(name::SAME_EPOCH, |_, world: &World| {
            world.breaches.epoch_repeated
        }));
    } else {
        all.push(Property::always(name::EPOCHS, |_, world: &World| {
            !world.breaches.epoch_repeated
        }));
    }
    if setup.promises_one() {
        if !forgets {
            all.push(Property::always(name::ONE, |_, world: &World| one(world)));
        }
        all.push(Property::always(name::WITHIN, |_, world: &World| {
            lately_forgotten(world) || (0..2).all(|n| within(world, n))
        }));
    } else {
        all.push(Property::sometimes(name::OVERLAP, |_, world: &World| {
            !one(world)
        }));
    }
    if !setup.native.is_empty() {
        all.push(Property::sometimes(
            name::NATIVE_OVERLAP,
            |_, world: &World| {
                let native = world.native.as_ref();
                native.is_some_and(|native| native.leads.is_some())
                    && (0..2).any(|n| world.authority(n).is_some())
            },
        ));
    }
    if setup.ticks {
        all.push(Property::always(name::STOP_FIRST, |_, world: &World| {
            let mut nodes = world.nodes.iter();
            nodes.all(|node| node.tick.is_none_or(|epoch| node.released != epoch))
        }));
    }
    if setup.ticks && setup.promises_one() && !forgets {
        all.push(Property::always(name::ONE_TICK, |_, world: &World| {
            let ticks = world.nodes.iter().all(|node| node.tick.is_some());
            !ticks || (0..2).any(|n| world.authority(n).is_none() && world.nodes[n].overslept)
        }));
    }
    if setup.faults > 0 {
        all.push(Property::sometimes(name::OUTLIVED, |_, world: &World| {
            let [a, b] = &world.nodes;
            a.paused && a.window.is_some() && b.window.is_some()
        }));
    }
    all
}

fn one(world: &World) -> bool {
    world.authority(0).is_none() || world.authority(1).is_none()
}

fn lately_forgotten(world: &World) -> bool {
    world.forgot_at.is_some_and(|at| {
        let since = i64::from(world.now - at) * UNIT_MS;
        since < millis(TTL)
    })
}

fn within(world: &World, n: usize) -> bool {
    let Some(epoch) = world.authority(n) else {
        return true;
    };
    let slow = i64::from(world.nodes[n].offset.min(0)).abs() * UNIT_MS;
    let left = millis(MARGIN) - slow;
    world.row.as_ref().is_some_and(|row| {
        row.holder == ["a", "b"][n]
            && row.epoch == epoch
            && row.expires_at_ms - world.database_ms() >= left
    })
}

fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
