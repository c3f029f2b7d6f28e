//! What `aedile plugin deploy` and its kin write to the metadata, and what they
//! tell. No node runs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::place::{IDLE, Place, built_in, plugin};
use aedile_tests_e2e::{binary, outside};
use serde_json::{Value, json};

async fn a_deploy_says_who_and_why_is_kept_and_a_second_one_changes_nothing(kind: Kind) {
    let place = Place::new(kind).await;
    let bytes = plugin("watch", "1.0.0", &["state"], None, IDLE);
    let file = place.file("watch.wasm", &bytes);
    let dry = place.json(0, &["deploy", &file, "--dry-run"]);
    assert_eq!(
        (dry["outcome"].as_str(), dry["follows"].as_u64()),
        (Some("fits"), Some(0))
    );
    assert_eq!(dry["first_tick"]["totals"]["deletes"], 0);
    assert_eq!(place.record("watch", 1).await, None);
    assert_eq!(place.modules().len(), 0, "a dry run stored the module");

    let args = [
        "deploy",
        &file,
        "--who",
        "ann",
        "--why",
        "OPS-7: look at night",
        "--every",
        "5s",
    ];
    let done = place.json(0, &args);
    assert_eq!(
        (done["outcome"].as_str(), done["revision"].as_u64()),
        (Some("written"), Some(1))
    );
    assert_eq!(done["needs_approval"], json!([]));
    let record = place.record("watch", 1).await.unwrap();
    assert_eq!(record["v"], 1);
    assert_eq!(
        (record["who"].as_str(), record["why"].as_str()),
        (Some("ann"), Some("OPS-7: look at night"))
    );
    assert_eq!(record["module"]["size"].as_u64(), Some(bytes.len() as u64));
    assert_eq!(record["module"]["source"], "file:watch.wasm");
    let digest = record["module"]["digest"].as_str().unwrap().to_owned();
    assert_eq!(place.modules(), std::slice::from_ref(&digest));

    // The same again, by somebody else: nothing.
    let before = place.everything().await;
    let again = place.json(0, &["deploy", &file, "--who", "bob", "--every", "5s"]);
    assert_eq!(
        (again["outcome"].as_str(), again["revision"].as_u64()),
        (Some("unchanged"), Some(1))
    );
    assert_eq!(place.everything().await, before);
    let text = String::from_utf8(
        binary::run(&place.args(&["deploy", &file], Some(&place.site.storage()))).stdout,
    )
    .unwrap();
    assert!(text.contains("unchanged: revision 1 of watch"), "{text}");

    // A newer version keeps what was set.
    let newer = place.file(
        "watch2.wasm",
        &plugin("watch", "1.1.0", &["state"], None, IDLE),
    );
    let done = place.json(0, &["deploy", &newer, "--why", "faster"]);
    assert_eq!(done["record"]["schedule"], json!({"interval_ms": 5000}));
    assert_eq!(done["record"]["version"], "1.1.0");
    assert_eq!(place.modules().len(), 2);

    // What is wanted of it, and its history, newest first.
    let shown = place.json(0, &["show", "watch"]);
    assert_eq!(
        (
            shown["newest"]["revision"].as_u64(),
            shown["newest"]["why"].as_str()
        ),
        (Some(2), Some("faster"))
    );
    let history = place.json(0, &["history", "watch"]);
    let listed: Vec<_> = history["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|revision| {
            (
                revision["revision"].as_u64().unwrap(),
                revision["who"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(listed[1], (1, "ann"));
    assert!(listed[0].0 == 2 && listed[0].1.contains('@'), "{listed:?}");
    let diff = place.json(0, &["diff", "watch"]);
    let keys: Vec<_> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| change["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["module.digest", "module.source", "version"]);
    let list = place.json(0, &["list"]);
    assert_eq!(list["deployed"][0]["plugin"], "watch");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_is_kept_and_a_second_one_changes_nothing_on_sqlite() {
    a_deploy_says_who_and_why_is_kept_and_a_second_one_changes_nothing(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deploy_is_kept_and_a_second_one_changes_nothing_on_postgres() {
    a_deploy_says_who_and_why_is_kept_and_a_second_one_changes_nothing(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_action_is_a_revision_and_changes_only_what_it_names() {
    let place = Place::new(Kind::Sqlite).await;
    let file = place.file(
        "watch.wasm",
        &plugin("watch", "1.0.0", &["state"], None, IDLE),
    );
    place.json(0, &["deploy", &file]);
    let mut expected = place.record("watch", 1).await.unwrap();
    type Step<'a> = (&'a [&'a str], &'a str, fn(&mut Value));
    let steps: [Step<'_>; 9] = [
        (&["disable", "watch"], "disable", |record| {
            record["enabled"] = json!(false)
        }),
        (&["enable", "watch"], "enable", |record| {
            record["enabled"] = json!(true)
        }),
        (
            &["grant", "watch", "commands.put-kv", "kv-prefix=tmp/"],
            "grant",
            |record| {
                record["grants"] = json!(["state", "metrics", "commands.put-kv"]);
                record["kv_prefixes"] = json!(["tmp/"]);
            },
        ),
        (
            &["revoke", "watch", "metrics", "kv-prefix=tmp/"],
            "revoke",
            |record| {
                record["grants"] = json!(["state", "commands.put-kv"]);
                record["kv_prefixes"] = json!([]);
            },
        ),
        (
            &["set", "watch", "--every", "5s", "--jitter", "1s"],
            "set",
            |record| {
                record["schedule"] = json!({"interval_ms": 5000, "jitter_ms": 1000});
            },
        ),
        (
            &["set", "watch", "--on-demand", "--limit", "memory=32MiB"],
            "set",
            |record| {
                record["schedule"] = json!({"jitter_ms": 1000, "on_demand": true});
                record["limits"] = json!({"memory": 32 << 20});
            },
        ),
        (
            &["set", "watch", "--plugin-config", "{\"a\": 1}", "--fenced"],
            "set",
            |record| {
                record["config"] = json!({"a": 1});
                record["fenced"] = json!(true);
            },
        ),
        (
            &[
                "set",
                "watch",
                "--limit",
                "memory=default",
                "--fenced=false",
            ],
            "set",
            |record| {
                record["limits"] = json!({});
                record["fenced"] = json!(false);
            },
        ),
        (&["remove", "watch"], "remove", |record| {
            record["removed"] = json!(true)
        }),
    ];
    for (number, (args, action, change)) in steps.into_iter().enumerate() {
        let number = number as u64 + 2;
        let args = [args, &["--who", "bob", "--why", "because"]].concat();
        let done = place.json(0, &args);
        assert_eq!(
            (done["outcome"].as_str(), done["revision"].as_u64()),
            (Some("written"), Some(number)),
            "{args:?}"
        );
        change(&mut expected);
        expected["action"] = json!(action);
        expected["who"] = json!("bob");
        expected["why"] = json!("because");
        let mut record = place.record("watch", number).await.unwrap();
        record["at_ms"] = expected["at_ms"].clone();
        assert_eq!(record, expected, "{args:?}");
        // Once more changes nothing.
        let again = place.json(0, &args);
        assert_eq!(
            (again["outcome"].as_str(), again["revision"].as_u64()),
            (Some("unchanged"), Some(number)),
            "{args:?}"
        );
    }
    place
        .refuses(
            2,
            &["enable", "watch"],
            &["was removed by bob, with revision 10"],
        )
        .await;
    let back = place.json(0, &["rollback", "watch", "--to", "1"]);
    assert_eq!(
        (
            back["record"]["of"].as_u64(),
            back["record"]["removed"].as_bool()
        ),
        (Some(1), Some(false))
    );
    for args in [
        &["enable", "nobody"][..],
        &["grant", "nobody", "state"],
        &["set", "nobody", "--every", "5s"],
        &["run", "nobody"],
        &["remove", "nobody"],
        &["show", "nobody"],
        &["history", "nobody"],
        &["diff", "nobody"],
        &["rollback", "nobody"],
        &["reset", "nobody"],
    ] {
        place.refuses(2, args, &["`nobody`"]).await;
    }
    place
        .refuses(2, &["enable", "../x"], &["no plugin's name"])
        .await;
    place
        .refuses(2, &["set", "watch"], &["nothing to set"])
        .await;
    place
        .refuses(
            2,
            &["diff", "watch", "1", "99"],
            &["no revision 99; it has 1 to 11"],
        )
        .await;
    place
        .refuses(2, &["rollback", "watch", "--to", "99"], &["no revision 99"])
        .await;
    place
        .refuses(2, &["rollback", "watch", "--to", "x"], &["--to"])
        .await;
    place
        .refuses(2, &["rollback", "watch", "--to", "10"], &["is its removal"])
        .await;
}

/// claudette 580: an update that asked for more rights ran without new consent.
#[tokio::test(flavor = "multi_thread")]
async fn claudette_580_a_module_that_asks_for_more_waits_and_no_rollback_gives_a_grant_back() {
    let place = Place::new(Kind::Sqlite).await;
    let v1 = place.file("v1.wasm", &plugin("watch", "1.0.0", &["state"], None, IDLE));
    let wants = ["state", "commands.put-kv", "commands.trim-stream"];
    let v2 = place.file("v2.wasm", &plugin("watch", "2.0.0", &wants, None, IDLE));
    place.json(0, &["deploy", &v1]);
    let done = place.json(0, &["deploy", &v2, "--grant", "commands.put-kv"]);
    assert_eq!(done["needs_approval"], json!(["commands.trim-stream"]));
    let grants = &done["record"]["grants"];
    assert_eq!(grants, &json!(["state", "metrics", "commands.put-kv"]));
    let storage = place.site.storage();
    let again = binary::run(&place.args(&["deploy", &v2, "--every", "9s"], Some(&storage)));
    let text = String::from_utf8(again.stdout).unwrap();
    for part in [
        "needs approval: it wants commands.trim-stream (destructive)",
        "to grant it: aedile plugin grant watch commands.trim-stream",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let granted = binary::run(&place.args(&["grant", "watch", "commands.trim-stream"], None));
    let text = String::from_utf8(granted.stdout).unwrap();
    assert!(
        text.contains("commands.trim-stream is destructive"),
        "{text}"
    );
    place.json(0, &["revoke", "watch", "commands.put-kv"]);
    let back = place.json(0, &["rollback", "watch", "--to", "2"]);
    assert_eq!(back["record"]["grants"], json!(["state", "metrics"]));
    assert_eq!(back["record"]["version"], "2.0.0");
}

async fn of_two_deploys_at_once_the_loser_is_told_who_won(kind: Kind) {
    let place = Place::new(kind).await;
    let storage = place.site.storage();
    let files: Vec<String> = (0..4)
        .map(|at| {
            let version = format!("1.0.{at}");
            let bytes = plugin("watch", &version, &[], None, IDLE);
            place.file(&format!("watch{at}.wasm"), &bytes)
        })
        .collect();
    let outputs: Vec<_> = std::thread::scope(|scope| {
        let started: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(at, file)| {
                let who = format!("deployer-{at}");
                let place = &place;
                let storage = &storage;
                scope.spawn(move || {
                    let args = ["deploy", file, "--who", &who, "--json"];
                    binary::run(&place.args(&args, Some(storage)))
                })
            })
            .collect();
        started
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let told: Vec<(Option<i32>, Value)> = outputs
        .iter()
        .map(|output| {
            (
                output.status.code(),
                serde_json::from_slice(&output.stdout).unwrap(),
            )
        })
        .collect();
    // One after the other is no race: then each writes its own. Whatever happened,
    // no revision is lost and no number has two.
    let mut written = Vec::new();
    for (code, told) in &told {
        let number = told["revision"].as_u64().unwrap();
        match told["outcome"].as_str().unwrap() {
            "written" => {
                assert_eq!(*code, Some(0));
                written.push(number);
                let record = place.record("watch", number).await.unwrap();
                assert_eq!(record["who"], told["record"]["who"]);
            }
            "lost" => {
                assert_eq!(*code, Some(11));
                let record = place.record("watch", number).await.unwrap();
                assert_eq!(record["who"], told["winner"]["who"]);
                assert_ne!(record["who"], told["record"]["who"]);
            }
            other => panic!("{other}"),
        }
    }
    written.sort_unstable();
    let all: Vec<u64> = (1..=written.len() as u64).collect();
    assert_eq!(written, all);
    assert_eq!(place.record("watch", all.len() as u64 + 1).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_deploys_at_once_the_loser_is_told_who_won_on_sqlite() {
    of_two_deploys_at_once_the_loser_is_told_who_won(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_deploys_at_once_the_loser_is_told_who_won_on_postgres() {
    of_two_deploys_at_once_the_loser_is_told_who_won(Kind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_built_in_plugin_is_set_replaced_and_reset() {
    let place = Place::new(Kind::Sqlite).await;
    let done = place.json(0, &["set", "cleaner", "--every", "9s"]);
    assert_eq!(done["record"]["module"], json!({"embedded": true}));
    let grants = done["record"]["grants"].as_array().unwrap();
    assert!(grants.contains(&json!("storage.delete")), "{grants:?}");
    let mut bytes = std::fs::read(built_in("cleaner.wasm")).unwrap();
    // Another build of it: a section that nothing reads.
    aedile_tests_engine::section(&mut bytes, 0, b"\x04noteof a test");
    let file = place.file("cleaner.wasm", &bytes);
    let done = place.json(0, &["deploy", &file]);
    assert_eq!(done["needs_approval"], json!([]));
    assert_eq!(done["record"]["schedule"], json!({"interval_ms": 9000}));
    let reset = place.json(0, &["reset", "cleaner"]);
    assert_eq!(reset["record"]["module"], json!({"embedded": true}));
    assert_eq!(reset["record"]["schedule"], json!({"interval_ms": 9000}));
    let again = place.json(0, &["reset", "cleaner"]);
    assert_eq!(again["outcome"], "unchanged");
    let file = place.file("watch.wasm", &plugin("watch", "1.0.0", &[], None, IDLE));
    place.json(0, &["deploy", &file]);
    place
        .refuses(2, &["reset", "watch"], &["not built in", "cleaner, expiry"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_of_a_later_version_is_named_and_never_built_upon() {
    let place = Place::new(Kind::Sqlite).await;
    let file = place.file("watch.wasm", &plugin("watch", "1.0.0", &[], None, IDLE));
    place.json(0, &["deploy", &file]);
    let mut raw = place.site.raw().await;
    let put = |number: u64, value: &[u8]| aedile_state::Command::PutKv {
        key: format!("aedile/plugin/watch/rev/{number:010}"),
        value: value.to_vec(),
    };
    aedile_tests_e2e::cluster::append(&mut raw, vec![put(2, b"{\"v\":2}")]).await;
    let parts = ["has the form 2", "use the version of Aedile that wrote it"];
    for args in [
        &["deploy", file.as_str()][..],
        &["disable", "watch"],
        &["rollback", "watch"],
    ] {
        place.refuses(4, args, &parts).await;
    }
    let shown = place.json(4, &["show", "watch"]);
    assert!(
        shown["newest"]["damaged"]
            .as_str()
            .unwrap()
            .contains("form 2")
    );
    let history = place.json(4, &["history", "watch"]);
    assert_eq!(history["revisions"].as_array().unwrap().len(), 2);
    // One that is damaged can be left behind by name.
    aedile_tests_e2e::cluster::append(&mut raw, vec![put(2, b"\xff")]).await;
    place
        .refuses(4, &["disable", "watch"], &["--to REVISION"])
        .await;
    let back = place.json(0, &["rollback", "watch", "--to", "1"]);
    assert_eq!(
        (back["revision"].as_u64(), back["record"]["of"].as_u64()),
        (Some(3), Some(1))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tick_that_is_asked_for_waits_in_the_metadata() {
    let place = Place::new(Kind::Sqlite).await;
    let file = place.file("watch.wasm", &plugin("watch", "1.0.0", &[], None, IDLE));
    place.json(0, &["deploy", &file]);
    let asked = place.json(0, &["run", "watch", "--who", "ann"]);
    assert_eq!(asked["outcome"], "asked");
    let state = outside::state(&mut place.site.raw().await).await;
    let requests: Vec<_> = state.kv_scan("aedile/plugin/watch/run/", None).collect();
    assert_eq!(requests.len(), 1);
    place.json(0, &["disable", "watch"]);
    place
        .refuses(
            2,
            &["run", "watch"],
            &["is disabled", "aedile plugin enable watch"],
        )
        .await;
}
