//! `aedile plugin deploy`: everything is checked, then the module is stored, then
//! the revision is written.

use std::ffi::OsString;
use std::sync::Arc;

use aedile_engine::{Grant, Manifest};
use aedile_log::NodeRecord;
use aedile_runtime::control::{
    self, Action, ModuleRef, Record, StoredModule, grant_command, lacking,
};
use aedile_runtime::{Candidate, Plan, PlanParts, RuntimeOptions};
use aedile_storage::{Store, StoreOptions};
use clap::ArgMatches;
use serde_json::json;

use super::edit::destructive;
use super::module::Module;
use super::{By, Current, Done, Session, changes, current, diff, module, refused, schema, wait};
use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output::style::Style;
use crate::output::{self, figures};
use crate::settings;

/// Why a module or a setting is refused before anything is written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    /// The module with its settings would not run.
    #[error("`{name}` is refused: {reason}")]
    Module {
        /// The plugin.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// Its configuration.
    #[error("`{name}` is refused")]
    Config {
        /// The plugin.
        name: String,
        /// What does not fit.
        #[source]
        reason: schema::SchemaError,
    },
}

/// Deploy a module.
pub(crate) async fn deploy(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let what = leaf
        .get_one::<OsString>("file")
        .cloned()
        .unwrap_or_default();
    let by = By::new(config)?;
    let wait = wait::limit(config)?;
    let dry = config.switch(settings::DRY_RUN)?;
    let plugin_config = changes::plugin_config(config)?;
    let store = config.storage()?;
    let engine = Arc::new(module::engine()?);
    let module = module::read(config, &engine, &what).await?;
    let name = module.inspection.manifest.name.clone();
    let store = Store::open(&store, StoreOptions::default(), commands::clock())?;
    let session = Session::open(config).await?;
    let deployed = async {
        let view = session.view();
        let reader = commands::reader(config, &session.clock).await?;
        let now = reader.database_now().await?.0;
        let nodes = reader.nodes().await?;
        reader.close().await;
        free(&nodes, now, &name)?;
        let current = current(config, &view, &name)?;
        let mut record = next(&current, &module);
        record = record.by(Action::Deploy, &by.who, &by.why);
        settings_of(config, leaf, &mut record)?;
        if let Some(values) = plugin_config {
            record.config = values;
        }
        canary(config, &current, &module, &mut record)?;
        let plan = check(config, engine, &store, &session, &module, &record).await?;
        if dry {
            show_dry(config, &module, &current, &record, &plan)?;
            return anyhow::Ok(None);
        }
        store.check().await?;
        let stored = store.put_module(module.bytes.to_vec().into()).await?;
        tracing::debug!(digest = %stored.digest, written = stored.written, "stored");
        let mut done = Done::write(&session, &name, current.previous, record).await?;
        notes(&module.inspection.manifest, &current, &mut done);
        Ok(Some((done, session.log.database_now().await?.0)))
    }
    .await;
    session.log.close().await;
    match deployed? {
        Some((done, now)) => done.finish(config, now, wait).await,
        None => Ok(Exit::Ok),
    }
}

/// A name that a file of some node's plugin directory has is not free.
pub(super) fn free(nodes: &[NodeRecord], now: i64, name: &str) -> anyhow::Result<()> {
    match wait::taken(nodes, now, name) {
        None => Ok(()),
        Some((node, file)) => Err(refused(format!(
            "the name `{name}` is taken: the node {node} runs the file {file} of its plugin \
             directory. Remove the file there, or give the module another name in its manifest; \
             nothing was written"
        ))),
    }
}

/// The setting of the newest revision, with this module.
fn next(current: &Current, module: &Module) -> Record {
    let manifest = &module.inspection.manifest;
    let stored = ModuleRef::Stored(StoredModule {
        digest: module.inspection.digest.clone(),
        size: module.bytes.len() as u64,
        signature: module.signature.clone(),
        source: Some(module.source.clone()),
    });
    let fresh = || Record::new(Action::Deploy, ModuleRef::Embedded, String::new());
    let mut record = current.record.clone().unwrap_or_else(fresh);
    record.of = None;
    record.canary = 0;
    if let (ModuleRef::Stored(before), ModuleRef::Stored(after)) = (&record.module, &stored)
        && before.digest == after.digest
        && after.signature.is_none()
    {
        // The same module: what is known of it stays.
        return record;
    }
    record.module = stored;
    record.version.clone_from(&manifest.version);
    record
}

