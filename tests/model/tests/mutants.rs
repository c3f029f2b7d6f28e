//! The protocol broken in one way at a time: each has to be caught, by the property
//! that is about it.

use aedile_tests_model::explore::refute;
use aedile_tests_model::fence::{self, FenceModel};
use aedile_tests_model::lease::{self, LeaseModel};

/// A small world with these faults, clocks that go wrong by so much, and terms that
/// are given up so often.
fn world(horizon: u8, faults: u8, drift: u8, give_ups: u8) -> lease::Setup {
    lease::Setup {
        horizon,
        faults,
        drift,
        give_ups,
        ..lease::Setup::default()
    }
}

/// Two terms, each with a row to append.
fn two_terms() -> fence::Setup {
    fence::Setup {
        terms: 2,
        rows: 1,
        ..fence::Setup::default()
    }
}

/// One term, beside a PicoMQ node that appends below a snapshot.
fn below_a_snapshot() -> fence::Setup {
    fence::Setup {
        terms: 1,
        rows: 1,
        native_rows: 1,
        snapshots: 1,
        ..fence::Setup::default()
    }
}

fn caught(variant: lease::Variant, property: &'static str, setup: lease::Setup) {
    let what = format!("{variant:?}");
    refute(&what, property, LeaseModel::broken(setup, variant));
}

fn caught_in_log(variant: fence::Variant, property: &'static str, setup: fence::Setup) {
    let what = format!("{variant:?}");
    refute(&what, property, FenceModel::broken(setup, variant));
}

#[test]
fn without_a_margin_a_slow_clock_makes_two_holders() {
    let setup = world(6, 1, 1, 0);
    caught(lease::Variant::NoMargin, lease::name::WITHIN, setup.clone());
    caught(lease::Variant::NoMargin, lease::name::ONE, setup);
}

#[test]
fn a_window_from_the_reply_makes_two_holders() {
    let setup = world(6, 2, 1, 0);
    caught(
        lease::Variant::WindowFromReply,
        lease::name::WITHIN,
        setup.clone(),
    );
    caught(lease::Variant::WindowFromReply, lease::name::ONE, setup);
}

#[test]
fn a_renewal_by_name_extends_anothers_term() {
    let setup = world(3, 0, 0, 0);
    caught(lease::Variant::RenewalByName, lease::name::OWN_TERM, setup);
}

#[test]
fn an_epoch_that_begins_anew_is_given_out_twice() {
    let setup = world(3, 0, 0, 1);
    caught(lease::Variant::EpochReset, lease::name::EPOCHS, setup);
}

#[test]
fn a_release_before_the_stop_makes_two_ticks() {
    let setup = lease::Setup {
        ticks: true,
        ..world(3, 0, 0, 1)
    };
    caught(
        lease::Variant::ReleaseBeforeStop,
        lease::name::STOP_FIRST,
        setup.clone(),
    );
    caught(
        lease::Variant::ReleaseBeforeStop,
        lease::name::ONE_TICK,
        setup,
    );
}

#[test]
fn a_late_release_by_name_ends_a_newer_term() {
    let setup = world(6, 1, 0, 1);
    caught(lease::Variant::ReleaseByName, lease::name::ONE, setup);
}

#[test]
fn a_claim_that_names_no_row_takes_a_strangers() {
    let setup = world(6, 2, 0, 0);
    caught(lease::Variant::UntiedClaim, lease::name::ONE, setup);
}

#[test]
fn a_contenders_wall_clock_takes_a_lease_that_has_not_lapsed() {
    let setup = world(2, 0, 0, 0);
    caught(lease::Variant::NodeClockJudges, lease::name::ONE, setup);
}

/// No mutant, but the assumption: one clock is slow by the margin, and another is
/// fast.
#[test]
fn clocks_that_differ_by_more_than_the_margin_make_two_holders() {
    let setup = world(6, 1, 2, 0);
    caught(lease::Variant::Sound, lease::name::ONE, setup);
}

#[test]
fn a_fence_read_in_an_old_snapshot_lets_an_older_term_in() {
    let setup = two_terms();
    let variant = fence::Variant::FenceInOldSnapshot;
    caught_in_log(variant, fence::name::STANDS, setup.clone());
    caught_in_log(variant, fence::name::ORDER, setup);
}

#[test]
fn a_fence_that_is_not_locked_is_overtaken_before_the_commit() {
    let setup = two_terms();
    caught_in_log(fence::Variant::FenceUnlocked, fence::name::STANDS, setup);
}

#[test]
fn a_snapshot_that_is_read_before_the_insert_loses_what_was_acknowledged() {
    let setup = below_a_snapshot();
    let variant = fence::Variant::SnapshotReadFirst;
    caught_in_log(variant, fence::name::ABOVE, setup.clone());
    caught_in_log(variant, fence::name::KEPT, setup);
}

#[test]
fn a_row_without_its_predecessor_makes_a_hole() {
    let setup = fence::Setup {
        terms: 1,
        rows: 2,
        failovers: 1,
        ..fence::Setup::default()
    };
    caught_in_log(
        fence::Variant::PredecessorUnchecked,
        fence::name::NO_HOLE,
        setup,
    );
}

#[test]
fn a_row_that_is_sent_elsewhere_after_a_lost_reply_is_in_the_log_twice() {
    let setup = fence::Setup {
        terms: 1,
        rows: 1,
        lost: 1,
        ..fence::Setup::default()
    };
    caught_in_log(fence::Variant::ResentElsewhere, fence::name::ONCE, setup);
}

#[test]
fn a_tailer_that_trusts_every_row_takes_one_from_below_a_snapshot() {
    let setup = below_a_snapshot();
    caught_in_log(fence::Variant::TrustingTailer, fence::name::VIEWS, setup);
}
