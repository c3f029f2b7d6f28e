//! Settings of signatures and registries.

use std::path::PathBuf;

use aedile_supply::{Credentials, RegistryOptions, Trust, TrustedKeys};

use super::{Config, ConfigError};
use crate::settings;

impl Config {
    /// Whose signatures count, and whether one must be there.
    pub(crate) fn trust(&self) -> Result<Trust, ConfigError> {
        let text = self.text(settings::TRUSTED_KEYS).unwrap_or_default();
        let keys = TrustedKeys::parse(text)
            .map_err(|error| self.wrong(settings::TRUSTED_KEYS, with_cause(&error)))?;
        let required = self.switch(settings::REQUIRE_SIGNATURE)?;
        Trust::new(keys, required)
            .map_err(|error| self.wrong(settings::REQUIRE_SIGNATURE, error.to_string()))
    }

    /// How a registry is reached.
    pub(crate) fn registry(&self) -> Result<RegistryOptions, ConfigError> {
        let user = self.text(settings::REGISTRY_USER);
        let password = self.text(settings::REGISTRY_PASSWORD);
        let credentials = match (user, password) {
            (Some(user), Some(password)) => Some(Credentials {
                user: user.to_owned(),
                password: password.to_owned(),
            }),
            (None, None) => None,
            (Some(_), None) => {
                return Err(ConfigError::Missing {
                    setting: settings::REGISTRY_PASSWORD,
                });
            }
            (None, Some(_)) => {
                return Err(ConfigError::Missing {
                    setting: settings::REGISTRY_USER,
                });
            }
        };
        Ok(RegistryOptions {
            plain_http: self.switch(settings::PLAIN_HTTP)?,
            credentials,
            docker_config: docker_config(),
            ..RegistryOptions::default()
        })
    }
}

/// Where `docker login` notes what it was told.
fn docker_config() -> Option<PathBuf> {
    let folder = match std::env::var_os("DOCKER_CONFIG").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".docker"),
    };
    Some(folder.join("config.json"))
}

/// An error with what caused it, on one line.
fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
