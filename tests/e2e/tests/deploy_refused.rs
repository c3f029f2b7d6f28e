//! What `aedile plugin deploy` refuses, what it says then, and that nothing is
//! written.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use aedile_tests_contract::databases::Kind;
use aedile_tests_contract::registry::Registry;
use aedile_tests_contract::signer::Signer;
use aedile_tests_e2e::place::{IDLE, Place, plugin};
use aedile_tests_engine::guest;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_plugin_of_this_host_is_refused_and_nothing_is_written() {
    let place = Place::new(Kind::Sqlite).await;
    let file = |name: &str, bytes: &[u8]| place.file(name, bytes);
    let text = file("text.wasm", b"#!/bin/sh\necho hello\n");
    place
        .refuses(
            6,
            &["deploy", &text],
            &["text.wasm is refused", "not a Wasm module"],
        )
        .await;
    let empty = file("empty.wasm", b"");
    place
        .refuses(6, &["deploy", &empty], &["not a Wasm module"])
        .await;
    // Of another version of the WIT: both versions and the way out.
    let newer = file("newer.wasm", &guest("wrong_version"));
    let parts = ["is built for", "this host serves", "0.1.0", "rebuild it"];
    place.refuses(6, &["deploy", &newer], &parts).await;
    let function = file("function.wasm", &guest("newer_function"));
    place
        .refuses(
            6,
            &["deploy", &function],
            &["this host does not have", "upgrade"],
        )
        .await;
    let preview1 = file("preview1.wasm", &guest("preview1"));
    let parts = ["WASI preview 1", "--target wasm32-unknown-unknown"];
    place.refuses(6, &["deploy", &preview1], &parts).await;
    let manifest = file("manifest.wasm", &guest("no_manifest"));
    place
        .refuses(6, &["deploy", &manifest], &["aedile:manifest"])
        .await;
    let path = place.site.dir().join("large.wasm");
    let large = std::fs::File::create(&path).unwrap();
    large.set_len((32 << 20) + 1).unwrap();
    let path = path.display().to_string();
    let parts = ["it has 33554433 bytes", "at most 33554432"];
    place.refuses(6, &["deploy", &path], &parts).await;
    place
        .refuses(2, &["deploy", "/nowhere/at/all.wasm"], &["cannot be read"])
        .await;
    let folder = place.site.dir().display().to_string();
    place
        .refuses(2, &["deploy", &folder], &["cannot be read"])
        .await;
}

/// surrealdb 7338: a missing import was found only when it was instantiated, in
/// production.
#[tokio::test(flavor = "multi_thread")]
async fn surrealdb_7338_a_foreign_import_is_named_at_deploy() {
    let place = Place::new(Kind::Sqlite).await;
    let http = place.file("http.wasm", &guest("wasi_http"));
    let parts = ["wasi:http", "a plugin has no network"];
    place.refuses(6, &["deploy", &http], &parts).await;
}

