//! Stores to delete from: a directory, and an S3 server on threads of its own.

use std::path::Path;
use std::time::Duration;

use aedile_storage::{Credentials, Store, StoreOptions, object_key};
use aedile_tests_contract::s3::{ACCESS_KEY_ID, S3Server, SECRET_ACCESS_KEY};
use tempfile::TempDir;

use crate::Context;

/// What lies in an object.
const BYTES: &[u8] = b"the bytes of an object, more than the last forty-eight of them";

/// A local directory.
pub(crate) struct Files {
    dir: TempDir,
}

impl Files {
    /// One with these objects.
    pub(crate) fn with(ids: impl Iterator<Item = u64>) -> anyhow::Result<Self> {
        let files = Self {
            dir: tempfile::tempdir()?,
        };
        for id in ids {
            let path = files.path().join(object_key(id));
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::write(path, BYTES)?;
        }
        Ok(files)
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Put something at an object's key that no unlink removes.
    pub(crate) fn undeletable(&self, id: u64) -> anyhow::Result<()> {
        let path = self.path().join(object_key(id));
        std::fs::remove_file(&path)?;
        std::fs::create_dir_all(path.join("inside"))?;
        Ok(())
    }

    pub(crate) fn store(&self, context: &Context) -> anyhow::Result<Store> {
        let uri = format!("-2@file://{}", self.path().display()).parse()?;
        Ok(Store::open(
            &uri,
            StoreOptions::default(),
            context.clock.clone(),
        )?)
    }
}

/// An S3 server.
pub(crate) struct Bucket {
    server: S3Server,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Bucket {
    /// Start one, empty.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let server = runtime.spawn(S3Server::start("bench")).await??;
        Ok(Self {
            server,
            runtime: Some(runtime),
        })
    }

    /// Put objects past the server; then every request takes this much longer.
    pub(crate) fn fill(
        &self,
        ids: impl Iterator<Item = u64>,
        latency: Duration,
    ) -> anyhow::Result<()> {
        for id in ids {
            self.server.put(&object_key(id), BYTES)?;
        }
        self.server.faults().set_latency(latency);
        Ok(())
    }

    /// Refuse to delete these.
    pub(crate) fn deny(&self, ids: impl Iterator<Item = u64>) {
        self.server.faults().deny(ids.map(object_key));
    }

    pub(crate) fn store(&self, context: &Context) -> anyhow::Result<Store> {
        let options = StoreOptions {
            credentials: Some(Credentials {
                access_key_id: ACCESS_KEY_ID.to_owned(),
                secret_access_key: SECRET_ACCESS_KEY.to_owned(),
                session_token: None,
            }),
            ..StoreOptions::default()
        };
        let uri = self.server.uri().parse()?;
        Ok(Store::open(&uri, options, context.clock.clone())?)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // It is dropped inside another runtime, where waiting is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
