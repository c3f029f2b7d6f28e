//! Whether a user may write a SQLite file: the attempt decides, not the mode.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use aedile_clock::{SharedClock, SystemClock};
use aedile_log::{LogError, check_writable};
use aedile_tests_contract::privilege::without_privilege;

/// A file of this mode in a directory that everybody may enter.
fn file(mode: u32) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = dir.path().join("meta.db");
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    dir
}

async fn check(dir: &Path) -> Result<(), LogError> {
    let url = format!("sqlite:{}", dir.join("meta.db").display());
    let clock: SharedClock = Arc::new(SystemClock);
    check_writable(&url.parse().unwrap(), &clock).await
}

#[tokio::test]
async fn a_mode_that_does_not_bind_this_user_is_no_failure() {
    let dir = file(0o444);
    let bound = fs::OpenOptions::new()
        .append(true)
        .open(dir.path().join("meta.db"))
        .is_err();
    let checked = check(dir.path()).await;
    assert_eq!(checked.is_err(), bound, "{checked:?}");
    assert!(bound || nix::unistd::geteuid().is_root());
}

#[test]
fn a_user_without_privilege_is_told() {
    without_privilege(async {
        let dir = file(0o444);
        let path = dir.path().to_path_buf();
        let checked = tokio::spawn(async move { check(&path).await })
            .await
            .unwrap();
        let error = checked.unwrap_err();
        assert!(matches!(error, LogError::ReadOnly { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("this user may not write the file"), "{text}");
        assert!(text.to_lowercase().contains("permission denied"), "{text}");
    });
}

#[tokio::test]
async fn a_file_that_is_missing_is_unreachable() {
    let dir = tempfile::tempdir().unwrap();
    let error = check(dir.path()).await.unwrap_err();
    assert!(matches!(error, LogError::Unreachable { .. }), "{error:?}");
    assert!(!dir.path().join("meta.db").exists(), "it is not made");
}
