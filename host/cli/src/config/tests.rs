//! Precedence, dash values, ranges, secrets.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::args;

/// A configuration from arguments and a file's text. The environment is the
/// test's own, in which no variable of ours is set; `tests/` sets some.
fn load(arguments: &[&str], file: Option<&str>) -> Result<Config, ConfigError> {
    let matches = args::command()
        .try_get_matches_from(["aedile", "run"].iter().chain(arguments))
        .unwrap_or_else(|error| panic!("{error}"));
    let (_, leaf) = matches.subcommand().unwrap();
    let mut values = BTreeMap::new();
    for setting in settings::ALL {
        if let Some(value) = given(leaf, setting)? {
            values.insert(setting.name, value);
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("aedile.toml");
    if let Some(text) = file {
        std::fs::write(&path, text).unwrap();
    }
    Config::with_file(values, None, &path)
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = Some("ttl = \"20s\"\nnode = \"of-the-file\"\n");
    let config = load(&["--ttl", "30s"], file).unwrap();
    assert_eq!(config.ttl().unwrap(), Duration::from_secs(30));
    assert_eq!(config.node().unwrap(), "of-the-file");
    assert_eq!(config.heartbeat().unwrap(), None);
    let config = load(&[], file).unwrap();
    assert_eq!(config.ttl().unwrap(), Duration::from_secs(20));
    let config = load(&[], None).unwrap();
    assert_eq!(config.ttl().unwrap(), Duration::from_secs(10));
}

#[test]
fn a_delete_rate_is_taken_from_flag_and_file() {
    let rate = |arguments: &[&str], file| {
        let rate = load(arguments, file).unwrap().delete_rate().unwrap();
        rate.map(std::num::NonZeroU32::get)
    };
    assert_eq!(rate(&[], None), None);
    assert_eq!(rate(&[], Some("delete-rate = 300")), Some(300));
    assert_eq!(
        rate(&["--delete-rate", "5000"], Some("delete-rate = 300")),
        Some(5_000)
    );
}

#[test]
fn a_switch_is_given_alone_or_with_a_value() {
    let file = Some("take-over = true");
    let on = |arguments: &[&str], file| {
        load(arguments, file)
            .unwrap()
            .switch(settings::TAKE_OVER)
            .unwrap()
    };
    assert!(!on(&[], None));
    assert!(on(&["--take-over"], None));
    assert!(on(&[], file));
    assert!(!on(&["--take-over=false"], file));
}

#[test]
fn a_storage_that_begins_with_a_dash_is_taken_in_both_forms() {
    for arguments in [
        &["--storage", "-2@file:///o"][..],
        &["--storage=-2@file:///o"],
    ] {
        let config = load(arguments, None).unwrap();
        assert_eq!(config.storage().unwrap().to_string(), "-2@file:///o");
    }
}

#[test]
fn a_missing_value_is_not_the_next_flag() {
    let config = load(&["--storage", "--take-over"], None).unwrap();
    let error = config.storage().unwrap_err().to_string();
    assert!(error.contains("its value is missing"), "{error}");
}

#[test]
fn a_wrong_value_names_its_place_and_what_would_be_right() {
    for (arguments, file, expect) in [
        (
            &["--ttl", "10"][..],
            None,
            "--ttl: `10` is no duration with its unit, such as 10s",
        ),
        (
            &["--ttl", "1s"],
            None,
            "--ttl: `1s` is out of the range 2s to 5m",
        ),
        (
            &[],
            Some("\nttl = \"1h\""),
            "aedile.toml:2: `ttl`: `1h` is out of the range",
        ),
    ] {
        let error = load(arguments, file)
            .unwrap()
            .ttl()
            .unwrap_err()
            .to_string();
        assert!(error.contains(expect), "{error}");
    }
    let config = load(&["--snapshot-every", "3"], None).unwrap();
    let error = config.snapshot_every().unwrap_err().to_string();
    assert!(error.contains("from 16 to"), "{error}");
    let config = load(&["--delete-rate", "0"], None).unwrap();
    let error = config.delete_rate().unwrap_err().to_string();
    assert!(
        error.contains("--delete-rate: `0` is no number of objects a second from 1 to"),
        "{error}"
    );
    let error = load(&[], Some("delete-rats = 300"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean `delete-rate`?"), "{error}");
    let config = load(&["--node", "a b"], None).unwrap();
    assert!(
        config
            .node()
            .unwrap_err()
            .to_string()
            .contains("--node: `a b` is no name")
    );
    let config = load(&["--take-over=maybe"], None).unwrap();
    let error = config.switch(settings::TAKE_OVER).unwrap_err().to_string();
    assert!(
        error.contains("`maybe` is neither true nor false"),
        "{error}"
    );
    let config = load(&["--plugin-dir", "/nowhere/at/all"], None).unwrap();
    let error = config.plugin_dir().unwrap_err().to_string();
    assert!(error.contains("create it or correct the path"), "{error}");
}

#[test]
fn what_is_missing_is_named_with_all_ways_to_give_it() {
    let error = load(&[], None).unwrap().meta_url().unwrap_err().to_string();
    for expect in [
        "`meta-url` is not set",
        "--meta-url URL",
        "AEDILE_META_URL",
        "aedile.toml",
    ] {
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn a_password_is_in_no_message() {
    for url in [
        "postgres://u:hunter2zz@h:port/d",
        "mysql://u:hunter2zz@h/d",
        "u:hunter2zz@h",
    ] {
        let config = load(&["--meta-url", url], None).unwrap();
        let error = config.meta_url().unwrap_err().to_string();
        assert!(!error.contains("hunter2zz"), "{error}");
    }
}
