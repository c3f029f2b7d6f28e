//! Deletes from a real S3 service that answers wrongly, partly or not at all.
//! Each test says what went over the wire, besides what became of the objects.

use aedile_storage::{Credentials, DeleteOutcome, object_key};
use aedile_tests_contract::s3::{ACCESS_KEY_ID, BulkBody, Kind, SECRET_ACCESS_KEY};
use aedile_tests_contract::stores::{
    OPEN, count, deleted, denied, held, ids, open, options, to_retry, with,
};

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
        let retried = to_retry(&outcomes);
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
        assert_eq!(denied(&outcomes), 1_000, "{:?}", outcomes.first());
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

/// Public case icechunk#2109: a store that refuses bulk deletes.
#[tokio::test]
async fn icechunk_2109_a_service_without_bulk_deletes_is_asked_one_by_one_and_remembered() {
    for (status, code) in [
        (501, "NotImplemented"),
        (501, ""),
        (405, "MethodNotAllowed"),
        (405, ""),
    ] {
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

/// Public case AutoMQ#1027: a store that names no deleted key.
#[tokio::test]
async fn automq_1027_a_quiet_answer_names_only_what_failed() {
    let (server, store) = with(0..50).await;
    server.faults().set_bulk_body(Some(BulkBody::Quiet));
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 1_000);
    let requests = server.faults().requests();
    assert_eq!(
        (requests.bulk, requests.single, requests.faulted),
        (1, 0, 1)
    );

    // The one error that a quiet answer names is that key's alone.
    let body = format!(
        "<DeleteResult><Error><Key>{}</Key><Code>AccessDenied</Code></Error></DeleteResult>",
        object_key(7)
    );
    server.faults().set_bulk_body(Some(BulkBody::Text(body)));
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!((deleted(&outcomes), denied(&outcomes)), (999, 1));
    assert!(matches!(&outcomes[7], (7, DeleteOutcome::Denied(_))));
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (2, 0));
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
    // It is asked for again, and it alone, after the store had its rest.
    assert_eq!(server.faults().bulk_sizes(), [100, 1, 1]);
    server.stop().await;
}

#[tokio::test]
async fn a_lost_reply_is_retried() {
    let (server, store) = with(0..100).await;
    server.faults().drop_replies(1);
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(to_retry(&outcomes), 1_000);
    assert_eq!(held(&server, 0..100), 0, "the work was done all the same");
    assert_eq!(server.faults().requests().faulted, 1);
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    let gone = |o: &DeleteOutcome| matches!(o, DeleteOutcome::Deleted | DeleteOutcome::Absent);
    assert_eq!(count(&outcomes, gone), 1_000);
    assert_eq!(server.faults().requests().bulk, 2, "nobody below retried");
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

/// Public case AutoMQ#3393, and ravel#1694: a locked object.
#[tokio::test]
async fn automq_3393_three_denied_keys_leave_the_others_deleted() {
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
async fn a_lost_reply_to_a_single_delete_is_that_objects_alone() {
    let (server, store) = with(0..50).await;
    server.faults().refuse(Kind::Bulk, 501, "", 1);
    server.faults().drop_replies(1);
    let outcomes = store.delete(&ids(0..50), &OPEN).await;
    assert_eq!((deleted(&outcomes), to_retry(&outcomes)), (49, 1));
    assert_eq!(held(&server, 0..50), 0, "the work was done all the same");
    let requests = server.faults().requests();
    assert_eq!(
        (requests.bulk, requests.single),
        (1, 50),
        "nobody below retried"
    );
    server.stop().await;
}

#[tokio::test]
async fn an_answer_cut_in_its_middle_confirms_nothing() {
    let (server, store) = with(0..100).await;
    server.faults().halve_replies(1);
    // The half that came names hundreds of keys as deleted.
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(to_retry(&outcomes), 1_000, "{:?}", outcomes.first());
    let DeleteOutcome::Retry(text) = &outcomes[0].1 else {
        panic!("{outcomes:?}");
    };
    assert!(text.contains("body"), "half of it must have come: {text}");
    assert_eq!(held(&server, 0..100), 0, "the work was done all the same");
    let requests = server.faults().requests();
    assert_eq!(
        (requests.bulk, requests.single, requests.faulted),
        (1, 0, 1)
    );
    let outcomes = store.delete(&ids(0..1_000), &OPEN).await;
    assert_eq!(deleted(&outcomes), 1_000);
    assert_eq!(server.faults().requests().bulk, 2, "nobody below retried");
    server.stop().await;
}

#[tokio::test]
async fn a_denied_bulk_delete_is_followed_by_single_ones() {
    let (server, store) = with(0..20).await;
    server.faults().refuse(Kind::Bulk, 403, "AccessDenied", 1);
    server.faults().deny([object_key(5)]);
    let outcomes = store.delete(&ids(0..20), &OPEN).await;
    assert_eq!((deleted(&outcomes), denied(&outcomes)), (19, 1));
    assert!(matches!(&outcomes[5], (5, DeleteOutcome::Denied(_))));
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (1, 20));
    assert_eq!(held(&server, 0..20), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_read_only_bucket_denies_each_object() {
    let (server, store) = with(0..30).await;
    for kind in [Kind::Bulk, Kind::Single] {
        server
            .faults()
            .refuse(kind, 403, "AccessDenied", usize::MAX);
    }
    let outcomes = store.delete(&ids(0..30), &OPEN).await;
    assert_eq!(denied(&outcomes), 30, "{outcomes:?}");
    let requests = server.faults().requests();
    assert_eq!(
        (requests.bulk, requests.single, requests.faulted),
        (1, 30, 31)
    );
    assert!(server.faults().asked().is_empty(), "none reached an object");
    assert_eq!(held(&server, 0..30), 30);
    server.stop().await;
}

/// Public case thanos#7497: a denied prefix ended the whole component.
#[tokio::test]
async fn thanos_7497_a_denied_prefix_leaves_the_rest_drained() {
    let (server, store) = with(0..320).await;
    let denied_keys = || (0..320).map(object_key).filter(|key| key.starts_with('3'));
    server.faults().deny(denied_keys());
    let outcomes = store.delete(&ids(0..320), &OPEN).await;
    assert_eq!((deleted(&outcomes), denied(&outcomes)), (300, 20));
    assert_eq!(held(&server, 0..320), 20);
    assert!(denied_keys().all(|key| server.holds(&key)));
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (1, 0));
    server.stop().await;
}

/// Public cases risingwave#15651 and minio-java#1716: the first failed batch
/// ended the run.
#[tokio::test]
async fn risingwave_15651_minio_java_1716_a_failed_chunk_does_not_stop_the_others() {
    for at in 0..5 {
        let (server, _) = with(0..0).await;
        let mut options = options();
        options.concurrency = 1;
        let store = open(&server.uri(), options);
        for chunk in 0..5 {
            // One of the five requests fails, whichever comes then.
            if chunk == at {
                server.faults().refuse(Kind::Bulk, 500, "InternalError", 1);
            }
            let range = chunk * 1_000..(chunk + 1) * 1_000;
            let outcomes = store.delete(&ids(range), &OPEN).await;
            let failed = if chunk == at { 1_000 } else { 0 };
            assert_eq!(to_retry(&outcomes), failed, "chunk {chunk} of {at}");
            assert_eq!(deleted(&outcomes), 1_000 - failed);
        }
        server.faults().refuse(Kind::Bulk, 500, "InternalError", 1);
        let outcomes = store.delete(&ids(0..5_000), &OPEN).await;
        assert_eq!((deleted(&outcomes), to_retry(&outcomes)), (4_000, 1_000));
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.faulted), (10, 2));
        server.stop().await;
    }
}

