//! From bytes and settings to a plugin that may run.

use std::sync::Arc;
use std::time::Duration;

use aedile_engine::{Engine, Grant, Grants, Manifest, Plugin};

use super::PluginSettings;
use crate::backend::chain;
use crate::schedule::Rhythm;
use crate::timetable::{Cron, Timetable};

/// Shortest interval: a plugin never spins.
const SHORTEST: Duration = Duration::from_millis(100);

/// A plugin that is ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) plugin: Plugin,
    pub(crate) settings: PluginSettings,
    /// The configuration as JSON text.
    pub(crate) config: String,
    pub(crate) timetable: Timetable,
    /// Where it comes from, for people.
    pub(crate) origin: String,
    /// The revision that deployed it; none of a file or of what the binary has.
    pub(crate) revision: Option<u64>,
    /// A newer revision that plans beside it for a while.
    pub(crate) trial: Option<Arc<Trial>>,
    /// It stands for its trial alone: it never ticks itself.
    pub(crate) shadow: bool,
}

/// A revision on trial: it plans, and nothing of it is applied.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub(crate) revision: u64,
    /// For so many ticks.
    pub(crate) ticks: u32,
    pub(crate) loaded: Arc<Loaded>,
}

impl Loaded {
    pub(crate) fn manifest(&self) -> &Manifest {
        self.plugin.manifest()
    }

    pub(crate) fn name(&self) -> &str {
        &self.manifest().name
    }
}

/// Who decides what a plugin is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granting {
    /// It ships inside the binary: what its manifest wants.
    Builtin,
    /// The operator: what the settings say.
    Settings,
}

/// A plugin that does not load: its name, if that is known, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unfit {
    pub(crate) plugin: Option<String>,
    pub(crate) text: String,
}

/// Check and build a plugin, and have it check its configuration.
pub(crate) async fn load(
    engine: &Engine,
    bytes: Arc<[u8]>,
    settings: PluginSettings,
    granting: Granting,
    origin: String,
) -> Result<Arc<Loaded>, Unfit> {
    let unnamed = |text: String| Unfit { plugin: None, text };
    let inspection = engine
        .inspect(&bytes)
        .map_err(|error| unnamed(chain(&error)))?;
    let manifest = inspection.manifest;
    let unfit = |text: String| Unfit {
        plugin: Some(manifest.name.clone()),
        text,
    };
    let granted = match granting {
        Granting::Builtin => manifest.grants.clone(),
        Granting::Settings => {
            let granted = parse(&settings.grants).map_err(&unfit)?;
            let lacking: Vec<&Grant> = manifest
                .grants
                .iter()
                .filter(|grant| !granted.contains(grant))
                .collect();
            if !lacking.is_empty() {
                return Err(unfit(lacking_text(&manifest.grants, &granted, &lacking)));
            }
            granted
        }
    };
    let grants: Grants = granted.into_iter().collect();
    let plugin = engine
        .load(bytes, &grants)
        .await
        .map_err(|error| unfit(chain(&error)))?;
    ready(plugin, settings, origin, None)
        .await
        .map(Arc::new)
        .map_err(unfit)
}

/// Have a plugin check its configuration, and read its schedule.
pub(crate) async fn ready(
    plugin: Plugin,
    settings: PluginSettings,
    origin: String,
    revision: Option<u64>,
) -> Result<Loaded, String> {
    let timetable = timetable(&plugin, &settings)?;
    let config = settings.config.to_string();
    match plugin.validate_config(&config, &settings.limits).await {
        Ok(Ok(())) => {}
        Ok(Err(text)) => return Err(format!("it refuses its configuration: {text}")),
        Err(end) => {
            return Err(format!(
                "checking its configuration failed: {}",
                crate::term::describe(&end).text
            ));
        }
    }
    Ok(Loaded {
        plugin,
        settings,
        config,
        timetable,
        origin,
        revision,
        trial: None,
        shadow: false,
    })
}

fn timetable(plugin: &Plugin, settings: &PluginSettings) -> Result<Timetable, String> {
    let wanted = plugin.manifest().schedule;
    let schedule = &settings.schedule;
    if schedule.on_demand {
        return Ok(Timetable::OnDemand);
    }
    if let Some(text) = &schedule.cron {
        return Cron::parse(text)
            .map(Timetable::Cron)
            .map_err(|error| format!("`schedule.cron`: {error}"));
    }
    Ok(Timetable::Every(Rhythm {
        interval: schedule.interval.unwrap_or(wanted.interval).max(SHORTEST),
        jitter: schedule.jitter.unwrap_or(wanted.jitter),
    }))
}

fn parse(texts: &[String]) -> Result<Vec<Grant>, String> {
    texts
        .iter()
        .map(|text| {
            text.parse::<Grant>()
                .map_err(|error| format!("`grants`: {}", chain(&error)))
        })
        .collect()
}

/// What the operator is to write, ready to be copied.
fn lacking_text(wanted: &[Grant], granted: &[Grant], lacking: &[&Grant]) -> String {
    let quoted = |grants: &mut dyn Iterator<Item = &Grant>| {
        grants
            .map(|grant| format!("\"{grant}\""))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut all: Vec<&Grant> = granted.iter().collect();
    all.extend(wanted.iter().filter(|grant| !granted.contains(grant)));
    let destructive = if lacking.iter().any(|grant| grant.destructive()) {
        "; a destructive grant is among them: it can take live data out of the catalog"
    } else {
        ""
    };
    format!(
        "it wants grants that it was not given ({}){destructive}; to give them, let its settings \
         file say: grants = [{}]",
        quoted(&mut lacking.iter().copied()),
        quoted(&mut all.into_iter()),
    )
}
