//! What operators ask for: one tick of a plugin, now.
//!
//! A request goes when its tick has ended, so that a crash on the way loses
//! none: whoever leads next ticks again, which commands are made for.

use std::collections::BTreeSet;

use aedile_log::Answer;
use aedile_state::{Command, State};

use crate::backend::{Backend, Trouble};
use crate::control;
use crate::guard::Guards;

/// Most requests that one tick answers.
const MOST: usize = 100;

/// The requests that wait for a plugin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// Those answered that are still there: they are not answered again.
    answered: BTreeSet<String>,
}

/// A request: its key, and who asks.
pub(crate) type Asked = (String, String);

impl Requests {
    /// What waits in this view.
    pub(crate) fn waiting(&mut self, state: &State, name: &str) -> Vec<Asked> {
        self.answered.retain(|key| state.kv_get(key).is_some());
        let prefix = format!("{}{name}/run/", control::PREFIX);
        state
            .kv_scan(&prefix, None)
            .filter(|(key, _)| !self.answered.contains(*key))
            .take(MOST)
            .map(|(key, value)| {
                let form: serde_json::Value = serde_json::from_slice(value).unwrap_or_default();
                let who = form["who"].as_str().unwrap_or("somebody").to_owned();
                (key.to_owned(), who)
            })
            .collect()
    }

    /// A tick has answered these.
    pub(crate) async fn answer<B: Backend>(
        &mut self,
        guards: &Guards<B>,
        name: &str,
        asked: Vec<Asked>,
    ) {
        let keys: Vec<String> = asked.into_iter().map(|(key, _)| key).collect();
        self.answered.extend(keys.iter().cloned());
        let remove = keys
            .into_iter()
            .map(|key| Command::DeleteKv { key })
            .collect();
        match guards.propose("aedile", remove).await {
            Ok(answers) if !answers.contains(&Answer::Unknown) => {}
            Err(Trouble::LeaseLost) => {}
            Ok(_) => tracing::warn!(
                plugin = name,
                "it is not known whether a request to run was removed"
            ),
            Err(Trouble::Unavailable(reason)) => {
                tracing::warn!(plugin = name, %reason, "a request to run was answered and is still there");
            }
        }
    }
}
