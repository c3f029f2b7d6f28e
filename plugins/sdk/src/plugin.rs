//! What an author implements, and how it becomes a component.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Failure, Host, HostError, Report, Retry};

/// A maintenance job.
pub trait Plugin {
    /// The configuration, decoded from a JSON object: `{}` if the operator gave
    /// none. Give it `#[serde(deny_unknown_fields)]`, so that a misspelt key is
    /// an error and not a default.
    type Config: DeserializeOwned;

    /// The manifest: JSON, usually `include_str!("../manifest.json")`.
    const MANIFEST: &'static str;

    /// Checks what the types of the configuration cannot say.
    ///
    /// # Errors
    /// What is wrong, naming the key, for the operator.
    fn validate(config: &Self::Config) -> Result<(), String> {
        let _ = config;
        Ok(())
    }

    /// Does one portion of the work. The same tick may run twice (on two nodes,
    /// or once more after a crash), so each step must bear to be repeated.
    ///
    /// # Errors
    /// [`Failure::Retry`] to be called again later, [`Failure::Reject`] if only
    /// an operator can help.
    fn tick(host: &mut impl Host, config: &Self::Config) -> Result<Report, Failure>;
}

impl Report {
    /// Nothing was to do. Such a tick leaves no trace in the run history.
    #[must_use]
    pub fn idle() -> Self {
        Self {
            summary: String::new(),
            done: 0,
            failed: 0,
            more: false,
        }
    }
}

impl Failure {
    /// Try again after a while; zero leaves the wait to the host.
    #[must_use]
    pub fn retry(after: Duration, reason: impl Into<String>) -> Self {
        Self::Retry(Retry {
            after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            reason: reason.into(),
        })
    }
}

/// An argument out of its range is the plugin's fault and stays so; a host that
/// cannot serve may do so in the next tick.
impl From<HostError> for Failure {
    fn from(error: HostError) -> Self {
        match error {
            HostError::InvalidArgument(text) => Self::Reject(format!("invalid argument: {text}")),
            HostError::Unavailable(text) => Self::retry(Duration::ZERO, text),
        }
    }
}

/// Makes a component of a [`Plugin`]: its exports and the section that carries
/// its manifest. Once in a crate; does nothing in a native build.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code, missing_debug_implementations)]
        const _: () = {
            struct Component;

            impl $crate::bindings::exports::aedile::maintenance::maintenance::Guest for Component {
                fn validate_config(config: String) -> Result<(), String> {
                    $crate::guest::validate::<$plugin>(&config)
                }

                fn tick() -> Result<$crate::Report, $crate::Failure> {
                    $crate::guest::tick::<$plugin>()
                }
            }

    $crate::bindings::export_component!(Component with_types_in $crate::bindings);

            #[used]
            #[unsafe(link_section = "aedile:manifest")]
            static MANIFEST: [u8; <$plugin as $crate::Plugin>::MANIFEST.len()] =
                $crate::guest::bytes(<$plugin as $crate::Plugin>::MANIFEST);
        };
    };
}
