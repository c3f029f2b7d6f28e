//! Where PostgreSQL's programs are, and as whom they may run.

use std::path::PathBuf;
use std::process::Command;

/// The directory that holds `initdb` and `postgres`: on the path, or where
/// packages put them (the newest version there).
pub(super) fn directory() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for root in [
        "/usr/lib/postgresql",
        "/usr/local/lib/postgresql",
        "/opt/homebrew/opt",
    ] {
        let mut versions: Vec<PathBuf> = std::fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path().join("bin"))
            .collect();
        versions.sort_by_key(|path| std::cmp::Reverse(version(path)));
        candidates.extend(versions);
    }
    candidates.push(PathBuf::from("/usr/local/pgsql/bin"));
    candidates
        .into_iter()
        .find(|path| path.join("initdb").is_file() && path.join("postgres").is_file())
}

/// PgBouncer's program: on the path, or where packages put it.
pub(super) fn pooler() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"].map(PathBuf::from))
        .map(|directory| directory.join("pgbouncer"))
        .find(|program| program.is_file())
}

fn version(bin: &std::path::Path) -> u32 {
    bin.parent()
        .and_then(|path| path.file_name())
        .and_then(|name| name.to_str())
        .and_then(|name| name.trim_start_matches("postgresql@").parse().ok())
        .unwrap_or(0)
}

/// The user to run as, where this process is root: PostgreSQL refuses root.
#[derive(Clone, Copy, Debug)]
pub(super) struct User {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl User {
    /// Nobody else, if this process is not root.
    pub(super) fn other_than_root() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| nix::unistd::User::from_name(name).ok().flatten())
            .map(|user| Self {
                uid: user.uid.as_raw(),
                gid: user.gid.as_raw(),
            })
    }
}

/// A command that runs as that user.
pub(super) fn command(program: PathBuf, user: Option<User>) -> Command {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    // A locale that is not installed would stop it.
    command.env("LC_ALL", "C").current_dir("/");
    command
}
