//! An operator beside the nodes: deploys modules as `aedile plugin` does, by the
//! product's own log client and object store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aedile_log::{Log, LogOptions, Reader, RunRecord};
use aedile_runtime::control::{
    self, Action, ModuleRef, Record, Revision, StoredModule, Written, run_now,
};
use aedile_runtime::{PluginStatus, Status};
use aedile_storage::{ModuleDigest, Store, StoreOptions};

use crate::site::{BOUND, Site};
use crate::wait::{clock, until};

/// Who the operator is.
pub const WHO: &str = "operator@test";

/// An operator.
#[derive(Debug)]
pub struct Operator {
    url: String,
    log: Log,
    store: Store,
    nonce: AtomicU64,
}

/// A module to deploy.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its plugin's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
    /// What it wants.
    pub grants: Vec<String>,
}

impl Module {
    /// A guest's text, as `aedile_tests_engine` takes it, under this name and
    /// version, with these grants, every 100 ms.
    pub fn of(name: &str, version: &str, grants: &[&str], text: &str) -> Self {
        let listed = grants
            .iter()
            .map(|grant| format!("\"{grant}\""))
            .collect::<Vec<_>>()
            .join(",");
        let manifest = format!(
            r#"{{"name":"{name}","version":"{version}","grants":[{listed}],"schedule":{{"interval":"100ms"}}}}"#
        );
        let text = format!(";; manifest: {manifest}\n{text}");
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            bytes: aedile_tests_engine::module(name, &text).into(),
            grants: grants.iter().map(|&grant| grant.to_owned()).collect(),
        }
    }

    /// One that puts a value under a key of its own in each tick.
    pub fn noter(name: &str, version: &str, key: &str, value: &str) -> Self {
        Self::of(
            name,
            version,
            &["commands.put-kv"],
            &noter(name, key, value),
        )
    }

    /// One that traps in each tick.
    pub fn trapping(name: &str, version: &str) -> Self {
        let trap = r#"(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32) (unreachable))"#;
        Self::of(name, version, &[], trap)
    }

    /// Other bytes, and so another digest, that do the same.
    #[must_use]
    pub fn variant(&self, mark: &str) -> Self {
        let mut bytes = self.bytes.to_vec();
        let name = b"variant";
        let mut body = vec![name.len() as u8];
        body.extend_from_slice(name);
        body.extend_from_slice(mark.as_bytes());
        aedile_tests_engine::section(&mut bytes, 0, &body);
        Self {
            bytes: bytes.into(),
            ..self.clone()
        }
    }

    /// The digest by which it is known.
    pub fn digest(&self) -> String {
        ModuleDigest::of(&self.bytes).to_string()
    }
}

/// A tick that puts a value under a key.
pub fn noter(name: &str, key: &str, value: &str) -> String {
    let key = format!("aedile/kv/{name}/{key}");
    format!(
        r#"(import "aedile:maintenance/commands@0.1.0" "put-kv" (func $put (param i32 i32 i32)))
(memory (export "memory") 4)
(data (i32.const 0) "{key}")
(data (i32.const 512) "{value}")
(func (export "aedile:maintenance/maintenance@0.1.0#tick") (result i32)
    (i32.store (i32.const 768) (i32.const 0))
    (i32.store (i32.const 772) (i32.const {}))
    (i32.store (i32.const 776) (i32.const 512))
    (i32.store (i32.const 780) (i32.const {}))
    (call $put (i32.const 768) (i32.const 1) (i32.const 2048))
    (i32.const 1024))"#,
        key.len(),
        value.len()
    )
}

impl Operator {
    /// Connect to the site's database and object directory.
    pub async fn new(site: &Site) -> Self {
        Self::at(site.url(), &site.storage()).await
    }

    /// Connect.
    pub async fn at(url: &str, storage: &str) -> Self {
        let options = LogOptions {
            node: "operator".to_owned(),
            ..LogOptions::default()
        };
        let meta = url.parse().expect("a URL");
        let log = Log::open(&meta, options, clock())
            .await
            .expect("the log opens");
        let storage = storage.parse().expect("a storage URI");
        let store = Store::open(&storage, StoreOptions::default(), clock()).expect("a store");
        Self {
            url: url.to_owned(),
            log,
            store,
            nonce: AtomicU64::new(0),
        }
    }

    /// The log as the operator sees it.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Store a module's bytes; how a record names it.
    pub async fn upload(&self, module: &Module) -> ModuleRef {
        let put = self
            .store
            .put_module(module.bytes.to_vec().into())
            .await
            .expect("the module can be stored");
        ModuleRef::Stored(StoredModule {
            digest: put.digest.to_string(),
            size: module.bytes.len() as u64,
            signature: None,
            source: Some("file:test.wasm".to_owned()),
        })
    }

