//! From a revision to a plugin that may run: fetched by digest, verified,
//! compiled.

use std::collections::BTreeMap;
use std::sync::Arc;

use aedile_engine::{Engine, Grants, LoadError, Plugin};
use aedile_storage::{ModuleDigest, ModuleError, Store};
use aedile_supply::Trust;
use bytes::Bytes;
use tokio::sync::mpsc;

use super::entry::Verdict;
use crate::backend::chain;
use crate::control::{ModuleRef, Record, StoredModule, lacking};
use crate::source::load::{Loaded, ready};

/// What loading needs.
#[derive(Debug)]
pub(crate) struct Kit {
    pub(crate) engine: Arc<Engine>,
    pub(crate) store: Store,
    /// Whose signatures count on this node.
    pub(crate) trust: Trust,
    /// What the binary has, as this node is configured.
    pub(crate) builtins: BTreeMap<String, Arc<Loaded>>,
}

/// A revision that is to be loaded.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) number: u64,
    pub(super) record: Record,
    /// Its module, if it is compiled already.
    pub(super) compiled: Option<Plugin>,
}

/// Why a revision does not run.
pub(super) enum Trouble {
    /// It wants more than it was granted.
    Verdict(Verdict),
    /// It could not be had; passing if nobody has to do anything.
    Failed { reason: String, passing: bool },
}

impl From<Verdict> for Trouble {
    fn from(verdict: Verdict) -> Self {
        Self::Verdict(verdict)
    }
}

fn refused(reason: impl std::fmt::Display) -> Trouble {
    Trouble::Verdict(Verdict::Refused(reason.to_string()))
}

impl Kit {
    /// Load a revision. `compiling` is told when its module has been fetched.
    pub(super) async fn load(
        &self,
        job: &Job,
        compiling: &mpsc::UnboundedSender<(String, u64)>,
    ) -> Result<Arc<Loaded>, Trouble> {
        let Job {
            name,
            number,
            record,
            ..
        } = job;
        let settings = record.settings().map_err(refused)?;
        let (plugin, origin) = match (&record.module, &job.compiled) {
            (ModuleRef::Embedded, _) => {
                let Some(builtin) = self.builtins.get(name) else {
                    return Err(refused(
                        "it wants the module of this name that is built in, and this node's binary \
                         has none; upgrade this node, or deploy a file"
                            .to_owned(),
                    ));
                };
                approve(&builtin.manifest().grants, record)?;
                let origin = format!("built-in, revision {number}");
                (builtin.plugin.clone(), origin)
            }
            (ModuleRef::Stored(_), Some(plugin)) => {
                approve(&plugin.manifest().grants, record)?;
                (plugin.clone(), format!("revision {number}"))
            }
            (ModuleRef::Stored(stored), None) => {
                let bytes = self.fetch(stored).await?;
                let verdict = self
                    .trust
                    .check(&bytes, stored.signature.as_deref())
                    .map_err(|error| refused(chain(&error)))?;
                tracing::debug!(plugin = name, revision = number, signature = %verdict, "verified");
                let plugin = self.compile(job, bytes, compiling).await?;
                (plugin, format!("revision {number}"))
            }
        };
        let loaded = ready(plugin, settings, origin, Some(*number))
            .await
            .map_err(refused)?;
        tracing::info!(
            plugin = name,
            revision = number,
            version = loaded.manifest().version,
            digest = loaded.plugin.digest(),
            "revision ready"
        );
        Ok(Arc::new(loaded))
    }

    async fn fetch(&self, stored: &StoredModule) -> Result<Bytes, Trouble> {
        let digest: ModuleDigest = stored.digest.parse().map_err(refused)?;
        self.store
            .module(&digest, stored.size)
            .await
            .map_err(|error| match error {
                ModuleError::TooLarge { .. } | ModuleError::BadDigest { .. } => refused(error),
                // Uploading it again mends it, and nothing else tells of that.
                error => Trouble::Failed {
                    passing: error.transient(),
                    reason: chain(&error),
                },
            })
    }

    async fn compile(
        &self,
        job: &Job,
        bytes: Bytes,
        compiling: &mpsc::UnboundedSender<(String, u64)>,
    ) -> Result<Plugin, Trouble> {
        let inspection = self
            .engine
            .inspect(&bytes)
            .map_err(|error| refused(chain(&error)))?;
        if inspection.manifest.name != job.name {
            return Err(refused(format!(
                "its manifest names it `{}`; deploy it under that name",
                inspection.manifest.name
            )));
        }
        approve(&inspection.manifest.grants, &job.record)?;
        // Nobody listens once the node stops.
        let _ = compiling.send((job.name.clone(), job.number));
        let grants: Grants = inspection.manifest.grants.into_iter().collect();
        let bytes: Arc<[u8]> = bytes.as_ref().into();
        self.engine
            .load(bytes, &grants)
            .await
            .map_err(|error| match error {
                LoadError::CompileTimeout { .. } => Trouble::Failed {
                    reason: chain(&error),
                    passing: true,
                },
                error => refused(chain(&error)),
            })
    }
}

/// Whether everything that a module wants was granted.
fn approve(wants: &[aedile_engine::Grant], record: &Record) -> Result<(), Trouble> {
    let missing = lacking(wants, record);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Verdict::NeedsApproval(missing).into()),
    }
}

impl Kit {
    /// What loading needs, of these parts.
    pub(crate) fn new(
        engine: Arc<Engine>,
        store: Store,
        trust: Trust,
        builtins: &[Arc<Loaded>],
    ) -> Self {
        Self {
            engine,
            store,
            trust,
            builtins: builtins
                .iter()
                .map(|loaded| (loaded.name().to_owned(), loaded.clone()))
                .collect(),
        }
    }
}
