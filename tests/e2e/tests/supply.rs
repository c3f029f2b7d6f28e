//! `aedile plugin verify`, `push` and `pull` as people run them: a real
//! registry, real signatures.

use std::path::{Path, PathBuf};

use aedile_tests_contract::registry::{self, Registry};
use aedile_tests_contract::signer::Signer;
use aedile_tests_e2e::binary;
use aedile_tests_e2e::captured::Captured;
use tempfile::TempDir;

/// A module that a node would load.
fn module(directory: &Path) -> PathBuf {
    let source = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../host/cli/modules/kv_ttl.wasm"
    );
    let path = directory.join("kv_ttl.wasm");
    std::fs::copy(source, &path).expect("copied");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn directory() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// What was said on standard error, and the exit code.
fn refused(code: i32, args: &[&str], variables: &[(&str, &str)]) -> String {
    let output = binary::run_with(args, variables);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    said
}

#[test]
fn a_signature_is_verified_from_the_file_beside_the_module() {
    let dir = directory();
    let file = module(dir.path());
    let (signer, other) = (Signer::new(), Signer::new());
    let key = signer.public_file();
    let verify = [
        "plugin",
        "verify",
        text(&file),
        "--trusted-keys",
        text(&key),
    ];
    assert!(refused(6, &verify, &[]).contains("is not signed"));
    signer.sign_file(&file, "kv-ttl, for the cluster");
    let said = binary::run_for(0, &verify);
    assert!(said.contains("kv-ttl, for the cluster"), "{said}");
    let wrong = ["plugin", "verify", text(&file), "--trusted-keys"];
    let other = other.public_key();
    let other = [&wrong[..], &[&other]].concat();
    assert!(refused(6, &other, &[]).contains("is not trusted"));
    // A byte of the module.
    let mut bytes = std::fs::read(&file).expect("read");
    bytes[100] ^= 1;
    std::fs::write(&file, bytes).expect("written");
    assert!(refused(6, &verify, &[]).contains("does not fit the module"));
    assert!(refused(2, &verify[..3], &[]).contains("--trusted-keys"));
    let broken = [&wrong[..], &["RWbroken"]].concat();
    assert!(refused(2, &broken, &[]).contains("--trusted-keys: RWbroken cannot be read"));
}

#[test]
fn a_module_goes_to_a_registry_and_comes_back_with_its_signature() {
    let server = Registry::start_with_users();
    let dir = directory();
    let file = module(dir.path());
    let signer = Signer::new();
    let signature = signer.sign_file(&file, "kv-ttl 0.1.0");
    let tag = server.reference("team/kv-ttl:0.1.0");
    let user = [
        ("AEDILE_REGISTRY_USER", registry::USER),
        ("AEDILE_REGISTRY_PASSWORD", registry::PASSWORD),
        ("AEDILE_PLAIN_HTTP", "true"),
    ];
    let push = ["plugin", "push", text(&file), &tag, "--json"];
    let pushed = binary::json_with(0, &push, &user);
    let pinned = pushed["reference"]
        .as_str()
        .expect("a reference")
        .to_owned();
    assert!(pinned.contains("/team/kv-ttl@sha256:"), "{pinned}");
    assert_eq!(pushed["name"], "kv-ttl");

    let key = signer.public_key();
    for (n, reference) in [&tag, &pinned].into_iter().enumerate() {
        let out = dir.path().join(format!("{n}.wasm"));
        let pull = [
            "plugin",
            "pull",
            reference,
            "--output",
            text(&out),
            "--trusted-keys",
            &key,
            "--require-signature",
            "--json",
        ];
        let pulled = binary::json_with(0, &pull, &user);
        assert_eq!(pulled["reference"], pinned.as_str());
        assert_eq!(pulled["digest"], pushed["digest"]);
        assert_eq!(pulled["signature"]["verdict"], "signed");
        let bytes = |path: &Path| std::fs::read(path).expect("read");
        assert!(bytes(&out) == bytes(&file));
        let beside = PathBuf::from(format!("{}.minisig", out.display()));
        assert_eq!(bytes(&beside), signature.as_bytes());
        // Nothing is overwritten.
        let said = refused(2, &pull, &user);
        assert!(said.contains("there is a file already"), "{said}");
    }

    // Somebody else's key; nothing is written.
    let out = dir.path().join("other.wasm");
    let other = Signer::new().public_key();
    let pull = [
        "plugin",
        "pull",
        &tag,
        "--output",
        text(&out),
        "--trusted-keys",
        &other,
    ];
    assert!(refused(6, &pull, &user).contains("is not trusted"));
    assert!(!out.exists());

    // Without the password, and it is never repeated.
    for variables in [
        &[("AEDILE_PLAIN_HTTP", "true")][..],
        &[user[0], ("AEDILE_REGISTRY_PASSWORD", "wrong-one"), user[2]],
    ] {
        let said = refused(6, &pull[..3], variables);
        assert!(said.contains("refuses access to `team/kv-ttl`"), "{said}");
        assert!(!said.contains("wrong-one"), "{said}");
    }
    let said = refused(2, &pull[..3], &user[..1]);
    assert!(said.contains("registry-password"), "{said}");
}

