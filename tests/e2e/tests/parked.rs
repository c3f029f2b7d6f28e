//! Objects that cannot be deleted: parked, kept across restarts, tried again
//! when an operator asks, or forgotten.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::collections::BTreeSet;

use aedile_state::{Command, CompactRequest, NOOP, NodeId, ObjectId, Operation, StreamId, Value};
use aedile_storage::object_key;
use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::site::{BOUND, Site};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{binary, cluster, outside};

/// A compaction of the site's stream: `object` in place of `sources`.
fn compact(object: ObjectId, attributes: u32, marks: &[(u64, Operation)]) -> Command {
    Command::CompactStreamObject {
        node: NodeId(1),
        node_epoch: 1,
        now_ms: 0,
        request: CompactRequest {
            object,
            object_size: 24,
            stream: StreamId(0),
            stream_epoch: 1,
            start_offset: 0,
            end_offset: 1,
            attributes,
            sources: marks.iter().map(|&(id, _)| ObjectId(id)).collect(),
            operations: marks.iter().map(|&(_, operation)| operation).collect(),
        },
    }
}

/// The bytes of a composite.
fn composite(links: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0x52];
    bytes.extend(u32::try_from(links.len()).unwrap().to_be_bytes());
    for link in links {
        bytes.extend(link.to_be_bytes());
        bytes.extend([0; 6]);
    }
    let position = bytes.len() as u64;
    bytes.extend([7; 36]);
    bytes.extend(position.to_be_bytes());
    bytes.extend(36_u32.to_be_bytes());
    bytes.extend([0; 28]);
    bytes.extend(0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    bytes
}

/// What is left of a composite's bytes.
type Left = fn(&[u8]) -> &[u8];

/// A site with a composite of two live objects, marked DeepDelete, whose own
/// bytes are damaged; the composite and its parts.
async fn damaged(kind: Kind, left: Left) -> (Site, u64, Vec<u64>) {
    let site = Site::new(kind, 8, 20).await;
    let parts = site.made.live[..2].to_vec();
    let mut raw = site.raw().await;
    let reserve = Command::PrepareObject {
        node: NodeId(1),
        node_epoch: 1,
        count: 1,
        ttl_ms: 3_600_000,
        now_ms: 0,
    };
    let mut state = outside::state(&mut raw).await;
    let Value::Id(id) = state.apply(&reserve).unwrap().value else {
        panic!("an id");
    };
    let keeps: Vec<(u64, Operation)> = parts
        .iter()
        .map(|&part| (part, Operation::KeepData))
        .collect();
    cluster::append(&mut raw, vec![reserve, compact(ObjectId(id), 1, &keeps)]).await;
    let deep = [(id, Operation::DeepDelete)];
    cluster::append(&mut raw, vec![compact(NOOP, 0, &deep)]).await;
    raw.close().await.unwrap();
    site.put(&object_key(id));
    write(&site, id, left(&composite(&parts)));
    (site, id, parts)
}

fn write(site: &Site, id: u64, bytes: &[u8]) {
    std::fs::write(site.objects().join(object_key(id)), bytes).unwrap();
}

fn parked(site: &Site) -> Vec<u64> {
    let list = binary::json_for(0, &["parked", "list", "--json", "--meta-url", site.url()]);
    let objects = list["parked"].as_array().unwrap();
    objects
        .iter()
        .map(|object| object["id"].as_u64().unwrap())
        .collect()
}

async fn marks(site: &Site) -> BTreeSet<u64> {
    let mut raw = site.raw().await;
    let marks = outside::marks(&outside::state(&mut raw).await);
    raw.close().await.unwrap();
    marks
}

fn has(site: &Site, id: u64) -> bool {
    site.objects().join(object_key(id)).exists()
}

/// Ask for something that must be taken.
fn ask(site: &Site, what: &[&str]) {
    binary::run_for(
        0,
        &[&["parked"], what, &["--meta-url", site.url()]].concat(),
    );
}

