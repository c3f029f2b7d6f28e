//! What is found out about a bucket before anything is deleted from it.

use std::time::Duration;

use aedile_storage::{DeleteOutcome, Found, StoreProbe, Versioning, object_key};
use aedile_tests_contract::s3::{BulkBody, Kind};
use aedile_tests_contract::stores::{OPEN, clock, deleted, held, open, options, with};

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
async fn a_plain_bucket_is_found_out_without_touching_anything() {
    let (server, store) = with(0..5).await;
    let probe = store.probe().await.expect("a bucket");
    assert_eq!(
        (probe.bulk_delete, probe.versioning, probe.object_lock),
        (Found::Yes, Versioning::Off, Found::No)
    );
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single, requests.other), (1, 0, 2));
    let asked = server.faults().asked();
    assert_eq!(
        asked.keys().collect::<Vec<_>>(),
        ["aedile/probe/bulk-delete"]
    );
    assert_eq!(held(&server, 0..5), 5);
    let traits = store.traits();
    assert!(traits.bulk_delete && !traits.versioned);
    assert_eq!(store.notes(), Vec::<String>::new());
    server.stop().await;
}

#[tokio::test]
async fn a_directory_has_nothing_to_ask() {
    let directory = tempfile::TempDir::new().expect("a directory");
    let store = open(&format!("file://{}", directory.path().display()), options());
    assert_eq!(store.probe().await, None);
}

#[tokio::test]
async fn a_versioned_bucket_is_said_before_the_first_delete() {
    for (status, found) in [
        ("Enabled", Versioning::On),
        ("Suspended", Versioning::Suspended),
    ] {
        let (server, store) = with(0..1).await;
        server.faults().set_versioning(status);
        server.faults().set_object_lock();
        let probe = store.probe().await.expect("a bucket");
        assert_eq!(store.traits().versioned, found == Versioning::On);
        let shrinks = |note: &String| note.contains("will not shrink");
        assert_eq!(store.notes().iter().any(shrinks), found == Versioning::On);
        assert_eq!((probe.versioning, probe.object_lock), (found, Found::Yes));
        // The delete of nothing would leave a marker there.
        assert!(matches!(probe.bulk_delete, Found::Unknown(_)));
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (0, 0));
        server.stop().await;
    }
}

/// Public case icechunk#2109: the store refuses `DeleteObjects`.
#[tokio::test]
async fn icechunk_2109_refused_bulk_deletes_are_found_at_start() {
    for (status, code) in [(501, "NotImplemented"), (405, ""), (400, "MalformedXML")] {
        let (server, store) = with(0..40).await;
        server.faults().refuse(Kind::Bulk, status, code, usize::MAX);
        let probe = store.probe().await.expect("a bucket");
        assert_eq!(probe.bulk_delete, Found::No, "{status}");
        assert!(!store.traits().bulk_delete);
        let notes = store.notes();
        assert!(notes[0].contains("one by one"), "{notes:?}");
        let ids: Vec<u64> = (0..40).collect();
        assert_eq!(deleted(&store.delete(&ids, &OPEN).await), 40);
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (1, 40), "not tried again");
        server.stop().await;
    }
}

fn unknown(probe: &StoreProbe) -> [&str; 3] {
    match probe {
        StoreProbe {
            bulk_delete: Found::Unknown(bulk),
            versioning: Versioning::Unknown(versioning),
            object_lock: Found::Unknown(lock),
            ..
        } => [bulk, versioning, lock],
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn what_is_denied_throttled_or_cut_is_unknown() {
    for (status, code) in [
        (403, "AccessDenied"),
        (503, "SlowDown"),
        (500, ""),
        (404, "NoSuchBucket"),
    ] {
        let (server, store) = with(0..1).await;
        server.faults().refuse(Kind::Any, status, code, usize::MAX);
        let probe = store.probe().await.expect("a bucket");
        for text in unknown(&probe) {
            assert!(text.contains(&status.to_string()), "{text}");
        }
        assert_eq!(server.faults().requests().faulted, 3, "one try each");
        server.faults().clear();
        assert!(store.traits().bulk_delete);
        assert_eq!(
            store.delete(&[0], &OPEN).await,
            [(0, DeleteOutcome::Deleted)]
        );
        server.stop().await;
    }
    let (server, store) = with(0..1).await;
    server.cut();
    let probe = store.probe().await.expect("a bucket");
    unknown(&probe);
    server.stop().await;
}

#[tokio::test]
async fn an_answer_to_another_question_is_unknown() {
    for body in [
        "<ListBucketResult><Name>objects</Name></ListBucketResult>",
        "<html>please log in</html>",
        "<VersioningConfiguration><Status>",
        "",
    ] {
        let (server, store) = with(0..0).await;
        server.faults().set_setting_body(body);
        let probe = store.probe().await.expect("a bucket");
        assert!(
            matches!(probe.versioning, Versioning::Unknown(_)),
            "{body}: {probe:?}"
        );
        assert!(matches!(probe.object_lock, Found::Unknown(_)), "{probe:?}");
        assert_eq!(server.faults().requests().other, 2);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_service_that_hangs_does_not_hold_the_start() {
    let (server, _) = with(0..0).await;
    server.faults().set_latency(Duration::from_secs(600));
    let mut options = options();
    options.request_timeout = Duration::from_millis(200);
    let store = open(&server.uri(), options);
    let clock = clock();
    let begun = clock.boot();
    let probe = store.probe().await.expect("a bucket");
    assert!(clock.boot().since(begun) < Duration::from_secs(60));
    unknown(&probe);
    server.faults().until(|now| now.abandoned == 3).await;
    server.stop().await;
}
