//! The fence as it is: every state of some small worlds, and no way out of what is
//! promised.

use aedile_tests_model::explore::{exhaust, refute};
use aedile_tests_model::fence::{FenceModel, Setup, name};

#[test]
fn a_fenced_row_lands_while_its_term_stands() {
    let setup = Setup {
        terms: 3,
        rows: 2,
        ..Setup::default()
    };
    exhaust("terms", FenceModel::new(setup));
}

#[test]
fn a_row_is_in_the_log_once_however_often_it_was_sent() {
    let setup = Setup {
        terms: 2,
        rows: 2,
        lost: 1,
        ..Setup::default()
    };
    exhaust("a lost reply", FenceModel::new(setup.clone()));
    let twice = Setup {
        rows: 1,
        terms: 3,
        lost: 2,
        ..setup
    };
    exhaust("two lost replies", FenceModel::new(twice));
}

#[test]
fn snapshots_and_a_picomq_node_below_them_hurt_no_row_of_ours() {
    let setup = Setup {
        terms: 2,
        rows: 1,
        native_rows: 1,
        snapshots: 1,
        lost: 1,
        ..Setup::default()
    };
    exhaust("below a snapshot", FenceModel::new(setup.clone()));
    let more = Setup {
        native_rows: 2,
        lost: 0,
        ..setup
    };
    exhaust("twice below a snapshot", FenceModel::new(more));
}

#[test]
fn a_failover_that_forgot_stops_who_had_read_further() {
    let setup = Setup {
        terms: 2,
        rows: 1,
        lost: 1,
        failovers: 1,
        ..Setup::default()
    };
    exhaust("a failover", FenceModel::new(setup.clone()));
    let rows = Setup {
        rows: 2,
        lost: 0,
        ..setup.clone()
    };
    exhaust("a failover, more rows", FenceModel::new(rows));
    let snapshot = Setup {
        native_rows: 1,
        lost: 0,
        ..setup
    };
    exhaust("a failover beside PicoMQ", FenceModel::new(snapshot));
}

/// What is not promised: after a failover that forgot, a client finds its place
/// free and the row before it gone, and looks for another while what it had sent is
/// still on its way. Both land once somebody has written the row before.
#[test]
fn a_row_that_was_on_its_way_after_a_failover_may_be_in_the_log_twice() {
    let setup = Setup {
        terms: 1,
        rows: 1,
        native_rows: 1,
        lost: 2,
        failovers: 1,
        unpromised: true,
        ..Setup::default()
    };
    refute("on its way", name::ONCE, FenceModel::new(setup));
}

/// What is not promised: a PicoMQ node that had read what a failover forgot appends
/// behind it, a row of ours follows, and a later term fills the hole.
#[test]
fn a_later_term_may_fill_the_hole_that_a_picomq_node_made_after_a_failover() {
    let setup = Setup {
        terms: 2,
        rows: 2,
        native_rows: 1,
        failovers: 1,
        unpromised: true,
        ..Setup::default()
    };
    refute("a hole", name::ORDER, FenceModel::new(setup));
}

/// What is not promised: a failover forgets a snapshot and rows, others write as
/// many again and a snapshot of the same index, and all of that between two looks
/// of a node. It goes on with what it has until a later snapshot contradicts it.
#[test]
fn a_snapshot_of_the_same_index_after_a_failover_is_not_told_apart() {
    let setup = Setup {
        terms: 1,
        rows: 1,
        native_rows: 1,
        snapshots: 2,
        failovers: 1,
        ..Setup::default()
    };
    refute("the same index", name::VIEWS, FenceModel::new(setup));
}
