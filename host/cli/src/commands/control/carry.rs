//! `aedile plugin export` and `import`: a plugin in one file, for a site without
//! a network.
//!
//! An import is a deploy from another source: the same checks, the same words.
//! Consent does not travel: what is destructive has to be granted where it is
//! to run.

use std::path::PathBuf;
use std::sync::Arc;

use aedile_engine::Grant;
use aedile_runtime::control::{Action, ModuleRef, Record, StoredModule};
use aedile_storage::{Store, StoreOptions};
use aedile_supply::{Bundle, SupplyError, sha256_hex};
use anyhow::Context as _;
use clap::ArgMatches;
use serde_json::json;

use super::module::{self, Module};
use super::{By, Done, Session, changes, current, deploy, name, refused, wait, wanted};
use crate::commands;
use crate::config::Config;
use crate::exit::Exit;
use crate::output;
use crate::settings;

/// Write a plugin to a file: what its newest revision wants, and its module.
pub(crate) async fn export(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let json = config.switch(settings::JSON)?;
    let name = name(leaf)?;
    let path = path(leaf);
    let store = config.storage()?;
    let session = Session::open(config).await?;
    let found = current(config, &session.view(), name).and_then(|now| wanted(&now, name));
    session.log.close().await;
    let record = found?;
    let ModuleRef::Stored(stored) = &record.module else {
        return Err(refused(format!(
            "`{name}` is the module that is built into aedile: there is nothing to carry. Another \
             cluster sets it up with `aedile plugin set {name}`"
        )));
    };
    let store = Store::open(&store, StoreOptions::default(), commands::clock())?;
    let bytes = store.module(&stored.digest.parse()?, stored.size).await?;
    let bundle = Bundle {
        record: serde_json::to_value(&record)?,
        module: bytes.to_vec(),
        signature: stored.signature.clone(),
    };
    bundle.write(&path)?;
    if json {
        output::json(&json!({
            "plugin": name,
            "version": record.version,
            "digest": stored.digest,
            "signed": stored.signature.is_some(),
            "file": path,
        }))?;
    } else {
        output::line(&format!("exported {name} {}", record.version));
        output::line(&format!("  digest  {}", stored.digest));
        output::line(&format!("  file    {}", path.display()));
        output::line(&format!("  there: aedile plugin import {}", path.display()));
    }
    Ok(Exit::Ok)
}

/// Deploy the plugin of a file.
pub(crate) async fn import(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let by = By::new(config)?;
    let wait = wait::limit(config)?;
    let path = path(leaf);
    let trust = config.trust()?;
    let store = config.storage()?;
    let engine = Arc::new(module::engine()?);
    let most = aedile_engine::EngineOptions::default().module_bytes as u64;
    let bundle = Bundle::read(&path, most)?;
    let verdict = trust
        .check(&bundle.module, bundle.signature.as_deref())
        .with_context(|| format!("{} is refused", path.display()))?;
    let carried = carried(&path, &bundle)?;
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let inspection = engine
        .inspect(&bundle.module)
        .with_context(|| format!("{} is refused", path.display()))?;
    let module = Module {
        bytes: Arc::from(bundle.module),
        inspection,
        source: format!("file:{}", file.escape_debug()),
        signature: bundle.signature,
    };
    let name = module.inspection.manifest.name.clone();
    let store = Store::open(&store, StoreOptions::default(), commands::clock())?;
    let session = Session::open(config).await?;
    let imported = async {
        let view = session.view();
        let reader = commands::reader(config, &session.clock).await?;
        let now = reader.database_now().await?.0;
        let nodes = reader.nodes().await?;
        reader.close().await;
        deploy::free(&nodes, now, &name)?;
        let current = current(config, &view, &name)?;
        let before = current.record.as_ref();
        let (mut record, left) = consented(carried, before);
        record.module = ModuleRef::Stored(StoredModule {
            digest: module.inspection.digest.clone(),
            size: module.bytes.len() as u64,
            signature: module.signature.clone(),
            source: Some(module.source.clone()),
        });
        record
            .version
            .clone_from(&module.inspection.manifest.version);
        record = record.by(Action::Import, &by.who, &by.why);
        changes::add_grants(leaf, &mut record)?;
        deploy::check(config, engine, &store, &session, &module, &record).await?;
        store.check().await?;
        let stored = store.put_module(module.bytes.to_vec().into()).await?;
        tracing::debug!(digest = %stored.digest, written = stored.written, "stored");
        let mut done = Done::write(&session, &name, current.previous, record).await?;
        deploy::notes(&module.inspection.manifest, &current, &mut done);
        done.notes.push(format!("  signature {verdict}"));
        let left: Vec<String> = left
            .into_iter()
            .filter(|grant| !done.record.grants.contains(grant))
            .collect();
        if !left.is_empty() {
            done.notes.push(format!(
                "  granted where it came from and not here, as it is destructive: {}",
                left.join(", ")
            ));
        }
        anyhow::Ok((done, session.log.database_now().await?.0))
    }
    .await;
    session.log.close().await;
    let (done, now) = imported?;
    done.finish(config, now, wait).await
}

