//! Keys and signatures as people make them: with the program `minisign`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A key pair in a directory of its own.
#[derive(Debug)]
pub struct Signer {
    directory: TempDir,
}

impl Signer {
    /// A new pair, without a password.
    ///
    /// # Panics
    /// If `minisign` is not installed.
    #[must_use]
    pub fn new() -> Self {
        let signer = Self {
            directory: tempfile::tempdir().expect("a directory"),
        };
        let (public, secret) = (signer.public_file(), signer.secret_file());
        minisign(&["-G", "-W", "-f", "-p", text(&public), "-s", text(&secret)]);
        signer
    }

    /// The file of the public key, as `--trusted-keys` takes it.
    #[must_use]
    pub fn public_file(&self) -> PathBuf {
        self.directory.path().join("key.pub")
    }

    /// The public key itself.
    ///
    /// # Panics
    /// If its file is gone.
    #[must_use]
    pub fn public_key(&self) -> String {
        let file = fs::read_to_string(self.public_file()).expect("the public key");
        file.lines().last().expect("a key").to_owned()
    }

    fn secret_file(&self) -> PathBuf {
        self.directory.path().join("key.sec")
    }

    /// The signature of these bytes.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn sign(&self, bytes: &[u8], comment: &str) -> String {
        let file = self.directory.path().join("module.wasm");
        fs::write(&file, bytes).expect("written");
        self.sign_file(&file, comment)
    }

    /// Sign a file; the signature is put beside it, as `FILE.minisig`, and
    /// returned.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn sign_file(&self, file: &Path, comment: &str) -> String {
        let secret = self.secret_file();
        minisign(&["-S", "-s", text(&secret), "-m", text(file), "-t", comment]);
        fs::read_to_string(format!("{}.minisig", file.display())).expect("the signature")
    }
}

impl Default for Signer {
    fn default() -> Self {
        Self::new()
    }
}

fn minisign(arguments: &[&str]) {
    let output = Command::new("minisign")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!("minisign cannot be started ({error}): apt-get install minisign")
        });
    assert!(
        output.status.success(),
        "minisign {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