#[test]
fn what_is_no_plugin_is_not_pushed() {
    let server = Registry::start();
    let dir = directory();
    let file = dir.path().join("no.wasm");
    std::fs::write(&file, b"#!/bin/sh\n").expect("written");
    let tag = server.reference("no:1");
    let push = ["plugin", "push", text(&file), &tag, "--plain-http"];
    assert!(refused(6, &push, &[]).contains("not a Wasm module"));
    let pull = ["plugin", "pull", &tag, "--plain-http"];
    assert!(refused(6, &pull, &[]).contains("does not exist"));
    let file = module(dir.path());
    for (reference, expect) in [
        ("kv-ttl:1", "does not begin with oci://"),
        ("oci://kv-ttl:1", "names no registry"),
    ] {
        let said = refused(2, &["plugin", "push", text(&file), reference], &[]);
        assert!(said.contains(expect), "{said}");
    }
}

#[test]
fn a_required_signature_needs_a_trusted_key() {
    let args = [
        "plugin",
        "pull",
        "oci://127.0.0.1:1/a:1",
        "--require-signature",
    ];
    let said = refused(2, &args, &[]);
    assert!(said.contains("set trusted-keys as well"), "{said}");
}

#[test]
fn a_plugin_travels_in_one_file_and_consent_to_what_is_destructive_does_not() {
    let (here, there) = (Captured::unpack("store-b"), Captured::unpack("store-b"));
    let place = |site: &Captured| [site.meta_url(), site.storage()];
    let with = |site: &Captured, args: &[&str]| -> Vec<String> {
        let [url, storage] = place(site);
        let mut all: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        all.extend([
            "--meta-url".to_owned(),
            url,
            "--storage".to_owned(),
            storage,
        ]);
        all
    };
    let refs = |args: &[String]| -> Vec<String> { args.to_vec() };
    let run = |code: i32, args: Vec<String>| -> serde_json::Value {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        binary::json_for(code, &args)
    };
    let dir = directory();
    let signer = Signer::new();
    let file = dir.path().join("retention.wasm");
    let built_in = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../host/cli/modules/retention.wasm"
    );
    std::fs::copy(built_in, &file).expect("copied");
    signer.sign_file(&file, "retention");
    let signature = format!("{}.minisig", file.display());
    let rules = r#"{"rules":[{"streams":"/logs/","max-age":"7d"}]}"#;
    let deployed = run(
        0,
        with(
            &here,
            &[
                "plugin",
                "deploy",
                text(&file),
                "--json",
                "--sign-file",
                &signature,
                "--plugin-config",
                rules,
                "--grant",
                "commands.trim-stream",
                "--grant",
                "commands.delete-stream",
            ],
        ),
    );
    assert_eq!(deployed["outcome"], "written");
    let bundle = dir.path().join("retention.tar");
    let export = with(
        &here,
        &["plugin", "export", "retention", text(&bundle), "--json"],
    );
    let exported = run(0, refs(&export));
    assert_eq!(exported["signed"], true);

    let key = signer.public_key();
    let import = [
        "plugin",
        "import",
        text(&bundle),
        "--json",
        "--trusted-keys",
        &key,
        "--require-signature",
        "--grant",
        "commands.trim-stream",
    ];
    let imported = run(0, with(&there, &import));
    assert_eq!(imported["outcome"], "written");
    let (was, is) = (&deployed["record"], &imported["record"]);
    for same in ["config", "schedule", "version", "enabled"] {
        assert_eq!(is[same], was[same], "{same}");
    }
    assert_eq!(is["action"], "import");
    assert_eq!(is["module"]["digest"], was["module"]["digest"]);
    let grants = is["grants"].to_string();
    assert!(
        grants.contains("trim-stream") && !grants.contains("delete-stream"),
        "{grants}"
    );
    // Once more is the same, and says so.
    assert_eq!(run(0, with(&there, &import))["outcome"], "unchanged");

    // Another key, a flipped byte, a file that is there.
    let other = Signer::new().public_key();
    let args = with(
        &there,
        &["plugin", "import", text(&bundle), "--trusted-keys", &other],
    );
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert!(refused(6, &args, &[]).contains("is not trusted"));
    let mut bytes = std::fs::read(&bundle).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let broken = dir.path().join("broken.tar");
    std::fs::write(&broken, bytes).expect("written");
    let args = with(&there, &["plugin", "import", text(&broken)]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = refused(6, &args, &[]);
    assert!(said.contains("it was changed or damaged"), "{said}");
    let args: Vec<&str> = export.iter().map(String::as_str).collect();
    assert!(refused(2, &args, &[]).contains("cannot be written"));
    let args = with(&there, &["plugin", "export", "cleaner", "cleaner.tar"]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    assert!(refused(2, &args, &[]).contains("built into aedile"));
}

#[test]
fn istio_32002_a_node_checks_signatures_again_by_its_own_keys() {
    let site = Captured::unpack("store-b");
    let (url, storage) = (site.meta_url(), site.storage());
    let place = ["--meta-url", url.as_str(), "--storage", storage.as_str()];
    let dir = directory();
    let (signer, other) = (Signer::new(), Signer::new());
    let (key, other_key) = (signer.public_key(), other.public_key());

    // Deployed, with a signature of one key.
    let file = dir.path().join("retention.wasm");
    let built_in = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../host/cli/modules/retention.wasm"
    );
    std::fs::copy(built_in, &file).expect("copied");
    signer.sign_file(&file, "retention");
    let signature = format!("{}.minisig", file.display());
    let deploy = [
        "plugin",
        "deploy",
        text(&file),
        "--sign-file",
        &signature,
        "--plugin-config",
        r#"{"delete-unnamed-after":"30d"}"#,
        "--grant",
        "commands.trim-stream",
        "--grant",
        "commands.delete-stream",
    ];
    binary::run_for(0, &[&deploy[..], &place[..]].concat());
    let run = |more: &[&str]| {
        let pass = ["run", "--until-idle", "--ttl", "2s"];
        let output = binary::run(&[&pass[..], &place[..], more].concat());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let strict = ["--require-signature", "--trusted-keys"];
    let said = run(&[&strict[..], &[&key]].concat());
    assert!(said.contains("revision ready"), "{said}");
    let said = run(&[&strict[..], &[&other_key]].concat());
    assert!(said.contains("which is not trusted"), "{said}");
    assert!(!said.contains("revision ready"), "{said}");

    // A file of the plugin directory.
    let folder = dir.path().join("plugins.d");
    std::fs::create_dir(&folder).expect("made");
    let custom = module(&folder);
    let with = [&["--plugin-dir", text(&folder)], &strict[..], &[&key]].concat();
    let said = run(&with);
    assert!(said.contains("the module is not signed"), "{said}");
    signer.sign_file(&custom, "kv-ttl");
    let said = run(&with);
    assert!(!said.contains("not signed"), "{said}");
    other.sign_file(&custom, "kv-ttl");
    let said = run(&with);
    assert!(said.contains("which is not trusted"), "{said}");
}