/// What the flags set.
fn settings_of(config: &Config, leaf: &ArgMatches, record: &mut Record) -> anyhow::Result<()> {
    changes::add_grants(leaf, record)?;
    changes::schedule(config, &mut record.schedule)?;
    changes::limits(leaf, &mut record.limits)?;
    if let Some(fenced) = changes::fenced(config)? {
        record.fenced = fenced;
    }
    Ok(())
}

fn canary(
    config: &Config,
    current: &Current,
    module: &Module,
    record: &mut Record,
) -> anyhow::Result<()> {
    let ticks = changes::canary(config)?;
    let before = current.record.as_ref();
    if ticks > 0 && before.is_none() {
        return Err(refused(format!(
            "--canary: there is no version of `{}` yet beside which this one could plan",
            module.inspection.manifest.name
        )));
    }
    record.canary = match before {
        Some(before) => {
            let mut as_before = record.clone();
            as_before.canary = before.canary;
            // It runs already, or is the canary already.
            if as_before.same_setting(before) || (ticks == 0 && before.module == record.module) {
                before.canary
            } else {
                ticks
            }
        }
        None => 0,
    };
    Ok(())
}

/// Everything that can be known before anything is written.
pub(super) async fn check(
    config: &Config,
    engine: Arc<aedile_engine::Engine>,
    store: &Store,
    session: &Session,
    module: &Module,
    record: &Record,
) -> anyhow::Result<Plan> {
    let manifest = &module.inspection.manifest;
    fits(module, record)?;
    let reader = commands::reader(config, &session.clock).await?;
    let candidate = Candidate {
        bytes: module.bytes.clone(),
        settings: settings(&manifest.name, record)?,
    };
    let options = RuntimeOptions {
        orphans: config.orphans()?,
        ..RuntimeOptions::default()
    };
    let parts = PlanParts {
        clock: session.clock.clone(),
        engine,
        reader,
        store: store.clone(),
    };
    aedile_runtime::try_out(candidate, &options, parts)
        .await
        .map_err(|error| match error {
            aedile_runtime::TrialError::Runtime(error) => error.into(),
            unfit => Unfit::Module {
                name: manifest.name.clone(),
                reason: unfit.to_string(),
            }
            .into(),
        })
}

/// What needs neither database nor storage: limits against the module, and the
/// configuration against its schema.
fn fits(module: &Module, record: &Record) -> Result<(), Unfit> {
    let manifest = &module.inspection.manifest;
    let name = &manifest.name;
    let limits = settings(name, record)?.limits;
    let least = module.inspection.minimum_memory;
    if least > limits.memory as u64 {
        return Err(Unfit::Module {
            name: name.clone(),
            reason: format!(
                "it needs {} of memory at its start, and its limit is {}; raise the limit with \
                 --limit memory={}MiB, or build it with a smaller stack",
                figures::bytes(least),
                figures::bytes(limits.memory as u64),
                least.div_ceil(1 << 20)
            ),
        });
    }
    if let Some(schema) = &manifest.config_schema {
        schema::check(schema, &record.config).map_err(|reason| Unfit::Config {
            name: name.clone(),
            reason,
        })?;
    }
    Ok(())
}

fn settings(name: &str, record: &Record) -> Result<aedile_runtime::PluginSettings, Unfit> {
    record.settings().map_err(|error| Unfit::Module {
        name: name.to_owned(),
        reason: error.to_string(),
    })
}

/// Check new settings for the module that runs already.
pub(super) async fn check_stored(
    config: &Config,
    session: &Session,
    name: &str,
    record: &Record,
) -> anyhow::Result<()> {
    let engine = module::engine()?;
    let bytes: Arc<[u8]> = match &record.module {
        ModuleRef::Embedded => {
            let embedded = crate::builtins::modules().find(|(known, _)| *known == name);
            let Some((_, bytes)) = embedded else {
                return Ok(());
            };
            Arc::from(bytes)
        }
        ModuleRef::Stored(stored) => {
            let store = Store::open(
                &config.storage()?,
                StoreOptions::default(),
                session.clock.clone(),
            )?;
            let bytes = store.module(&stored.digest.parse()?, stored.size).await?;
            Arc::from(bytes.to_vec())
        }
    };
    let inspection = engine.inspect(&bytes)?;
    let module = Module {
        bytes,
        inspection,
        source: String::new(),
        signature: None,
    };
    fits(&module, record)?;
    let settings = settings(name, record)?;
    let grants = module.inspection.manifest.grants.iter().copied().collect();
    let plugin = engine.load(module.bytes, &grants).await?;
    let unfit = |reason: String| Unfit::Module {
        name: name.to_owned(),
        reason,
    };
    match plugin
        .validate_config(&settings.config.to_string(), &settings.limits)
        .await
    {
        Ok(Ok(())) => Ok(()),
        Ok(Err(text)) => Err(unfit(format!("it refuses its configuration: {text}")).into()),
        Err(end) => Err(unfit(format!("checking its configuration failed: {end:?}")).into()),
    }
}

