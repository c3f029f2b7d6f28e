//! A module that is to be deployed, tried before anything is written.

use std::sync::Arc;

use super::Plan;
use super::run::{DryRun, PlanParts, control};
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;
use crate::pass::Went;
use crate::source::{Granting, PluginSettings, load};
use crate::term::tick;

/// A module and the settings that it is to run with.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The module's bytes.
    pub bytes: Arc<[u8]>,
    /// Its settings. For the trial it has the grants that its manifest wants,
    /// whatever stands here: a dry run changes nothing.
    pub settings: PluginSettings,
}

/// Why a candidate is not fit to be deployed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It does not load, or refuses its configuration.
    #[error("{0}")]
    Refused(String),
    /// Its first tick fails.
    #[error("its first tick fails, in a dry run on the state of this moment: {0}")]
    Tick(String),
    /// The trial could not be made.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Load a module as a node would, have it check its configuration, and run one
/// tick on the state of this moment. Writes nothing; tells what the tick would
/// do.
///
/// # Errors
/// It is refused, its tick fails, or database or store cannot be read.
pub async fn try_out(
    candidate: Candidate,
    options: &RuntimeOptions,
    parts: PlanParts,
) -> Result<Plan, TrialError> {
    let PlanParts {
        clock,
        engine,
        reader,
        store,
    } = parts;
    let tried = async {
        options.validate()?;
        let settings = PluginSettings {
            enabled: true,
            ..candidate.settings
        };
        let origin = "a trial".to_owned();
        let loaded = load(
            &engine,
            candidate.bytes,
            settings,
            Granting::Builtin,
            origin,
        )
        .await
        .map_err(|unfit| TrialError::Refused(unfit.text))?;
        let run = DryRun::begin(options, clock, &reader, store).await?;
        let ticked = tick(&run.guards, &loaded, &run.identity, control()).await;
        if ticked.end.failure.is_some() {
            return Err(TrialError::Tick(ticked.end.text));
        }
        let went = Went {
            loaded,
            ticks: 1,
            failure: None,
        };
        Ok(run.end(&[went]))
    }
    .await;
    reader.close().await;
    tried
}
