//! The sweep for orphans, as plugins drive it. Every rule is the guards'.

use std::sync::atomic::Ordering;

use aedile_engine::Call;
use aedile_engine::wit::{DeleteOutcome, Sweep};
use aedile_state::ObjectId;

use super::PluginHost;
use crate::backend::Backend;
use crate::guard::Portion;

impl<B: Backend> PluginHost<B> {
    pub(super) async fn sweep(&self) -> Call<Sweep> {
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let portion = self
            .tracked(async move { guards.find_orphans(&plugin).await })
            .await?;
        Ok(portion.map(|portion| {
            self.advanced.fetch_or(portion.advanced, Ordering::Relaxed);
            let Portion {
                found,
                complete,
                give,
                ..
            } = portion;
            Sweep {
                listed: found.listed,
                candidates: found.candidates,
                bytes: found.bytes,
                complete,
                ripe: give.into_iter().map(|id| id.0).collect(),
                held: found.held,
            }
        }))
    }

    pub(super) async fn delete_orphans(&self, ids: Vec<u64>) -> Call<Vec<DeleteOutcome>> {
        let ids: Vec<ObjectId> = ids.into_iter().map(ObjectId).collect();
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let deletions = self
            .tracked(async move { guards.delete_orphans(&plugin, &ids).await })
            .await?;
        Ok(deletions.map(|deletions| self.outcomes(deletions)))
    }
}
