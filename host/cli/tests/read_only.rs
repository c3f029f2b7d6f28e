//! The commands that only look: what they say about captured clusters, and that
//! they change no byte of database or storage.

#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::Cluster;

const LOOKING: [&[&str]; 8] = [
    &["plan"],
    &["plan", "--json", "--all"],
    &["check"],
    &["check", "--json"],
    &["status"],
    &["lease", "show"],
    &["plugin", "list"],
    &["state", "--json"],
];

/// Which flags a command takes besides the database.
fn run(cluster: &Cluster, arguments: &[&str]) -> cluster::Ran {
    if matches!(arguments[0], "plan" | "check") {
        return cluster.run(arguments);
    }
    let meta = cluster.meta();
    let all: Vec<&str> = arguments.iter().copied().chain([meta.as_str()]).collect();
    cluster::run(cluster.path(), &all)
}

#[test]
fn looking_changes_no_byte() {
    for name in ["node-a", "store-b"] {
        let cluster = Cluster::unpack(name);
        let before = cluster.bytes();
        for arguments in LOOKING {
            run(&cluster, arguments).exits(0);
            let after = cluster.bytes();
            assert_eq!(
                before.keys().collect::<Vec<_>>(),
                after.keys().collect::<Vec<_>>(),
                "{name}: {arguments:?} made or removed a file"
            );
            assert!(before == after, "{name}: {arguments:?} changed a file");
        }
    }
}

#[test]
fn state_counts_a_captured_cluster() {
    let cluster = Cluster::unpack("store-b");
    let state = run(&cluster, &["state", "--json"]).exits(0).json();
    for (figure, expect) in [
        ("index", 2569),
        ("streams", 34),
        ("objects", 972),
        ("destroyed", 240),
        ("reservations", 60),
        ("lapsed_reservations", 50),
    ] {
        assert_eq!(state[figure], expect, "{figure}: {state:#}");
    }
}

#[test]
fn a_plan_lists_what_is_to_go_and_what_stays() {
    let cluster = Cluster::unpack("store-b");
    let plan = run(&cluster, &["plan", "--json"]).exits(0).json();
    let state = run(&cluster, &["state", "--json"]).exits(0).json();
    assert_eq!(plan["totals"]["expires"], 50);
    let marks = |operation: &str| state[format!("destroyed_{operation}")].as_u64().unwrap();
    // None of the objects is a composite: a DeepDelete takes the one object.
    let deleted = marks("delete") + marks("deep_delete");
    assert_eq!(plan["totals"]["deletes"], deleted);
    assert_eq!(plan["totals"]["cleans"], deleted + marks("keep_data"));
    assert_eq!(plan["totals"]["parked"], 0);
    let text = run(&cluster, &["plan"]).exits(0).says(&[
        "would delete the bytes of",
        "would expire 50 reservations",
        "more; --all lists them",
        "nothing was written",
    ]);
    assert!(text.stderr.is_empty(), "{text:#?}");
}

#[test]
fn a_pass_does_what_the_plan_says_and_a_second_one_nothing() {
    let cluster = Cluster::unpack("store-b");
    let plan = run(&cluster, &["plan", "--json", "--all"]).exits(0).json();
    let ran = cluster.run(&["run", "--until-idle", "--json"]).exits(0);
    let outcome = ran.json();
    assert_eq!(outcome["totals"]["deleted"], plan["totals"]["deletes"]);
    assert_eq!(outcome["totals"]["cleaned"], plan["totals"]["cleans"]);
    assert_eq!(outcome["totals"]["expired"], plan["totals"]["expires"]);
    assert_eq!(outcome["outcome"], "idle");
    let index = || run(&cluster, &["state", "--json"]).exits(0).json()["index"].clone();
    let before = index();
    cluster
        .run(&["run", "--until-idle"])
        .exits(0)
        .says(&["deleted 0 objects"]);
    assert_eq!(index(), before, "the second pass appended a row");
}

#[test]
fn a_released_lease_and_the_nodes_row_are_shown() {
    let cluster = Cluster::unpack("store-b");
    cluster
        .run(&["run", "--until-idle", "--node", "anna"])
        .exits(0);
    run(&cluster, &["lease", "show"])
        .exits(0)
        .says(&["free; released by anna-"]);
    run(&cluster, &["status"])
        .exits(0)
        .says(&["anna", "cleaner", "expired 50 reservations"]);
    let status = run(&cluster, &["status", "--json"]).exits(0).json();
    assert!(
        status["runs"]
            .as_array()
            .unwrap()
            .iter()
            .any(|run| run["plugin"] == "cleaner")
    );
    assert_eq!(status["leases"][0]["holder"], serde_json::Value::Null);
}

#[test]
fn the_lease_of_a_killed_picomq_node_is_named_as_one() {
    let cluster = Cluster::unpack("node-a");
    run(&cluster, &["lease", "show"])
        .exits(0)
        .says(&["(a PicoMQ node) let epoch"]);
}

#[test]
fn a_held_native_lease_is_a_warning_that_says_what_to_do() {
    let cluster = Cluster::unpack("node-a");
    cluster.sql("UPDATE meta_lease SET expires_at_ms = 4000000000000");
    run(&cluster, &["check"])
        .exits(0)
        .says(&["warn  lease", "run with --take-over"]);
    run(&cluster, &["check", "--take-over"])
        .exits(0)
        .says(&["everything is as it should be"]);
    cluster
        .run(&["run", "--until-idle", "--wait", "1s"])
        .exits(9)
        .says(&["the lease was not to be had", "node-"]);
}
