//! The protocol under orders of events that no database would produce on demand.

mod herd;
mod time;
mod world;

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Action, Event, Reply, Request, Row, Standing};
use world::{Fault, INTERVAL, Op, TIMEOUT, TTL, World, op, rules};

const SECOND: Duration = Duration::from_secs(1);

fn world(keepers: usize) -> World {
    World::new((0..keepers).map(rules).collect())
}

/// Run operations, then heal everything: somebody must lead in the end.
fn play(keepers: usize, ops: &[Op], fault: Fault) -> Result<(), String> {
    let mut world = world(keepers);
    world.fault = fault;
    for k in 0..keepers {
        world.step(k, Event::Eligible(Ok(())))?;
    }
    for op in ops {
        world.run(op)?;
    }
    world.heal()?;
    world.smooth(2 * TTL)?;
    match world.holding()[..] {
        [_] => Ok(()),
        ref other => Err(format!("after healing {} hold", other.len())),
    }
}

proptest! {
    #![proptest_config(Config { cases: 400, ..Config::default() })]

    #[test]
    fn no_order_of_events_gives_two_holders_or_an_end_that_is_late(
        ops in prop::collection::vec(op(3), 1..150),
    ) {
        if let Err(error) = play(3, &ops, Fault::None) {
            return Err(TestCaseError::fail(error));
        }
    }

    #[test]
    fn river_286_nothing_acquired_after_a_stop_stays_held(
        ops in prop::collection::vec(op(2), 1..100),
    ) {
        let result = (|| {
            let mut world = world(2);
            world.step(0, Event::Eligible(Ok(())))?;
            world.step(1, Event::Eligible(Ok(())))?;
            for op in &ops {
                world.run(op)?;
            }
            world.stop(0)?;
            world.run(&Op::Pause(0, false))?;
            world.smooth(4 * TIMEOUT)?;
            if !world.keepers[0].stopped {
                return Err("it did not stop".to_owned());
            }
            match &world.row {
                Some(row) if row.holder == "keeper-0" && row.expires_at_ms > 0 => {
                    Err(format!("it still holds {row:?} at {}", world.db_now()))
                }
                _ => Ok(()),
            }
        })();
        if let Err(error) = result {
            return Err(TestCaseError::fail(error));
        }
    }
}

#[test]
fn the_checks_notice_a_database_that_is_wrong() {
    for fault in [Fault::ClockAhead, Fault::ShortLease] {
        let mut runner = TestRunner::new(Config {
            cases: 2000,
            failure_persistence: None,
            ..Config::default()
        });
        let strategy = prop::collection::vec(op(2), 20..150);
        let found = runner.run(&strategy, |ops| {
            play(2, &ops, fault).map_err(TestCaseError::fail)
        });
        assert!(found.is_err(), "{fault:?} went unnoticed");
    }
}

/// A world in which keeper 0 has just acquired its first term.
fn held(keepers: usize) -> (World, u64) {
    let mut world = world(keepers);
    for k in 0..keepers {
        world.step(k, Event::Eligible(Ok(()))).expect("eligible");
        world.smooth(Duration::from_millis(100)).expect("smooth");
    }
    let [(0, epoch)] = world.holding()[..] else {
        panic!("the first one holds");
    };
    (world, epoch)
}

#[test]
fn client_go_448_a_lease_that_lapsed_long_ago_is_taken_at_once() {
    let mut world = world(1);
    world.row = Some(Row {
        holder: "gone".into(),
        epoch: 41,
        expires_at_ms: world.db_now() - 3_600_000,
        now_ms: 0,
    });
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    world.smooth(Duration::from_millis(1)).expect("smooth");
    assert_eq!(world.holding(), [(0, 42)]);
}

#[test]
fn a_crash_is_taken_over_as_soon_as_the_lease_has_lapsed() {
    let (mut world, epoch) = held(2);
    world.run(&Op::Pause(0, true)).expect("paused");
    let lapse = world.row.as_ref().expect("a row").expires_at_ms;
    while world.holding() != [(1, epoch + 1)] {
        world.smooth(Duration::from_millis(1)).expect("smooth");
        assert!(world.db_now() < lapse + 100, "within 100 ms of the lapse");
    }
    assert!(world.db_now() > lapse);
}

#[test]
fn two_attempts_fit_before_authority_ends() {
    let (mut world, _) = held(1);
    // From here on nothing is answered.
    let mut sent = 0;
    while !world.holding().is_empty() {
        world.advance(Duration::from_millis(1)).expect("advance");
        while let Some(()) = lose_one(&mut world) {
            sent += 1;
        }
    }
    assert!(sent >= 2, "{sent} attempts");
    assert!(matches!(
        world.keepers[0].standing,
        Some(Standing::Unreachable { .. })
    ));
}

