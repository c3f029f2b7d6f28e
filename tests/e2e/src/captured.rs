//! The clusters that real PicoMQ code wrote, unpacked for one test.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A captured cluster in a directory of its own.
#[derive(Debug)]
pub struct Captured {
    dir: TempDir,
    name: &'static str,
}

impl Captured {
    /// Unpack the database and, where it was captured, the object directory.
    pub fn unpack(name: &'static str) -> Self {
        let dir = tempfile::tempdir().expect("a directory can be made");
        let captured = Self { dir, name };
        std::fs::write(captured.database(), fixture(&format!("{name}.db")))
            .expect("the database can be written");
        let archive = format!("{name}-objects.tar");
        if exists(&archive) {
            tar::Archive::new(fixture(&archive).as_slice())
                .unpack(captured.dir.path())
                .expect("the object archive unpacks");
        }
        captured
    }

    /// The directory that holds both.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The database file.
    pub fn database(&self) -> PathBuf {
        self.dir.path().join(format!("{}.db", self.name))
    }

    /// The object directory.
    pub fn objects(&self) -> PathBuf {
        self.dir.path().join("objects")
    }

    /// The database as `--meta-url` takes it.
    pub fn meta_url(&self) -> String {
        format!("sqlite:{}", self.database().display())
    }

    /// The object directory as `--storage` takes it.
    pub fn storage(&self) -> String {
        format!("-2@file://{}", self.objects().display())
    }
}

/// The bytes of a fixture, decompressed if need be.
pub fn fixture(name: &str) -> Vec<u8> {
    let plain = folder().join(name);
    if plain.is_file() {
        return std::fs::read(&plain).expect("the fixture can be read");
    }
    let packed = folder().join(format!("{name}.zst"));
    let file =
        File::open(&packed).unwrap_or_else(|error| panic!("fixture {}: {error}", packed.display()));
    let mut bytes = Vec::new();
    zstd::Decoder::new(file)
        .and_then(|mut decoder| decoder.read_to_end(&mut bytes))
        .expect("the fixture decompresses");
    bytes
}

fn exists(name: &str) -> bool {
    folder().join(name).is_file() || folder().join(format!("{name}.zst")).is_file()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}
