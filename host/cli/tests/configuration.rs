//! Where a setting comes from, as the real binary sees it.

#![allow(clippy::unwrap_used)]

mod cluster;

use cluster::{Cluster, Ran};

#[test]
fn a_flag_wins_over_the_environment_and_that_over_the_file() {
    let cluster = Cluster::unpack("node-a");
    let meta = format!("sqlite:{}", cluster.database().display());
    std::fs::write(
        cluster.path().join("aedile.toml"),
        "meta-url = \"sqlite:of-the-file.db\"\n",
    )
    .unwrap();
    let run = |arguments: &[&str], env: Option<&str>| -> Ran {
        let mut command = cluster::aedile(cluster.path());
        if let Some(url) = env {
            command.env("AEDILE_META_URL", url);
        }
        command
            .args(["state"])
            .args(arguments)
            .output()
            .unwrap()
            .into()
    };
    run(&[], None).exits(3).says(&["of-the-file.db"]);
    run(&[], Some("sqlite:of-the-environment.db"))
        .exits(3)
        .says(&["of-the-environment.db"]);
    run(&["--meta-url", &meta], Some("sqlite:of-the-environment.db")).exits(0);
    // An empty variable is none.
    run(&[], Some("")).exits(3).says(&["of-the-file.db"]);
}

#[test]
fn check_says_where_each_value_came_from() {
    let cluster = Cluster::unpack("node-a");
    std::fs::write(
        cluster.path().join("aedile.toml"),
        "# mine\nttl = \"20s\"\n",
    )
    .unwrap();
    let mut command = cluster::aedile(cluster.path());
    let ran: Ran = command
        .env("AEDILE_NODE", "anna")
        .arg("check")
        .args(cluster.flags())
        .output()
        .unwrap()
        .into();
    ran.exits(0).says(&[
        "ttl = 20s (aedile.toml:2)",
        "node = anna (environment)",
        "(flag)",
    ]);
}

#[test]
fn a_misspelt_variable_is_a_warning() {
    let cluster = Cluster::unpack("node-a");
    let mut command = cluster::aedile(cluster.path());
    let ran: Ran = command
        .env("AEDILE_TAKEOVER", "true")
        .arg("check")
        .args(cluster.flags())
        .output()
        .unwrap()
        .into();
    ran.exits(0).says(&[
        "AEDILE_TAKEOVER is not read",
        "did you mean AEDILE_TAKE_OVER?",
    ]);
}

#[test]
fn a_secret_in_the_environment_is_printed_nowhere() {
    let cluster = Cluster::unpack("node-a");
    for arguments in [
        &["check"][..],
        &["run", "--help"],
        &["state"],
        &["check", "--json"],
    ] {
        let mut command = cluster::aedile(cluster.path());
        let ran: Ran = command
            .env(
                "AEDILE_META_URL",
                "postgres://pico:hunter2zz@127.0.0.1:1/pico",
            )
            .env("AEDILE_STORAGE", "-2@s3://AKIA:hunter3zz@bucket")
            .env("AWS_SECRET_ACCESS_KEY", "hunter4zz")
            .args(arguments)
            .output()
            .unwrap()
            .into();
        for secret in ["hunter2zz", "hunter3zz", "hunter4zz"] {
            assert!(
                !ran.stdout.contains(secret) && !ran.stderr.contains(secret),
                "{ran:#?}"
            );
        }
    }
}

#[test]
fn standard_output_holds_no_log_line() {
    let cluster = Cluster::unpack("store-b");
    let ran = cluster.run(&[
        "run",
        "--until-idle",
        "--json",
        "--log-level",
        "debug",
        "--log-format",
        "json",
    ]);
    ran.json();
    for line in ran.stderr.lines() {
        let parsed: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(parsed["level"].is_string(), "{line}");
    }
    assert!(!ran.stderr.is_empty());
}

#[test]
fn help_and_version_are_successes_on_standard_output() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [
        &["--help"][..],
        &["run", "--help"],
        &["--version"],
        &["lease", "show", "-h"],
    ] {
        let ran = cluster::run(directory.path(), arguments).exits(0);
        assert!(!ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:#?}");
    }
}
