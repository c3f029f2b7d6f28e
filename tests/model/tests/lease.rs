//! The lease as it is: every state of some small worlds, and no way out of what is
//! promised. Each world also has to show what it is about.

use aedile_tests_model::explore::exhaust;
use aedile_tests_model::fired::Kind;
use aedile_tests_model::lease::{LeaseModel, Setup};

/// What goes wrong between a node and the database.
const FAULTS: [Kind; 7] = [
    Kind::RequestLost,
    Kind::RequestDelayed,
    Kind::RequestLate,
    Kind::ReplyLost,
    Kind::ReplyDelayed,
    Kind::ReplyLate,
    Kind::Paused,
];

/// Explore a world; each of these things has to happen in it.
fn sound(what: &str, setup: Setup, happens: &[&[Kind]]) {
    let model = LeaseModel::new(setup);
    let fired = model.fired.clone();
    exhaust(what, model);
    for kind in happens.iter().copied().flatten() {
        assert!(fired.count(*kind) > 0, "{what}: never {kind:?}: {fired:?}");
    }
}

#[test]
fn one_node_has_authority_whatever_is_lost_late_or_paused() {
    let setup = Setup {
        horizon: 9,
        faults: 2,
        ..Setup::default()
    };
    let happens = [
        Kind::TakenLapsed,
        Kind::TakenOwn,
        Kind::AcquireRefused,
        Kind::Renewed,
        Kind::RenewRefused,
    ];
    sound("faults", setup, &[&FAULTS, &happens]);
}

#[test]
fn one_node_has_authority_while_clocks_differ_by_no_more_than_the_margin() {
    let setup = Setup {
        horizon: 8,
        faults: 2,
        drift: 1,
        ..Setup::default()
    };
    let clocks = [Kind::ClockSlow, Kind::ClockFast, Kind::TakenUnchanged];
    sound("clocks", setup, &[&FAULTS, &clocks]);
}

#[test]
fn one_node_has_authority_through_several_terms() {
    let setup = Setup {
        horizon: 14,
        faults: 1,
        drift: 1,
        ..Setup::default()
    };
    let clocks = [Kind::ClockSlow, Kind::ClockFast, Kind::TakenUnchanged];
    sound("several terms", setup, &[&FAULTS, &clocks]);
}

#[test]
fn one_node_has_authority_when_both_begin_at_once() {
    let setup = Setup {
        horizon: 4,
        faults: 2,
        drift: 1,
        race: true,
        ..Setup::default()
    };
    sound(
        "a race",
        setup,
        &[&FAULTS, &[Kind::AcquireRefused, Kind::TakenUnchanged]],
    );
}

#[test]
fn the_tick_ends_before_the_lease_that_is_given_up() {
    let setup = Setup {
        horizon: 6,
        faults: 1,
        ticks: true,
        give_ups: 1,
        ..Setup::default()
    };
    let happens = [
        Kind::GivenUp,
        Kind::TickEnded,
        Kind::Released,
        Kind::ReleaseRefused,
        Kind::Announced,
    ];
    sound("given up", setup, &[&FAULTS, &happens]);
}

#[test]
fn the_tick_ends_before_the_lease_of_a_node_that_fell_ill() {
    let setup = Setup {
        horizon: 8,
        faults: 1,
        ticks: true,
        ills: 1,
        ..Setup::default()
    };
    let happens = [
        Kind::FellIll,
        Kind::TickEnded,
        Kind::Released,
        Kind::TakenOwn,
    ];
    sound("ill", setup, &[&FAULTS, &happens]);
    let both = Setup {
        horizon: 7,
        ticks: true,
        give_ups: 1,
        ills: 2,
        ..Setup::default()
    };
    sound("ill, or given up", both, &[&[Kind::FellIll, Kind::GivenUp]]);
}

#[test]
fn a_node_that_is_stopped_leaves_the_lease_to_the_other() {
    let setup = Setup {
        horizon: 7,
        faults: 1,
        ticks: true,
        stops: 1,
        ..Setup::default()
    };
    let happens = [Kind::Stopped, Kind::Released, Kind::Announced];
    sound("stopped", setup, &[&FAULTS, &happens]);
}

#[test]
fn after_a_failover_that_forgot_one_node_has_authority_again_within_a_ttl() {
    let setup = Setup {
        horizon: 12,
        faults: 1,
        failovers: 1,
        ..Setup::default()
    };
    sound("a failover", setup, &[&FAULTS, &[Kind::FailedOver]]);
    let ill = Setup {
        horizon: 9,
        ticks: true,
        ills: 1,
        failovers: 1,
        ..Setup::default()
    };
    sound("a failover, and ill", ill, &[&[Kind::FailedOver]]);
}

#[test]
fn beside_a_picomq_node_with_a_right_clock_one_of_ours_has_authority() {
    let setup = Setup {
        horizon: 7,
        native: vec![0],
        race: true,
        ..Setup::default()
    };
    let happens = [
        Kind::NativeAcquired,
        Kind::NativeDemoted,
        Kind::NativeStopped,
        Kind::TakenLapsed,
    ];
    sound("beside PicoMQ", setup.clone(), &[&happens]);
    let taken = Setup {
        horizon: 6,
        faults: 1,
        take_over: true,
        ..setup
    };
    let happens = [Kind::TakenNative, Kind::NativeDemoted];
    sound("taken from PicoMQ", taken, &[&FAULTS, &happens]);
}

#[test]
fn a_picomq_node_whose_clock_is_off_costs_a_term_and_no_epoch() {
    let setup = Setup {
        horizon: 7,
        ticks: true,
        native: vec![-6, 6],
        ..Setup::default()
    };
    let happens = [
        Kind::NativeStole,
        Kind::NativeDemoted,
        Kind::RenewRefused,
        Kind::TakenUnchanged,
    ];
    sound("a wrong wall clock", setup, &[&happens]);
}
