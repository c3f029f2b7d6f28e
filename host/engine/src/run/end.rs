//! From what wasmtime says to how a tick ended.

use wasmtime::Trap;

use crate::host::Fatal;
use crate::limits::LimitName;
use crate::text::line;
use crate::tick::TickEnd;

/// Why the host ended a tick. It travels through the plugin as an error that
/// the plugin cannot catch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the lease was lost")]
    LeaseLost,
    #[error("limit `{0}` exceeded: {1}")]
    Limit(LimitName, String),
    #[error("the host failed: {0}")]
    Host(String),
    #[error("`{0}` is not available while a configuration is checked")]
    Barred(&'static str),
}

impl Ended {
    pub(crate) fn limit(which: LimitName, detail: String) -> Self {
        Self::Limit(which, detail)
    }
}

impl From<Fatal> for Ended {
    fn from(fatal: Fatal) -> Self {
        match fatal {
            Fatal::LeaseLost => Self::LeaseLost,
            Fatal::Failed(text) => Self::Host(line(&text)),
        }
    }
}

impl From<Ended> for TickEnd {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::LeaseLost => Self::LeaseLost,
            Ended::Limit(which, detail) => Self::Limit { which, detail },
            Ended::Host(text) => Self::HostError(text),
            Ended::Barred(_) => Self::Trap {
                message: ended.to_string(),
            },
        }
    }
}

/// Classify the error that ended a tick. `last_words` is the last line that the
/// plugin logged as an error: a panic message, as a rule.
pub(crate) fn classify(error: &wasmtime::Error, last_words: Option<&str>) -> TickEnd {
    if let Some(ended) = error.downcast_ref::<Ended>() {
        return ended.clone().into();
    }
    let root = error.root_cause().to_string();
    // These have no type of their own; tests/engine watches their wording.
    if root.starts_with("too much data is being copied") {
        return TickEnd::Limit {
            which: LimitName::HostCallBytes,
            detail: "the plugin passed too much to the host in one call, or returned too much"
                .to_owned(),
        };
    }
    if root.starts_with("resource limit exceeded") {
        return TickEnd::Limit {
            which: LimitName::Instances,
            detail: line(&root),
        };
    }
    if root.contains("handle limit exceeded") {
        return TickEnd::Limit {
            which: LimitName::Handles,
            detail: line(&root),
        };
    }
    let mut message = match error.downcast_ref::<Trap>() {
        Some(trap) => trap.to_string(),
        None => line(&root),
    };
    if let Some(Trap::MemoryOutOfBounds) = error.downcast_ref::<Trap>() {
        message.push_str(
            " (possibly a stack overflow: deep recursion or large local variables end like this)",
        );
    }
    if let Some(words) = last_words {
        message.push_str("; its last error: ");
        message.push_str(words);
    }
    TickEnd::Trap { message }
}
