//! Which crate may see which, by `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use aedile_tests_workspace::{root, text};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// What each crate of the host may depend on among the others. A crate that is
/// not here fails the test: its place has to be decided.
const MAY_SEE: [(&str, &[&str]); 9] = [
    ("aedile-clock", &[]),
    ("aedile-state", &[]),
    ("aedile-log", &["aedile-clock", "aedile-state"]),
    ("aedile-lease", &["aedile-clock"]),
    ("aedile-storage", &["aedile-clock"]),
    ("aedile-engine", &["aedile-clock"]),
    ("aedile-supply", &["aedile-clock"]),
    (
        "aedile-runtime",
        &[
            "aedile-clock",
            "aedile-state",
            "aedile-log",
            "aedile-lease",
            "aedile-storage",
            "aedile-engine",
            "aedile-supply",
        ],
    ),
    (
        "aedile",
        &[
            "aedile-clock",
            "aedile-state",
            "aedile-log",
            "aedile-lease",
            "aedile-storage",
            "aedile-engine",
            "aedile-supply",
            "aedile-runtime",
        ],
    ),
];

/// A dependency and the only crates of the host that may have it directly.
const ONLY: [(&str, &[&str]); 5] = [
    ("wasmtime", &["aedile-engine"]),
    ("anyhow", &["aedile"]),
    ("sqlx", &["aedile-log", "aedile-lease"]),
    ("object_store", &["aedile-storage"]),
    ("oci-client", &["aedile-supply"]),
];

/// Crates that stay free of these, at any depth.
const NEVER: [(&str, &[&str]); 6] = [
    (
        "aedile-state",
        &["tokio", "sqlx", "wasmtime", "object_store", "aedile-clock"],
    ),
    ("aedile-log", &["wasmtime", "object_store"]),
    ("aedile-lease", &["wasmtime", "object_store"]),
    ("aedile-storage", &["wasmtime", "sqlx"]),
    ("aedile-engine", &["sqlx", "object_store"]),
    ("aedile-supply", &["sqlx", "wasmtime", "object_store"]),
];

/// The graph as it is built here: for this platform, so that nothing beyond
/// what the build took has to be fetched.
fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .other_options(vec![format!("--filter-platform={}", platform())])
        .exec()
        .expect("cargo metadata of the workspace")
}

fn platform() -> String {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .expect("rustc on PATH");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.expect("rustc names its platform").to_owned()
}

/// Direct dependencies of each crate below `host/`, without those that only its
/// own tests have. What lies below `tests/` may see everything.
fn direct(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    metadata
        .workspace_packages()
        .into_iter()
        .filter(|package| {
            package
                .manifest_path
                .starts_with(metadata.workspace_root.join("host"))
        })
        .map(|package| {
            let dependencies = package.dependencies.iter();
            let names = dependencies
                .filter(|dependency| dependency.kind != DependencyKind::Development)
                .map(|dependency| dependency.name.clone())
                .collect();
            (package.name.to_string(), names)
        })
        .collect()
}

#[test]
fn every_crate_sees_only_what_lies_below_it() {
    let metadata = metadata();
    let direct = direct(&metadata);
    let may_see: BTreeMap<_, _> = MAY_SEE.into_iter().collect();
    let members = metadata.workspace_packages().into_iter();
    let ours: BTreeSet<_> = members.map(|package| package.name.to_string()).collect();
    for (name, dependencies) in &direct {
        let allowed = may_see
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} has no place in MAY_SEE: add it to {}", file!()));
        for dependency in dependencies.intersection(&ours) {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} must not see {dependency}"
            );
        }
    }
    for name in may_see.keys() {
        assert!(
            direct.contains_key(*name),
            "{name} is gone from the workspace: remove it here"
        );
    }
}

#[test]
fn each_outer_part_has_one_place() {
    for (name, dependencies) in &direct(&metadata()) {
        for (dependency, places) in ONLY {
            let allowed = places.contains(&name.as_str());
            let has = dependencies.contains(dependency);
            assert!(
                allowed || !has,
                "{name} must not depend on {dependency}: only {places:?}"
            );
        }
    }
}

#[test]
fn what_is_pure_stays_pure_at_any_depth() {
    let metadata = metadata();
    let resolve = metadata.resolve.as_ref().expect("a resolved graph");
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let names: BTreeMap<_, _> = metadata
        .packages
        .iter()
        .map(|package| (&package.id, package.name.to_string()))
        .collect();
    for (name, banned) in NEVER {
        let (start, _) = names
            .iter()
            .find(|(_, found)| *found == name)
            .unwrap_or_else(|| panic!("{name} is gone from the workspace: remove it here"));
        let (mut seen, mut next) = (BTreeSet::new(), vec![*start]);
        while let Some(id) = next.pop() {
            if !seen.insert(id) {
                continue;
            }
            let normal = nodes[id].deps.iter().filter(|dependency| {
                dependency
                    .dep_kinds
                    .iter()
                    .any(|kind| kind.kind == DependencyKind::Normal)
            });
            next.extend(normal.map(|dependency| &dependency.pkg));
        }
        for id in seen {
            let found = names[id].as_str();
            assert!(!banned.contains(&found), "{name} reaches {found}");
        }
    }
}

#[test]
fn guests_know_nothing_of_the_host() {
    let lock: toml::Table = text("plugins/Cargo.lock").parse().expect("TOML");
    let packages = lock["package"].as_array().expect("a list of packages");
    let names: Vec<_> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert!(
        names.contains(&"aedile-plugin"),
        "the lock is that of the guests"
    );
    for (host, _) in MAY_SEE {
        assert!(!names.contains(&host), "a guest reaches {host}");
    }
}
