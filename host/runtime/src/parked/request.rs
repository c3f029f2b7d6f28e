//! What an operator asks for.

use aedile_state::Command;
use serde::{Deserialize, Serialize};

use super::{REQUEST_PREFIX, VERSION};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Asked {
    /// Try these objects again, from the beginning of the curve.
    Retry {
        /// The objects.
        objects: Vec<u64>,
    },
    /// Try all parked objects again.
    RetryAll,
    /// Take the marks of these objects off the queue although their bytes were
    /// not deleted.
    Forget {
        /// The objects.
        objects: Vec<u64>,
    },
}

/// A request, as it lies in the key-value map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    version: u32,
    /// What is asked for.
    #[serde(flatten)]
    pub asked: Asked,
    /// Who asks, for the log.
    pub by: String,
    /// When, in Unix milliseconds.
    pub at: i64,
}

impl Request {
    /// A request of somebody, made at this time.
    pub fn new(asked: Asked, by: String, at: i64) -> Self {
        Self {
            version: VERSION,
            asked,
            by,
            at,
        }
    }

    /// The command that leaves it for the holder. `nonce` tells two requests of
    /// the same millisecond apart.
    pub fn command(&self, nonce: u64) -> Command {
        Command::PutKvIfAbsent {
            key: format!("{REQUEST_PREFIX}{:020}-{nonce:016x}", self.at.max(0)),
            value: serde_json::to_vec(self).unwrap_or_default(),
        }
    }

    pub(super) fn decode(value: &[u8]) -> Result<Self, String> {
        let request: Self = serde_json::from_slice(value)
            .map_err(|error| format!("the value is no request ({error})"))?;
        if request.version != VERSION {
            return Err(format!(
                "the request has the form {}, this version of Aedile knows {VERSION}",
                request.version
            ));
        }
        Ok(request)
    }
}
