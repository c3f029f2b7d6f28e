//! An author's first evening: from nothing to a plugin that ticks on every node,
//! by the commands that `aedile plugin new` prints.

use std::fs::create_dir_all;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use aedile_tests_contract::databases::Kind;
use aedile_tests_e2e::binary;
use aedile_tests_e2e::three::{NAMES, Three, key};
use aedile_tests_e2e::wait::clock;
use aedile_tests_examples::{Toolchain, guests, installed, run};

const NAME: &str = "night-count";

/// Commands after which it runs, with the one that writes the project.
const COMMANDS: usize = 5;
/// And the time that they take, on a machine that has the toolchain.
const BOUND: Duration = Duration::from_secs(300);

/// A line of a shell, as the author would type it: with `aedile` on the path and
/// the cluster's addresses in the environment.
fn shell(line: &str, project: &Path, three: &Three) {
    let folder = binary::path().parent().expect("a file lies in a folder");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut path: Vec<_> = std::env::split_paths(&path).collect();
    path.insert(0, folder.to_owned());
    let mut command = binary::unconfigured("sh");
    // The cargo that runs this test has set up its own build.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let home = text == "CARGO_HOME" || text == "RUSTUP_HOME";
        if !home && (text.starts_with("CARGO") || text.starts_with("RUST")) {
            command.env_remove(name);
        }
    }
    run(command
        .args(["-c", line])
        .current_dir(project)
        .env("PATH", std::env::join_paths(path).expect("a path"))
        .env("AEDILE_META_URL", three.site.url())
        .env("AEDILE_STORAGE", three.site.storage()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rust_plugin_runs_on_three_nodes_after_five_commands() {
    let three = Three::start(Kind::Postgres).await;
    let folder = tempfile::tempdir().expect("a folder can be made");
    let clock = clock();
    let began = clock.boot();
    let project = folder.path().join(NAME);
    let path = project.to_str().expect("a path in UTF-8");
    let new = ["plugin", "new", NAME, "--dir", path, "--json"];
    let written = binary::json_for(0, &new);
    let next: Vec<&str> = written["next"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|line| line.as_str().expect("a line"))
        // What comes with the toolchain.
        .filter(|line| !line.starts_with("rustup target add "))
        .collect();
    assert!(next.len() < COMMANDS, "{next:?}");
    if !installed() {
        // Cargo does not build through a link to a folder that is not there yet.
        create_dir_all(guests()).expect("a folder can be made");
        symlink(guests(), project.join("target")).expect("a link");
    }
    let mut told = 0;
    for line in &next {
        if line.starts_with("cargo build ") && !installed() {
            // Debian's compiler builds the target's library, where rustup has none.
            run(Toolchain::cargo().current_dir(&project));
            continue;
        }
        told += usize::from(line.contains("DATABASE-URL"));
        shell(
            &line.replace("DATABASE-URL", three.site.url()),
            &project,
            &three,
        );
    }
    assert_eq!(told, 1, "one of them tries it on the live state: {next:?}");
    let newest = three.operator.newest(NAME).await.expect("a revision");
    let digest = newest.record.module.digest().expect("a module").to_owned();
    three
        .operator
        .all(&NAMES, NAME, "it runs everywhere", |plugin| {
            plugin.digest == digest
        })
        .await;
    three.operator.key(&key(NAME, "keys"), true).await;
    let took = clock.boot().since(began);
    println!("{} commands, {took:.1?}", next.len() + 1);
    assert!(took <= BOUND, "{took:?}");
    three.end().await;
}
