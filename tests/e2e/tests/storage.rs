//! A store that is slow, refuses, or is the wrong one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::time::Duration;

use aedile_storage::{Credentials, DeleteOutcome, Store, StoreOptions, object_key};
use aedile_tests_contract::databases::Kind;
use aedile_tests_contract::s3::{self, ACCESS_KEY_ID, S3Server, SECRET_ACCESS_KEY};
use aedile_tests_e2e::binary::{self, Node};
use aedile_tests_e2e::captured::Captured;
use aedile_tests_e2e::site::{BOUND, Site, drained, leader, said};
use aedile_tests_e2e::wait::{clock, until};
use aedile_tests_e2e::{cluster, ledger, outside};

/// A site whose bytes are on a server.
async fn on_server(live: usize, marked: usize) -> (Site, S3Server) {
    let server = S3Server::start("records").await.unwrap();
    let site = Site::without_bytes(Kind::Sqlite, live, marked).await;
    for key in site.made.keys() {
        server.put(&key, &cluster::content(&key)).unwrap();
    }
    (site, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_object_that_cannot_go_does_not_delay_9999() {
    let site = Site::without_bytes(Kind::Sqlite, 16, 10_000).await;
    let stuck = site.made.marked[17];
    for &id in site.made.live.iter().chain(&site.made.marked) {
        if id == stuck {
            // A folder in its place, with something in it: no unlink takes it.
            let place = site.objects().join(object_key(id));
            std::fs::create_dir_all(place.join("kept")).unwrap();
        } else {
            site.put(&object_key(id));
        }
    }
    let clock = clock();
    let start = clock.boot();
    let args = ["run", "--until-idle", "--json", "--ttl", "2s"];
    let storage = site.storage();
    let place = ["--meta-url", site.url(), "--storage", &storage];
    let outcome = binary::json_for(5, &[&args[..], &place[..]].concat());
    println!(
        "9999 of 10000 objects gone in {:?}",
        clock.boot().since(start)
    );
    assert_eq!(outcome["totals"]["deleted"], 9999, "{outcome}");
    let failed = outcome["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["id"], stuck);
    assert!(!failed[0]["reason"].as_str().unwrap().is_empty());
    let mut raw = site.raw().await;
    let state = outside::state(&mut raw).await;
    assert_eq!(
        outside::marks(&state).into_iter().collect::<Vec<_>>(),
        [stuck]
    );
    let left = ledger::read(&site.objects());
    let live: Vec<String> = site.made.live.iter().map(|&id| object_key(id)).collect();
    assert!(left.keys().all(|key| live.contains(key)), "bytes are left");
    assert_eq!(left.len(), live.len(), "a live object is gone");
}

/// How many deletes PicoMQ's cleaner takes on at a time, and how long it gives
/// them: one after another, and if any fails or the time is up, none counts.
const NATIVE_BATCH: usize = 2000;
const NATIVE_LIMIT: Duration = Duration::from_secs(30);

/// PicoMQ's cleaner: how many marks it would clean of these objects.
async fn native(store: &Store, ids: &[u64], limit: Duration) -> usize {
    let clock = clock();
    let batch = &ids[..ids.len().min(NATIVE_BATCH)];
    let one_by_one = async {
        for &id in batch {
            let outcomes = store.delete(&[id], &|| Some(NATIVE_LIMIT)).await;
            if !matches!(
                outcomes[0].1,
                DeleteOutcome::Deleted | DeleteOutcome::Absent
            ) {
                return 0;
            }
        }
        batch.len()
    };
    clock.timeout(limit, one_by_one).await.unwrap_or(0)
}

fn serial_store(server: &S3Server) -> Store {
    let options = StoreOptions {
        credentials: Some(Credentials {
            access_key_id: ACCESS_KEY_ID.to_owned(),
            secret_access_key: SECRET_ACCESS_KEY.to_owned(),
            session_token: None,
        }),
        ..StoreOptions::default()
    };
    Store::open(&server.uri().parse().unwrap(), options, clock()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_store_does_not_keep_the_queue_from_moving() {
    let (site, server) = on_server(16, 3000).await;
    let latency = Duration::from_millis(20);
    server.faults().set_latency(latency);
    let stuck = site.made.marked[3];
    server.faults().deny([object_key(stuck)]);

    // PicoMQ's way, with the same object in its way: nothing is ever cleaned.
    // And without it: what a twentieth of its time does not do for a twentieth
    // of its batch, all of its time does not do for all of it.
    let store = serial_store(&server);
    assert_eq!(native(&store, &site.made.marked, NATIVE_LIMIT).await, 0);
    let twentieth = &site.made.marked[100..100 + NATIVE_BATCH / 20];
    assert_eq!(native(&store, twentieth, NATIVE_LIMIT / 20).await, 0);

    let clock = clock();
    let start = clock.boot();
    let before = server.faults().requests();
    let uri = server.uri();
    let args = [
        "run",
        "--until-idle",
        "--json",
        "--meta-url",
        site.url(),
        "--storage",
        &uri,
    ];
    let outcome = binary::json_with(5, &args, &server.environment());
    let took = clock.boot().since(start);
    let after = server.faults().requests();
    println!(
        "2999 of 3000 objects at {latency:?} a request: {took:?}, {} bulk deletes, {} reads",
        after.bulk - before.bulk,
        after.get - before.get,
    );
    assert_eq!(outcome["totals"]["cleaned"], 2999, "{outcome}");
    assert_eq!(outcome["failed"][0]["id"], stuck);
    // One after another, the deletes alone would take longer.
    assert!(took < latency * 3000, "{took:?}");
    assert!(after.bulk - before.bulk <= 10 && after.single == before.single);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_refuses_is_waited_for() {
    let (site, server) = on_server(40, 0).await;
    let uri = server.uri();
    let args = [
        "--meta-url",
        site.url(),
        "--storage",
        &uri,
        "--ttl",
        "2s",
        "--heartbeat",
        "1s",
    ];
    let a = Node::start_with("a", site.dir(), &args, &server.environment());
    let mut raw = site.raw().await;
    leader(&mut raw, &[&a], BOUND).await;
    said(&a, "leading").await;
    server
        .faults()
        .refuse(s3::Kind::Any, 403, "AccessDenied", usize::MAX);
    let marked = &site.made.live[20..];
    cluster::destroyed(&mut raw, marked).await;
    let index = raw.last().await.unwrap();
    // It tries, more than once, and says so.
    until("it tries again", BOUND, async || {
        (server.faults().requests().faulted >= 3).then_some(())
    })
    .await;
    until("it says what is wrong", BOUND, async || {
        let status = raw.texts("SELECT status FROM aedile_node").await.ok()?;
        let status = status.first()?.to_lowercase();
        (status.contains("denied") || status.contains("403")).then_some(())
    })
    .await;
    assert_eq!(raw.last().await.unwrap(), index, "something was cleaned");
    assert!(marked.iter().all(|&id| server.holds(&object_key(id))));

    server.faults().clear();
    let took = drained(&mut raw, BOUND).await;
    println!("drained {took:?} after the store had stopped refusing");
    assert!(marked.iter().all(|&id| !server.holds(&object_key(id))));
    assert!(
        site.made.live[..20]
            .iter()
            .all(|&id| server.holds(&object_key(id)))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_whose_bytes_will_not_shrink_is_said_by_check_log_and_status() {
    let (site, server) = on_server(16, 0).await;
    server.faults().set_versioning("Enabled");
    let uri = server.uri();
    let place = ["--meta-url", site.url(), "--storage", &uri];
    let check = [&["check", "--json"], &place[..]].concat();
    let found = binary::json_with(0, &check, &server.environment());
    let warned = |part: &str| {
        let items = found["items"].as_array().unwrap();
        items
            .iter()
            .any(|item| item["state"] == "warn" && item["text"].as_str().unwrap().contains(part))
    };
    assert!(warned("bytes will not shrink"), "{found}");
    let node = [&place[..], &["--ttl", "2s", "--heartbeat", "1s"]].concat();
    let a = Node::start_with("a", site.dir(), &node, &server.environment());
    said(&a, "bytes will not shrink").await;
    let status = ["status", "--meta-url", site.url()];
    until("status says it", BOUND, async || {
        let text = binary::run_for(0, &status);
        text.contains("bytes will not shrink").then_some(())
    })
    .await;
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (0, 0), "a marker is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_bulk_deletes_are_said_and_single_ones_do() {
    let (site, server) = on_server(16, 30).await;
    server
        .faults()
        .refuse(s3::Kind::Bulk, 501, "NotImplemented", usize::MAX);
    let uri = server.uri();
    let place = ["--meta-url", site.url(), "--storage", &uri];
    let check = [&["check"], &place[..]].concat();
    let output = binary::run_with(&check, &server.environment());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("refuses bulk deletes"), "{text}");
    assert!(server.faults().asked().is_empty());

    let run = [&["run", "--until-idle", "--json"], &place[..]].concat();
    let outcome = binary::json_with(0, &run, &server.environment());
    assert_eq!(outcome["totals"]["cleaned"], 30, "{outcome}");
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (2, 30), "asked at start");
    let gone = |id: &u64| !server.holds(&object_key(*id));
    assert!(site.made.marked.iter().all(gone));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_rate_makes_requests_small() {
    let (site, server) = on_server(16, 200).await;
    let uri = server.uri();
    let place = ["--meta-url", site.url(), "--storage", &uri];
    let run = ["run", "--until-idle", "--json", "--delete-rate", "500"];
    let run = [&run[..], &place[..]].concat();
    let outcome = binary::json_with(0, &run, &server.environment());
    assert_eq!(outcome["totals"]["cleaned"], 200, "{outcome}");
    // The first asks for one key of nobody's; a tenth of a second's keys each.
    assert_eq!(server.faults().bulk_sizes(), [1, 50, 50, 50, 50]);
}

#[tokio::test]
async fn in_the_wrong_bucket_nothing_is_deleted_nor_cleaned() {
    let captured = Captured::unpack("store-b");
    let empty = captured.dir().join("elsewhere");
    std::fs::create_dir(&empty).unwrap();
    let url = captured.meta_url();
    let storage = format!("-2@file://{}", empty.display());
    let place = ["--meta-url", url.as_str(), "--storage", storage.as_str()];
    let mut raw = outside::connect(&url).await;
    let before = outside::state(&mut raw).await;
    let bytes = ledger::read(&captured.objects());
    for command in [
        &["plan"][..],
        &["run", "--until-idle", "--ttl", "2s"],
        &["check"],
    ] {
        let output = binary::run(&[command, &place[..]].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(5), "{command:?}: {said}");
        assert!(said.contains("wrong bucket"), "{command:?}: {said}");
        assert!(
            said.contains("--storage"),
            "{command:?} does not say what to do: {said}"
        );
    }
    let after = outside::state(&mut raw).await;
    assert_eq!(outside::marks(&after), outside::marks(&before));
    assert_eq!(outside::live(&after), outside::live(&before));
    assert!(ledger::read(&captured.objects()) == bytes);
}

/// One pass over 100 000 marks, of which so many are locked: what was cleaned,
/// and what was asked of the store.
async fn requests_for(locked: usize) -> (u64, usize) {
    const MARKS: usize = 100_000;
    let server = S3Server::start("records").await.unwrap();
    let site = Site::without_bytes(Kind::Sqlite, 16, MARKS).await;
    // The bytes of what is marked are of no account here: a store confirms the
    // end of what is not there as well.
    for &id in &site.made.live {
        let key = object_key(id);
        server.put(&key, &cluster::content(&key)).unwrap();
    }
    let step = MARKS / locked.max(1);
    let stuck = site.made.marked.iter().step_by(step).take(locked);
    server.faults().deny(stuck.map(|&id| object_key(id)));
    let before = server.faults().requests();
    let uri = server.uri();
    let args = [
        "run",
        "--until-idle",
        "--json",
        "--meta-url",
        site.url(),
        "--storage",
        &uri,
    ];
    let code = if locked == 0 { 0 } else { 5 };
    let outcome = binary::json_with(code, &args, &server.environment());
    let after = server.faults().requests();
    let count = |requests: aedile_tests_contract::s3::Requests| {
        requests.bulk + requests.single + requests.get + requests.head
    };
    let cleaned = outcome["totals"]["cleaned"].as_u64().unwrap();
    println!("{locked} locked: {cleaned} cleaned, {after:?}");
    (cleaned, count(after) - count(before))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ravel_1694_one_in_a_hundred_that_is_locked_costs_the_others_nothing() {
    let (cleaned, clean) = requests_for(0).await;
    assert_eq!(cleaned, 100_000);
    let (cleaned, locked) = requests_for(1000).await;
    assert_eq!(cleaned, 99_000);
    // A look at the store, and a request for each thousand.
    assert!(clean <= 130, "{clean} requests");
    assert!(
        locked * 10 <= clean * 11,
        "{locked} requests instead of {clean}"
    );
}
