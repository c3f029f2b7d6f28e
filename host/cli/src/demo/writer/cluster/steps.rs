//! The writer's basic steps: reserve and upload, commit, note, propose.

use aedile_log::Answer;
use aedile_state::{Command, CommitRequest, Value};
use aedile_storage::object_key;
use anyhow::{Context, bail};
use sha2::{Digest, Sha256};

use super::{Cluster, FOREIGN, NODE, NODE_EPOCH, content, id_of};
use crate::demo::records::{Fate, Ledger};

impl Cluster {
    /// Reserve ids and write their bytes.
    pub(super) async fn upload(
        &mut self,
        count: u32,
        ttl_ms: i64,
        size: usize,
    ) -> anyhow::Result<Vec<u64>> {
        let now_ms = self.now().await?;
        let value = self
            .propose(Command::PrepareObject {
                node: NODE,
                node_epoch: NODE_EPOCH,
                count,
                ttl_ms,
                now_ms,
            })
            .await?;
        let first = id_of(&value)?;
        let ids: Vec<u64> = (first..first + u64::from(count)).collect();
        for &id in &ids {
            let bytes = content(id, size);
            let hash = hex::encode(Sha256::digest(&bytes));
            self.write(&object_key(id), &bytes)?;
            if self.made.insert(id, (hash, size as u64)).is_some() {
                bail!("object id {id} was given out twice");
            }
        }
        Ok(ids)
    }

    pub(super) fn foreign(&mut self) -> anyhow::Result<()> {
        for (number, key) in FOREIGN.into_iter().enumerate() {
            let bytes = content(number as u64, 128);
            self.write(key, &bytes)?;
            self.ledger.append([&Ledger::Foreign {
                key: key.to_owned(),
                sha256: hex::encode(Sha256::digest(&bytes)),
            }])?;
        }
        Ok(())
    }

    pub(super) fn write(&self, key: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.objects.join(key);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }

    pub(super) fn note(&mut self, ids: &[u64], fate: Fate, why: &str) -> anyhow::Result<()> {
        let lines: Vec<Ledger> = ids
            .iter()
            .filter_map(|id| {
                let (sha256, bytes) = self.made.get(id)?;
                Some(Ledger::Object {
                    id: *id,
                    sha256: sha256.clone(),
                    bytes: *bytes,
                    fate,
                    why: why.to_owned(),
                })
            })
            .collect();
        self.ledger.append(&lines)
    }

    pub(super) async fn commit(&self, request: CommitRequest) -> anyhow::Result<()> {
        let now_ms = self.now().await?;
        self.propose(Command::CommitStreamSetObject {
            node: NODE,
            node_epoch: NODE_EPOCH,
            now_ms,
            request,
        })
        .await?;
        Ok(())
    }

    pub(super) async fn now(&self) -> anyhow::Result<i64> {
        Ok(self.log.database_now().await?.0)
    }

    pub(super) async fn propose(&self, command: Command) -> anyhow::Result<Value> {
        let name = command.name();
        match self.log.propose(vec![command]).await?.pop() {
            Some(Answer::Applied(applied)) => Ok(applied.value),
            Some(Answer::Redundant(value)) => Ok(value),
            other => bail!("{name}: {other:?}"),
        }
    }
}
