//! Who we are to a registry.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oci_client::secrets::RegistryAuth;
use serde::Deserialize;

use crate::SupplyError;

/// A user of a registry, with its password or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user.
    pub user: String,
    /// The password or token. Never printed.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// What is read of the file that `docker login` and its like write.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct File {
    auths: BTreeMap<String, Entry>,
    creds_store: Option<String>,
    cred_helpers: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
}

impl Credentials {
    /// What a file of `docker login` holds for a registry; none if there is no
    /// such file or it does not name the registry.
    ///
    /// # Errors
    /// If the file is malformed, or leaves the registry to a credential helper:
    /// no other program is run.
    pub fn from_docker_config(path: &Path, registry: &str) -> Result<Option<Self>, SupplyError> {
        let bad = |reason: String| SupplyError::BadCredentials {
            registry: registry.to_owned(),
            reason,
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(bad(format!("{}: {error}", path.display()))),
        };
        // The message of the parser could repeat a part of the file.
        let file: File = serde_json::from_str(&text)
            .map_err(|_| bad(format!("{} is not the JSON of docker", path.display())))?;
        let named = names(registry);
        let entry = named.iter().find_map(|name| file.auths.get(name));
        if let Some(auth) = entry.and_then(|entry| entry.auth.as_deref()) {
            return decode(auth)
                .map(Some)
                .ok_or_else(|| bad(format!("its `auth` in {} is malformed", path.display())));
        }
        let helper = named
            .iter()
            .find_map(|name| file.cred_helpers.get(name))
            .or(file.creds_store.as_ref().filter(|_| entry.is_some()));
        match helper {
            Some(helper) => Err(bad(format!(
                "{} leaves them to the helper `{}`, which is not run; set registry-user and registry-password",
                path.display(),
                helper.escape_debug()
            ))),
            None => Ok(None),
        }
    }

    pub(super) fn auth(self) -> RegistryAuth {
        RegistryAuth::Basic(self.user, self.password)
    }
}

/// The names under which a registry may stand in the file.
fn names(registry: &str) -> Vec<String> {
    let mut names = vec![registry.to_owned(), format!("https://{registry}")];
    if registry == "docker.io" {
        names.push("https://index.docker.io/v1/".to_owned());
    }
    names
}

fn decode(auth: &str) -> Option<Credentials> {
    let text = String::from_utf8(STANDARD.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some(Credentials {
        user: user.to_owned(),
        password: password.trim_end_matches('\0').to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(text: &str, registry: &str) -> Result<Option<Credentials>, SupplyError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("config.json");
        std::fs::write(&path, text).expect("written");
        Credentials::from_docker_config(&path, registry)
    }

    #[test]
    fn a_login_is_found_by_its_registry() {
        let auth = STANDARD.encode("me:se:cret");
        let file = format!(
            r#"{{"auths":{{"ghcr.io":{{"auth":"{auth}"}},"https://index.docker.io/v1/":{{"auth":"{auth}"}}}},"psFormat":"x"}}"#
        );
        let expect = Credentials {
            user: "me".to_owned(),
            password: "se:cret".to_owned(),
        };
        for registry in ["ghcr.io", "docker.io"] {
            let found = lookup(&file, registry).expect("readable");
            assert_eq!(found.as_ref(), Some(&expect), "{registry}");
        }
        assert_eq!(lookup(&file, "quay.io").expect("readable"), None);
        assert!(!format!("{expect:?}").contains("cret"));
        let missing = Path::new("/there/is/none.json");
        assert_eq!(
            Credentials::from_docker_config(missing, "ghcr.io").expect("no file"),
            None
        );
    }

    #[test]
    fn what_cannot_be_used_is_said_without_its_content() {
        for (file, expect) in [
            (r#"{"auths":{"ghcr.io":{"auth":"hunter2!"}}}"#, "malformed"),
            (r#"{"auths":"hunter2"}"#, "not the JSON of docker"),
            (
                r#"{"auths":{"ghcr.io":{}},"credsStore":"pass"}"#,
                "helper `pass`",
            ),
            (r#"{"credHelpers":{"ghcr.io":"gcr"}}"#, "helper `gcr`"),
        ] {
            let error = lookup(file, "ghcr.io").expect_err(file).to_string();
            assert!(error.contains(expect), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
