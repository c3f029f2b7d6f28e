//! `commands`: each function is a grant of its own.

use crate::bindings::generated::aedile::maintenance::commands::{
    Compaction, Host, Put, StreamAt, Transfer, Trim,
};
use crate::run::context::{Context, Pending};
use crate::wit::{Answer, HostError};

/// Ids that count as one command when they are cleaned.
const IDS_PER_COMMAND: usize = 1000;

type Answers = wasmtime::Result<Result<Vec<Answer>, HostError>>;

impl Context {
    /// Propose commands: `length` items, which count as `commands`.
    async fn propose(
        &mut self,
        function: &'static str,
        length: usize,
        commands: usize,
        call: impl for<'a> FnOnce(&'a mut dyn crate::Host) -> Pending<'a, Vec<Answer>> + Send,
    ) -> Answers {
        if let Err(error) = self.list_fits(length) {
            return Ok(Err(error));
        }
        self.count_commands(commands as u64)?;
        let mut answers = self.ask(function, call).await?;
        if let Ok(answers) = &mut answers {
            self.cut_texts(answers.iter_mut().filter_map(|answer| match answer {
                Answer::Rejected(text) => Some(text),
                _ => None,
            }));
        }
        Ok(answers)
    }
}

impl Host for Context {
    async fn expire_reservations(&mut self) -> wasmtime::Result<Result<Answer, HostError>> {
        self.count_commands(1)?;
        let mut answer = self
            .ask("commands.expire-reservations", |host| {
                host.expire_reservations()
            })
            .await?;
        if let Ok(Answer::Rejected(text)) = &mut answer {
            self.cut_texts(std::iter::once(text));
        }
        Ok(answer)
    }

    async fn clean_destroyed(&mut self, ids: Vec<u64>) -> Answers {
        let (length, commands) = (ids.len(), ids.len().div_ceil(IDS_PER_COMMAND));
        self.propose("commands.clean-destroyed", length, commands, |host| {
            host.clean_destroyed(ids)
        })
        .await
    }

    async fn put_kv(&mut self, entries: Vec<Put>) -> Answers {
        let length = entries.len();
        self.propose("commands.put-kv", length, length, |host| {
            host.put_kv(entries)
        })
        .await
    }

    async fn put_kv_if_absent(&mut self, entries: Vec<Put>) -> Answers {
        let length = entries.len();
        self.propose("commands.put-kv-if-absent", length, length, |host| {
            host.put_kv_if_absent(entries)
        })
        .await
    }

    async fn delete_kv(&mut self, keys: Vec<String>) -> Answers {
        let length = keys.len();
        self.propose("commands.delete-kv", length, length, |host| {
            host.delete_kv(keys)
        })
        .await
    }

    async fn trim_stream(&mut self, trims: Vec<Trim>) -> Answers {
        let length = trims.len();
        self.propose("commands.trim-stream", length, length, |host| {
            host.trim_stream(trims)
        })
        .await
    }

    async fn delete_stream(&mut self, streams: Vec<StreamAt>) -> Answers {
        let length = streams.len();
        self.propose("commands.delete-stream", length, length, |host| {
            host.delete_stream(streams)
        })
        .await
    }

    async fn compact_away(&mut self, compactions: Vec<Compaction>) -> Answers {
        let length = compactions.len();
        self.propose("commands.compact-away", length, length, |host| {
            host.compact_away(compactions)
        })
        .await
    }

    async fn transfer_stream(&mut self, transfers: Vec<Transfer>) -> Answers {
        let length = transfers.len();
        self.propose("commands.transfer-stream", length, length, |host| {
            host.transfer_stream(transfers)
        })
        .await
    }
}
