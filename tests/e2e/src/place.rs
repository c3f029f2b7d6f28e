//! A site on which `aedile plugin deploy` and its kin are tried: modules made for
//! the purpose, what the commands say, and what they wrote.

use std::path::{Path, PathBuf};

use aedile_tests_contract::databases::Kind;
use aedile_tests_engine::module;
use serde_json::{Value, json};

use crate::site::Site;
use crate::{binary, outside};

/// A database, object storage, and a folder for modules.
#[derive(Debug)]
pub struct Place {
    /// Where it is.
    pub site: Site,
}

impl Place {
    /// A new one with four live objects.
    pub async fn new(kind: Kind) -> Self {
        Self {
            site: Site::new(kind, 4, 0).await,
        }
    }

    /// Write a module to a file; its path.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.site.dir().join(name);
        std::fs::write(&path, bytes).expect("what a test needs");
        path.display().to_string()
    }

    /// `aedile plugin …` on this place.
    pub fn args<'a>(&'a self, args: &[&'a str], storage: Option<&'a str>) -> Vec<&'a str> {
        let mut all = vec!["plugin"];
        all.extend(args);
        all.extend(["--meta-url", self.site.url()]);
        if let Some(storage) = storage {
            all.extend(["--storage", storage]);
        }
        all
    }

    /// Its JSON.
    pub fn json(&self, code: i32, args: &[&str]) -> Value {
        let storage = self.site.storage();
        let needs = matches!(args[0], "deploy" | "set").then_some(storage.as_str());
        let mut args = self.args(args, needs);
        args.push("--json");
        binary::json_for(code, &args)
    }

    /// Demand the exit code and that each part is said on standard error, and
    /// that nothing was written anywhere.
    pub async fn refuses(&self, code: i32, args: &[&str], parts: &[&str]) {
        let before = self.everything().await;
        self.says(code, args, parts);
        assert!(
            self.everything().await == before,
            "{args:?} wrote something"
        );
    }

    /// Demand the exit code and that each part is said on standard error.
    pub fn says(&self, code: i32, args: &[&str], parts: &[&str]) {
        let storage = self.site.storage();
        let needs = matches!(args[0], "deploy" | "set").then_some(storage.as_str());
        let output = binary::run(&self.args(args, needs));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}{out}");
        for part in parts {
            assert!(
                text.contains(part),
                "{args:?} does not say {part:?}: {text}"
            );
        }
        assert!(!text.contains("panicked"), "{args:?}: {text}");
    }

    /// The last index of the log, and the stored modules.
    pub async fn everything(&self) -> (i64, Vec<String>) {
        let index = self
            .site
            .raw()
            .await
            .last()
            .await
            .expect("what a test needs");
        (index, self.modules())
    }

    /// Names of the stored modules.
    pub fn modules(&self) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.site.objects().join("aedile/modules")) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("what a test needs")
                    .file_name()
                    .into_string()
                    .expect("what a test needs")
            })
            .collect();
        names.sort();
        names
    }

    /// A revision, as it lies in the metadata.
    pub async fn record(&self, name: &str, number: u64) -> Option<Value> {
        let state = outside::state(&mut self.site.raw().await).await;
        let key = format!("aedile/plugin/{name}/rev/{number:010}");
        state
            .kv_get(&key)
            .map(|value| serde_json::from_slice(value).expect("what a test needs"))
    }
}

/// A plugin with these lines of a manifest, and this code.
pub fn plugin(
    name: &str,
    version: &str,
    grants: &[&str],
    schema: Option<Value>,
    code: &str,
) -> Vec<u8> {
    let mut manifest = json!({
        "name": name,
        "version": version,
        "grants": grants,
        "schedule": {"interval": "1s"},
    });
    if let Some(schema) = schema {
        manifest["config-schema"] = schema;
    }
    module(name, &format!(";; manifest: {manifest}\n{code}"))
}

/// A tick that does nothing.
pub const IDLE: &str = "(data (i32.const 0) \"idle\")";

/// A built-in module's file.
pub fn built_in(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../host/cli/modules")
        .join(name)
}