#[tokio::test]
async fn a_bucket_that_vanishes_is_never_taken_for_absence() {
    for (status, code) in [(404, "NoSuchBucket"), (404, ""), (410, "Gone")] {
        let (server, store) = with(0..20).await;
        server.faults().refuse(Kind::Bulk, status, code, 1);
        let outcomes = store.delete(&ids(0..20), &OPEN).await;
        assert_eq!(
            to_retry(&outcomes),
            20,
            "bulk {status} {code}: {outcomes:?}"
        );
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (1, 0));

        // The same where each is asked for alone.
        server.faults().refuse(Kind::Bulk, 501, "", 1);
        server
            .faults()
            .refuse(Kind::Single, status, code, usize::MAX);
        let outcomes = store.delete(&ids(0..20), &OPEN).await;
        assert_eq!(to_retry(&outcomes), 20, "{status} {code}: {outcomes:?}");
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (2, 20));
        assert_eq!(held(&server, 0..20), 20);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_wrong_region_is_named_and_nothing_counts() {
    for (status, code) in [
        (301, "PermanentRedirect"),
        (307, "TemporaryRedirect"),
        (400, "AuthorizationHeaderMalformed"),
        (400, "IllegalLocationConstraintException"),
    ] {
        let (server, store) = with(0..5).await;
        server.faults().refuse(Kind::Any, status, code, usize::MAX);
        let outcomes = store.delete(&ids(0..5), &OPEN).await;
        assert_eq!(to_retry(&outcomes), 5, "{status}: {outcomes:?}");
        let requests = server.faults().requests();
        assert_eq!((requests.bulk, requests.single), (1, 0), "{status}");
        let error = store.check().await.expect_err("redirected").to_string();
        assert!(
            error.contains(code) && error.contains("correct the region or the endpoint"),
            "{error}"
        );
        server.stop().await;
    }
}

