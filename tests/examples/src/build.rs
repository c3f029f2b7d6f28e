//! From an example's folder to its module.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, LazyLock, Mutex};

use crate::toolchain::{Toolchain, guests, root, run};

/// A language that plugins are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// `examples/c-census`.
    C,
    /// `examples/js-census`.
    JavaScript,
    /// `examples/python-census`.
    Python,
    /// `examples/rust-census`.
    Rust,
}

/// The module of a language's example. It is built once in a process.
///
/// # Panics
/// If the toolchain is not there or the build fails.
pub fn module(language: Language) -> Arc<[u8]> {
    type Built = BTreeMap<Language, Arc<[u8]>>;
    static BUILT: LazyLock<Mutex<Built>> = LazyLock::new(Mutex::default);
    let mut built = BUILT.lock().unwrap_or_else(|broken| broken.into_inner());
    built
        .entry(language)
        .or_insert_with(|| build(language).into())
        .clone()
}

fn build(language: Language) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let out = folder.path().join("stream_census.wasm");
    match language {
        Language::C => {
            let define = |name: &str, value: &Path| format!("{name}={}", value.display());
            run(Command::new("make")
                .args(["--silent", "--always-make", "--directory"])
                .arg(root().join("examples/c-census"))
                .arg(define("CLANG", &Toolchain::clang()))
                .arg(define("OUT", &out))
                .arg("EXTRA=-Werror"));
        }
        Language::JavaScript => {
            // In a copy, so that the packages need not lie among the sources.
            for part in ["sdk/js", "examples/js-census"] {
                copy(&root().join(part), &folder.path().join(part));
            }
            symlink(
                Toolchain::node_modules(),
                folder.path().join("node_modules"),
            )
            .expect("a link can be made");
            run(Command::new("node")
                .current_dir(folder.path().join("examples/js-census"))
                .args(["../../sdk/js/build.mjs", "src/plugin.js"])
                .arg(&out));
        }
        Language::Python => {
            run(Command::new(Toolchain::python())
                .current_dir(root().join("examples/python-census"))
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .args(["../../sdk/python/aedile_plugin/build.py", "plugin.py"])
                .arg(&out));
        }
        Language::Rust => {
            run(Toolchain::cargo().current_dir(root().join("examples/rust-census")));
            let made = "wasm32-unknown-unknown/release/stream_census.wasm";
            fs::copy(guests().join(made), &out).expect("cargo made a module");
        }
    }
    fs::read(&out).unwrap_or_else(|error| panic!("{}: {error}", out.display()))
}

/// Copy a folder; links are followed.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let to = to.join(path.file_name().expect("a name"));
        if path.ends_with("node_modules") {
            continue;
        } else if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).expect("a file can be copied");
        }
    }
}