/// The record of a bundle, which must speak of the bundle's module.
fn carried(path: &std::path::Path, bundle: &Bundle) -> anyhow::Result<Record> {
    let bad = |reason: String| SupplyError::BadBundle {
        path: path.to_owned(),
        reason,
    };
    let record: Record = serde_json::from_value(bundle.record.clone()).map_err(|error| {
        bad(format!(
            "its record.json is no revision of a plugin: {error}"
        ))
    })?;
    let digest = sha256_hex(&bundle.module);
    if record.module.digest() != Some(digest.as_str()) {
        return Err(bad(format!(
            "its record.json speaks of the module {}, and its module is {digest}",
            record.module.digest().unwrap_or("that is built in")
        ))
        .into());
    }
    Ok(record)
}

/// The setting as it may be taken over, and what was granted there and is
/// destructive: nobody here has consented to that.
fn consented(mut record: Record, before: Option<&Record>) -> (Record, Vec<String>) {
    let known = |grant: &String| before.is_some_and(|before| before.grants.contains(grant));
    let destructive = |grant: &String| {
        grant
            .parse::<Grant>()
            .map_or(true, |grant| grant.destructive())
    };
    let (left, grants) = std::mem::take(&mut record.grants)
        .into_iter()
        .partition(|grant| destructive(grant) && !known(grant));
    record.grants = grants;
    record.of = None;
    record.canary = 0;
    record.removed = false;
    record.enabled = before.is_none_or(|before| before.enabled);
    record.lease = None;
    (record, left)
}

fn path(leaf: &ArgMatches) -> PathBuf {
    leaf.get_one::<PathBuf>("bundle")
        .cloned()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(grants: &[&str]) -> Record {
        let mut record = Record::new(Action::Deploy, ModuleRef::Embedded, String::new());
        record.grants = grants.iter().map(|&grant| grant.to_owned()).collect();
        record
    }

    #[test]
    fn consent_to_what_is_destructive_does_not_travel() {
        let there = record(&[
            "state",
            "commands.put-kv",
            "commands.trim-stream",
            "nonsense",
        ]);
        let (here, left) = consented(there.clone(), None);
        assert_eq!(here.grants, ["state", "commands.put-kv"]);
        assert_eq!(left, ["commands.trim-stream", "nonsense"]);
        // Unless it was given here before.
        let before = record(&["commands.trim-stream"]);
        let (here, left) = consented(there, Some(&before));
        assert_eq!(
            here.grants,
            ["state", "commands.put-kv", "commands.trim-stream"]
        );
        assert_eq!(left, ["nonsense"]);
    }

    #[test]
    fn whether_it_runs_is_decided_here() {
        let mut there = record(&[]);
        (there.enabled, there.canary, there.removed) = (false, 7, true);
        let (here, _) = consented(there.clone(), None);
        assert!(here.enabled && here.canary == 0 && !here.removed);
        let mut before = record(&[]);
        before.enabled = false;
        there.enabled = true;
        assert!(!consented(there, Some(&before)).0.enabled);
    }
}