fn lose_one(world: &mut World) -> Option<()> {
    let before = world.pending(0);
    world.run(&Op::LoseRequest(0, 0)).expect("lost");
    (world.pending(0) < before).then_some(())
}

#[test]
fn sliceworkz_176_a_term_that_is_taken_back_has_a_new_epoch() {
    let (mut world, epoch) = held(1);
    world.run(&Op::Pause(0, true)).expect("paused");
    world.advance(2 * TTL).expect("advance");
    world.run(&Op::Pause(0, false)).expect("resumed");
    world.smooth(SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, epoch + 1)]);
}

#[test]
fn kubernetes_23731_a_refused_renewal_ends_the_term_at_once() {
    let (mut world, epoch) = held(1);
    let row = world.row.as_mut().expect("a row");
    row.holder = "thief".into();
    row.epoch += 1;
    world.smooth(INTERVAL).expect("smooth");
    assert_eq!(world.holding(), []);
    let Some(Standing::Follower { seen: Some(seen) }) = &world.keepers[0].standing else {
        panic!("a follower that knows of the thief");
    };
    assert_eq!((seen.holder.as_str(), seen.epoch), ("thief", epoch + 1));
}

#[test]
fn synapse_406_the_epochs_of_a_deleted_row_do_not_repeat() {
    let (mut world, epoch) = held(1);
    world.row = None;
    world.smooth(2 * INTERVAL).expect("smooth");
    assert_eq!(world.holding(), [(0, epoch + 1)]);
}

#[test]
fn a_clock_that_ran_ahead_leaves_no_vacancy() {
    let mut world = world(1);
    let (holder, epoch) = ("gone".to_owned(), 7);
    let expires_at_ms = world.db_now() + 86_400_000;
    world.row = Some(Row {
        holder,
        epoch,
        expires_at_ms,
        now_ms: 0,
    });
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    world.smooth(TTL - SECOND).expect("smooth");
    assert_eq!(world.holding(), [], "it may be alive");
    world.smooth(2 * SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, 8)]);
}

#[test]
fn a_holder_with_a_longer_ttl_is_believed_once_it_was_seen_renewing() {
    let mut world = world(1);
    let long = 40_000;
    let renew = |world: &mut World| {
        let expires_at_ms = world.db_now() + long;
        world.row = Some(Row {
            holder: "slow".into(),
            epoch: 7,
            expires_at_ms,
            now_ms: 0,
        });
    };
    renew(&mut world);
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    for _ in 0..3 {
        world.smooth(Duration::from_millis(9_900)).expect("smooth");
        renew(&mut world);
    }
    world.smooth(2 * TTL).expect("smooth");
    assert_eq!(world.holding(), [], "its lease lasts 40 s");
    world.smooth(3 * TTL).expect("smooth");
    assert_eq!(world.holding(), [(0, 8)]);
}

#[test]
fn river_1213_a_release_of_an_older_term_changes_nothing() {
    let (mut world, first) = held(1);
    world.run(&Op::Pause(0, true)).expect("paused");
    world.advance(2 * TTL).expect("advance");
    world.run(&Op::Pause(0, false)).expect("resumed");
    world.smooth(SECOND).expect("smooth");
    world.owner_done(0, first, None).expect("done");
    world.smooth(SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, first + 1)]);
}

#[test]
fn river_286_who_gives_up_leaves_the_lease_to_others() {
    let (mut world, epoch) = held(2);
    world.owner_done(0, epoch, None).expect("done");
    world.run(&Op::Announce(1)).expect("announced");
    world.smooth(Duration::from_millis(20)).expect("smooth");
    assert_eq!(world.holding(), [(1, epoch + 1)]);
}

#[test]
fn river_286_a_stop_while_a_lost_term_is_taken_back_releases_what_it_gets() {
    let (mut world, epoch) = held(1);
    world.run(&Op::Pause(0, true)).expect("paused");
    world.advance(TTL - SECOND).expect("authority runs out");
    world.run(&Op::Announce(0)).expect("it looks");
    // The reading is answered; the acquisition that follows is under way.
    world.deliver(0, 0);
    world.answer(0, 0).expect("answered");
    assert_eq!(world.pending(0), 1);
    world.stop(0).expect("stop");
    world.run(&Op::Pause(0, false)).expect("resumed");
    world.smooth(4 * TIMEOUT).expect("smooth");
    assert!(world.keepers[0].stopped);
    let row = world.row.as_ref().expect("a row");
    assert_eq!((row.epoch, row.expires_at_ms), (epoch + 1, 0));
}

