//! Plugins dropped into the directory of a running node.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::path::{Path, PathBuf};

use aedile_state::Command;
use aedile_tests_contract::databases::{Kind, Raw};
use aedile_tests_e2e::binary::{self, Node};
use aedile_tests_e2e::site::{BOUND, Site, leader};
use aedile_tests_e2e::wait::until;
use aedile_tests_e2e::{cluster, outside};
use serde_json::Value;

const SETTINGS: &str = r#"
grants = ["state", "metrics", "commands.put-kv", "commands.delete-kv"]
kv-prefixes = ["sessions/"]

[schedule]
interval = "200ms"
jitter = "0s"

[config]
rules = [{ prefix = "sessions/", ttl = "250ms" }]
"#;

fn module(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../host/cli/modules")
        .join(name)
}

/// The digest by which a module is known.
fn digest(name: &str) -> String {
    outside::hash(&module(name))
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// A node with a plugin directory.
struct Running {
    site: Site,
    folder: PathBuf,
    node: Node,
    raw: Raw,
}

impl Running {
    async fn start() -> Self {
        let site = Site::new(Kind::Sqlite, 4, 0).await;
        let folder = site.dir().join("plugins");
        std::fs::create_dir(&folder).unwrap();
        let path = folder.display().to_string();
        let node = site.node("a", "2s", &["--plugin-dir", &path, "--heartbeat", "1s"]);
        let mut raw = site.raw().await;
        leader(&mut raw, &[&node], BOUND).await;
        Self {
            site,
            folder,
            node,
            raw,
        }
    }

    /// Drop a file in, whole at once.
    fn drop_in(&self, name: &str, bytes: &[u8]) {
        let half = self.site.dir().join("half");
        std::fs::write(&half, bytes).unwrap();
        std::fs::rename(half, self.folder.join(name)).unwrap();
    }

    fn drop_module(&self, name: &str) {
        self.drop_in("kv_ttl.wasm", &std::fs::read(module(name)).unwrap());
    }

    /// The node's own status by `aedile status --json`, once it is so.
    async fn status(&self, what: &str, good: impl Fn(&Value) -> bool) -> Value {
        let look = async || {
            let all = binary::json_for(0, &["status", "--json", "--meta-url", self.site.url()]);
            let status = all["nodes"].get(0)?["status"].clone();
            good(&status).then_some(status)
        };
        until(what, BOUND, look).await.0
    }

    async fn key_goes(&mut self, key: &str) {
        let put = Command::PutKv {
            key: key.to_owned(),
            value: b"x".to_vec(),
        };
        cluster::append(&mut self.raw, vec![put]).await;
        let raw = &mut self.raw;
        until(&format!("{key} goes"), BOUND, async || {
            outside::state(raw)
                .await
                .kv_get(key)
                .is_none()
                .then_some(())
        })
        .await;
    }
}

fn plugin<'a>(status: &'a Value, name: &str) -> Option<&'a Value> {
    status["plugins"]
        .as_array()?
        .iter()
        .find(|plugin| plugin["name"] == name)
}

fn runs(status: &Value, module: &str) -> bool {
    plugin(status, "kv-ttl").is_some_and(|plugin| plugin["digest"] == digest(module))
}

fn problem(status: &Value) -> Option<&Value> {
    status["problems"].get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_is_dropped_in_replaced_broken_and_removed() {
    let mut a = Running::start().await;
    a.drop_in("kv_ttl.toml", SETTINGS.as_bytes());
    a.drop_module("kv_ttl.wasm");
    a.key_goes("sessions/1").await;
    let first = a
        .status("it runs", |status| runs(status, "kv_ttl.wasm"))
        .await;

    // A newer build, without a restart.
    a.drop_module("kv_ttl_next.wasm");
    let next = a
        .status("the next runs", |status| runs(status, "kv_ttl_next.wasm"))
        .await;
    assert_eq!(
        next["started"], first["started"],
        "the node was started again"
    );
    assert_eq!(next["terms"], 1, "the lease was lost over the swap");
    assert_ne!(
        plugin(&next, "kv-ttl").unwrap()["version"],
        plugin(&first, "kv-ttl").unwrap()["version"]
    );
    a.key_goes("sessions/2").await;

    // A broken one: the old runs on, and the status says why.
    a.drop_in("kv_ttl.wasm", b"this is no module");
    let broken = a
        .status("the refusal", |status| problem(status).is_some())
        .await;
    let told = problem(&broken).unwrap();
    assert_eq!(told["keeps_running"], true, "{told}");
    assert!(
        told["origin"].as_str().unwrap().ends_with("kv_ttl.wasm"),
        "{told}"
    );
    assert!(
        told["text"]
            .as_str()
            .unwrap()
            .to_lowercase()
            .contains("wasm"),
        "{told}"
    );
    assert!(runs(&broken, "kv_ttl_next.wasm"));
    a.key_goes("sessions/3").await;

    // Removed: it stops, and keys stay.
    std::fs::remove_file(a.folder.join("kv_ttl.wasm")).unwrap();
    let gone = a
        .status("it is gone", |status| {
            plugin(status, "kv-ttl").is_none() && problem(status).is_none()
        })
        .await;
    assert!(plugin(&gone, "cleaner").is_some() && plugin(&gone, "expiry").is_some());
    assert!(a.node.ended().is_none(), "the node runs on");
    assert_eq!(a.node.stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_is_lacking_is_named_with_the_line_that_gives_it() {
    let a = Running::start().await;
    let less = SETTINGS.replace(", \"commands.delete-kv\"", "");
    a.drop_in("kv_ttl.toml", less.as_bytes());
    a.drop_module("kv_ttl.wasm");
    let refused = a
        .status("the refusal", |status| problem(status).is_some())
        .await;
    let told = problem(&refused).unwrap();
    let text = told["text"].as_str().unwrap();
    assert!(text.contains("commands.delete-kv"), "{text}");
    let line = "grants = [\"state\", \"metrics\", \"commands.put-kv\", \"commands.delete-kv\"]";
    assert!(text.contains(line), "{text}");
    assert_eq!(told["keeps_running"], false, "{told}");
    assert!(plugin(&refused, "kv-ttl").is_none());
    // The line alone mends it.
    a.drop_in(
        "kv_ttl.toml",
        SETTINGS
            .replacen("grants = ", "# ", 1)
            .replacen('\n', &format!("\n{line}\n"), 1)
            .as_bytes(),
    );
    a.status("it runs", |status| {
        runs(status, "kv_ttl.wasm") && problem(status).is_none()
    })
    .await;
}
