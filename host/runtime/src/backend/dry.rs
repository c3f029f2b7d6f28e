//! A scratch copy of the state: commands change it, deletes are only noted.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aedile_clock::{SharedClock, UnixMillis};
use aedile_log::{Answer, View};
use aedile_state::{Changes, Command, ObjectId, Rejection, State, Value};
use aedile_storage::{DeleteOutcome, Store, object_key};
use async_trait::async_trait;

use super::{Backend, Doomed, Trouble};
use crate::guard::{Orphan, is_note, operation_name};
use crate::plan::{PlannedClean, PlannedCommand, PlannedDelete, PlannedExpiry};

/// Looks that are taken at the store at once.
const LOOKS: usize = 16;

/// What a dry run has noted so far.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    pub(crate) deletes: Vec<PlannedDelete>,
    pub(crate) cleans: Vec<PlannedClean>,
    pub(crate) expires: Vec<PlannedExpiry>,
    pub(crate) commands: Vec<PlannedCommand>,
    /// The commands themselves, notes about orphans apart.
    pub(crate) proposed: Vec<Command>,
}

/// What a dry run has come to: the state, and what it has "deleted".
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) view: Arc<View>,
    /// Absent from then on.
    pub(crate) gone: HashSet<ObjectId>,
}

#[derive(Debug)]
struct Scratch {
    world: World,
    noted: Noted,
}

/// A scratch copy of the state over a store that is only looked at.
#[derive(Debug)]
pub(crate) struct Dry {
    scratch: Mutex<Scratch>,
    store: Store,
    clock: SharedClock,
    now: UnixMillis,
}

impl Dry {
    pub(crate) fn new(view: View, now: UnixMillis, store: Store, clock: SharedClock) -> Self {
        let world = World {
            view: Arc::new(view),
            gone: HashSet::new(),
        };
        Self::of(world, now, store, clock)
    }

    /// From where another dry run has come to.
    pub(crate) fn of(world: World, now: UnixMillis, store: Store, clock: SharedClock) -> Self {
        Self {
            scratch: Mutex::new(Scratch {
                world,
                noted: Noted::default(),
            }),
            store,
            clock,
            now,
        }
    }

    fn scratch(&self) -> MutexGuard<'_, Scratch> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has come to.
    pub(crate) fn world(&self) -> World {
        self.scratch().world.clone()
    }

    /// What was noted.
    pub(crate) fn take_noted(&self) -> Noted {
        std::mem::take(&mut self.scratch().noted)
    }
}

impl Noted {
    /// Note a command that the scratch state accepted and that changed it.
    fn command(&mut self, plugin: &str, before: &State, command: &Command) {
        if !is_note(command) {
            self.proposed.push(command.clone());
        }
        match command {
            Command::ExpirePreparedObjects { now_ms } => {
                self.expires.extend(
                    before
                        .lapsed(*now_ms)
                        .map(|(deadline, id)| PlannedExpiry { id: id.0, deadline }),
                );
            }
            Command::CleanDestroyedObjects { objects } => {
                self.cleans.extend(objects.iter().filter_map(|&id| {
                    let (_, operation) = before.mark(id)?;
                    Some(PlannedClean {
                        id: id.0,
                        operation: operation_name(operation).to_owned(),
                    })
                }));
            }
            // A plan lists the orphans themselves.
            note if is_note(note) => {}
            other => self.commands.push(PlannedCommand {
                plugin: plugin.to_owned(),
                command: other.name().to_owned(),
                detail: describe(other),
            }),
        }
    }
}

#[async_trait]
impl Backend for Dry {
    fn authority(&self) -> Option<Duration> {
        Some(Duration::from_secs(3600))
    }

    fn latest(&self) -> Arc<View> {
        self.scratch().world.view.clone()
    }

    async fn fresh(&self) -> Result<Arc<View>, Trouble> {
        Ok(self.latest())
    }

    async fn now(&self) -> Result<UnixMillis, Trouble> {
        Ok(self.now)
    }

