//! The committed modules are those of the committed sources.

use aedile_tests_workspace::{files, read, sha256, text};
use toml::Table;
use wasmparser::{Parser, Payload};

const FOLDER: &str = "host/cli/modules";

/// Each module and the manifest that it was built with.
const MODULES: [(&str, &str); 8] = [
    ("cleaner.wasm", "plugins/cleaner/manifest.json"),
    ("expiry.wasm", "plugins/expiry/manifest.json"),
    ("kv_ttl.wasm", "plugins/kv-ttl/manifest.json"),
    ("kv_ttl_next.wasm", "plugins/kv-ttl/manifest-next.json"),
    ("orphans.wasm", "plugins/orphans/manifest.json"),
    ("retention.wasm", "plugins/retention/manifest.json"),
    ("scrub.wasm", "plugins/scrub/manifest.json"),
    ("trimmed.wasm", "plugins/trimmed/manifest.json"),
];

fn lock() -> Table {
    text("host/cli/modules/modules.lock")
        .parse()
        .expect("modules.lock is TOML")
}

/// What goes into a module: the set that `plugins/build.sh` hashes.
fn inputs() -> Vec<String> {
    let endings = [".rs", ".toml", ".json", ".wit", ".sh"];
    let mut inputs: Vec<_> = ["wit", "plugins"]
        .into_iter()
        .flat_map(files)
        .filter(|path| {
            endings.iter().any(|ending| path.ends_with(ending)) || path == "plugins/Cargo.lock"
        })
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn the_lock_names_the_sources_that_the_modules_were_built_from() {
    let inputs = inputs();
    for needed in [
        "wit/world.wit",
        "plugins/Cargo.lock",
        "plugins/kv-ttl/src/lib.rs",
    ] {
        assert!(
            inputs.iter().any(|path| path == needed),
            "{needed} is no input"
        );
    }
    let lines: String = inputs
        .iter()
        .map(|path| format!("{}  {path}\n", sha256(&read(path))))
        .collect();
    let lock = lock();
    let locked = lock["inputs"].as_str().expect("a hash");
    assert_eq!(
        sha256(lines.as_bytes()),
        locked,
        "wit/ or plugins/ changed since the modules in {FOLDER} were built \
         ({} files: *.rs, *.toml, *.json, *.wit, *.sh and plugins/Cargo.lock): run `make plugins` \
         and commit the modules with modules.lock",
        inputs.len()
    );
}

#[test]
fn every_module_is_the_one_in_the_lock() {
    let lock = lock();
    let locked = lock["modules"].as_table().expect("a table");
    let names: Vec<_> = MODULES.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        locked.keys().collect::<Vec<_>>(),
        names,
        "run `make plugins`"
    );
    let there: Vec<_> = files(FOLDER)
        .into_iter()
        .filter_map(|path| {
            Some(path.strip_suffix(".wasm")?.rsplit('/').next()?.to_owned() + ".wasm")
        })
        .collect();
    assert_eq!(
        there, names,
        "modules in {FOLDER} that are not in the lock, or the reverse"
    );
    for name in names {
        let hash = sha256(&read(&format!("{FOLDER}/{name}")));
        assert_eq!(
            locked[name].as_str(),
            Some(hash.as_str()),
            "{name}: run `make plugins`"
        );
    }
    let toolchain = lock["toolchain"].as_table().expect("a table");
    for key in ["name", "rustc", "linker", "flags"] {
        assert!(
            toolchain.contains_key(key),
            "the lock's toolchain lacks {key}"
        );
    }
}

/// Sections named `aedile:manifest` and imports as `interface.function`.
fn inspect(module: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut manifests, mut imports) = (Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(module) {
        match payload.expect("a valid module") {
            Payload::CustomSection(section) if section.name() == "aedile:manifest" => {
                manifests.push(String::from_utf8(section.data().to_vec()).expect("UTF-8"));
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    let import = import.expect("a valid import");
                    let interface = import
                        .module
                        .strip_prefix("aedile:maintenance/")
                        .and_then(|rest| rest.strip_suffix("@0.1.0"))
                        .unwrap_or_else(|| panic!("a foreign import: {}", import.module));
                    imports.push(format!("{interface}.{}", import.name));
                }
            }
            _ => {}
        }
    }
    (manifests, imports)
}

#[test]
fn every_module_carries_its_manifest_and_imports_just_what_it_asks_for() {
    for (name, manifest) in MODULES {
        let (manifests, imports) = inspect(&read(&format!("{FOLDER}/{name}")));
        assert_eq!(manifests, [text(manifest)], "{name}");
        let parsed: serde_json::Value = serde_json::from_str(&manifests[0]).expect("JSON");
        let grants: Vec<&str> = parsed["grants"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|grant| grant.as_str().expect("a text"))
            .collect();
        let mut used: Vec<&str> = imports
            .iter()
            .map(|import| match import.split_once('.') {
                Some((whole @ ("state" | "metrics" | "job" | "logging"), _)) => whole,
                _ => import,
            })
            .filter(|grant| !matches!(*grant, "job" | "logging"))
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut asked = grants.clone();
        asked.sort_unstable();
        assert_eq!(
            used, asked,
            "{name}: what it imports, and what its manifest asks for"
        );
    }
}

#[test]
fn no_module_carries_a_path_of_the_machine_that_built_it() {
    for (name, _) in MODULES {
        let bytes = read(&format!("{FOLDER}/{name}"));
        for path in ["/home/", "/root/", "/usr/", "/tmp/", "/Users/", ".cargo/"] {
            let found = bytes
                .windows(path.len())
                .any(|window| window == path.as_bytes());
            assert!(!found, "{name} holds {path}");
        }
    }
}
