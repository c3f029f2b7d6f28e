//! The interface `commands`, the destructive ones apart.

use aedile_engine::Call;
use aedile_engine::wit::{Answer, Put};
use aedile_log::View;
use aedile_state::{Command, ObjectId};

use super::PluginHost;
use crate::backend::Backend;
use crate::guard::{Item, item};

impl<B: Backend> PluginHost<B> {
    pub(super) async fn expire(&self) -> Call<Answer> {
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let item = self
            .tracked(async move { guards.expire(&plugin).await })
            .await?;
        Ok(item.map(|item| self.answer(item)))
    }

    pub(super) async fn clean(&self, ids: Vec<u64>) -> Call<Vec<Answer>> {
        let ids: Vec<ObjectId> = ids.into_iter().map(ObjectId).collect();
        let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
        let items = self
            .tracked(async move { guards.clean(&plugin, &ids).await })
            .await?;
        Ok(items.map(|items| self.answers(items)))
    }

    pub(super) async fn put(&self, entries: Vec<Put>, if_absent: bool) -> Call<Vec<Answer>> {
        let keys = self.keys.clone();
        let judged = entries
            .into_iter()
            .map(|Put { key, value }| match keys.check(&key) {
                Err(text) => Err(Item::Rejected(text)),
                Ok(()) if if_absent => Ok(Command::PutKvIfAbsent { key, value }),
                Ok(()) => Ok(Command::PutKv { key, value }),
            })
            .collect();
        self.propose_judged(judged).await
    }

    pub(super) async fn remove(&self, keys: Vec<String>) -> Call<Vec<Answer>> {
        let judged = keys
            .into_iter()
            .map(|key| match self.keys.check(&key) {
                Err(text) => Err(Item::Rejected(text)),
                Ok(()) => Ok(Command::DeleteKv { key }),
            })
            .collect();
        self.propose_judged(judged).await
    }

    /// Judge each item by a view that has caught up with the log, and propose
    /// those that pass.
    pub(super) async fn checked<T>(
        &self,
        items: Vec<T>,
        check: impl Fn(&View, T) -> Result<Command, String> + Send,
    ) -> Call<Vec<Answer>> {
        let guards = self.guards.clone();
        let view = match self
            .tracked(async move {
                guards.authority()?;
                guards.backend.fresh().await
            })
            .await?
        {
            Ok(view) => view,
            Err(error) => return Ok(Err(error)),
        };
        let judged = items
            .into_iter()
            .map(|item| check(&view, item).map_err(Item::Rejected))
            .collect();
        self.propose_judged(judged).await
    }

    /// Propose what passed; answer each item in its place.
    async fn propose_judged(&self, judged: Vec<Result<Command, Item>>) -> Call<Vec<Answer>> {
        let mut items: Vec<Option<Item>> = Vec::with_capacity(judged.len());
        let mut commands = Vec::new();
        for judged in judged {
            match judged {
                Ok(command) => {
                    commands.push(command);
                    items.push(None);
                }
                Err(item) => items.push(Some(item)),
            }
        }
        let mut proposed = Vec::new();
        if !commands.is_empty() {
            let (guards, plugin) = (self.guards.clone(), self.plugin.clone());
            let answers = self
                .tracked(async move { guards.propose_other(&plugin, commands).await })
                .await?;
            match answers {
                Ok(answers) => proposed = answers,
                Err(error) => return Ok(Err(error)),
            }
        }
        let mut proposed = proposed.iter().map(item);
        let items = items
            .into_iter()
            .map(|item| item.or_else(|| proposed.next()).unwrap_or(Item::Unknown))
            .collect();
        Ok(Ok(self.answers(items)))
    }
}
