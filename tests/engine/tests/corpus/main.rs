//! Every guest, and how it ends.

mod builtin;
mod contained;
mod in_flight;
mod refused;

use aedile_tests_engine::guests;

/// The guest `name` is tested by the function `name`.
#[test]
fn every_guest_has_a_test_and_every_test_a_guest() {
    let sources = [
        include_str!("contained.rs"),
        include_str!("in_flight.rs"),
        include_str!("refused.rs"),
    ];
    let guests = guests();
    let tests: Vec<&str> = sources
        .iter()
        .flat_map(|source| source.split("#[tokio::test]\nasync fn ").skip(1))
        .filter_map(|rest| rest.split_once('('))
        .map(|(name, _)| name)
        .collect();
    let untested: Vec<&String> = guests
        .iter()
        .filter(|guest| !tests.contains(&guest.as_str()))
        .collect();
    assert!(untested.is_empty(), "guests without a test: {untested:?}");
    assert!(guests.len() >= 60, "{} guests", guests.len());
}
