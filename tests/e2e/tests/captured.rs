//! The clusters that real PicoMQ code wrote: a plan, the pass it announces, and
//! every byte before and after.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::collections::BTreeSet;

use aedile_state::{Command, CompactRequest, NOOP, NodeId, ObjectId, Operation, State, StreamId};
use aedile_storage::{KeyKind, key_kind, object_key};
use aedile_tests_e2e::captured::{self, Captured};
use aedile_tests_e2e::ledger::{self, Ledger};
use aedile_tests_e2e::{binary, cluster, outside};
use serde_json::Value;

/// A cluster before and after a pass, and what was said about it.
struct Passed {
    plan: Value,
    outcome: Value,
    before: (State, Ledger),
    after: (State, Ledger),
}

/// Plan, then run one pass that must end with `code`; check that it did what
/// the plan lists, to the byte, and that a second pass does nothing.
async fn pass(captured: &Captured, code: i32) -> Passed {
    let url = captured.meta_url();
    let storage = captured.storage();
    let place = ["--meta-url", url.as_str(), "--storage", storage.as_str()];
    let (index, before) = {
        let mut raw = outside::connect(&url).await;
        let state = outside::state(&mut raw).await;
        let index = raw.last().await.unwrap();
        raw.close().await.unwrap();
        (index, (state, ledger::read(&captured.objects())))
    };

    let untouched = outside::files(captured.dir());
    let plan = binary::json_for(0, &[&["plan", "--json", "--all"], &place[..]].concat());
    assert_eq!(
        outside::files(captured.dir()),
        untouched,
        "plan changed something"
    );

    let run = [
        &["run", "--until-idle", "--json", "--ttl", "2s"],
        &place[..],
    ]
    .concat();
    let outcome = binary::json_for(code, &run);

    let mut raw = outside::connect(&url).await;
    let state = outside::state(&mut raw).await;
    let commands = outside::after(&mut raw, index).await;
    let last = raw.last().await.unwrap();
    let after = (state, ledger::read(&captured.objects()));

    // Bytes: what the plan lists is gone, and nothing else is different.
    let mut expected = before.1.clone();
    for delete in list(&plan, "deletes") {
        let key = delete["key"].as_str().unwrap();
        let there = expected.remove(key).is_some();
        assert_eq!(delete["bytes"].is_u64(), there, "{delete}");
    }
    assert!(
        expected == after.1,
        "other bytes than those of the plan changed"
    );

    // Marks and reservations: likewise, and each was cleaned by one command.
    let cleans = ids(&plan, "cleans");
    let marks = outside::marks(&before.0);
    assert_eq!(
        marks
            .difference(&outside::marks(&after.0))
            .copied()
            .collect::<BTreeSet<_>>(),
        cleans
    );
    let cleaned = outside::cleaned(&commands);
    assert_eq!(cleaned.keys().copied().collect::<BTreeSet<_>>(), cleans);
    assert!(cleaned.values().all(|&times| times == 1), "{cleaned:?}");
    let reserved = outside::reservations(&before.0);
    assert_eq!(
        reserved
            .difference(&outside::reservations(&after.0))
            .copied()
            .collect::<BTreeSet<_>>(),
        ids(&plan, "expires")
    );
    assert_eq!(outside::live(&after.0), outside::live(&before.0));
    let totals = &outcome["totals"];
    for (done, planned) in [
        ("deleted", "deletes"),
        ("cleaned", "cleans"),
        ("expired", "expires"),
    ] {
        assert_eq!(totals[done], plan["totals"][planned], "{done}");
        assert_eq!(
            totals[done].as_u64(),
            Some(list(&plan, planned).len() as u64),
            "{done}"
        );
    }
    if code == 7 {
        for left in ["parked", "conflicts"] {
            assert_eq!(ids(&outcome, left), ids(&plan, left), "{left}");
        }
    }

    // Once more: the same answer, no row, no byte.
    let again = binary::json_for(code, &run);
    assert_eq!(raw.last().await.unwrap(), last, "the second pass appended");
    assert_eq!(outside::state(&mut raw).await, after.0);
    assert!(
        ledger::read(&captured.objects()) == after.1,
        "the second pass changed bytes"
    );
    for done in ["deleted", "cleaned", "expired", "commands"] {
        assert_eq!(again["totals"][done], 0, "{done}");
    }
    Passed {
        plan,
        outcome,
        before,
        after,
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

fn ids(value: &Value, name: &str) -> BTreeSet<u64> {
    list(value, name)
        .iter()
        .map(|entry| entry["id"].as_u64().expect("an id"))
        .collect()
}

/// Marks by operation.
fn marked(state: &State, operation: Operation) -> BTreeSet<u64> {
    state
        .marks_after(None)
        .filter(|&(_, _, of)| of == operation)
        .map(|(_, id, _)| id.0)
        .collect()
}

/// Keys that no plan may ever name.
fn untouchable(ledger: &Ledger) -> BTreeSet<&String> {
    ledger
        .keys()
        .filter(|key| !matches!(key_kind(key), KeyKind::Data(_)))
        .collect()
}

/// The bytes of these objects, each of which must be there.
fn all_there(ledger: &Ledger, ids: &BTreeSet<u64>) {
    for &id in ids {
        assert!(
            ledger.contains_key(&object_key(id)),
            "the bytes of {id} are gone"
        );
    }
}

#[tokio::test]
async fn a_real_node_is_cleaned_to_the_byte() {
    let captured = Captured::unpack("node-a");
    let passed = pass(&captured, 0).await;
    assert_eq!(passed.outcome["outcome"], "idle");
    assert_eq!(passed.before.0.counts().marks, 12);
    assert_eq!(passed.after.0.counts().marks, 0);
    for id in outside::marks(&passed.before.0) {
        assert!(
            !passed.after.1.contains_key(&object_key(id)),
            "{id} is still there"
        );
    }
    all_there(&passed.after.1, &outside::live(&passed.after.0));
    // The node's own write-ahead log and index.
    assert!(
        untouchable(&passed.before.1).len() >= 2,
        "the capture holds a log and an index"
    );
    assert_eq!(untouchable(&passed.before.1), untouchable(&passed.after.1));
}

#[tokio::test]
async fn a_large_store_keeps_what_must_stay() {
    let captured = Captured::unpack("store-b");
    let passed = pass(&captured, 0).await;
    let (state, bytes) = &passed.after;
    let before = &passed.before.0;
    let deep = marked(before, Operation::DeepDelete);
    assert_eq!(deep.len(), 20);
    assert_eq!(state.counts().marks, 0);
    for id in marked(before, Operation::Delete).union(&deep).copied() {
        assert!(!bytes.contains_key(&object_key(id)), "{id} is still there");
    }
    let kept = marked(before, Operation::KeepData);
    assert_eq!(kept.len(), 20);
    all_there(bytes, &kept);
    let live = outside::live(state);
    assert_eq!(live.len(), 972);
    all_there(bytes, &live);
    // 50 of 60 reservations had lapsed; what was uploaded under 20 stays.
    let expired = ids(&passed.plan, "expires");
    assert_eq!(
        (expired.len(), outside::reservations(state).len()),
        (50, 10)
    );
    let abandoned = expired
        .iter()
        .filter(|&&id| bytes.contains_key(&object_key(id)));
    assert_eq!(abandoned.count(), 20);
    assert!(
        !untouchable(&passed.before.1).is_empty(),
        "the capture holds a foreign key"
    );
    assert_eq!(untouchable(&passed.before.1), untouchable(bytes));
}

#[tokio::test]
async fn composites_go_and_stay_as_their_capture_says() {
    let captured = Captured::unpack("store-c");
    let passed = pass(&captured, 0).await;
    let told: Value = serde_json::from_slice(&captured::fixture("store-c.json")).unwrap();
    let expect = |name: &str| -> BTreeSet<u64> {
        let list = told["expect_after_one_pass"][name].as_array().unwrap();
        list.iter().map(|id| id.as_u64().unwrap()).collect()
    };
    assert!(!expect("gone").is_empty() && !expect("there").is_empty());
    for id in expect("gone") {
        assert!(
            passed.before.1.contains_key(&object_key(id)),
            "{id} was never there"
        );
        assert!(
            !passed.after.1.contains_key(&object_key(id)),
            "{id} is still there"
        );
    }
    all_there(&passed.after.1, &expect("there"));
    assert_eq!(outside::marks(&passed.after.0), expect("queue"));
    // The parts of the DeepDelete, each listed with its composite.
    let parts: BTreeSet<(u64, u64)> = list(&passed.plan, "deletes")
        .iter()
        .filter_map(|delete| Some((delete["part_of"].as_u64()?, delete["id"].as_u64()?)))
        .collect();
    assert_eq!(parts, BTreeSet::from([(7, 4), (7, 5), (7, 6)]));
    assert_eq!(passed.outcome["totals"]["parts"], 3);
}

#[tokio::test]
async fn a_damaged_composite_stays_alone_and_goes_once_it_is_mended() {
    let captured = Captured::unpack("store-c");
    let path = captured.objects().join(object_key(7));
    let good = std::fs::read(&path).unwrap();
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 0xff;
    bad.truncate(bad.len() - 8);
    bad.extend(0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    bad[0] = 0;
    std::fs::write(&path, &bad).unwrap();
    let passed = pass(&captured, 7).await;
    assert_eq!(ids(&passed.outcome, "parked"), BTreeSet::from([7]));
    assert_eq!(outside::marks(&passed.after.0), BTreeSet::from([7]));
    all_there(&passed.after.1, &BTreeSet::from([4, 5, 6, 7]));
    for id in [11, 15] {
        assert!(
            !passed.after.1.contains_key(&object_key(id)),
            "{id} waited for another"
        );
    }
    std::fs::write(&path, &good).unwrap();
    let passed = pass(&captured, 0).await;
    for id in [4, 5, 6, 7] {
        assert!(
            !passed.after.1.contains_key(&object_key(id)),
            "{id} is still there"
        );
    }
}

#[tokio::test]
async fn a_mark_that_names_a_live_object_is_a_conflict() {
    let captured = Captured::unpack("node-a");
    let mut raw = outside::connect(&captured.meta_url()).await;
    let state = outside::state(&mut raw).await;
    // A compaction of one stream that names an object of another.
    let of = |skip: Option<StreamId>| {
        state
            .streams_after(None)
            .filter(|stream| Some(stream.id) != skip)
            .find_map(|stream| {
                let object = state.stream_objects_after(stream.id, None).next()?;
                Some((stream, object.id))
            })
            .expect("a stream with an object")
    };
    let (victim_stream, victim) = of(None);
    let (stream, _) = of(Some(victim_stream.id));
    let node = state.nodes_after(None).next().expect("a node");
    cluster::append(
        &mut raw,
        vec![compact(
            node.0,
            node.1.epoch,
            stream.id,
            stream.epoch,
            victim,
        )],
    )
    .await;
    let marked = outside::state(&mut raw).await;
    assert!(marked.is_live(victim) && marked.mark(victim).is_some());
    raw.close().await.unwrap();

    let passed = pass(&captured, 7).await;
    assert_eq!(ids(&passed.plan, "conflicts"), BTreeSet::from([victim.0]));
    assert_eq!(
        ids(&passed.outcome, "conflicts"),
        BTreeSet::from([victim.0])
    );
    assert_eq!(outside::marks(&passed.after.0), BTreeSet::from([victim.0]));
    all_there(&passed.after.1, &BTreeSet::from([victim.0]));
    // The other twelve went.
    assert_eq!(list(&passed.plan, "deletes").len(), 12);
}

fn compact(
    node: NodeId,
    node_epoch: i64,
    stream: StreamId,
    stream_epoch: i64,
    source: ObjectId,
) -> Command {
    Command::CompactStreamObject {
        node,
        node_epoch,
        now_ms: 0,
        request: CompactRequest {
            object: NOOP,
            object_size: 0,
            stream,
            stream_epoch: u64::try_from(stream_epoch).expect("an opened stream"),
            start_offset: 0,
            end_offset: 1,
            attributes: 0,
            sources: vec![source],
            operations: vec![Operation::Delete],
        },
    }
}

#[tokio::test]
async fn commands_that_look_change_nothing() {
    let captured = Captured::unpack("node-a");
    let url = captured.meta_url();
    let storage = captured.storage();
    let before = outside::files(captured.dir());
    let looks: [&[&str]; 8] = [
        &["plan", "--storage", &storage],
        &["check", "--storage", &storage],
        &["check", "--storage", &storage, "--json"],
        &["status"],
        &["status", "--json"],
        &["state"],
        &["lease", "show"],
        &["plugin", "list"],
    ];
    for look in looks {
        let text = binary::run_for(0, &[look, &["--meta-url", &url]].concat());
        assert!(!text.trim().is_empty(), "{look:?} says nothing");
        assert!(
            outside::files(captured.dir()) == before,
            "{look:?} changed something"
        );
    }
}