    /// Deploy a module with what it wants, changed like this.
    pub async fn deploy(&self, module: &Module, change: impl FnOnce(&mut Record)) -> u64 {
        let stored = self.upload(module).await;
        let newest = self.newest(&module.name).await;
        let mut record = match &newest {
            Some(newest) if !newest.record.removed => newest.record.clone(),
            _ => Record::new(Action::Deploy, stored.clone(), String::new()),
        };
        record.module = stored;
        record.version.clone_from(&module.version);
        for grant in &module.grants {
            if !record.grants.contains(grant) {
                record.grants.push(grant.clone());
            }
        }
        record.canary = 0;
        record.of = None;
        change(&mut record);
        let record = record.by(Action::Deploy, WHO, "a test");
        self.write(
            &module.name,
            newest.map_or(0, |newest| newest.number),
            record,
        )
        .await
    }

    /// Write a revision that differs from the newest like this.
    pub async fn revise(
        &self,
        name: &str,
        action: Action,
        change: impl FnOnce(&mut Record),
    ) -> u64 {
        let newest = self.newest(name).await.expect("a revision");
        let mut record = newest.record.clone().by(action, WHO, "a test");
        change(&mut record);
        self.write(name, newest.number, record).await
    }

    /// Write a revision.
    pub async fn write(&self, name: &str, previous: u64, record: Record) -> u64 {
        match control::write(&self.log, name, previous, record).await {
            Ok(Written::Written { number }) => number,
            other => panic!("a revision of {name} was not written: {other:?}"),
        }
    }

    /// The newest revision.
    pub async fn newest(&self, name: &str) -> Option<Revision> {
        self.log.catch_up(BOUND).await.expect("the log can be read");
        control::latest(&self.log.view().state, name).map(|newest| newest.expect("it can be read"))
    }

    /// Ask for a tick now; the request's key.
    pub async fn run_now(&self, name: &str) -> String {
        let at = self.log.database_now().await.expect("the time").0;
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed);
        let command = run_now(name, WHO, at, nonce);
        let aedile_state::Command::PutKvIfAbsent { key, .. } = &command else {
            panic!("a request is a put, not {command:?}");
        };
        let key = key.clone();
        self.log
            .propose(vec![command])
            .await
            .expect("the request is written");
        key
    }

    /// Wait until a key is there, or gone; how long it took.
    pub async fn key(&self, key: &str, there: bool) -> Duration {
        let what = format!("the key {key} {}", if there { "there" } else { "gone" });
        until(&what, BOUND, async || {
            let state = self.log.view().state.clone();
            (state.kv_get(key).is_some() == there).then_some(())
        })
        .await
        .1
    }

    /// What every node has told of itself, by name.
    pub async fn told(&self) -> Vec<(String, Status)> {
        let reader = self.reader().await;
        let nodes = reader.nodes().await.expect("the nodes' rows");
        reader.close().await;
        nodes
            .into_iter()
            .filter_map(|node| Some((node.node, serde_json::from_value(node.status).ok()?)))
            .collect()
    }

    /// The newest runs.
    pub async fn runs(&self, most: u32) -> Vec<RunRecord> {
        let reader = self.reader().await;
        let runs = reader.runs(most).await.expect("the runs");
        reader.close().await;
        runs
    }

    async fn reader(&self) -> Reader {
        let meta = self.url.parse().expect("a URL");
        Reader::open(&meta, &clock()).await.expect("a reader")
    }

    /// Wait until these nodes tell this of a plugin.
    pub async fn all(
        &self,
        nodes: &[&str],
        name: &str,
        what: &str,
        mut good: impl FnMut(&PluginStatus) -> bool,
    ) -> Vec<PluginStatus> {
        let mut last = Vec::new();
        let look = async || {
            last = self.told().await;
            let mut found = Vec::new();
            for node in nodes {
                let (_, status) = last.iter().find(|(told, _)| told == node)?;
                let plugin = status.plugins.iter().find(|plugin| plugin.name == name)?;
                if !good(plugin) {
                    return None;
                }
                found.push(plugin.clone());
            }
            Some(found)
        };
        until(&format!("{name}: {what}"), BOUND, look).await.0
    }

    /// Wait until one of the nodes tells this of itself.
    pub async fn any(&self, what: &str, mut good: impl FnMut(&Status) -> bool) -> Status {
        until(what, BOUND, async || {
            let told = self.told().await;
            told.into_iter()
                .map(|(_, status)| status)
                .find(|status| good(status))
        })
        .await
        .0
    }

    /// Close the log.
    pub async fn close(self) {
        self.log.close().await;
    }
}