async fn a_parked_object_outlives_its_holder_and_goes_once_it_is_mended(kind: Kind, left: Left) {
    let (site, id, parts) = damaged(kind, left).await;
    let name = id.to_string();
    {
        let mut first = site.node("first", "2s", &[]);
        until("a parked object", BOUND, async || {
            (parked(&site) == [id]).then_some(())
        })
        .await;
        assert_eq!(first.stop(), Some(0));
    }
    // Nothing else waited for it, and nothing of it is gone.
    assert_eq!(marks(&site).await, BTreeSet::from([id]));
    assert!(has(&site, id) && parts.iter().all(|&part| has(&site, part)));
    let list = binary::json_for(0, &["parked", "list", "--json", "--meta-url", site.url()]);
    let entry = &list["parked"][0];
    assert_eq!(
        (&entry["operation"], &entry["tries"]),
        (&"deep-delete".into(), &3.into())
    );
    assert!(entry["since"].as_i64().unwrap() > 1_600_000_000_000);
    assert!(
        entry["reason"].as_str().unwrap().contains("cannot be read"),
        "{entry}"
    );

    // A successor leaves it alone, also with its bytes mended.
    write(&site, id, &composite(&parts));
    let mut raw = site.raw().await;
    let mut second = site.node("second", "2s", &[]);
    let other = site.made.live[4];
    cluster::destroyed(&mut raw, &[other]).await;
    until("another object's end", BOUND, async || {
        (!has(&site, other)).then_some(())
    })
    .await;
    assert!(has(&site, id), "a successor tried it by itself");
    assert_eq!(parked(&site), [id]);

    // A slip is refused; a retry that nobody leads for is done by the next.
    binary::run_for(2, &["parked", "retry", "999", "--meta-url", site.url()]);
    binary::run_for(2, &["parked", "retry", "--meta-url", site.url()]);
    assert_eq!(second.stop(), Some(0));
    ask(&site, &["retry", &name]);
    assert_eq!(parked(&site), [id]);
    let mut third = site.node("third", "2s", &[]);
    until("an empty queue", BOUND, async || {
        marks(&site).await.is_empty().then_some(())
    })
    .await;
    assert!(!has(&site, id) && parts.iter().all(|&part| !has(&site, part)));
    let empty = async || parked(&site).is_empty().then_some(());
    until("an empty list", BOUND, empty).await;
    assert_eq!(third.stop(), Some(0));
    let state = outside::state(&mut raw).await;
    assert_eq!(
        state.kv_scan("aedile/parked/", None).count(),
        0,
        "something is left in the map"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_object_outlives_its_holder_on_sqlite() {
    a_parked_object_outlives_its_holder_and_goes_once_it_is_mended(Kind::Sqlite, |bytes| {
        &bytes[1..]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_object_outlives_its_holder_on_postgres() {
    a_parked_object_outlives_its_holder_and_goes_once_it_is_mended(Kind::Postgres, |bytes| {
        &bytes[..bytes.len() - 1]
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_forgotten_leaves_its_bytes_and_only_by_an_express_word() {
    let (site, id, parts) = damaged(Kind::Sqlite, |bytes| &bytes[..9]).await;
    let name = id.to_string();
    let mut node = site.node("one", "2s", &[]);
    until("a parked object", BOUND, async || {
        (parked(&site) == [id]).then_some(())
    })
    .await;
    // A passing look, and a single pass, show it and leave it.
    let storage = site.storage();
    let place = ["--meta-url", site.url(), "--storage", &storage];
    let plan = binary::json_for(0, &[&["plan", "--json"], &place[..]].concat());
    assert_eq!(plan["parked"][0]["id"], id, "{plan}");

    let refused = binary::run(&["parked", "forget", &name, "--meta-url", site.url()]);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains(&object_key(id)) && said.contains("--leave-bytes"),
        "{said}"
    );
    assert_eq!(marks(&site).await, BTreeSet::from([id]));

    ask(&site, &["forget", &name, "--leave-bytes"]);
    until("an empty queue", BOUND, async || {
        marks(&site).await.is_empty().then_some(())
    })
    .await;
    assert!(has(&site, id) && parts.iter().all(|&part| has(&site, part)));
    assert_eq!(node.stop(), Some(0));
}
