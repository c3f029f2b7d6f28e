//! The interface `storage`.

use std::sync::atomic::Ordering;

use aedile_engine::Call;
use aedile_engine::wit::{DeleteOutcome, HostError, Refusal, Stored};
use aedile_state::ObjectId;
use aedile_storage::StorageError;

use super::PluginHost;
use crate::backend::{Backend, Trouble};
use crate::guard;

impl<B: Backend> PluginHost<B> {
    pub(super) async fn delete_bytes(&self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        let ids: Vec<ObjectId> = ids.into_iter().map(ObjectId).collect();
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let deletions = self
            .tracked(async move { guards.delete(&plugin, &ids).await })
            .await?;
        Ok(deletions.map(|deletions| self.outcomes(deletions)))
    }

    /// What a plugin is told of deletions, one for each, in order.
    pub(super) fn outcomes(&self, deletions: Vec<guard::Deletion>) -> Vec<DeleteOutcome> {
        let told = deletions.into_iter();
        told.map(|deletion| self.outcome(deletion)).collect()
    }

    fn outcome(&self, deletion: guard::Deletion) -> DeleteOutcome {
        use aedile_storage::DeleteOutcome as Outcome;
        let outcome = match deletion {
            guard::Deletion::Outcome(outcome) => outcome,
            guard::Deletion::Refused(refusal) => {
                return DeleteOutcome::Refused(match refusal {
                    guard::Refusal::NotMarked => Refusal::NotMarked,
                    guard::Refusal::KeepData => Refusal::KeepData,
                    guard::Refusal::Conflict(text) => Refusal::Conflict(text),
                    guard::Refusal::Parked(text) => Refusal::Parked(text),
                    guard::Refusal::StoreSuspect(text) => Refusal::StoreSuspect(text),
                });
            }
        };
        if matches!(outcome, Outcome::Deleted | Outcome::Absent) {
            self.effects.fetch_add(1, Ordering::Relaxed);
        }
        match outcome {
            Outcome::Deleted => DeleteOutcome::Deleted,
            Outcome::Absent => DeleteOutcome::Absent,
            Outcome::Throttled => DeleteOutcome::Throttled,
            Outcome::Retry(text) => DeleteOutcome::Retry(text),
            Outcome::Denied(text) => DeleteOutcome::Denied(text),
            // Unreachable: a call with unsent objects ends with the lease.
            Outcome::NotSent => DeleteOutcome::Retry("it was not sent".to_owned()),
        }
    }

    pub(super) async fn list_keys(
        &self,
        prefix: String,
        after: Option<String>,
        limit: usize,
    ) -> Call<Vec<Stored>> {
        let guards = self.guards.clone();
        let page = self
            .tracked(async move {
                guards.authority()?;
                Ok(listed(&guards.backend, &prefix, after, limit).await)
            })
            .await?;
        Ok(page.and_then(|page| Ok(page.map_err(trouble)?.into_iter().map(stored).collect())))
    }

    pub(super) async fn head_object(&self, id: u64) -> Call<Option<Stored>> {
        let guards = self.guards.clone();
        let found = self
            .tracked(async move {
                guards.authority()?;
                if guards.backend.gone(ObjectId(id)) {
                    return Ok(Ok(None));
                }
                Ok(guards.backend.store().head(id).await)
            })
            .await?;
        Ok(found.and_then(|found| Ok(found.map_err(trouble)?.map(stored))))
    }

    pub(super) async fn read_object(
        &self,
        id: u64,
        offset: u64,
        length: u32,
    ) -> Call<Option<Vec<u8>>> {
        let guards = self.guards.clone();
        let bytes = self
            .tracked(async move {
                guards.authority()?;
                if guards.backend.gone(ObjectId(id)) {
                    return Ok(Ok(None));
                }
                Ok::<_, Trouble>(guards.backend.store().read(id, offset, length).await)
            })
            .await?;
        Ok(bytes.and_then(|bytes| Ok(bytes.map_err(trouble)?.map(|bytes| bytes.to_vec()))))
    }
}

/// A page without what a dry run has deleted; only an empty page is the last.
async fn listed<B: Backend>(
    backend: &B,
    prefix: &str,
    mut after: Option<String>,
    limit: usize,
) -> Result<Vec<aedile_storage::Stored>, StorageError> {
    loop {
        let store = backend.store();
        let mut page = store.list(prefix, after.as_deref(), limit).await?;
        let Some(last) = page.last().map(|stored| stored.key.clone()) else {
            return Ok(page);
        };
        page.retain(|stored| !stored.id.is_some_and(|id| backend.gone(ObjectId(id))));
        if !page.is_empty() {
            return Ok(page);
        }
        after = Some(last);
    }
}

fn trouble(error: StorageError) -> HostError {
    HostError::Unavailable(error.to_string())
}

fn stored(stored: aedile_storage::Stored) -> Stored {
    Stored {
        key: stored.key,
        id: stored.id,
        size: stored.size,
        modified: stored.modified.0,
    }
}
