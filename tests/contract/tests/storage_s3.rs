//! Deleting from and reading a real S3 service that fails in every way.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use aedile_storage::{Composite, Credentials, DeleteOutcome, Store, StoreOptions, object_key};
use aedile_tests_contract::s3::{ACCESS_KEY_ID, BulkBody, Kind, S3Server, SECRET_ACCESS_KEY};

fn clock() -> SharedClock {
    Arc::new(SystemClock)
}

fn options() -> StoreOptions {
    StoreOptions {
        request_timeout: Duration::from_secs(20),
        read_retries: 0,
        credentials: Some(Credentials {
            access_key_id: ACCESS_KEY_ID.into(),
            secret_access_key: SECRET_ACCESS_KEY.into(),
            session_token: None,
        }),
        ..StoreOptions::default()
    }
}

fn open(uri: &str, options: StoreOptions) -> Store {
    Store::open(&uri.parse().expect("a URI"), options, clock()).expect("it opens")
}

/// A server with these objects, and the store on it.
async fn with(ids: Range<u64>) -> (S3Server, Store) {
    let server = S3Server::start("objects").await.expect("a server");
    for id in ids {
        server.put(&object_key(id), b"bytes").expect("an object");
    }
    let store = open(&server.uri(), options());
    (server, store)
}

fn ids(range: Range<u64>) -> Vec<u64> {
    range.collect()
}

const OPEN: fn() -> Option<Duration> = || Some(Duration::from_secs(60));

fn count(outcomes: &[(u64, DeleteOutcome)], of: impl Fn(&DeleteOutcome) -> bool) -> usize {
    outcomes.iter().filter(|(_, outcome)| of(outcome)).count()
}

fn deleted(outcomes: &[(u64, DeleteOutcome)]) -> usize {
    count(outcomes, |outcome| *outcome == DeleteOutcome::Deleted)
}

fn held(server: &S3Server, range: Range<u64>) -> usize {
    range.filter(|id| server.holds(&object_key(*id))).count()
}

#[tokio::test]
async fn many_objects_go_with_few_requests() {
    let (server, store) = with(0..250).await;
    // Not in order, and one of them twice.
    let mut asked: Vec<u64> = (0..2_500).rev().collect();
    asked.push(7);
    let outcomes = store.delete(&asked, &OPEN).await;
    let order: Vec<u64> = outcomes.iter().map(|(id, _)| *id).collect();
    assert_eq!(order, asked, "one outcome an id, in the order given");
    assert_eq!(deleted(&outcomes), 2_501, "{outcomes:?}");
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (3, 0));
    assert_eq!(held(&server, 0..250), 0);
    server.stop().await;
}

#[tokio::test]
async fn three_denied_keys_leave_the_others_deleted() {
    let (server, store) = with(0..1_000).await;
    server.faults().deny([3, 500, 999].map(object_key));
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 997);
    for (id, outcome) in outcomes {
        match (id, outcome) {
            (3 | 500 | 999, DeleteOutcome::Denied(reason)) => {
                assert!(
                    reason.contains("AccessDenied") && reason.contains("object lock"),
                    "{reason}"
                );
            }
            (3 | 500 | 999, other) => panic!("{id}: {other:?}"),
            (_, outcome) => assert_eq!(outcome, DeleteOutcome::Deleted),
        }
    }
    assert_eq!(held(&server, 0..1_000), 3);
    assert_eq!(server.faults().requests().bulk, 1);
    server.stop().await;
}

#[tokio::test]
async fn one_key_that_spoils_its_request_does_not_hold_the_others() {
    let (server, store) = with(0..200).await;
    server.faults().poison([object_key(77)]);
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 999);
    assert!(matches!(&outcomes[77], (77, DeleteOutcome::Denied(_))));
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (1, 1_000));
    assert!(
        store.traits().bulk_delete,
        "the next chunk goes in bulk again"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_unavailable_service_throttles_and_is_not_asked_on_and_on() {
    let (server, store) = with(0..10).await;
    server
        .faults()
        .refuse(Kind::Any, 503, "SlowDown", usize::MAX);
    let outcomes = store.delete(&ids(0..10_000), &OPEN).await;
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::Throttled), 10_000);
    let requests = server.faults().requests();
    assert!((4..=8).contains(&requests.bulk), "{requests:?}");
    assert_eq!(requests.single, 0);
    assert!(store.traits().pace < 0.2);

    server.faults().clear();
    let outcomes = store.delete(&ids(0..10_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 10_000, "it recovers at once");
    server.stop().await;
}

