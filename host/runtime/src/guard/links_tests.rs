//! The index of links: what is asked for, what counts, what is held back.

use aedile_clock::BootInstant;
use aedile_state::{ObjectId, Operation};
use aedile_storage::Composite;

use super::LinkIndex;
use super::links::Look;
use super::testing::World;
use super::testing::ids;

fn at(seconds: u64) -> BootInstant {
    BootInstant::from_boot(std::time::Duration::from_secs(seconds))
}

fn unreadable() -> Composite {
    Composite::Unreadable("cut short".to_owned())
}

#[test]
fn a_live_composite_is_asked_for_until_it_is_read() {
    let mut world = World::new();
    let (composite, parts) = world.composite();
    let mut links = LinkIndex::default();
    assert_eq!(links.missing(&world.state, at(0)), [composite]);
    links.record(&world.state, composite, unreadable(), at(0));
    let doubt = links.doubt(&world.state).expect("not known");
    assert!(doubt.contains(&composite.to_string()) && doubt.contains("cut short"));
    // Not for each chunk, but again after a while.
    assert_eq!(links.missing(&world.state, at(29)), []);
    assert_eq!(links.missing(&world.state, at(30)), [composite]);
    links.record(
        &world.state,
        composite,
        Composite::Links(ids(&parts)),
        at(30),
    );
    assert_eq!(links.doubt(&world.state), None);
    assert_eq!(links.missing(&world.state, at(99)), []);
    for &part in &parts {
        assert_eq!(links.linked_by(&world.state, part), Some(composite));
    }
    // A composite whose bytes are a plain object's is not read.
    let (damaged, _) = world.composite();
    links.record(&world.state, damaged, Composite::Plain, at(0));
    assert!(matches!(links.known(damaged), Some(Look::Unreadable(_))));
}

#[test]
fn an_unreadable_composite_holds_back_only_what_may_be_its_part() {
    let mut world = World::new();
    let older_dead = world.marked(1, Operation::Delete)[0];
    let older_live = world.objects(1)[0];
    let (composite, parts) = world.composite();
    let mut links = LinkIndex::default();
    links.record(&world.state, composite, unreadable(), at(0));
    let younger = world.marked(1, Operation::Delete)[0];
    world.compact(&[older_live], &[Operation::Delete]);
    // A later look must not move the view beside which it was found so.
    links.record(&world.state, composite, unreadable(), at(60));
    let held = |id| links.holds_back(&world.state, id).is_some();
    assert!(held(older_dead), "it was dead when the composite was found");
    for &part in &parts {
        assert!(held(part), "{part} is a part");
    }
    assert!(!held(older_live), "it was live beside the composite");
    assert!(!held(younger), "it is younger than the composite");
    // Once the composite is gone, nothing reads its parts.
    world.compact(&[composite], &[Operation::Delete]);
    assert_eq!(links.holds_back(&world.state, older_dead), None);
    assert_eq!(links.doubt(&world.state), None);
}

#[test]
fn a_shared_part_is_left_to_whoever_still_counts() {
    let mut world = World::new();
    let (a, parts) = world.composite();
    let (b, _) = world.composite();
    let (c, _) = world.composite();
    let part = parts[0];
    let mut links = LinkIndex::default();
    for composite in [a, b, c] {
        let found = Composite::Links(vec![part.0, part.0]);
        links.record(&world.state, composite, found, at(0));
    }
    let all = [
        Operation::DeepDelete,
        Operation::DeepDelete,
        Operation::Delete,
    ];
    world.compact(&[a, b, c], &all);
    let left = |going: &[ObjectId]| links.left_to(&world.state, part, |id| going.contains(&id));
    assert_eq!(left(&[a]), Some(b));
    assert_eq!(left(&[b]), Some(a));
    // A plain Delete takes no parts, and protects none.
    assert_eq!(left(&[a, b]), None);
    assert_eq!(links.linked_by(&world.state, part), None);
}

#[test]
fn what_is_gone_is_forgotten() {
    let mut world = World::new();
    let (kept, parts) = world.composite();
    let mut links = LinkIndex::default();
    links.record(&world.state, kept, Composite::Links(ids(&parts)), at(0));
    for id in 1_000_000..1_010_000 {
        let found = Composite::Links(vec![parts[0].0]);
        links.record(&world.state, ObjectId(id), found, at(0));
    }
    links.forget_gone(&world.state);
    assert_eq!(links.known(ObjectId(1_000_000)), None);
    assert_eq!(links.linked_by(&world.state, parts[0]), Some(kept));
}