/// What an operator should know of the grants.
pub(super) fn notes(manifest: &Manifest, current: &Current, done: &mut Done) {
    let record = &done.record;
    let missing = lacking(&manifest.grants, record);
    let list = |grants: &[Grant]| {
        let grants: Vec<String> = grants.iter().map(ToString::to_string).collect();
        grants.join(", ")
    };
    let has: Vec<Grant> = manifest
        .grants
        .iter()
        .filter(|grant| !missing.contains(grant))
        .copied()
        .collect();
    if !has.is_empty() {
        done.notes.push(format!("  grants    {}", list(&has)));
    }
    let before = |grant: &Grant| {
        let text = grant.to_string();
        let known = current.record.as_ref();
        known.is_some_and(|record| record.grants.contains(&text))
    };
    for grant in has
        .iter()
        .filter(|grant| grant.destructive() && !before(grant))
    {
        done.notes.push(destructive(*grant));
    }
    let wanted: Vec<String> = manifest.grants.iter().map(ToString::to_string).collect();
    let idle: Vec<&str> = record
        .grants
        .iter()
        .filter(|grant| !wanted.contains(grant) && !control::HARMLESS.contains(&grant.as_str()))
        .map(String::as_str)
        .collect();
    if !idle.is_empty() {
        done.notes.push(format!(
            "  without effect, as the module does not ask for them: {}",
            idle.join(", ")
        ));
    }
    if !missing.is_empty() {
        let style = Style::stdout();
        let destructive = missing.iter().any(Grant::destructive);
        done.notes.push(style.warn(&format!(
            "  needs approval: it wants {}{}, and waits until that is granted; the version before it \
             goes on",
            list(&missing),
            if destructive { " (destructive)" } else { "" }
        )));
        done.notes.push(format!(
            "  to grant it: {}",
            grant_command(&manifest.name, &missing)
        ));
    }
    if !record.enabled {
        done.notes.push(format!(
            "  it is disabled; `aedile plugin enable {}` lets it run",
            manifest.name
        ));
    }
    if record.canary > 0 {
        done.notes.push(format!(
            "  a canary for {}: `aedile plugin show {}` tells in what it differs",
            figures::count(u64::from(record.canary), "tick"),
            manifest.name
        ));
    }
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    done.more.push(("needs_approval", json!(missing)));
}

/// What a deploy would do.
fn show_dry(
    config: &Config,
    module: &Module,
    current: &Current,
    record: &Record,
    plan: &Plan,
) -> anyhow::Result<()> {
    let manifest = &module.inspection.manifest;
    let missing = lacking(&manifest.grants, record);
    let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let unchanged = current
        .record
        .as_ref()
        .is_some_and(|before| current.previous > 0 && before.same_setting(record));
    if config.switch(settings::JSON)? {
        let previous = current.record.as_ref().filter(|_| current.previous > 0);
        return output::json(&json!({
            "outcome": if unchanged { "unchanged" } else { "fits" },
            "plugin": manifest.name,
            "follows": current.previous,
            "previous": previous,
            "record": record,
            "needs_approval": missing,
            "first_tick": plan,
        }));
    }
    let style = Style::stdout();
    if unchanged {
        output::line(&format!(
            "unchanged: revision {} of {} says the same",
            current.previous, manifest.name
        ));
    } else {
        output::line(&style.bold(&format!(
            "{} {} would be revision {}",
            manifest.name,
            manifest.version,
            current.previous + 1
        )));
        diff::print(
            current.record.as_ref().filter(|_| current.previous > 0),
            record,
        );
    }
    if !missing.is_empty() {
        output::line(&style.warn(&format!(
            "it would wait for approval: it wants {}",
            missing.join(", ")
        )));
    }
    let totals = plan.totals;
    output::line(&format!(
        "its first tick would delete {} ({}), clean {}, expire {} and propose {}",
        figures::count(totals.deletes, "object"),
        figures::bytes(totals.bytes),
        figures::count(totals.cleans, "mark"),
        figures::count(totals.expires, "reservation"),
        figures::count(totals.commands, "other command"),
    ));
    if let Some(doubt) = &plan.store_suspect {
        output::line(&style.warn(&format!("nothing would be deleted: {doubt}")));
    }
    output::line("nothing was written");
    Ok(())
}