#[tokio::test]
async fn one_throttled_request_is_made_up_for_in_the_next_call() {
    let (server, store) = with(0..0).await;
    server.faults().refuse(Kind::Bulk, 503, "SlowDown", 1);
    let outcomes = store.delete(&ids(0..3_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 2_000);
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::Throttled), 1_000);
    assert_eq!(server.faults().requests().faulted, 1);
    let outcomes = store.delete(&ids(0..3_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 3_000);
    server.stop().await;
}

#[tokio::test]
async fn a_failed_request_is_charged_to_its_own_objects() {
    for (status, code) in [
        (500, "InternalError"),
        (500, ""),
        (404, "NoSuchBucket"),
        (400, "Odd"),
    ] {
        let (server, store) = with(950..1_050).await;
        server.faults().refuse(Kind::Bulk, status, code, 1);
        let outcomes = store.delete(&ids(0..1_500), &OPEN).await;
        let retried = count(&outcomes, |o| matches!(o, DeleteOutcome::Retry(_)));
        assert!(
            retried == 1_000 || retried == 500,
            "{status} {code}: {retried}"
        );
        assert_eq!(deleted(&outcomes), 1_500 - retried);
        for (id, outcome) in &outcomes[950..1_050] {
            let kept = matches!(outcome, DeleteOutcome::Retry(_));
            assert_eq!(server.holds(&object_key(*id)), kept, "{id}");
        }
        assert_eq!(server.faults().requests().faulted, 1);
        server.stop().await;
    }
}

#[tokio::test]
async fn wrong_credentials_are_denied_without_asking_for_each_object() {
    let (server, _) = with(0..20).await;
    for (access_key_id, secret) in [(ACCESS_KEY_ID, "wrong"), ("AKIAUNKNOWN", SECRET_ACCESS_KEY)] {
        let mut options = options();
        options.credentials = Some(Credentials {
            access_key_id: access_key_id.into(),
            secret_access_key: secret.into(),
            session_token: None,
        });
        let store = open(&server.uri(), options);
        let before = server.faults().requests();
        let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
        let denied = count(&outcomes, |o| matches!(o, DeleteOutcome::Denied(_)));
        assert_eq!(denied, 1_000, "{:?}", outcomes.first());
        let after = server.faults().requests();
        assert_eq!((after.bulk - before.bulk, after.single), (1, 0));
        let error = store.check().await.expect_err("denied").to_string();
        assert!(
            error.contains("refuses access") && !error.contains(secret),
            "{error}"
        );
    }
    assert_eq!(held(&server, 0..20), 20);
    server.stop().await;
}

