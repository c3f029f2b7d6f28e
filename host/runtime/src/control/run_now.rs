//! Requests to run a plugin now.

use aedile_state::{Command, State};
use serde::{Deserialize, Serialize};

use super::{PREFIX, VERSION, is_name};

/// An operator wants one tick of a plugin now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    /// Its key: to be removed when the tick begins.
    pub key: String,
    /// The plugin.
    pub plugin: String,
    /// Who asks; empty if the value cannot be read.
    pub who: String,
    /// When, in Unix milliseconds by the database's clock.
    pub at_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct Form {
    v: u64,
    who: String,
    at_ms: i64,
}

/// The command that leaves a request for the holder. `nonce` tells two of the
/// same millisecond apart.
pub fn run_now(plugin: &str, who: &str, at_ms: i64, nonce: u64) -> Command {
    let form = Form {
        v: VERSION,
        who: who.to_owned(),
        at_ms,
    };
    Command::PutKvIfAbsent {
        key: format!("{PREFIX}{plugin}/run/{:020}-{nonce:016x}", at_ms.max(0)),
        value: serde_json::to_vec(&form).unwrap_or_default(),
    }
}

/// What is asked for and not yet done, by plugin and age. A value that cannot be
/// read is a request too: nothing is lost by a tick.
pub fn run_requests(state: &State) -> Vec<RunRequest> {
    state
        .kv_scan(PREFIX, None)
        .filter_map(|(key, value)| {
            let (plugin, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
            if !is_name(plugin) || !rest.starts_with("run/") {
                return None;
            }
            let form = serde_json::from_slice(value).unwrap_or(Form {
                v: VERSION,
                who: String::new(),
                at_ms: 0,
            });
            Some(RunRequest {
                key: key.to_owned(),
                plugin: plugin.to_owned(),
                who: form.who,
                at_ms: form.at_ms,
            })
        })
        .collect()
}
