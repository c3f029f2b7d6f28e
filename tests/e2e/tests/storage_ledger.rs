//! After a pass of all four plugins the store holds exactly what the catalog and
//! its composites reach, and what is not the catalog's at all: byte for byte.
//!
//! What must remain is computed here from the state as PicoMQ's own decoder
//! wrote it down, and from the objects' bytes, by a few naive lines that share
//! nothing with the product.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use aedile_tests_contract::databases::{Database, Kind};
use aedile_tests_e2e::captured::{Captured, fixture};
use aedile_tests_e2e::ledger::{self, Ledger};
use aedile_tests_e2e::{binary, outside};
use serde_json::Value;
use tempfile::TempDir;

/// Keys that are not the catalog's, as PicoMQ and others lay them out, and some
/// that nearly are.
const OTHERS: [&str; 8] = [
    "C4CA4238A0B923820DCC509A6F75849B/_kafka_picomq/1/1796191747112/wal/0-67108864",
    "52674dec/DEFAULT/node-1",
    "__pico/readiness_check/4711",
    "aedile/modules/00ff",
    "10000000/DEFAULT/01",
    "20000000/DEFAULT/1",
    "10000000/DEFAULT/1#0",
    "backup/notes.txt",
];

/// The key of a data object, after the format's own description.
fn key(id: u64) -> String {
    let digits: String = format!("{id:08x}").chars().rev().collect();
    format!("{digits}/DEFAULT/{id}")
}

/// The id of which a key is the data object's, if of any.
fn id_of(name: &str) -> Option<u64> {
    let id = name.rsplit('/').next()?.parse().ok()?;
    (key(id) == name).then_some(id)
}

/// What an object's bytes link; none if it is no composite.
fn links(bytes: &[u8]) -> Option<Vec<u64>> {
    if !bytes.ends_with(&0x88E2_41B7_85F4_CFF8_u64.to_be_bytes()) || bytes[0] != 0x52 {
        return None;
    }
    let count = u32::from_be_bytes(bytes[1..5].try_into().unwrap());
    let entries = bytes[5..].chunks(14).take(count as usize);
    Some(
        entries
            .map(|entry| u64::from_be_bytes(entry[..8].try_into().unwrap()))
            .collect(),
    )
}

/// The bytes of a composite of these objects.
fn composite(parts: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0x52];
    bytes.extend(u32::try_from(parts.len()).unwrap().to_be_bytes());
    for part in parts {
        bytes.extend(part.to_be_bytes());
        bytes.extend(0_u32.to_be_bytes());
        bytes.extend((-2_i16).to_be_bytes());
    }
    let position = bytes.len() as u64;
    bytes.extend([7; 36]);
    bytes.extend(position.to_be_bytes());
    bytes.extend(36_u32.to_be_bytes());
    bytes.extend([0; 28]);
    bytes.extend(0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    bytes
}

/// The bytes of a plain object.
fn plain(id: u64) -> Vec<u8> {
    format!("object {id} ").repeat(20).into_bytes()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {value}"))
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// What the catalog must hold in the end.
#[derive(Debug, Default)]
struct Expected {
    live: BTreeSet<u64>,
    reserved: BTreeSet<u64>,
    next: u64,
}

/// Live objects that are not trimmed away, and reservations that have not
/// lapsed, of a state that PicoMQ wrote down. All marks go.
fn expected(state: &Value, now: i64) -> Expected {
    let starts: BTreeMap<u64, u64> = list(state, "streams")
        .iter()
        .map(|stream| (number(stream, "stream_id"), number(stream, "start_offset")))
        .collect();
    let of_streams = list(state, "stream_objects").iter().filter(|object| {
        let range = &object["offset_ranges"][0];
        let start = range[0].as_u64().and_then(|stream| starts.get(&stream));
        let end = range[2].as_u64().unwrap();
        start.is_none_or(|start| end > *start)
    });
    let of_sets = list(state, "stream_set_objects").iter();
    let of_sets = of_sets.map(|entry| &entry["object"]);
    let reserved = list(state, "prepared")
        .iter()
        .filter(|entry| entry[1].as_i64().unwrap() > now)
        .map(|entry| entry[0].as_u64().unwrap());
    Expected {
        live: of_streams
            .chain(of_sets)
            .map(|object| number(object, "object_id"))
            .collect(),
        reserved: reserved.collect(),
        next: number(state, "next_object_id"),
    }
}

/// The keys that must remain of those that are there.
fn must_remain(root: &Path, there: &Ledger, expected: &Expected) -> BTreeSet<String> {
    let mut reached: BTreeSet<u64> = &expected.live | &expected.reserved;
    for &id in &expected.live {
        let bytes = std::fs::read(root.join(key(id))).unwrap_or_else(|error| {
            panic!("the live object {id} is not there before the pass: {error}")
        });
        reached.extend(links(&bytes).unwrap_or_default());
    }
    there
        .keys()
        .filter(|name| id_of(name).is_none_or(|id| id >= expected.next || reached.contains(&id)))
        .cloned()
        .collect()
}

/// A store to run a pass on.
struct Place<'a> {
    meta_url: String,
    storage: String,
    /// Where its bytes lie.
    root: PathBuf,
    /// Variables that the binary needs for it.
    variables: &'a [(&'a str, &'a str)],
    more: &'a [&'a str],
}

