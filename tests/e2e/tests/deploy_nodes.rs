//! `aedile plugin deploy` and its kin beside three nodes: every node follows,
//! and one that does not is named with the reason.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::operator::Module;
use aedile_tests_e2e::site::{BOUND, Site, leader};
use aedile_tests_e2e::three::{NAMES, Three, key};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{binary, outside};
use serde_json::{Value, json};

/// How long a command waits for the nodes: far above what it takes.
const WAIT: &str = "60s";

/// `aedile plugin … --json` on a site; its JSON.
fn plugin(site: &Site, code: i32, args: &[&str]) -> Value {
    let storage = site.storage();
    let mut all = [&["plugin"], args, &["--json", "--meta-url", site.url()]].concat();
    if matches!(args[0], "deploy" | "set") {
        all.extend(["--storage", &storage]);
    }
    binary::json_for(code, &all)
}

fn file(site: &Site, module: &Module) -> String {
    let path = site
        .dir()
        .join(format!("{}-{}.wasm", module.name, module.version));
    std::fs::write(&path, &module.bytes).unwrap();
    path.display().to_string()
}

/// The state of each node as the command tells it.
fn nodes(told: &Value) -> Vec<(&str, &str)> {
    let nodes = told["nodes"].as_array().unwrap();
    nodes
        .iter()
        .map(|node| {
            let text = |key: &str| node[key].as_str().unwrap();
            (text("node"), text("state"))
        })
        .collect()
}

const ALL: [(&str, &str); 3] = [("a", "done"), ("b", "done"), ("c", "done")];

async fn value(site: &Site, key: &str) -> Option<Vec<u8>> {
    let state = outside::state(&mut site.raw().await).await;
    state.kv_get(key).map(<[u8]>::to_vec)
}

