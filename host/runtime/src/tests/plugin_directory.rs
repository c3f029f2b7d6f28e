//! A directory of plugins, with real files and real modules.

use aedile_state::Command;

use super::cluster::{CLEANER, Cluster, KV_TTL, KV_TTL_NEXT};
use crate::guard::testing::World;
use crate::{PluginState, Runtime, RuntimeHandle, Status};

const SETTINGS: &str = r#"
grants = ["state", "metrics", "commands.put-kv", "commands.delete-kv"]
kv-prefixes = ["tmp/"]
[schedule]
interval = "100ms"
jitter = "0s"
[config]
rules = [{ prefix = "tmp/", ttl = "1ms" }]
"#;

async fn start(cluster: &Cluster) -> RuntimeHandle {
    let mut options = cluster.options("a");
    options.plugin_dir = Some(cluster.plugins());
    Runtime::start(options, cluster.parts("a").await)
        .await
        .expect("it starts")
}

fn write(cluster: &Cluster, name: &str, bytes: impl AsRef<[u8]>) {
    std::fs::write(cluster.plugins().join(name), bytes).expect("written");
}

fn version<'a>(status: &'a Status, name: &str) -> Option<&'a str> {
    let plugin = status.plugins.iter().find(|plugin| plugin.name == name)?;
    Some(&plugin.version)
}

fn problem(status: &Status, file: &str, text: &str) -> bool {
    status
        .problems
        .iter()
        .any(|problem| problem.origin.ends_with(file) && problem.text.contains(text))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_runs_is_replaced_outlives_a_broken_one_and_stops() {
    let mut world = World::new();
    for key in ["tmp/a", "tmp/b", "kept"] {
        world.apply(Command::PutKv {
            key: key.to_owned(),
            value: b"x".to_vec(),
        });
    }
    let cluster = Cluster::with(&world.commands).await;
    let handle = start(&cluster).await;

    // Without its settings it is not run, and the text says what to write.
    write(&cluster, "ttl.wasm", KV_TTL);
    let status = cluster
        .until(&handle, "it is refused", |status| {
            problem(status, "ttl.wasm", "let its settings file say: grants = [")
        })
        .await;
    assert_eq!(version(&status, "kv-ttl"), None);

    write(&cluster, "ttl.toml", SETTINGS);
    cluster
        .until(&handle, "it runs", |status| {
            version(status, "kv-ttl") == Some("0.1.0") && status.problems.is_empty()
        })
        .await;
    cluster
        .until(&handle, "it works", |status| {
            let ttl = status.plugins.iter().find(|plugin| plugin.name == "kv-ttl");
            ttl.is_some_and(|ttl| ttl.ticks > 2 && ttl.failed == 0)
        })
        .await;
    let state = cluster.view().await.state;
    assert_eq!(state.kv_get("tmp/a"), None);
    assert!(state.kv_get("kept").is_some());

    // A newer one, moved in place, takes over.
    write(&cluster, ".incoming", KV_TTL_NEXT);
    std::fs::rename(
        cluster.plugins().join(".incoming"),
        cluster.plugins().join("ttl.wasm"),
    )
    .expect("renamed");
    let status = cluster
        .until(&handle, "the newer one runs", |status| {
            let ttl = status.plugins.iter().find(|plugin| plugin.name == "kv-ttl");
            ttl.is_some_and(|ttl| ttl.version != "0.1.0" && ttl.loads == 2)
        })
        .await;
    let newer = version(&status, "kv-ttl").expect("it runs").to_owned();

    // A broken one leaves it running and is named, with the reason.
    write(&cluster, "ttl.wasm", &KV_TTL[..KV_TTL.len() / 2]);
    let status = cluster
        .until(&handle, "the broken one is named", |status| {
            problem(status, "ttl.wasm", "")
        })
        .await;
    assert_eq!(version(&status, "kv-ttl"), Some(newer.as_str()));
    assert!(status.problems[0].keeps_running);

    // So does a settings file with a mistake, until it is mended.
    write(&cluster, "ttl.wasm", KV_TTL_NEXT);
    write(&cluster, "ttl.toml", SETTINGS.replace("grants", "grant"));
    cluster
        .until(&handle, "the mistake is named", |status| {
            problem(status, "ttl.wasm", "did you mean `grants`?")
        })
        .await;
    write(&cluster, "ttl.toml", SETTINGS.replace("1ms", "soon"));
    cluster
        .until(&handle, "the configuration is refused", |status| {
            problem(status, "ttl.wasm", "it refuses its configuration")
        })
        .await;
    write(&cluster, "ttl.toml", SETTINGS);
    cluster
        .until(&handle, "it is mended", |status| status.problems.is_empty())
        .await;

    // Turned off, it is shown; removed, it is not.
    write(&cluster, "ttl.toml", format!("enabled = false\n{SETTINGS}"));
    cluster
        .until(&handle, "it is turned off", |status| {
            let ttl = status.plugins.iter().find(|plugin| plugin.name == "kv-ttl");
            ttl.is_some_and(|ttl| ttl.state == PluginState::Disabled)
        })
        .await;
    std::fs::remove_file(cluster.plugins().join("ttl.wasm")).expect("removed");
    cluster
        .until(&handle, "it is gone", |status| {
            version(status, "kv-ttl").is_none() && status.plugins.len() == 2
        })
        .await;
    write(&cluster, "ttl.toml", SETTINGS);
    write(&cluster, "ttl.wasm", KV_TTL);
    cluster
        .until(&handle, "it is back", |status| {
            version(status, "kv-ttl") == Some("0.1.0")
        })
        .await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_name_runs_once() {
    let cluster = Cluster::with(&World::new().commands).await;
    write(&cluster, "a.wasm", KV_TTL);
    write(&cluster, "a.toml", SETTINGS);
    write(&cluster, "mine.wasm", CLEANER);
    write(
        &cluster,
        "mine.toml",
        "grants = [\"state\", \"metrics\", \"storage.delete\", \"commands.clean-destroyed\"]",
    );
    let handle = start(&cluster).await;
    let status = handle.status();
    assert_eq!(version(&status, "kv-ttl"), Some("0.1.0"));
    assert!(
        problem(&status, "mine.wasm", "as a built-in plugin is"),
        "{status:#?}"
    );

    write(&cluster, "b.wasm", KV_TTL_NEXT);
    write(&cluster, "b.toml", SETTINGS);
    let status = cluster
        .until(&handle, "the second is refused", |status| {
            problem(status, "b.wasm", "already runs from")
        })
        .await;
    assert_eq!(version(&status, "kv-ttl"), Some("0.1.0"));
    // The first goes; the second takes its name.
    std::fs::remove_file(cluster.plugins().join("a.wasm")).expect("removed");
    cluster
        .until(&handle, "the second runs", |status| {
            version(status, "kv-ttl").is_some_and(|version| version != "0.1.0")
        })
        .await;
    handle.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_is_not_there_is_a_mistake() {
    let cluster = Cluster::empty();
    let mut options = cluster.options("a");
    options.plugin_dir = Some(cluster.plugins().join("missing"));
    let error = Runtime::start(options, cluster.parts("a").await)
        .await
        .expect_err("no such directory");
    assert!(error.to_string().contains("missing"), "{error}");
}
