//! `storage`: each function is a grant of its own.

use crate::bindings::generated::aedile::maintenance::storage::{
    DeleteOutcome, Host, Refusal, Stored, Sweep,
};
use crate::run::context::Context;
use crate::run::page::page_len;
use crate::text::line_of;
use crate::wit::HostError;

/// What the record of a key takes besides the key, in bytes, rounded up.
const RECORD: usize = 64;

/// Requests to the store that a portion of a sweep counts as.
const PORTION: u64 = 16;

/// The text of an outcome that has one.
fn text(outcome: &mut DeleteOutcome) -> Option<&mut String> {
    match outcome {
        DeleteOutcome::Retry(text)
        | DeleteOutcome::Denied(text)
        | DeleteOutcome::Refused(
            Refusal::Conflict(text) | Refusal::Parked(text) | Refusal::StoreSuspect(text),
        ) => Some(text),
        DeleteOutcome::Deleted
        | DeleteOutcome::Absent
        | DeleteOutcome::Throttled
        | DeleteOutcome::Refused(Refusal::NotMarked | Refusal::KeepData) => None,
    }
}

impl Host for Context {
    async fn delete(
        &mut self,
        ids: Vec<u64>,
    ) -> wasmtime::Result<Result<Vec<DeleteOutcome>, HostError>> {
        if let Err(error) = self.list_fits(ids.len()) {
            return Ok(Err(error));
        }
        self.count_storage(ids.len() as u64)?;
        let mut outcomes = self.ask("storage.delete", |host| host.delete(ids)).await?;
        if let Ok(outcomes) = &mut outcomes {
            self.cut_texts(outcomes.iter_mut().filter_map(text));
        }
        Ok(outcomes)
    }

    async fn list(
        &mut self,
        prefix: String,
        after: Option<String>,
        limit: u32,
    ) -> wasmtime::Result<Result<Vec<Stored>, HostError>> {
        self.count_storage(1)?;
        let limit = page_len(limit);
        let page = self
            .ask("storage.list", |host| host.list(prefix, after, limit))
            .await?;
        match page {
            Ok(items) => Ok(Ok(self.page(
                items,
                limit,
                |stored| RECORD + stored.key.len(),
                |stored| format!("the key `{}`", line_of(&stored.key, 128)),
            )?)),
            Err(error) => Ok(Err(error)),
        }
    }

    async fn head(&mut self, id: u64) -> wasmtime::Result<Result<Option<Stored>, HostError>> {
        self.count_storage(1)?;
        Ok(self.ask("storage.head", |host| host.head(id)).await?)
    }

    async fn read(
        &mut self,
        id: u64,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<Option<Vec<u8>>, HostError>> {
        let most = self.limits.host_call_bytes;
        if usize::try_from(length).map_or(true, |length| length > most) {
            // Fewer bytes than asked for mean that the object ends.
            return Ok(Err(HostError::InvalidArgument(format!(
                "length {length}; at most {most} bytes in one call"
            ))));
        }
        self.count_storage(1)?;
        let mut answer = self
            .ask("storage.read", |host| host.read(id, offset, length))
            .await?;
        if let Ok(Some(bytes)) = &mut answer {
            bytes.truncate(length as usize);
        }
        Ok(answer)
    }

    async fn find_orphans(&mut self) -> wasmtime::Result<Result<Sweep, HostError>> {
        self.count_storage(PORTION)?;
        let mut sweep = self
            .ask("storage.find-orphans", |host| host.find_orphans())
            .await?;
        if let Ok(sweep) = &mut sweep {
            self.cut_texts(sweep.held.iter_mut());
        }
        Ok(sweep)
    }

    async fn delete_orphan(
        &mut self,
        ids: Vec<u64>,
    ) -> wasmtime::Result<Result<Vec<DeleteOutcome>, HostError>> {
        if let Err(error) = self.list_fits(ids.len()) {
            return Ok(Err(error));
        }
        self.count_storage(ids.len() as u64)?;
        let mut outcomes = self
            .ask("storage.delete-orphan", |host| host.delete_orphan(ids))
            .await?;
        if let Ok(outcomes) = &mut outcomes {
            self.cut_texts(outcomes.iter_mut().filter_map(text));
        }
        Ok(outcomes)
    }
}