async fn every_node_follows_each_command_before_it_returns(kind: Kind) {
    let three = Three::start(kind).await;
    let site = &three.site;
    let one = Module::noter("night-watch", "1.0.0", "seen", "one");
    let two = Module::noter("night-watch", "2.0.0", "seen", "two");
    let wait = |args: &[&str]| plugin(site, 0, &[args, &["--wait", WAIT]].concat());
    let done = wait(&["deploy", &file(site, &one), "--grant", "commands.put-kv"]);
    assert_eq!(nodes(&done), ALL);
    let seen = key("night-watch", "seen");
    let is = async |expected: &[u8]| {
        let what = format!("{} is seen", String::from_utf8_lossy(expected));
        until(&what, BOUND, async || {
            (value(site, &seen).await.as_deref() == Some(expected)).then_some(())
        })
        .await;
    };
    is(b"one").await;
    let done = wait(&["deploy", &file(site, &two), "--why", "OPS-8"]);
    assert_eq!(
        (done["revision"].as_u64(), nodes(&done)),
        (Some(2), ALL.to_vec())
    );
    // adm-controller 531: told only when it is so.
    for status in three
        .operator
        .all(&NAMES, "night-watch", "both agree", |_| true)
        .await
    {
        assert_eq!((status.revision, status.digest), (Some(2), two.digest()));
    }
    is(b"two").await;
    let shown = plugin(site, 0, &["show", "night-watch"]);
    assert_eq!(shown["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(shown["nodes"][0]["plugin"]["digest"], json!(two.digest()));
    let done = wait(&["rollback", "night-watch"]);
    assert_eq!(
        (done["record"]["of"].as_u64(), nodes(&done)),
        (Some(1), ALL.to_vec())
    );
    is(b"one").await;
    assert_eq!(nodes(&wait(&["disable", "night-watch"])), ALL);
    assert_eq!(nodes(&wait(&["enable", "night-watch"])), ALL);
    assert_eq!(nodes(&wait(&["remove", "night-watch"])), ALL);
    let listed = plugin(site, 0, &["list"]);
    let left = listed["nodes"].as_array().unwrap();
    assert!(
        left.iter().all(|plugin| plugin["name"] != "night-watch"),
        "{left:?}"
    );
    three.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_follows_each_command_before_it_returns_on_sqlite() {
    every_node_follows_each_command_before_it_returns(Kind::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_follows_each_command_before_it_returns_on_postgres() {
    every_node_follows_each_command_before_it_returns(Kind::Postgres).await;
}

/// What waits for approval is told with the command that ends the wait, and that
/// command does.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_that_is_told_gives_what_is_missing() {
    let three = Three::start(Kind::Sqlite).await;
    let site = &three.site;
    let module = Module::noter("night-watch", "1.0.0", "seen", "one");
    let told = plugin(site, 6, &["deploy", &file(site, &module), "--wait", WAIT]);
    assert_eq!(told["outcome"], "written");
    assert_eq!(told["needs_approval"], json!(["commands.put-kv"]));
    let states: Vec<_> = nodes(&told).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["refused"; 3]);
    let detail = told["nodes"][0]["detail"].as_str().unwrap();
    let command = detail.rsplit_once("aedile ").unwrap().1;
    let mut args: Vec<&str> = command.split_whitespace().skip(1).collect();
    args.extend(["--wait", WAIT]);
    assert_eq!(nodes(&plugin(site, 0, &args)), ALL);
    assert_eq!(
        value(site, "aedile/plugin/night-watch/rev/0000000003").await,
        None
    );
    three.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_on_demand_ticks_when_it_is_asked_to() {
    let three = Three::start(Kind::Sqlite).await;
    let site = &three.site;
    let module = Module::noter("night-watch", "1.0.0", "seen", "one");
    let path = file(site, &module);
    let args = [
        "deploy",
        &path,
        "--grant",
        "commands.put-kv",
        "--on-demand",
        "--wait",
        WAIT,
    ];
    assert_eq!(nodes(&plugin(site, 0, &args)), ALL);
    let seen = key("night-watch", "seen");
    assert_eq!(value(site, &seen).await, None, "it ticked by itself");
    plugin(site, 0, &["run", "night-watch", "--who", "ann"]);
    until("the tick that was asked for", BOUND, async || {
        value(site, &seen).await.map(|_| ())
    })
    .await;
    three.end().await;
}

/// A name that a file has is not taken from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_a_file_of_a_node_has_is_refused_with_node_and_file() {
    let site = Site::new(Kind::Sqlite, 4, 0).await;
    let folder = site.dir().join("plugins");
    std::fs::create_dir(&folder).unwrap();
    let module = Module::of("night-watch", "1.0.0", &[], "(data (i32.const 0) \"idle\")");
    std::fs::write(folder.join("watch.wasm"), &module.bytes).unwrap();
    let path = folder.display().to_string();
    let mut node = site.node(
        "rack-4",
        "2s",
        &["--plugin-dir", &path, "--heartbeat", "1s"],
    );
    let mut raw = site.raw().await;
    leader(&mut raw, &[&node], BOUND).await;
    let file = file(&site, &module);
    let storage = site.storage();
    let args = [
        "plugin",
        "deploy",
        &file,
        "--meta-url",
        site.url(),
        "--storage",
        &storage,
    ];
    until("the node has told of its file", BOUND, async || {
        let dry = binary::run(&[&args[..], &["--dry-run"]].concat());
        (dry.status.code() != Some(0)).then_some(())
    })
    .await;
    let refused = binary::run(&args);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{text}");
    for part in [
        "the name `night-watch` is taken",
        "rack-4",
        "watch.wasm",
        "nothing was written",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let state = outside::state(&mut raw).await;
    assert_eq!(state.kv_scan("aedile/plugin/", None).count(), 0);
    assert!(!site.objects().join("aedile/modules").exists());
    assert_eq!(node.stop(), Some(0));
}

/// `--canary`: the new version plans beside the old for some ticks, nothing of it
/// is applied, and then it takes over by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_on_trial_takes_over_by_itself() {
    let three = Three::start(Kind::Sqlite).await;
    let site = &three.site;
    let one = Module::noter("night-watch", "1.0.0", "seen", "one");
    let two = Module::noter("night-watch", "2.0.0", "seen", "two");
    let grant = ["--grant", "commands.put-kv", "--wait", WAIT];
    let path = file(site, &one);
    let first = [&["deploy", &path], &grant[..]].concat();
    assert_eq!(nodes(&plugin(site, 0, &first)), ALL);
    let done = plugin(site, 0, &["deploy", &file(site, &two), "--canary", "3"]);
    assert_eq!(
        (done["revision"].as_u64(), done["record"]["canary"].as_u64()),
        (Some(2), Some(3))
    );
    let (history, _) = until("it is promoted", BOUND, async || {
        let history = plugin(site, 0, &["history", "night-watch"]);
        (history["revisions"].as_array()?.len() == 3).then_some(history)
    })
    .await;
    let promoted = &history["revisions"][0];
    assert_eq!(promoted["action"], "promote");
    let text = |key: &str| promoted[key].as_str().unwrap();
    assert!(text("who").starts_with("aedile@"), "{promoted}");
    assert!(text("why").contains("3 ticks on trial"), "{promoted}");
    let seen = key("night-watch", "seen");
    until("two is seen", BOUND, async || {
        (value(site, &seen).await.as_deref() == Some(b"two")).then_some(())
    })
    .await;
    three.end().await;
}