/// A world whose keeper 0 has an acquisition under way, and nothing else.
fn acquiring() -> World {
    let mut world = world(1);
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    // The row is found missing and made.
    for _ in 0..2 {
        world.deliver(0, 0);
        world.answer(0, 0).expect("answered");
    }
    assert_eq!(world.row.as_ref().expect("a row").holder, "");
    assert_eq!(world.pending(0), 1);
    world
}

#[test]
fn greptimedb_7670_a_stop_releases_an_acquisition_whose_answer_was_lost() {
    let mut world = acquiring();
    world.deliver(0, 0);
    assert_eq!(world.row.as_ref().expect("a row").holder, "keeper-0");
    world.run(&Op::LoseReply(0, 0)).expect("lost");
    world.advance(TIMEOUT).expect("given up");
    world.run(&Op::LoseRequest(0, 0)).expect("lost");
    world.stop(0).expect("stop");
    world.smooth(4 * TIMEOUT).expect("smooth");
    assert!(world.keepers[0].stopped);
    assert_eq!(world.row.as_ref().expect("a row").expires_at_ms, 0);
}

#[test]
fn greptimedb_7670_a_stop_waits_until_a_lost_acquisition_can_happen_no_more() {
    let mut world = acquiring();
    world.stop(0).expect("stop");
    world.advance(TIMEOUT).expect("given up");
    while !world.keepers[0].stopped {
        world.advance(Duration::from_millis(1)).expect("advance");
        // Everything but the acquisition gets through.
        world.deliver(0, 1);
        world.answer(0, 0).expect("answered");
    }
    world.deliver(0, 0);
    let row = world.row.as_ref().expect("a row");
    assert_eq!((row.holder.as_str(), row.epoch), ("", 0));
}

#[test]
fn who_gives_up_alone_leads_again_after_an_interval() {
    let (mut world, epoch) = held(1);
    world.owner_done(0, epoch, None).expect("done");
    world.smooth(INTERVAL - SECOND).expect("smooth");
    assert_eq!(world.holding(), []);
    world.smooth(2 * SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, epoch + 1)]);
}

#[test]
fn an_ill_node_renews_no_more_and_waits_for_its_ticks() {
    let (mut world, epoch) = held(1);
    let before = world.row.clone().expect("a row").expires_at_ms;
    world.run(&Op::Eligible(0, false)).expect("ill");
    world.smooth(5 * SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, epoch)], "what runs may finish");
    assert_eq!(world.row.as_ref().expect("a row").expires_at_ms, before);
    world.owner_done(0, epoch, None).expect("done");
    world.smooth(Duration::from_millis(1)).expect("smooth");
    assert_eq!(world.holding(), []);
    assert_eq!(world.row.as_ref().expect("a row").expires_at_ms, 0);
}

#[test]
fn kubernetes_71490_without_word_from_the_owner_the_lease_is_kept_until_it_lapses() {
    let (mut world, epoch) = held(1);
    world.run(&Op::Eligible(0, false)).expect("ill");
    world.smooth(2 * TTL).expect("smooth");
    assert_eq!(world.holding(), []);
    let row = world.row.as_ref().expect("a row");
    assert_eq!(row.epoch, epoch);
    assert!(row.expires_at_ms > 0, "nobody released it");
}

#[test]
fn kubernetes_71490_a_term_that_never_began_is_released_when_the_last_one_has_ended() {
    for lost in [false, true] {
        let (mut world, epoch) = held(1);
        world.step(0, Event::Ended { epoch }).expect("ended");
        world.deliver(0, 0);
        world
            .answer(0, 0)
            .expect("it reads its row and takes it back");
        world.run(&Op::Eligible(0, false)).expect("ill meanwhile");
        world.deliver(0, 0);
        if lost {
            world.run(&Op::LoseReply(0, 0)).expect("lost");
        }
        world.smooth(SECOND + TIMEOUT).expect("its ticks still run");
        let row = world.row.clone().expect("a row");
        assert_eq!(row.epoch, epoch + 1);
        assert!(row.expires_at_ms > 0, "nobody released it");
        world.owner_done(0, epoch, None).expect("done");
        world.smooth(SECOND).expect("smooth");
        assert_eq!(world.row.as_ref().expect("a row").expires_at_ms, 0);
    }
}

