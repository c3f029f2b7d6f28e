//! A private PgBouncer before a private server, in transaction mode: each
//! transaction may run on another connection of the server.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use tempfile::TempDir;

use super::DatabaseError;
use super::binaries::{self, User};
use super::cluster::{Cluster, WATCH};

/// How long a start may take.
const START: Duration = Duration::from_secs(30);

/// A private pooler. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Pooler {
    directory: TempDir,
    port: u16,
    watch: Option<Child>,
}

impl Pooler {
    /// Pool this many connections to the server, for all clients together.
    ///
    /// # Errors
    /// PgBouncer is not installed, or fails.
    pub async fn start(cluster: &Cluster, connections: u32) -> Result<Self, DatabaseError> {
        let program = binaries::pooler().ok_or(DatabaseError::NoPooler)?;
        let user = User::other_than_root();
        let directory = TempDir::with_prefix("aedile-pgbouncer-")?;
        if let Some(user) = user {
            std::os::unix::fs::chown(directory.path(), Some(user.uid), Some(user.gid))?;
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let settings = directory.path().join("pgbouncer.ini");
        std::fs::write(
            &settings,
            format!(
                "[databases]\n* = host=127.0.0.1 port={} user=postgres\n\
                 [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 unix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
                 default_pool_size = {connections}\nmax_client_conn = 100\n",
                cluster.port()
            ),
        )?;
        let log = std::fs::File::create(directory.path().join("pooler.log"))?;
        let watch = binaries::command(PathBuf::from("/bin/sh"), user)
            .args(["-c", WATCH, "sh"])
            .arg(program)
            .arg(&settings)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let pooler = Self {
            directory,
            port,
            watch: Some(watch),
        };
        let clock: SharedClock = Arc::new(SystemClock);
        let end = clock.boot() + START;
        while clock.boot() < end {
            if super::Raw::connect(&pooler.url("postgres")).await.is_ok() {
                return Ok(pooler);
            }
            clock.sleep(Duration::from_millis(50)).await;
        }
        Err(DatabaseError::NotUp {
            directory: pooler.directory.path().display().to_string(),
            log: std::fs::read_to_string(pooler.directory.path().join("pooler.log"))
                .unwrap_or_default(),
        })
    }

    /// The URL of a database by way of it.
    pub fn url(&self, database: &str) -> String {
        format!(
            "postgres://postgres@127.0.0.1:{}/{database}?sslmode=disable",
            self.port
        )
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            if let Err(error) = watch.wait() {
                eprintln!("a private PgBouncer cannot be waited for: {error}");
            }
        }
    }
}