#[tokio::test]
async fn a_service_that_goes_away_leaves_the_rest_to_be_retried() {
    let (server, _) = with(0..200).await;
    let mut options = options();
    options.chunk = 10;
    options.concurrency = 2;
    let store = open(&server.uri(), options);
    server
        .faults()
        .set_latency(std::time::Duration::from_millis(20));
    let all = ids(0..200);
    let killer = async {
        server.faults().until(|requests| requests.bulk >= 5).await;
        server.cut();
    };
    let (outcomes, ()) = tokio::join!(store.delete(&all, &OPEN), killer);
    let (gone, left) = (deleted(&outcomes), to_retry(&outcomes));
    assert_eq!(gone + left, 200, "{outcomes:?}");
    assert!(gone > 0 && left > 0, "{gone} gone, {left} left");
    for (id, outcome) in &outcomes {
        if *outcome == DeleteOutcome::Deleted {
            assert!(!server.holds(&object_key(*id)), "{id} was not deleted");
        }
    }
    let refused = |(_, outcome): &(u64, DeleteOutcome)| match outcome {
        DeleteOutcome::Retry(text) => text.to_lowercase().contains("refused"),
        _ => false,
    };
    assert!(outcomes.iter().any(refused), "{outcomes:?}");
    server.stop().await;
}

#[tokio::test]
async fn each_code_inside_a_success_has_its_own_outcome() {
    let (server, store) = with(0..10).await;
    let codes = [
        "InternalError",
        "AccessDenied",
        "InvalidObjectState",
        "MethodNotAllowed",
        "NoSuchKey",
        "NoSuchBucket",
        "SomethingNew",
    ];
    for (id, code) in (0..).zip(codes) {
        server.faults().fail([object_key(id)], code);
    }
    let outcomes = store.delete(&ids(0..10), &OPEN).await;
    let kinds: Vec<&str> = outcomes
        .iter()
        .map(|(_, outcome)| match outcome {
            DeleteOutcome::Deleted => "deleted",
            DeleteOutcome::Absent => "absent",
            DeleteOutcome::Denied(_) => "denied",
            DeleteOutcome::Retry(_) => "retry",
            _ => "other",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "retry", "denied", "denied", "denied", "absent", "retry", "retry", "deleted",
            "deleted", "deleted"
        ]
    );
    assert_eq!(server.faults().bulk_sizes(), [10]);
    assert_eq!(held(&server, 0..10), codes.len());
    server.stop().await;
}

#[tokio::test]
async fn an_error_for_every_key_of_a_success_deletes_none() {
    let (server, store) = with(0..100).await;
    server
        .faults()
        .fail((0..100).map(object_key), "InternalError");
    let outcomes = store.delete(&ids(0..100), &OPEN).await;
    assert_eq!(to_retry(&outcomes), 100);
    assert_eq!(server.faults().bulk_sizes(), [100], "not sent again below");

    server.faults().fail((0..100).map(object_key), "SlowDown");
    let outcomes = store.delete(&ids(0..100), &OPEN).await;
    assert_eq!(count(&outcomes, |o| *o == DeleteOutcome::Throttled), 100);
    // Sent again in smaller requests; after four in a row it is given up.
    assert_eq!(server.faults().bulk_sizes(), [100, 100, 50, 50, 50]);
    assert_eq!(held(&server, 0..100), 100);
    server.stop().await;
}

#[tokio::test]
async fn a_key_left_out_is_asked_for_alone_and_one_that_is_too_much_ignored() {
    let (server, store) = with(0..50).await;
    let named = |key: &str| format!("<Deleted><Key>{key}</Key></Deleted>");
    let mut body = "<DeleteResult>".to_owned();
    for id in 0..40 {
        body += &named(&object_key(id));
    }
    // Twice the same, one of nobody's, and ten that are not named at all.
    body += &named(&object_key(0));
    body += &named("somebody/elses");
    body += "</DeleteResult>";
    server.faults().set_bulk_body(Some(BulkBody::Text(body)));
    let outcomes = store.delete(&ids(0..50), &OPEN).await;
    assert_eq!(deleted(&outcomes), 50, "{outcomes:?}");
    let requests = server.faults().requests();
    assert_eq!((requests.bulk, requests.single), (1, 10));
    let asked = server.faults().asked();
    for id in 0..50 {
        let times = if id < 40 { 1 } else { 2 };
        assert_eq!(asked[&object_key(id)], times, "{id}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_service_that_takes_fewer_keys_is_given_fewer() {
    let (server, store) = with(0..300).await;
    server.faults().set_longest_bulk(100);
    let outcomes = store.delete(&ids(0..300), &OPEN).await;
    assert_eq!(deleted(&outcomes), 300);
    assert_eq!(server.faults().bulk_sizes(), [300, 100, 100, 100]);
    assert_eq!(server.faults().requests().single, 0);
    assert!(store.traits().bulk_delete);

    // One that takes none at all says the same of a hundred.
    server.faults().set_longest_bulk(0);
    let outcomes = store.delete(&ids(0..150), &OPEN).await;
    assert_eq!(deleted(&outcomes), 150);
    assert_eq!(server.faults().requests().single, 150);
    assert!(!store.traits().bulk_delete);
    server.stop().await;
}
