//! Looking at and reading a real S3 service, and deleting from it while nothing
//! is wrong. What goes wrong: `storage_s3_wire.rs`; how fast: `storage_s3_pace.rs`.

use aedile_storage::{Composite, DeleteOutcome, object_key};
use aedile_tests_contract::s3::Kind;
use aedile_tests_contract::stores::{OPEN, deleted, held, open, options, with};

/// Public cases slatedb#1714 (batching undone on the way to the store) and
/// dvc#8549 (most of the time went into listing).
#[tokio::test]
async fn slatedb_1714_many_objects_go_with_few_requests() {
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
    assert_eq!(server.faults().bulk_sizes(), [1_000, 1_000, 500]);
    assert_eq!(requests.with_md5, 3, "services want each to have one");
    assert_eq!((requests.list, requests.head, requests.get), (0, 0, 0));
    assert_eq!(held(&server, 0..250), 0);
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
    server
        .put(&object_key(8), &composite[..58])
        .expect("an object");
    let links = store.links_many(&[0, 5, 6, 99, 8], 3).await;
    let mut links = links.into_iter().map(|(_, links)| links.expect("links"));
    assert_eq!(links.next(), Some(Composite::Plain));
    assert_eq!(links.next(), Some(Composite::Links(vec![17, 18])));
    assert!(matches!(links.next(), Some(Composite::Unreadable(_))));
    assert_eq!(links.next(), Some(Composite::Absent));
    assert!(matches!(links.next(), Some(Composite::Unreadable(_))));
    let asked = server.faults().requests().get;
    assert_eq!(
        asked, 8,
        "one each, the link list, and the heads of what ends as neither"
    );
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
