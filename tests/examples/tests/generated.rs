//! The descriptions of the contract in `sdk/` are what the contract gives. Those
//! for C are compared in `tests/workspace`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use aedile_tests_examples::{Toolchain, root, run};

#[test]
fn what_is_generated_for_javascript_and_python_is_up_to_date() {
    // They say what to install if the generators are not there.
    Toolchain::node_modules();
    Toolchain::python();
    let fresh = tempfile::tempdir().expect("a folder can be made");
    run(Command::new(root().join("sdk/generate.sh")).arg(fresh.path()));
    for folder in ["js/types", "python/bindings"] {
        let there = files(&root().join("sdk").join(folder));
        let generated = files(&fresh.path().join(folder));
        assert!(generated.len() > 5, "{folder}: {:?}", generated.keys());
        let names = |files: &BTreeMap<_, _>| files.keys().cloned().collect::<Vec<String>>();
        assert_eq!(
            names(&there),
            names(&generated),
            "{folder}: run `make generated`"
        );
        for (name, text) in generated {
            assert!(
                there[&name] == text,
                "{folder}/{name} differs: run `make generated`"
            );
        }
    }
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if name == "__pycache__" {
            continue;
        } else if path.is_dir() {
            let below = files(&path).into_iter();
            found.extend(below.map(|(file, text)| (format!("{name}/{file}"), text)));
        } else {
            found.insert(name, fs::read(&path).expect("a file"));
        }
    }
    found
}