#[tokio::test]
async fn a_service_without_bulk_deletes_is_asked_one_by_one_and_remembered() {
    for (status, code) in [(501, "NotImplemented"), (405, ""), (400, "MalformedXML")] {
        let (server, store) = with(0..300).await;
        server.faults().refuse(Kind::Bulk, status, code, usize::MAX);
        let outcomes = store.delete(&ids(0..200), &OPEN).await;
        assert_eq!(deleted(&outcomes), 200, "{status} {code}");
        let outcomes = store.delete(&ids(200..300), &OPEN).await;
        assert_eq!(deleted(&outcomes), 100);
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (1, 300));
        assert!(!store.traits().bulk_delete);
        assert_eq!(held(&server, 0..300), 0);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_quiet_answer_names_only_what_failed() {
    let (server, store) = with(0..50).await;
    server.faults().set_bulk_body(Some(BulkBody::Quiet));
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 1_000);
    let requests = server.faults().requests();
    assert_eq!(
        (requests.bulk, requests.single, requests.faulted),
        (1, 0, 1)
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_that_proves_nothing_is_followed_by_single_deletes() {
    let error = |key: &str, code: &str| {
        format!("<DeleteResult><Error><Key>{key}</Key><Code>{code}</Code></Error></DeleteResult>")
    };
    for body in [
        "<html>please log in</html>".to_owned(),
        "<DeleteResult><Deleted><Key>".to_owned(),
        String::new(),
        // The key in another spelling, which no client can match.
        error("00000000%2FDEFAULT%2F0", "AccessDenied"),
        error("somebody/elses", "InternalError"),
    ] {
        let (server, store) = with(0..50).await;
        server
            .faults()
            .set_bulk_body(Some(BulkBody::Text(body.clone())));
        let outcomes = store.delete(&ids(0..50), &OPEN).await;
        assert_eq!(deleted(&outcomes), 50, "{body}: {outcomes:?}");
        let requests = server.faults().requests();
        assert_eq!(
            (requests.bulk, requests.single, requests.faulted),
            (1, 50, 1),
            "{body}"
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn a_throttled_key_inside_a_success_throttles_only_that_key() {
    let (server, store) = with(0..100).await;
    let mut body = "<DeleteResult>".to_owned();
    for id in 1..100 {
        body += &format!("<Deleted><Key>{}</Key></Deleted>", object_key(id));
    }
    body += &format!(
        "<Error><Key>{}</Key><Code>SlowDown</Code></Error>",
        object_key(0)
    );
    body += "</DeleteResult>";
    server.faults().set_bulk_body(Some(BulkBody::Text(body)));
    let outcomes = store.delete(&ids(0..100), &OPEN).await;
    assert_eq!(outcomes[0], (0, DeleteOutcome::Throttled));
    assert_eq!(deleted(&outcomes), 99);
    assert_eq!(server.faults().requests().bulk, 1);
    server.stop().await;
}

#[tokio::test]
async fn a_bucket_that_keeps_versions_shows() {
    let (server, store) = with(0..1).await;
    assert!(!store.traits().versioned);
    let body = format!(
        "<DeleteResult><Deleted><Key>{}</Key><DeleteMarker>true</DeleteMarker></Deleted></DeleteResult>",
        object_key(0)
    );
    server.faults().set_bulk_body(Some(BulkBody::Text(body)));
    assert_eq!(deleted(&store.delete(&[0], &OPEN).await), 1);
    assert!(store.traits().versioned);
    server.stop().await;
}

#[tokio::test]
async fn a_lost_reply_is_retried() {
    let (server, store) = with(0..100).await;
    server.faults().drop_replies(1);
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(
        count(&outcomes, |o| matches!(o, DeleteOutcome::Retry(_))),
        1_000
    );
    assert_eq!(held(&server, 0..100), 0, "the work was done all the same");
    assert_eq!(server.faults().requests().faulted, 1);
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    let gone = |o: &DeleteOutcome| matches!(o, DeleteOutcome::Deleted | DeleteOutcome::Absent);
    assert_eq!(count(&outcomes, gone), 1_000);
    assert_eq!(server.faults().requests().bulk, 2, "nobody below retried");
    server.stop().await;
}

#[tokio::test]
async fn latency_is_paid_for_a_chunk_not_for_an_object() {
    let (server, store) = with(0..100).await;
    server.faults().set_latency(Duration::from_millis(20));
    let clock = clock();
    let begun = clock.boot();
    let outcomes = store.delete(&ids(0..5_000), &OPEN).await;
    let took = clock.boot().since(begun);
    assert_eq!(deleted(&outcomes), 5_000);
    assert_eq!(server.faults().requests().bulk, 5);
    // One after another it is 100 s of latency alone.
    assert!(took < Duration::from_secs(20), "{took:?}");
    println!("5000 objects at 20 ms: {took:?}");
    server.stop().await;
}

#[tokio::test]
async fn several_chunks_are_in_flight_and_no_more_than_allowed() {
    let (server, _) = with(0..0).await;
    let mut options = options();
    options.chunk = 10;
    options.concurrency = 3;
    let store = open(&server.uri(), options);
    server.faults().set_latency(Duration::from_millis(50));
    assert_eq!(deleted(&store.delete(&ids(0..120), &OPEN).await), 120);
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.most_in_flight), (12, 3));
    server.stop().await;
}

#[tokio::test]
async fn a_shut_gate_sends_no_more_and_joins_what_was_sent() {
    let (server, _) = with(0..300).await;
    let mut options = options();
    options.chunk = 100;
    options.concurrency = 2;
    let store = open(&server.uri(), options);
    server.faults().set_latency(Duration::from_millis(100));
    let asked = AtomicUsize::new(0);
    let gate = || (asked.fetch_add(1, Ordering::Relaxed) < 2).then_some(Duration::from_secs(30));
    let outcomes = store.delete(&ids(0..1_000), &gate).await;
    assert_eq!(
        deleted(&outcomes),
        200,
        "both that were sent are answered for"
    );
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::NotSent), 800);
    assert_eq!(server.faults().requests().bulk, 2);
    assert_eq!(held(&server, 0..300), 100);
    let none = store.delete(&ids(0..10), &|| Some(Duration::ZERO)).await;
    assert_eq!(count(&none, |o| *o == DeleteOutcome::NotSent), 10);
    assert_eq!(server.faults().requests().bulk, 2);
    server.stop().await;
}

#[tokio::test]
async fn a_request_takes_no_longer_than_the_gate_leaves() {
    let (server, store) = with(0..100).await;
    server.faults().set_latency(Duration::from_secs(600));
    let clock = clock();
    let begun = clock.boot();
    let outcomes = store
        .delete(&ids(0..100), &|| Some(Duration::from_millis(200)))
        .await;
    let took = clock.boot().since(begun);
    assert_eq!(
        count(&outcomes, |o| matches!(o, DeleteOutcome::Retry(_))),
        100
    );
    assert!(
        took >= Duration::from_millis(200) && took < Duration::from_secs(10),
        "{took:?}"
    );
    server.stop().await;
}

#[tokio::test]
async fn each_way_to_be_unusable_has_its_own_error() {
    let (server, store) = with(0..1).await;
    let report = store.check().await.expect("usable");
    assert!(!report.empty);
    let offset = report.clock_offset_ms.expect("the server tells its time");
    assert!(offset.abs() < 5_000, "{offset}");

    let missing = open(&server.uri_of("nowhere"), options()).check().await;
    let error = missing.expect_err("missing").to_string();
    assert!(
        error.contains("bucket `nowhere` does not exist at http://127.0.0.1"),
        "{error}"
    );

    server.faults().refuse(Kind::List, 403, "AccessDenied", 1);
    let error = store.check().await.expect_err("denied").to_string();
    assert!(
        error.contains("refuses access: HTTP 403 AccessDenied"),
        "{error}"
    );

    server.faults().refuse(Kind::List, 503, "SlowDown", 1);
    let error = store.check().await.expect_err("throttled").to_string();
    assert!(error.contains("asks for fewer requests"), "{error}");

    let uri = server.uri();
    server.stop().await;
    let error = open(&uri, options())
        .check()
        .await
        .expect_err("stopped")
        .to_string();
    assert!(
        error.contains("cannot be reached") && error.contains("refused"),
        "{error}"
    );
}

#[tokio::test]
async fn objects_are_looked_up_and_read() {
    let (server, store) = with(0..3).await;
    server
        .put(&object_key(9), b"0123456789")
        .expect("an object");
    server.put(&object_key(10), b"").expect("an object");
    let stored = store.head(9).await.expect("head").expect("it is there");
    assert_eq!(
        (stored.key.as_str(), stored.id, stored.size),
        ("90000000/DEFAULT/9", Some(9), 10)
    );
    assert!(stored.modified.0 > 1_600_000_000_000);
    assert_eq!(store.head(77).await.expect("head"), None);
    let read = async |id, offset, length| store.read(id, offset, length).await.expect("read");
    assert_eq!(read(9, 0, 10).await.as_deref(), Some(&b"0123456789"[..]));
    assert_eq!(read(9, 3, 4).await.as_deref(), Some(&b"3456"[..]));
    assert_eq!(read(9, 8, 100).await.as_deref(), Some(&b"89"[..]));
    for (offset, length) in [(10, 5), (11, 1), (3, 0)] {
        assert_eq!(
            read(9, offset, length).await.as_deref(),
            Some(&b""[..]),
            "{offset}+{length}"
        );
    }
    assert_eq!(read(10, 0, 5).await.as_deref(), Some(&b""[..]));
    assert_eq!(read(77, 0, 5).await, None);
    assert_eq!(read(77, 0, 0).await, None);
    let many = store.head_many(&[0, 77, 9], 2).await;
    let sizes: Vec<_> = many
        .into_iter()
        .map(|(id, found)| (id, found.expect("head").map(|stored| stored.size)))
        .collect();
    assert_eq!(sizes, [(0, Some(5)), (77, None), (9, Some(10))]);
    server.stop().await;
}

#[tokio::test]
async fn a_bare_404_to_a_read_is_no_proof_that_an_object_is_gone() {
    let (server, store) = with(0..1).await;
    server.faults().refuse(Kind::Get, 404, "", 2);
    assert!(store.read(0, 0, 1).await.is_err());
    assert!(store.links(0).await.is_err());
    server.faults().refuse(Kind::Get, 404, "NoSuchKey", 2);
    assert_eq!(store.read(0, 0, 1).await.expect("read"), None);
    assert_eq!(store.links(0).await.expect("links"), Composite::Absent);
    server.faults().refuse(Kind::Bulk, 501, "", 1);
    server.faults().refuse(Kind::Single, 404, "", 1);
    let outcomes = store.delete(&[0], &OPEN).await;
    assert!(
        matches!(outcomes[0].1, DeleteOutcome::Retry(_)),
        "{outcomes:?}"
    );
    server.faults().refuse(Kind::Single, 404, "NoSuchKey", 1);
    assert_eq!(
        store.delete(&[0], &OPEN).await,
        [(0, DeleteOutcome::Absent)]
    );
    server.stop().await;
}

#[tokio::test]
async fn keys_are_listed_in_pages() {
    let (server, store) = with(0..1_100).await;
    server.put("aedile/modules/ff", b"m").expect("an object");
    let mut expected: Vec<String> = (0..1_100).map(object_key).collect();
    expected.push("aedile/modules/ff".into());
    expected.sort_unstable();
    for page in [300, 1_000, 1_101, 5_000] {
        let mut found: Vec<String> = Vec::new();
        loop {
            let listed = store
                .list("", found.last().map(String::as_str), page)
                .await
                .expect("list");
            let last = listed.len() < page;
            found.extend(listed.into_iter().map(|stored| stored.key));
            if last {
                break;
            }
        }
        assert_eq!(found, expected, "in pages of {page}");
    }
    let below = store.list("aedile/mod", None, 10).await.expect("list");
    assert_eq!(below.len(), 1);
    assert_eq!((below[0].id, below[0].size), (None, 1));
    server.faults().refuse(Kind::List, 500, "InternalError", 1);
    assert!(
        store.list("", None, 10).await.is_err(),
        "an incomplete listing is none"
    );
    server.stop().await;
}

#[tokio::test]
async fn composites_are_told_from_plain_objects() {
    let (server, store) = with(0..2).await;
    let mut composite = vec![0x52, 0, 0, 0, 2];
    for id in [17_u64, 18] {
        composite.extend_from_slice(&id.to_be_bytes());
        composite.extend_from_slice(&[0; 6]);
    }
    composite.extend_from_slice(&33_u64.to_be_bytes());
    composite.extend_from_slice(&[0; 32]);
    composite.extend_from_slice(&0x88E2_41B7_85F4_CFF8_u64.to_be_bytes());
    server.put(&object_key(5), &composite).expect("an object");
    server
        .put(&object_key(6), &composite[1..])
        .expect("an object");
    server.put(&object_key(0), &[0x5a; 90]).expect("an object");
    server.put(&object_key(7), b"").expect("an object");
    let links = store.links_many(&[0, 5, 6, 99], 3).await;
    let mut links = links.into_iter().map(|(_, links)| links.expect("links"));
    assert_eq!(links.next(), Some(Composite::Plain));
    assert_eq!(links.next(), Some(Composite::Links(vec![17, 18])));
    assert!(matches!(links.next(), Some(Composite::Unreadable(_))));
    assert_eq!(links.next(), Some(Composite::Absent));
    let asked = server.faults().requests().get;
    assert_eq!(asked, 5, "one each, and the link list");
    // What S3 answers to a range of an empty object.
    server.faults().refuse(Kind::Get, 416, "InvalidRange", 1);
    assert_eq!(store.links(7).await.expect("links"), Composite::Plain);
    server.stop().await;
}

#[tokio::test]
async fn a_tls_endpoint_is_spoken_to_in_tls() {
    let (server, _) = with(0..1).await;
    let uri = server.uri().replace("http://", "https://");
    let store = open(&uri, options());
    // The server speaks none, so the handshake is as far as it gets.
    let error = store.check().await.expect_err("no TLS there").to_string();
    assert!(error.contains("cannot be reached"), "{error}");
    assert_eq!(
        server.faults().requests().list,
        0,
        "nothing went in the clear"
    );
    server.stop().await;
}

#[tokio::test]
async fn the_rate_cap_holds_over_requests() {
    let (server, _) = with(0..0).await;
    let mut options = options();
    options.chunk = 100;
    options.keys_per_second = std::num::NonZeroU32::new(1_000);
    let store = open(&server.uri(), options);
    let clock = clock();
    let begun = clock.boot();
    assert_eq!(deleted(&store.delete(&ids(0..500), &OPEN).await), 500);
    let took = clock.boot().since(begun);
    assert!(took >= Duration::from_millis(400), "{took:?}");
    assert_eq!(server.faults().requests().bulk, 5);
    server.stop().await;
}
