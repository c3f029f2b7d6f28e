//! Running the checker: all of a sound world, or a broken one up to its fault.

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};
use std::hash::Hash;

use stateright::{Checker as _, HasDiscoveries, Model};

/// Explore every state; every property has to hold and everything that should
/// happen has to happen. The number of states.
///
/// # Panics
/// If the space was not exhausted, or a property does not hold.
pub fn exhaust<M>(what: &str, model: M) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model.checker().spawn_dfs().join();
    for (name, path) in checker.discoveries() {
        let failed = checker.discovery_classification(name).to_string() == "counterexample";
        assert!(
            !failed,
            "{what}: not so: {name}\n{}\n{:#?}",
            told(&path.clone().into_actions()),
            path.last_state()
        );
    }
    checker.assert_properties();
    assert!(checker.is_done(), "{what}: not every state was looked at");
    let states = checker.unique_state_count();
    println!(
        "{what}: {states} states, each looked at, depth {}",
        checker.max_depth()
    );
    states
}

/// Find the shortest way in which this property fails, and show it.
///
/// # Panics
/// If the property holds, or there is none of that name.
pub fn refute<M>(what: &str, property: &'static str, model: M) -> Vec<M::Action>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let wanted = HasDiscoveries::AllOf(BTreeSet::from([property]));
    let _ = model.property(property);
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    let states = checker.unique_state_count();
    let path = checker.discovery(property);
    assert!(
        path.is_some(),
        "{what}: nothing broke \"{property}\" in {states} states"
    );
    let holds = checker.model().property(property).condition;
    // What the checker gives may go on behind the fault.
    let steps = path.map(stateright::Path::into_vec).unwrap_or_default();
    let up_to = steps
        .iter()
        .take_while(|(state, _)| holds(checker.model(), state));
    let actions: Vec<_> = up_to.filter_map(|(_, action)| action.clone()).collect();
    println!(
        "{what} breaks \"{property}\" ({states} states):\n{}",
        told(&actions)
    );
    actions
}

fn told<A: Debug>(actions: &[A]) -> String {
    let mut told = String::new();
    for (step, action) in actions.iter().enumerate() {
        let _ = writeln!(told, "  {:>3}. {action:?}", step + 1);
    }
    told
}
