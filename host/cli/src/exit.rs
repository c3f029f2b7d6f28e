//! Exit codes, by class of what happened.

use std::fmt::Write;

use aedile_engine::LoadError;
use aedile_lease::LeaseError;
use aedile_log::{LogError, LogErrorKind};
use aedile_runtime::RuntimeError;
use aedile_runtime::control::ControlError;
use aedile_storage::{ModuleError, StorageError};
use aedile_supply::{SupplyError, SupplyErrorKind};

use crate::commands::control::{Lost, Unfit, Unreadable};
use crate::commands::parked::Refused;
use crate::config::ConfigError;

/// How a command ended. The numbers are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done; for `--until-idle`: nothing is left.
    Ok = 0,
    /// A failure that has no class of its own.
    Internal = 1,
    /// The command line or the configuration.
    Usage = 2,
    /// The database cannot be reached or refuses writes.
    Database = 3,
    /// What the database holds.
    Content = 4,
    /// The object storage.
    Storage = 5,
    /// A plugin.
    Plugin = 6,
    /// `--until-idle`: only conflicts and parked objects are left.
    LeftOver = 7,
    /// The demo's verdict.
    Verdict = 8,
    /// The lease.
    Lease = 9,
    /// A signal came before the work was done.
    Stopped = 10,
    /// Somebody else changed it first.
    Lost = 11,
}

impl Exit {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 12] = [
        Self::Ok,
        Self::Internal,
        Self::Usage,
        Self::Database,
        Self::Content,
        Self::Storage,
        Self::Plugin,
        Self::LeftOver,
        Self::Verdict,
        Self::Lease,
        Self::Stopped,
        Self::Lost,
    ];

    /// The number.
    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    /// What it means.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Ok => "done; with --until-idle: nothing is left",
            Self::Internal => "an internal failure",
            Self::Usage => "the command line or the configuration is wrong",
            Self::Database => "the database cannot be reached, or refuses writes",
            Self::Content => {
                "the database's content: a foreign table, a corrupt row, an unknown version"
            }
            Self::Storage => {
                "the object storage: missing, denied, unreachable, the wrong one, or objects that stay"
            }
            Self::Plugin => "a plugin is refused, not to be had, or keeps failing",
            Self::LeftOver => "--until-idle: only conflicts and parked objects are left",
            Self::Verdict => "the demo's verdict: a bound does not hold",
            Self::Lease => "the lease was not to be had in time, or was lost during a pass",
            Self::Stopped => "stopped by a signal before it was done",
            Self::Lost => "somebody else changed the plugin first; nothing was written",
        }
    }
}

/// The table of codes for `--help`.
pub(crate) fn help() -> String {
    let mut text = "Exit codes:\n".to_owned();
    for exit in Exit::ALL {
        let _ = writeln!(text, "  {:>2}  {}", exit.code(), exit.about());
    }
    text.push_str("  128 + n  ended at once by a second signal n\n\n");
    text.push_str(
        "Flags win over the environment, the environment over the file, the file over defaults.",
    );
    text
}

/// The class of a failure: the first error of the chain that has one.
pub(crate) fn class(error: &anyhow::Error) -> Exit {
    error.chain().find_map(class_of).unwrap_or(Exit::Internal)
}

fn class_of(error: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if error.is::<ConfigError>() || error.is::<Refused>() {
        return Some(Exit::Usage);
    }
    if error.is::<Lost>() {
        return Some(Exit::Lost);
    }
    if error.is::<Unfit>() {
        return Some(Exit::Plugin);
    }
    if error.is::<Unreadable>() {
        return Some(Exit::Content);
    }
    if let Some(error) = error.downcast_ref::<ModuleError>() {
        return Some(match error {
            ModuleError::TooLarge { .. } => Exit::Plugin,
            _ => Exit::Storage,
        });
    }
    match error.downcast_ref::<ControlError>() {
        Some(ControlError::Name(_) | ControlError::TooLarge { .. }) => return Some(Exit::Usage),
        Some(ControlError::NoPrevious { .. }) => return Some(Exit::Content),
        Some(ControlError::Log(error)) => return Some(class_of_log(error)),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<LogError>() {
        return Some(class_of_log(error));
    }
    if let Some(error) = error.downcast_ref::<LeaseError>() {
        return Some(match error {
            LeaseError::Thread(_) | LeaseError::Randomness(_) => Exit::Internal,
            _ => Exit::Usage,
        });
    }
    if let Some(error) = error.downcast_ref::<StorageError>() {
        return Some(match error {
            StorageError::BadUri { .. } | StorageError::BadOption { .. } => Exit::Usage,
            _ => Exit::Storage,
        });
    }
    if error.is::<LoadError>() || error.is::<crate::commands::author::Refused>() {
        return Some(Exit::Plugin);
    }
    if let Some(error) = error.downcast_ref::<SupplyError>() {
        return Some(match error.kind() {
            SupplyErrorKind::Configuration => Exit::Usage,
            _ => Exit::Plugin,
        });
    }
    error.downcast_ref::<RuntimeError>().and_then(runtime)
}

/// The class of a failure of the log.
pub(crate) fn class_of_log(error: &LogError) -> Exit {
    match error.kind() {
        LogErrorKind::Configuration => Exit::Usage,
        LogErrorKind::Unavailable | LogErrorKind::ReadOnly => Exit::Database,
        LogErrorKind::Content => Exit::Content,
        LogErrorKind::Ended => Exit::Internal,
    }
}

fn runtime(error: &RuntimeError) -> Option<Exit> {
    Some(match error {
        RuntimeError::Option { .. } | RuntimeError::Directory { .. } => Exit::Usage,
        RuntimeError::Storage(_) => Exit::Storage,
        RuntimeError::NoLease { .. } | RuntimeError::LeaseLost => Exit::Lease,
        RuntimeError::Stopped => Exit::Stopped,
        // Its source has the class.
        RuntimeError::Log(_) => return None,
        _ => Exit::Internal,
    })
}
