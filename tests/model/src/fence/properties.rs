//! What must always hold, and what must happen so that it means something.

use stateright::Property;

use super::commands::effects;
use super::database::Row;
use super::model::FenceModel;
use super::setup::Setup;
use super::world::World;

/// The names of the properties.
pub mod name {
    /// A fenced row commits only while its term stands in the lease row.
    pub const STANDS: &str = "a fenced row lands while its term stands";
    /// In the log no fenced row of a term stands behind one of a later term.
    /// Promised as long as no database forgets, or no PicoMQ node is there that
    /// then appends behind rows that are gone: a later term may fill its hole.
    pub const ORDER: &str = "no fenced row stands behind a later term's";
    /// No row of ours lands at or below a snapshot.
    pub const ABOVE: &str = "no row of ours lands at or below a snapshot";
    /// No row of ours makes a hole. (A PicoMQ node makes one after a failover.)
    pub const NO_HOLE: &str = "no row of ours lands without the row before it";
    /// What was acknowledged is in the log or in the snapshot. Promised as long as
    /// no database forgets.
    pub const KEPT: &str = "what was acknowledged is in the log or the snapshot";
    /// A row is in the log once, however often it was sent. Promised as long as no
    /// database forgets.
    pub const ONCE: &str = "a row is in the log once";
    /// Every node of ours has applied a beginning of the log; after a failover that
    /// forgot, from its next look on, or it has stopped.
    pub const VIEWS: &str = "what a node of ours has applied is a beginning of the log";
    /// Whoever overlapped: one reservation ended once, one mark was cleaned once.
    pub const EFFECTS: &str = "each thing is done once, whoever overlapped";
    /// Rows of two terms of different nodes are in the log.
    pub const BOTH: &str = "two holders' rows are in the log";
    /// A fenced row did not land since its term was over.
    pub const FENCED: &str = "a node learns that it is fenced out";
    /// A row of the PicoMQ node landed below a snapshot.
    pub const STRAY: &str = "a PicoMQ row lands below a snapshot (permitted here)";
    /// A row of the PicoMQ node is in the log, between the terms of ours.
    pub const NATIVE: &str = "a PicoMQ row is in the log";
    /// A node found that the log went back.
    pub const WENT_BACK: &str = "a node finds that the log went back";
    /// A row whose reply was lost was acknowledged after all.
    pub const SETTLED: &str = "a lost reply is settled";
}

/// The properties that these bounds promise.
pub(super) fn of(setup: &Setup) -> Vec<Property<FenceModel>> {
    let mut all = vec![
        Property::always(name::STANDS, |_, world: &World| {
            !world.breaches.after_its_term
        }),
        Property::always(name::ABOVE, |_, world: &World| !world.breaches.below),
        Property::always(name::NO_HOLE, |_, world: &World| !world.breaches.alone),
        Property::always(name::VIEWS, |_, world: &World| {
            world.clients.iter().all(|client| {
                let begins = world.database.history.starts_with(&client.tailer.view);
                begins || client.blind || client.tailer.stopped
            })
        }),
        Property::always(name::EFFECTS, |_, world: &World| {
            let (expiries, cleans) = effects(&world.database.history);
            expiries <= 1 && cleans <= 1
        }),
        Property::sometimes(name::BOTH, |_, world: &World| {
            let has = |node| world.database.history.iter().any(|row| row.writer == node);
            has(0) && has(1)
        }),
        Property::sometimes(name::FENCED, |_, world: &World| {
            let mut clients = world.clients.iter();
            clients.any(|client| client.known > 0 && client.term.is_none())
        }),
    ];
    if setup.failovers == 0 || setup.native_rows == 0 || setup.unpromised {
        all.push(Property::always(name::ORDER, |_, world: &World| {
            let fenced = || world.database.history.iter().filter(|row| row.term > 0);
            fenced()
                .zip(fenced().skip(1))
                .all(|(one, next)| one.term <= next.term)
        }));
    }
    if setup.failovers == 0 || setup.unpromised {
        all.push(Property::always(name::ONCE, |_, world: &World| {
            let history = &world.database.history;
            let mut at = history.iter().enumerate();
            at.all(|(at, row)| !history[at + 1..].contains(row))
        }));
    }
    if setup.failovers > 0 {
        all.push(Property::sometimes(name::WENT_BACK, |_, world: &World| {
            world.clients.iter().any(|client| client.tailer.stopped)
        }));
    } else {
        all.push(Property::always(name::KEPT, |_, world: &World| {
            (0..2).all(|node| kept(world, node))
        }));
    }
    if setup.native_rows > 0 {
        all.push(Property::sometimes(name::NATIVE, |_, world: &World| {
            world.database.history.iter().any(|row| row.term == 0)
        }));
        if setup.snapshots > 0 {
            all.push(Property::sometimes(name::STRAY, |_, world: &World| {
                world.stray
            }));
        }
    }
    if setup.lost > 0 {
        all.push(Property::sometimes(name::SETTLED, |_, world: &World| {
            world.clients.iter().any(|client| client.settled)
        }));
    }
    all
}

fn kept(world: &World, node: usize) -> bool {
    let in_history = |number: &u8| {
        let is = |row: &Row| row.writer == node && row.number == *number;
        world.database.history.iter().any(is)
    };
    world.clients[node].acknowledged.iter().all(in_history)
}
