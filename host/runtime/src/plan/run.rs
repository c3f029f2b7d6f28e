//! The dry run: the pass's own loop over a scratch copy of the state.

use std::sync::Arc;

use aedile_engine::{Control, Engine};
use aedile_log::Reader;
use aedile_storage::Store;
use tokio_util::sync::CancellationToken;

use super::{Plan, PlanTotals, PlannedTicks};
use crate::backend::{Backend as _, Dry};
use crate::entropy::Entropy;
use crate::error::RuntimeError;
use crate::guard::{Aside, Guards, StoreTrust, Tries};
use crate::options::RuntimeOptions;
use crate::pass::{drain, left_over};
use crate::source::Sources;
use crate::term::Identity;

/// The adapters of a dry run: none of them writes.
#[derive(Debug)]
pub struct PlanParts {
    /// Time.
    pub clock: aedile_clock::SharedClock,
    /// The Wasm engine.
    pub engine: Arc<Engine>,
    /// The metadata log, read only.
    pub reader: Reader,
    /// The object store; only looked at.
    pub store: Store,
}

/// Compute what a pass would do now. Reads only.
///
/// # Errors
/// The database or the store cannot be read, or a built-in plugin does not load.
pub async fn plan(options: RuntimeOptions, parts: PlanParts) -> Result<Plan, RuntimeError> {
    options.validate()?;
    let PlanParts {
        clock,
        engine,
        reader,
        store,
    } = parts;
    let planned = dry_run(&options, clock, engine, &reader, store).await;
    reader.close().await;
    planned
}

async fn dry_run(
    options: &RuntimeOptions,
    clock: aedile_clock::SharedClock,
    engine: Arc<Engine>,
    reader: &Reader,
    store: Store,
) -> Result<Plan, RuntimeError> {
    let (_, set) = Sources::open(options, engine, clock.clone()).await?;
    let view = reader.view().await.map_err(RuntimeError::Log)?;
    let now = reader.database_now().await.map_err(RuntimeError::Log)?;
    let index = view.index;
    let until = view.state.next_mark_seq();
    let guards = Arc::new(Guards::new(
        Dry::new(view, now, store, clock),
        Arc::new(Aside::new(Tries::Once)),
        StoreTrust::new(options.confirm_empty_store),
        Arc::new(Entropy::new(options.seed)),
    ));
    let identity = Identity {
        node: options.node.clone(),
        epoch: 0,
    };
    let control = || Control {
        authority: Arc::new(|| true),
        stop: CancellationToken::new(),
    };
    let went = drain(&guards, &set, &identity, control, async |_, _| {})
        .await
        .map_err(|_| RuntimeError::LeaseLost)?;
    let end = guards.backend.latest();
    let left = left_over(&guards, &end.state, until);
    let noted = guards.backend.take_noted();
    let mut plan = Plan {
        index,
        now: now.0,
        deletes: noted.deletes,
        cleans: noted.cleans,
        expires: noted.expires,
        commands: noted.commands,
        parked: left.parked,
        conflicts: left.conflicts,
        refused: left.refused,
        store_suspect: guards.doubt(&end.state),
        plugins: went
            .into_iter()
            .map(|went| PlannedTicks {
                plugin: went.loaded.name().to_owned(),
                version: went.loaded.manifest().version.to_string(),
                digest: went.loaded.plugin.digest().to_owned(),
                ticks: went.ticks,
                failure: went.failure,
            })
            .collect(),
        problems: set.problems,
        totals: PlanTotals::default(),
    };
    plan.refused.extend(left.failed);
    plan.totals = totals(&plan);
    Ok(plan)
}

fn totals(plan: &Plan) -> PlanTotals {
    let count = |length: usize| length as u64;
    PlanTotals {
        deletes: count(plan.deletes.len()),
        bytes: plan.deletes.iter().filter_map(|delete| delete.bytes).sum(),
        cleans: count(plan.cleans.len()),
        expires: count(plan.expires.len()),
        commands: count(plan.commands.len()),
        parked: count(plan.parked.len()),
        conflicts: count(plan.conflicts.len()),
        refused: count(plan.refused.len()),
    }
}
