//! What the command tests share: the binary, a captured cluster in a directory
//! of its own, and a snapshot of every byte in it.

#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The binary in an empty environment and directory.
pub(crate) fn aedile(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aedile"));
    command
        .env_clear()
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

/// What came of a run of the binary.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Ran {
    /// Demand an exit code.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Demand texts in what was printed.
    #[track_caller]
    pub(crate) fn says(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(
                self.stdout.contains(text) || self.stderr.contains(text),
                "`{text}` is not in {self:#?}"
            );
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

/// Run the binary to its end.
pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Ran {
    aedile(directory).args(arguments).output().unwrap().into()
}

/// A captured cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    directory: TempDir,
    name: &'static str,
}

impl Cluster {
    /// Unpack a capture.
    pub(crate) fn unpack(name: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = Self { directory, name };
        std::fs::write(cluster.database(), fixture(&format!("{name}.db"))).unwrap();
        let archive = fixture(&format!("{name}-objects.tar"));
        tar::Archive::new(archive.as_slice())
            .unpack(cluster.path())
            .unwrap();
        cluster
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path().join(format!("{}.db", self.name))
    }

    pub(crate) fn objects(&self) -> PathBuf {
        self.path().join("objects")
    }

    /// The flags that name it.
    pub(crate) fn flags(&self) -> [String; 3] {
        [
            format!("--meta-url=sqlite:{}", self.database().display()),
            "--storage".to_owned(),
            format!("-2@file://{}", self.objects().display()),
        ]
    }

    /// The flag that names the database.
    pub(crate) fn meta(&self) -> String {
        format!("--meta-url=sqlite:{}", self.database().display())
    }

    /// Run a command on it.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let flags = self.flags();
        let flags = flags.iter().map(String::as_str);
        run(
            self.path(),
            &arguments.iter().copied().chain(flags).collect::<Vec<_>>(),
        )
    }

    /// Every file below its directory, by path.
    pub(crate) fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        found
    }

    /// Run a statement on its database.
    pub(crate) fn sql(&self, statement: &'static str) {
        sql(&self.database(), statement);
    }
}

/// Run a statement on a SQLite file, which is made if need be.
pub(crate) fn sql(file: &Path, statement: &'static str) {
    use sqlx::ConnectOptions;
    use sqlx::Connection;
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true);
    let work = async {
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql(statement)
            .execute(&mut connection)
            .await
            .unwrap();
        connection.close().await.unwrap();
    };
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(work);
}

/// The bytes of a capture.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    if let Ok(bytes) = std::fs::read(folder.join(name)) {
        return bytes;
    }
    let file = std::fs::File::open(folder.join(format!("{name}.zst"))).unwrap();
    let mut bytes = Vec::new();
    zstd::Decoder::new(file)
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
