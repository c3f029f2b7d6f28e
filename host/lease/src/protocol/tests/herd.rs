//! Many keepers: whatever they all saw together, they do not go on together.

use std::time::Duration;

use aedile_clock::BootInstant;

use super::world::{INTERVAL, Op, TTL, World, rules};
use crate::protocol::Event;

const KEEPERS: usize = 500;
const BIN: Duration = Duration::from_millis(100);

/// Keepers that became eligible in the same instant; one of them leads.
fn started() -> World {
    let mut world = World::new((0..KEEPERS).map(rules).collect());
    for keeper in 0..KEEPERS {
        let eligible = Event::Eligible(Ok(()));
        world.step(keeper, eligible).expect("eligible");
    }
    world
}

/// Let five intervals pass, then look at five more: the readings in the fullest
/// bin and the mean of all.
#[track_caller]
fn spread(world: &mut World, what: &str) {
    world.smooth(5 * INTERVAL).expect("smooth");
    assert_eq!(world.holding().len(), 1, "{what}");
    let start = world.now;
    world.reads.clear();
    world.smooth(5 * INTERVAL).expect("smooth");
    let bins = usize::try_from(5 * INTERVAL.as_millis() / BIN.as_millis()).expect("few");
    let mut counts = vec![0_usize; bins + 1];
    let bin = |at: BootInstant| at.since(start).as_millis() / BIN.as_millis();
    for read in &world.reads {
        counts[usize::try_from(bin(*read)).expect("few")] += 1;
    }
    let mean = world.reads.len() as f64 / bins as f64;
    let peak = *counts.iter().max().expect("bins") as f64;
    println!(
        "{what}: {} readings, {mean:.1} in a bin, peak {peak}",
        world.reads.len()
    );
    assert!(mean >= 15.0, "they contend: {mean}");
    assert!(peak <= 3.0 * mean, "{what}: peak {peak}, mean {mean:.1}");
}

#[test]
fn consul_9469_keepers_that_start_together_spread() {
    spread(&mut started(), "a start");
}

#[test]
fn consul_9469_keepers_that_hear_of_a_release_together_spread() {
    let mut world = started();
    world.smooth(5 * INTERVAL).expect("smooth");
    let [(leader, epoch)] = world.holding()[..] else {
        panic!("one leads");
    };
    world.owner_done(leader, epoch, None).expect("released");
    for keeper in 0..KEEPERS {
        world.run(&Op::Announce(keeper)).expect("announced");
    }
    spread(&mut world, "a release");
}

#[test]
fn consul_9469_keepers_that_wait_for_the_same_lapse_spread() {
    let mut world = started();
    world.smooth(5 * INTERVAL).expect("smooth");
    let [(leader, _)] = world.holding()[..] else {
        panic!("one leads");
    };
    world.run(&Op::Pause(leader, true)).expect("crashed");
    world
        .smooth(TTL + Duration::from_millis(100))
        .expect("smooth");
    spread(&mut world, "a crash");
}