fn now() -> i64 {
    aedile_tests_e2e::wait::clock().unix().0
}

/// Plan, pass, pass again; everything is compared with what must remain.
async fn balance(place: Place<'_>, expected: Expected) -> (Ledger, Ledger) {
    let before = ledger::read(&place.root);
    let keep = must_remain(&place.root, &before, &expected);
    let go: BTreeSet<String> = before
        .keys()
        .filter(|name| !keep.contains(*name))
        .cloned()
        .collect();
    let common = [
        &[
            "--json",
            "--meta-url",
            &place.meta_url,
            "--storage",
            &place.storage,
            "--enable",
            "orphans,trimmed",
            "--orphan-grace",
            "0s",
        ][..],
        place.more,
    ]
    .concat();
    let mut raw = outside::connect(&place.meta_url).await;
    let index = raw.last().await.unwrap();

    let plan = binary::json_with(
        0,
        &[&["plan", "--all"], &common[..]].concat(),
        place.variables,
    );
    let planned: BTreeSet<String> = list(&plan, "deletes")
        .iter()
        .filter(|delete| delete["bytes"].is_u64())
        .map(|delete| delete["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(planned, go, "what the plan lists is not what must go");
    assert_eq!(raw.last().await.unwrap(), index, "the plan appended");
    assert!(
        ledger::read(&place.root) == before,
        "the plan changed bytes"
    );

    let run = [&["run", "--until-idle", "--ttl", "2s"], &common[..]].concat();
    let outcome = binary::json_with(0, &run, place.variables);
    assert_eq!(outcome["outcome"], "idle", "{outcome}");
    let after = ledger::read(&place.root);
    let remains: BTreeSet<String> = after.keys().cloned().collect();
    assert_eq!(
        remains.difference(&keep).collect::<Vec<_>>(),
        [""; 0],
        "nothing reaches these, and they are still there"
    );
    assert_eq!(
        keep.difference(&remains).collect::<Vec<_>>(),
        [""; 0],
        "these must remain, and are gone"
    );
    let same = after.iter().all(|(name, hash)| before[name] == *hash);
    assert!(same, "bytes that remain are other bytes");

    let state = outside::state(&mut raw).await;
    assert_eq!(outside::marks(&state), BTreeSet::new());
    assert_eq!(outside::live(&state), expected.live);
    assert_eq!(outside::reservations(&state), expected.reserved);
    let last = raw.last().await.unwrap();
    binary::json_with(0, &run, place.variables);
    assert_eq!(raw.last().await.unwrap(), last, "a second pass appended");
    assert!(
        ledger::read(&place.root) == after,
        "a second pass changed bytes"
    );
    raw.close().await.unwrap();
    (before, after)
}

fn stated(name: &str) -> Value {
    serde_json::from_slice(&fixture(&format!("{name}.json"))).unwrap()
}

/// The place of a capture whose object directory was captured too.
fn archived(captured: &Captured) -> Place<'static> {
    Place {
        meta_url: captured.meta_url(),
        storage: captured.storage(),
        root: captured.objects(),
        variables: &[],
        more: &[],
    }
}

#[tokio::test]
async fn a_real_node_balances() {
    let captured = Captured::unpack("node-a");
    let expected = expected(&stated("node-a"), now());
    let (before, after) = balance(archived(&captured), expected).await;
    assert_eq!((before.len(), after.len()), (51, 39));
}

/// Ids that a real node had uploaded and not deleted when it was captured: all
/// that were reserved, but those whose bytes its own cleaner had deleted.
fn uploaded(stated: &Value) -> BTreeSet<u64> {
    let mut ids: BTreeSet<u64> = (0..number(&stated["final_state"], "next_object_id")).collect();
    let mut marks: BTreeMap<u64, &str> = BTreeMap::new();
    for command in list(stated, "log")
        .iter()
        .flat_map(|row| list(row, "commands"))
    {
        match command["name"].as_str().unwrap() {
            "CompactStreamObject" => {
                let sources = list(command, "source_object_ids");
                for (source, operation) in sources.iter().zip(list(command, "operations")) {
                    marks.insert(source.as_u64().unwrap(), operation.as_str().unwrap());
                }
            }
            "CleanDestroyedObjects" => {
                for id in list(command, "object_ids") {
                    let id = id.as_u64().unwrap();
                    // A stream that was deleted marks its objects Delete.
                    if marks.get(&id) != Some(&"KeepData") {
                        ids.remove(&id);
                    }
                }
            }
            _ => {}
        }
    }
    ids
}

/// What every composite of a log was made of.
fn composites(stated: &Value) -> BTreeMap<u64, Vec<u64>> {
    list(stated, "log")
        .iter()
        .flat_map(|row| list(row, "commands"))
        .filter(|command| command["name"] == "CompactStreamObject")
        .filter(|command| number(command, "attributes") & 3 == 1)
        .map(|command| {
            let sources = list(command, "source_object_ids").iter();
            let sources = sources.map(|id| id.as_u64().unwrap());
            (number(command, "object_id"), sources.collect())
        })
        .collect()
}

/// An object directory as it must have been, with keys of others in it.
fn made(root: &Path, stated: &Value, besides: &[u64]) {
    let composites = composites(stated);
    let next = number(&stated["final_state"], "next_object_id");
    let write = |name: &str, bytes: &[u8]| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let ids = uploaded(stated);
    // One that another node uploads under an id that this state has not given
    // out yet.
    for id in ids.into_iter().chain([next]).chain(besides.iter().copied()) {
        let bytes = composites
            .get(&id)
            .map_or(plain(id), |parts| composite(parts));
        write(&key(id), &bytes);
    }
    for name in OTHERS {
        write(name, name.as_bytes());
    }
}

/// A real node's capture on SQLite, with the objects that it must have had.
async fn real(name: &'static str, besides: &[u64], more: &[&str]) -> (Ledger, Ledger) {
    let captured = Captured::unpack(name);
    let stated = stated(name);
    made(&captured.objects(), &stated, besides);
    let place = Place {
        more,
        ..archived(&captured)
    };
    balance(place, expected(&stated["final_state"], now())).await
}

#[tokio::test]
async fn a_real_node_with_marks_and_a_snapshot_balances() {
    real("real-a2-destroyed", &[], &[]).await;
    real("real-b3-before-snapshot", &[], &[]).await;
}

#[tokio::test]
async fn a_real_compaction_and_a_covering_trim_balance() {
    let (before, after) = real("real-c1-compaction", &[], &[]).await;
    // Trimmed away: PicoMQ's own clean-up request was rejected twice.
    assert!(before.contains_key(&key(8)) && !after.contains_key(&key(8)));
}

#[tokio::test]
async fn the_parts_of_a_real_composite_that_leaked_go() {
    // Nothing is live any more: the operator says that it is the right store.
    let more = ["--confirm-empty-store"];
    let (before, after) = real("real-d1-composite-leak", &[], &more).await;
    for id in [19, 20, 21] {
        assert!(before.contains_key(&key(id)) && !after.contains_key(&key(id)));
    }
    assert_eq!(after.len(), OTHERS.len() + 1);
    // And had its own bytes stayed as well, they would go with them.
    let (before, after) = real("real-d1-composite-leak", &[22], &more).await;
    assert!(before.contains_key(&key(22)) && after.len() == OTHERS.len() + 1);
}

#[tokio::test]
async fn two_real_nodes_on_postgres_balance() {
    let database = Database::create(Kind::Postgres).await.unwrap();
    let stated = stated("real-e1-postgres");
    let mut raw = database.raw().await.unwrap();
    raw.make_tables().await.unwrap();
    raw.run("DELETE FROM meta_lease").await.unwrap();
    let dump = String::from_utf8(fixture("real-e1-postgres.sql")).unwrap();
    let rows: Vec<&str> = dump
        .lines()
        .filter(|line| line.starts_with("INSERT INTO public.meta_"))
        .collect();
    assert_eq!(rows.len(), 93);
    for row in rows {
        raw.run(row).await.unwrap();
    }
    raw.close().await.unwrap();
    let dir = TempDir::new().unwrap();
    made(dir.path(), &stated, &[]);
    let place = Place {
        meta_url: database.url(),
        storage: format!("-2@file://{}", dir.path().display()),
        root: dir.path().to_owned(),
        variables: &[],
        more: &[],
    };
    balance(place, expected(&stated["final_state"], now())).await;
}
