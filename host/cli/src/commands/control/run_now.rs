//! `aedile plugin run`: a tick now.

use std::time::Duration;

use aedile_clock::BootInstant;
use aedile_log::Answer;
use aedile_runtime::control;
use clap::ArgMatches;
use serde_json::json;

use super::{By, Session, current, name, refused, wanted};
use crate::config::Config;
use crate::exit::Exit;
use crate::{output, settings};

/// Leave the request for the node that leads.
pub(crate) async fn run(config: &Config, leaf: &ArgMatches) -> anyhow::Result<Exit> {
    let name = name(leaf)?;
    let by = By::new(config)?;
    let session = Session::open(config).await?;
    let asked = async {
        let record = wanted(&current(config, &session.view(), name)?, name)?;
        if !record.enabled {
            return Err(refused(format!(
                "`{name}` is disabled, so nothing would run; `aedile plugin enable {name}` changes that"
            )));
        }
        let at = session.log.database_now().await?.0;
        let boot = session.clock.boot();
        let boot = boot.since(BootInstant::from_boot(Duration::ZERO));
        let nonce = u64::from(std::process::id()) << 32 | u64::from(boot.subsec_nanos());
        let request = control::run_now(name, &by.who, at, nonce);
        let answers = session.log.propose(vec![request]).await?;
        match answers.first() {
            Some(Answer::Applied(_)) => Ok(at),
            _ => anyhow::bail!("it is not known whether the request was written; ask again"),
        }
    }
    .await;
    session.log.close().await;
    let at = asked?;
    if config.switch(settings::JSON)? {
        let told = json!({"outcome": "asked", "plugin": name, "who": by.who, "at": at});
        output::json(&told)?;
    } else {
        output::line(&format!(
            "asked for a tick of {name}: the node that leads runs it within seconds, or the next one \
             that does"
        ));
    }
    Ok(Exit::Ok)
}
