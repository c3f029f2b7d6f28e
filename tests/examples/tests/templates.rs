//! The project that `aedile plugin new` writes in each language: it builds with
//! the commands that it prints, and what it builds runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use aedile_runtime::Outcome;
use aedile_tests_e2e::binary;
use aedile_tests_examples::{Stage, Toolchain, engine, run};
use serde_json::json;

const NAME: &str = "night-count";
const MODULE: &str = "night_count.wasm";

/// Write a project, build it as given, run it on a cluster.
async fn holds(language: &str, build: impl FnOnce(&Path)) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let project = folder.path().join("project");
    let path = project.to_str().expect("a path in UTF-8");
    let output = binary::run(&["plugin", "new", NAME, "--lang", language, "--dir", path]);
    assert!(output.status.success(), "{output:?}");
    build(&project);
    let bytes = fs::read(project.join(MODULE)).expect("a module");

    let inspection = engine().inspect(&bytes).expect("a module that loads");
    let mut wanted = inspection.manifest.grants.clone();
    wanted.sort_unstable();
    assert_eq!(
        (inspection.manifest.name.as_str(), &inspection.imports),
        (NAME, &wanted)
    );

    let stage = Stage::new();
    for key in ["/orders", "/payments", "other"] {
        stage.put(key, "1").await;
    }
    let state = stage.state().await;
    let keys = state.kv_scan("/", None).count();
    let outcome = stage
        .pass(NAME, bytes.into(), json!({ "prefix": "/" }))
        .await;
    if let Outcome::LeftOver { plugins, .. } = outcome {
        assert_eq!(plugins, []);
    }
    let noted = stage.text("aedile/kv/night-count/keys").await;
    assert_eq!(noted, Some(keys.to_string()));
    // Noted once, though a pass goes round again after it.
    let runs = stage.runs().await;
    let summaries: Vec<_> = runs.iter().map(|run| run.summary.as_str()).collect();
    assert_eq!(summaries, [format!("{keys} keys begin with /")]);
}

/// One test, one after the other: compiling a runtime takes all cores.
#[tokio::test(flavor = "multi_thread")]
async fn projects_in_c_javascript_and_python_build_and_run() {
    holds("c", |project| {
        let clang = format!("CLANG={}", Toolchain::clang().display());
        run(Command::new("make")
            .current_dir(project)
            .args(["--silent", &clang]));
    })
    .await;
    holds("js", |project| {
        // What `npm ci` makes: the lock file is that of examples/js-census.
        symlink(Toolchain::node_modules(), project.join("node_modules")).expect("a link");
        run(Command::new("npm")
            .current_dir(project)
            .args(["run", "--silent", "build"]));
    })
    .await;
    holds("python", |project| {
        run(Command::new(Toolchain::python())
            .current_dir(project)
            .args(["vendor/aedile_plugin/build.py", "plugin.py", MODULE]));
    })
    .await;
}

/// What the test above links or reuses is what a project would install.
#[test]
fn projects_install_what_the_examples_do() {
    let root = aedile_tests_examples::root();
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("a file");
    for file in [
        "js/package.json",
        "js/package-lock.json",
        "python/requirements.txt",
    ] {
        let (language, name) = file.split_once('/').expect("a folder");
        let template =
            read(&format!("host/cli/templates/{file}")).replace("{{name}}", "stream-census");
        let example = read(&format!("examples/{language}-census/{name}"));
        let lines = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.contains("\"build\""));
            lines.map(str::to_owned).collect()
        };
        assert_eq!(lines(&template), lines(&example), "{file}");
    }
}
