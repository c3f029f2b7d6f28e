//! A real OCI registry on loopback: Debian's `docker-registry`, with its blobs
//! in a directory of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// The one user of a registry that asks who is there.
pub const USER: &str = "anna";
/// The user's password.
pub const PASSWORD: &str = "open sesame";
/// The password as the registry's file of users holds it.
const PASSWORD_HASH: &str = "$2b$05$wja.G0F83OMEgSs6zFptoOOkrh5O7eilbpHXBgyHDNRGBTF4fAwmO";

/// Names the program to run instead of the one on the path.
const VARIABLE: &str = "AEDILE_TEST_REGISTRY";

/// A registry that runs until it is dropped.
#[derive(Debug)]
pub struct Registry {
    process: Child,
    address: String,
    directory: TempDir,
}

impl Registry {
    /// Start one that everybody may use.
    ///
    /// # Panics
    /// If the program is not installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with("")
    }

    /// Start one that wants [`USER`] and [`PASSWORD`].
    ///
    /// # Panics
    /// As [`Registry::start`].
    #[must_use]
    pub fn start_with_users() -> Self {
        Self::with("auth:\n  htpasswd:\n    realm: tests\n    path: {dir}/users\n")
    }

    fn with(more: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let dir = directory.path().display().to_string();
        let config = format!(
            "version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {dir}/data\n\
             http:\n  addr: 127.0.0.1:0\n  secret: tests\n{}",
            more.replace("{dir}", &dir)
        );
        let path = directory.path().join("config.yml");
        fs::write(&path, config).expect("written");
        let users = format!("{USER}:{PASSWORD_HASH}\n");
        fs::write(directory.path().join("users"), users).expect("written");
        let mut process = Command::new(program())
            .arg("serve")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the registry can be started");
        let mut lines = BufReader::new(process.stderr.take().expect("piped"));
        let mut log = String::new();
        let address = loop {
            let from = log.len();
            let read = lines.read_line(&mut log).expect("its log is UTF-8");
            assert!(read > 0, "the registry ended: {log}");
            if let Some((_, rest)) = log[from..].split_once("listening on ") {
                let address = rest.split(['"', ' ', '\n']).next().unwrap_or_default();
                break address.to_owned();
            }
        };
        // A full pipe would stop it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Self {
            process,
            address,
            directory,
        }
    }

    /// Its host and port.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// A reference into it: `kv-ttl:1` as `oci://127.0.0.1:…/kv-ttl:1`.
    #[must_use]
    pub fn reference(&self, rest: &str) -> String {
        format!("oci://{}/{rest}", self.address)
    }

    /// The file that holds a blob, by its SHA-256 in hex: to be changed under
    /// the registry's feet.
    #[must_use]
    pub fn blob(&self, hex: &str) -> PathBuf {
        let root = self.directory.path();
        root.join("data/docker/registry/v2/blobs/sha256")
            .join(&hex[..2])
            .join(hex)
            .join("data")
    }

    /// End it: nobody answers at its address any more.
    pub fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

fn program() -> PathBuf {
    if let Some(path) = std::env::var_os(VARIABLE) {
        return PathBuf::from(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join("docker-registry"))
        .find(|program| Path::is_file(program))
        .unwrap_or_else(|| {
            panic!(
                "docker-registry is not on the path: install it (apt-get install docker-registry), \
                 or name a program that takes `serve CONFIG` in {VARIABLE}"
            )
        })
}
