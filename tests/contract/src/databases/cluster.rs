//! A private PostgreSQL server in a temporary directory, which a test may stop
//! and start.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use tempfile::TempDir;

use super::DatabaseError;
use super::binaries::{self, User};

/// How long a start may take.
const START: Duration = Duration::from_secs(60);

/// Runs the server and ends it once standard input ends: also when the test's
/// process is killed.
pub(super) const WATCH: &str =
    r#""$@" & server=$!; cat >/dev/null; kill -INT "$server"; wait "$server""#;

/// A private server. Dropping it stops the server and removes its files.
#[derive(Debug)]
pub struct Cluster {
    directory: TempDir,
    bin: PathBuf,
    user: Option<User>,
    port: u16,
    watch: Option<Child>,
}

impl Cluster {
    /// Make one and start it.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or fails.
    pub async fn start() -> Result<Self, DatabaseError> {
        let bin = binaries::directory().ok_or(DatabaseError::NotInstalled)?;
        let user = User::other_than_root();
        let directory = TempDir::with_prefix("aedile-postgres-")?;
        if let Some(user) = user {
            std::os::unix::fs::chown(directory.path(), Some(user.uid), Some(user.gid))?;
        }
        let made = binaries::command(bin.join("initdb"), user)
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8"])
            .args(["--no-sync", "--pgdata"])
            .arg(directory.path().join("data"))
            .stdin(Stdio::null())
            .output()?;
        if !made.status.success() {
            return Err(DatabaseError::Program {
                program: "initdb",
                output: String::from_utf8_lossy(&made.stderr).into_owned(),
            });
        }
        // A port that is free now; the server fails if it is taken meanwhile.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut cluster = Self {
            directory,
            bin,
            user,
            port,
            watch: None,
        };
        cluster.restart().await?;
        Ok(cluster)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of one of its databases.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Start it again after [`Cluster::stop`], at the same port, and wait until
    /// it answers.
    ///
    /// # Errors
    /// It does not come up.
    pub async fn restart(&mut self) -> Result<(), DatabaseError> {
        if self.watch.is_some() {
            return Ok(());
        }
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())?;
        let mut command: Command = binaries::command(PathBuf::from("/bin/sh"), self.user);
        command
            .args(["-c", WATCH, "sh"])
            .arg(self.bin.join("postgres"))
            .arg("-D")
            .arg(self.directory.path().join("data"))
            .args([
                "-p",
                &self.port.to_string(),
                "-c",
                "listen_addresses=127.0.0.1",
            ])
            .args(["-c", "fsync=off", "-c", "max_connections=200", "-k"])
            .arg(self.directory.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log);
        self.watch = Some(command.spawn()?);
        let clock: SharedClock = Arc::new(SystemClock);
        let end = clock.boot() + START;
        let url = self.url("postgres");
        while clock.boot() < end {
            if super::server::answers(&url).await.is_ok() {
                return Ok(());
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
        self.stop();
        Err(DatabaseError::NotUp {
            directory: self.directory.path().display().to_string(),
            log: std::fs::read_to_string(self.log()).unwrap_or_default(),
        })
    }

    /// Stop it: connections are cut, what was committed stays.
    pub fn stop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            if let Err(error) = watch.wait() {
                eprintln!("a private PostgreSQL cannot be waited for: {error}");
            }
        }
    }

    fn log(&self) -> PathBuf {
        let directory: &Path = self.directory.path();
        directory.join("server.log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}