/// zed 16284: a plugin built for a newer API was just "incompatible".
#[tokio::test(flavor = "multi_thread")]
async fn zed_16284_both_versions_are_in_the_message() {
    let place = Place::new(Kind::Sqlite).await;
    let newer = place.file("newer.wasm", &guest("wrong_version"));
    let parts = [
        "aedile:maintenance/",
        "@0.2",
        "serves aedile:maintenance@0.1.0",
    ];
    place.refuses(6, &["deploy", &newer], &parts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_held_against_its_schema_and_by_the_plugin() {
    let place = Place::new(Kind::Sqlite).await;
    let schema = json!({
        "type": "object",
        "required": ["rules"],
        "additionalProperties": false,
        "properties": {"rules": {"type": "array", "items": {
            "type": "object",
            "properties": {"keep": {"type": "integer", "minimum": 1}},
        }}},
    });
    let bytes = plugin("kept", "1.0.0", &[], Some(schema), IDLE);
    let file = place.file("kept.wasm", &bytes);
    let with = |config: &'static str| ["deploy", &file, "--plugin-config", config];
    let parts = ["`kept` is refused", "/: missing properties 'rules'"];
    place.refuses(6, &["deploy", &file], &parts).await;
    let wrong = r#"{"rules": [{"keep": 3}, {"keep": 0}], "rule": 1}"#;
    let parts = ["/rules/1/keep: must be >=1, but got 0", "/: unknown `rule`"];
    place.refuses(6, &with(wrong), &parts).await;
    let parts = ["--plugin-config", "is neither a JSON object nor a file"];
    place.refuses(2, &with("nowhere.json"), &parts).await;
    place
        .refuses(2, &with("{"), &["--plugin-config", "is not JSON", "line 1"])
        .await;
    let list = place.file("list.json", b"[1]");
    let parts = ["a JSON object is wanted"];
    place
        .refuses(2, &["deploy", &file, "--plugin-config", &list], &parts)
        .await;
    let config = place.file("kept.json", br#"{"rules": [{"keep": 3}]}"#);
    let done = place.json(0, &["deploy", &file, "--plugin-config", &config]);
    assert_eq!(done["record"]["config"], json!({"rules": [{"keep": 3}]}));
    // Changed while it runs, it is held against the schema too.
    let parts = ["/rules: want array, but got string"];
    let args = ["set", "kept", "--plugin-config", r#"{"rules": "all"}"#];
    place.refuses(6, &args, &parts).await;
    // No schema, but a plugin that looks itself.
    let picky = place.file("picky.wasm", &guest("refuse_config"));
    place
        .refuses(
            6,
            &["deploy", &picky],
            &["is refused", "it refuses its configuration"],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_tick_that_fails_and_memory_that_does_not_fit_are_found_before_anything_is_written()
{
    let place = Place::new(Kind::Sqlite).await;
    let trap = place.file("trap.wasm", &guest("trap_in_tick"));
    let parts = [
        "`trap-in-tick` is refused",
        "its first tick fails, in a dry run",
    ];
    place.refuses(6, &["deploy", &trap], &parts).await;
    let wide = plugin(
        "wide",
        "1.0.0",
        &[],
        None,
        "(memory (export \"memory\") 64)",
    );
    let wide = place.file("wide.wasm", &wide);
    let parts = [
        "needs 4.0 MiB of memory at its start",
        "its limit is 1.0 MiB",
    ];
    place
        .refuses(6, &["deploy", &wide, "--limit", "memory=1MiB"], &parts)
        .await;
    for (flags, part) in [
        (&["--limit", "memory=1"][..], "memory is 1 bytes"),
        (&["--limit", "fuel=1"], "the limits are memory, cpu"),
        (&["--every", "1ms"], "--every"),
        (&["--every", "1s", "--on-demand"], "exclude one another"),
        (&["--cron", "61 4 * * *"], "--cron"),
        (
            &["--grant", "commands.*"],
            "several at once cannot be granted",
        ),
        (&["--grant", "network"], "`network` is no grant"),
        (&["--kv-prefix", "aedile/plugin/"], "control range"),
        (&["--canary", "5"], "no version of `wide` yet"),
        (&["--canary", "0"], "--canary"),
        (&["--who", "a\nb"], "--who"),
    ] {
        let args = [&["deploy", wide.as_str()][..], flags].concat();
        place.refuses(2, &args, &[part]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_does_not_hold_is_refused_and_one_that_does_is_kept() {
    let place = Place::new(Kind::Sqlite).await;
    let bytes = plugin("watch", "1.0.0", &[], None, IDLE);
    let file = place.file("watch.wasm", &bytes);
    let (signer, other) = (Signer::new(), Signer::new());
    let (key, foreign) = (signer.public_key(), other.public_key());
    let required = [
        "deploy",
        &file,
        "--trusted-keys",
        &key,
        "--require-signature",
    ];
    place
        .refuses(6, &required, &["watch.wasm is refused", "is not signed"])
        .await;
    let parts = ["--require-signature"];
    place
        .refuses(2, &["deploy", &file, "--require-signature"], &parts)
        .await;
    let of_other = place.site.dir().join("other.minisig");
    std::fs::write(&of_other, other.sign(&bytes, "of another")).unwrap();
    let of_other = of_other.display().to_string();
    let args = [
        "deploy",
        &file,
        "--trusted-keys",
        &key,
        "--sign-file",
        &of_other,
    ];
    place
        .refuses(6, &args, &["is refused", "not trusted"])
        .await;
    let changed = plugin("watch", "1.0.1", &[], None, IDLE);
    let wrong = place.site.dir().join("wrong.minisig");
    std::fs::write(&wrong, signer.sign(&changed, "of other bytes")).unwrap();
    let wrong = wrong.display().to_string();
    let args = [
        "deploy",
        &file,
        "--trusted-keys",
        &key,
        "--sign-file",
        &wrong,
    ];
    place.refuses(6, &args, &["is refused"]).await;
    let args = ["deploy", &file, "--sign-file", "/nowhere.minisig"];
    place.refuses(2, &args, &["/nowhere.minisig"]).await;

    let signature = signer.sign_file(std::path::Path::new(&file), "for the cluster");
    let done = place.json(0, &required);
    assert_eq!(done["record"]["module"]["signature"], json!(signature));
    let args = ["deploy", &file, "--trusted-keys", &foreign];
    place.refuses(6, &args, &["not trusted"]).await;
}

/// istio 37463: a tag that moved changed what ran, some time later. Here it is
/// resolved once, and the history names the content.
#[tokio::test(flavor = "multi_thread")]
async fn istio_37463_a_deploy_from_a_registry_is_pinned_and_outlives_it() {
    let place = Place::new(Kind::Sqlite).await;
    let mut registry = Registry::start();
    let file = place.file("watch.wasm", &plugin("watch", "1.0.0", &[], None, IDLE));
    let tag = registry.reference("plugins/watch:latest");
    let push = |file: &str| {
        let args = ["plugin", "push", file, &tag, "--plain-http"];
        aedile_tests_e2e::binary::run_for(0, &args);
    };
    push(&file);
    let deploy = ["deploy", &tag, "--plain-http"];
    let done = place.json(0, &deploy);
    let source = done["record"]["module"]["source"].as_str().unwrap();
    assert!(
        source.starts_with("oci://") && source.contains("@sha256:"),
        "{source}"
    );
    // Another module under the same tag: only the next deploy sees it.
    let newer = place.file("newer.wasm", &plugin("watch", "2.0.0", &[], None, IDLE));
    push(&newer);
    let shown = place.json(0, &["show", "watch"]);
    assert_eq!(shown["newest"]["version"], "1.0.0");
    let done = place.json(0, &deploy);
    assert_eq!(
        (done["revision"].as_u64(), &done["record"]["version"]),
        (Some(2), &json!("2.0.0"))
    );
    registry.stop();
    let parts = [
        "the registry",
        "does not serve the request",
        "try again later",
    ];
    place.refuses(6, &deploy, &parts).await;
    assert_eq!(
        place.json(0, &["rollback", "watch"])["record"]["version"],
        "1.0.0"
    );
}
