//! An S3 server on loopback with real objects in a directory, which fails on
//! request.
//!
//! The protocol, its signatures included, is served by `s3s` and `s3s-fs`. Two
//! layers go wrong: one at the wire (statuses, latency, lost replies, answers
//! of odd services), one at the objects (keys that may not be deleted). Every
//! fault counts how often it fired.

mod faults;
mod half;
mod objects;
mod quota;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aedile_clock::{SharedClock, SystemClock};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

pub use faults::{BulkBody, Faults, Kind, Refusal, Requests};

/// The server's only access key.
pub const ACCESS_KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";
/// Its secret.
pub const SECRET_ACCESS_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
/// The server's region.
pub const REGION: &str = "us-east-1";

/// A running server with one bucket.
#[derive(Debug)]
pub struct S3Server {
    address: SocketAddr,
    bucket: String,
    root: TempDir,
    faults: Arc<Faults>,
    task: AbortOnDropHandle<()>,
}

impl S3Server {
    /// Start a server with an empty bucket of this name.
    ///
    /// # Errors
    /// No directory or no port could be had.
    pub async fn start(bucket: &str) -> io::Result<Self> {
        let root = TempDir::new()?;
        std::fs::create_dir(root.path().join(bucket))?;
        let files = s3s_fs::FileSystem::new(root.path())
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        let faults = Arc::new(Faults::default());
        let clock: SharedClock = Arc::new(SystemClock);
        let objects = objects::Objects::new(files, Arc::clone(&faults), clock);
        let mut builder = S3ServiceBuilder::new(objects);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY_ID, SECRET_ACCESS_KEY));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(serve(listener, builder.build(), Arc::clone(&faults)));
        Ok(Self {
            address,
            bucket: bucket.to_owned(),
            root,
            faults,
            task: AbortOnDropHandle::new(task),
        })
    }

    /// What goes wrong, and what was asked.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The bucket as a storage URI.
    pub fn uri(&self) -> String {
        self.uri_of(&self.bucket)
    }

    /// Any bucket of this server as a storage URI.
    pub fn uri_of(&self, bucket: &str) -> String {
        format!(
            "-2@s3://{bucket}?region={REGION}&endpoint=http://{}&pathStyle=true",
            self.address
        )
    }

    /// Variables that give a child process the credentials.
    pub fn environment(&self) -> [(&'static str, &'static str); 2] {
        [
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET_ACCESS_KEY),
        ]
    }

    /// Put an object into the bucket, past the server.
    ///
    /// # Errors
    /// The file system's.
    pub fn put(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, bytes)
    }

    /// Whether the bucket holds an object, past the server.
    pub fn holds(&self, key: &str) -> bool {
        self.path(key).is_file()
    }

    /// The folder that holds the bucket's objects, past the server.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join(&self.bucket)
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder().join(key)
    }

    /// Take the bucket away with all that is in it.
    ///
    /// # Errors
    /// The file system's.
    pub fn remove_bucket(&self) -> io::Result<()> {
        std::fs::remove_dir_all(self.root.path().join(&self.bucket))
    }

    /// Cut its connections and let it take no more.
    pub fn cut(&self) {
        self.task.abort();
    }

    /// Stop it. Connections are cut.
    pub async fn stop(self) {
        self.task.abort();
        // It was aborted: there is nothing to learn from how it ended.
        let _ = self.task.await;
    }
}

async fn serve(listener: TcpListener, service: S3Service, faults: Arc<Faults>) {
    let clock: SharedClock = Arc::new(SystemClock);
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
            Some(_) = connections.join_next() => continue,
        };
        let service = service.clone();
        let faults = Arc::clone(&faults);
        let clock = Arc::clone(&clock);
        // Small answers are not to wait for more.
        let _ = stream.set_nodelay(true);
        connections.spawn(async move {
            let answer = service_fn(move |request| {
                faults::answer(
                    service.clone(),
                    Arc::clone(&faults),
                    Arc::clone(&clock),
                    request,
                )
            });
            // A client that goes away is its own business.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(60))
                .serve_connection(TokioIo::new(stream), answer)
                .await;
        });
    }
}