    async fn propose(&self, plugin: &str, commands: Vec<Command>) -> Result<Vec<Answer>, Trouble> {
        let mut scratch = self.scratch();
        let mut state = scratch.world.view.state.clone();
        let mut answers = Vec::with_capacity(commands.len());
        for command in &commands {
            let before = state.clone();
            answers.push(match state.apply(command) {
                Ok(applied) if applied.changes == Changes::None => Answer::Redundant(applied.value),
                Ok(applied) => {
                    scratch.noted.command(plugin, &before, command);
                    Answer::Applied(applied)
                }
                Err(Rejection::Redundant) => Answer::Redundant(Value::Unit),
                Err(rejection) => Answer::Rejected(rejection),
            });
        }
        let index = scratch.world.view.index + 1;
        scratch.world.view = Arc::new(View { index, state });
        Ok(answers)
    }

    async fn delete(&self, plugin: &str, objects: &[Doomed]) -> Vec<(ObjectId, DeleteOutcome)> {
        let ids: Vec<u64> = objects.iter().map(|doomed| doomed.id.0).collect();
        let looks = self.store.head_many(&ids, LOOKS).await;
        let mut scratch = self.scratch();
        let mut outcomes = Vec::with_capacity(objects.len());
        for (doomed, (_, look)) in objects.iter().zip(looks) {
            let id = doomed.id;
            let bytes = match look {
                Ok(stored) if !scratch.world.gone.contains(&id) => stored.map(|stored| stored.size),
                Ok(_) => None,
                Err(error) => {
                    outcomes.push((id, DeleteOutcome::Retry(error.to_string())));
                    continue;
                }
            };
            outcomes.push((
                id,
                match bytes {
                    Some(_) => DeleteOutcome::Deleted,
                    None => DeleteOutcome::Absent,
                },
            ));
            scratch.world.gone.insert(id);
            scratch.noted.deletes.push(PlannedDelete {
                id: id.0,
                key: object_key(id.0),
                bytes,
                operation: operation_name(doomed.operation).to_owned(),
                part_of: doomed.part_of.map(|of| of.0),
                reason: reason(doomed, bytes.is_some()),
                plugin: plugin.to_owned(),
            });
        }
        outcomes
    }

    async fn delete_orphans(
        &self,
        plugin: &str,
        orphans: &[Orphan],
    ) -> Vec<(ObjectId, DeleteOutcome)> {
        let mut scratch = self.scratch();
        let mut outcomes = Vec::with_capacity(orphans.len());
        for orphan in orphans {
            scratch.world.gone.insert(orphan.id);
            scratch.noted.deletes.push(PlannedDelete {
                id: orphan.id.0,
                key: object_key(orphan.id.0),
                bytes: Some(orphan.size),
                operation: "orphan".to_owned(),
                part_of: None,
                reason: format!(
                    "known to no view, linked by no composite; seen as an orphan for {}",
                    humantime::format_duration(Duration::from_secs(orphan.age.counted.as_secs()))
                ),
                plugin: plugin.to_owned(),
            });
            outcomes.push((orphan.id, DeleteOutcome::Deleted));
        }
        outcomes
    }

    fn gone(&self, id: ObjectId) -> bool {
        self.scratch().world.gone.contains(&id)
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn clock(&self) -> &SharedClock {
        &self.clock
    }
}

/// Why an object may go, for people.
fn reason(doomed: &Doomed, there: bool) -> String {
    let named = match doomed.part_of {
        Some(of) => format!("part of the composite {of}, which goes with its parts"),
        None => "marked destroyed".to_owned(),
    };
    let state = match there {
        true => "not live, not reserved, not linked by another",
        false => "its bytes are already gone",
    };
    format!("{named}; {state}")
}

/// What a command is about, for people.
fn describe(command: &Command) -> String {
    match command {
        Command::PutKv { key, value } | Command::PutKvIfAbsent { key, value } => {
            format!("{key} ({} bytes)", value.len())
        }
        Command::DeleteKv { key } => key.clone(),
        Command::TrimStream {
            stream,
            new_start_offset,
            ..
        } => format!("stream {stream} from offset {new_start_offset}"),
        Command::DeleteStream { stream, .. } => format!("stream {stream}"),
        Command::CompactStreamObject { request, .. } => {
            format!(
                "stream {}, {} objects",
                request.stream,
                request.sources.len()
            )
        }
        Command::TransferStream { stream, from, to } => {
            format!("stream {stream} from node {from} to node {to}")
        }
        other => format!("{other:?}"),
    }
}