#[test]
fn a_native_node_is_waited_for_and_warned_about_once() {
    let mut world = world(1);
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    for _ in 0..20 {
        let expires_at_ms = world.db_now() + 10_000;
        world.row = Some(Row {
            holder: "node-1-1796191747112".into(),
            epoch: 3,
            expires_at_ms,
            now_ms: 0,
        });
        world.smooth(INTERVAL).expect("smooth");
    }
    assert_eq!(world.holding(), []);
    assert_eq!(world.keepers[0].warnings, 1);
    let Some(Standing::Follower { seen: Some(seen) }) = &world.keepers[0].standing else {
        panic!("a follower");
    };
    assert!(seen.native);
}

#[test]
fn a_native_node_is_taken_over_from_when_told_so() {
    let mut world = World::new(vec![super::Rules {
        take_over: true,
        ..rules(0)
    }]);
    let expires_at_ms = world.db_now() + 10_000;
    world.row = Some(Row {
        holder: "node-1-1796191747112".into(),
        epoch: 3,
        expires_at_ms,
        now_ms: 0,
    });
    world.smooth(SECOND).expect("smooth");
    assert_eq!(world.holding(), [], "not before it is eligible");
    world.step(0, Event::Eligible(Ok(()))).expect("eligible");
    world.smooth(SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, 4)]);
}

#[test]
fn curator_1137_an_answer_to_what_was_given_up_is_ignored() {
    let (mut world, epoch) = held(1);
    world.advance(INTERVAL).expect("a renewal goes out");
    world.deliver(0, 0);
    world.advance(TIMEOUT).expect("it is given up");
    let state = world.standing(0);
    world.answer(0, 0).expect("the late answer");
    assert_eq!(world.standing(0), state);
    assert_eq!(world.holding(), [(0, epoch)]);
}

#[test]
fn an_authority_seen_ended_is_never_resumed() {
    let (mut world, epoch) = held(1);
    world.step(0, Event::Ended { epoch }).expect("ended");
    assert_eq!(world.holding(), []);
    world.smooth(SECOND).expect("smooth");
    assert_eq!(world.holding(), [(0, epoch + 1)]);
}

#[test]
fn a_standby_is_shown_as_such_and_asked_at_leisure() {
    let state = super::State::new(rules(0), aedile_clock::BootInstant::default());
    let now = aedile_clock::BootInstant::from_boot(SECOND);
    let (state, actions) = state.step(Event::Eligible(Ok(())), now);
    assert!(actions.contains(&Action::Send {
        attempt: 1,
        request: Request::Read
    }));
    let reply = Reply::WrongRole("a standby".into());
    let (state, actions) = state.step(Event::Reply { attempt: 1, reply }, now);
    let detail = "a standby".to_owned();
    assert_eq!(actions, [Action::Publish(Standing::WrongRole { detail })]);
    let wake = state.wake().expect("it asks again");
    assert!(wake <= now + INTERVAL && wake >= now + INTERVAL * 9 / 10);
}

#[test]
fn cockroach_85541_an_acquisition_that_misses_a_table_is_not_tried_in_circles() {
    let state = super::State::new(rules(0), aedile_clock::BootInstant::default());
    let now = aedile_clock::BootInstant::from_boot(SECOND);
    let (mut state, _) = state.step(Event::Eligible(Ok(())), now);
    let free = Row {
        holder: String::new(),
        epoch: 3,
        expires_at_ms: 0,
        now_ms: 1_000,
    };
    let (mut attempt, mut sent) = (1, 0);
    let (mut now, end) = (now, now + TTL);
    while now < end {
        let mut answers = vec![Reply::Row(free.clone())];
        while let Some(reply) = answers.pop() {
            let (next, actions) = state.step(Event::Reply { attempt, reply }, now);
            state = next;
            for action in actions {
                if let Action::Send {
                    attempt: number,
                    request,
                } = action
                {
                    (attempt, sent) = (number, sent + 1);
                    answers.push(match request {
                        Request::Acquire { .. } => Reply::Missing,
                        _ => Reply::Row(free.clone()),
                    });
                    assert!(sent < 100, "{sent} requests in {:?}", now.since(end - TTL));
                }
            }
        }
        now = state.wake().expect("it goes on").max(now);
        let (next, actions) = state.step(Event::Timer, now);
        state = next;
        for action in actions {
            if let Action::Send {
                attempt: number, ..
            } = action
            {
                (attempt, sent) = (number, sent + 1);
            }
        }
    }
    assert!(sent > 10, "it goes on trying: {sent}");
}
