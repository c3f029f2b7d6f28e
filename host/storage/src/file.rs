//! A local directory.
//!
//! Every path is resolved beneath the open directory by the kernel (or, where
//! it cannot, step by step), so that neither `..` nor a link inside leads out.
//! All of it blocks: it is called from blocking workers.

use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use aedile_clock::UnixMillis;
use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt as _};

use crate::delete::Verdict;
use crate::folders::Folders;
use crate::walk::Walk;
use crate::{DeleteOutcome, StorageError, Stored, object_key};

/// A directory that is a store.
#[derive(Debug)]
pub(crate) struct FileStore {
    path: PathBuf,
    root: Dir,
    /// Device and inode of the open directory.
    identity: (u64, u64),
    /// Where the last listing stopped.
    walk: Mutex<Option<Walk>>,
    folders: Folders,
}

impl FileStore {
    pub(crate) fn open(path: &Path) -> Result<Self, StorageError> {
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        let metadata = std::fs::metadata(&path).map_err(|error| failed(&path, &error))?;
        if !metadata.is_dir() {
            return Err(StorageError::NotADirectory { path });
        }
        let root = Dir::open_ambient_dir(&path, ambient_authority())
            .map_err(|error| failed(&path, &error))?;
        let metadata = root.dir_metadata().map_err(|error| failed(&path, &error))?;
        Ok(Self {
            identity: (metadata.dev(), metadata.ino()),
            path,
            root,
            walk: Mutex::new(None),
            folders: Folders::default(),
        })
    }

    /// What waits for its removal.
    pub(crate) fn folders(&self) -> &Folders {
        &self.folders
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The path still leads to the directory that was opened: in one that was
    /// moved away or unmounted, everything would look absent.
    fn still_there(&self) -> Result<(), StorageError> {
        let metadata = std::fs::metadata(&self.path).map_err(|error| failed(&self.path, &error))?;
        if (metadata.dev(), metadata.ino()) == self.identity {
            return Ok(());
        }
        Err(StorageError::Failed {
            place: self.place(),
            reason: "another directory has taken its place since it was opened; restart".into(),
        })
    }

    /// Whether nothing lies in it.
    pub(crate) fn check(&self) -> Result<bool, StorageError> {
        self.still_there()?;
        let mut entries = self
            .root
            .entries()
            .map_err(|error| failed(&self.path, &error))?;
        match entries.next() {
            None => Ok(true),
            Some(Ok(_)) => Ok(false),
            Some(Err(error)) => Err(failed(&self.path, &error)),
        }
    }

    /// Delete these objects one after another, for as long as `go_on`.
    pub(crate) fn delete(&self, ids: &[u64], go_on: impl Fn() -> bool) -> Vec<(u64, Verdict)> {
        let there = self.still_there().map_err(|error| error.to_string());
        ids.iter()
            .map(|id| {
                let outcome = match &there {
                    Err(reason) => DeleteOutcome::Retry(reason.clone()),
                    Ok(()) if !go_on() => DeleteOutcome::NotSent,
                    Ok(()) => self.delete_one(*id),
                };
                (*id, Verdict::Done(outcome))
            })
            .collect()
    }

    fn delete_one(&self, id: u64) -> DeleteOutcome {
        let key = object_key(id);
        let error = match self.root.remove_file(&key) {
            Ok(()) => {
                self.put_folders_off(id);
                return DeleteOutcome::Deleted;
            }
            Err(error) => error,
        };
        let text = || format!("{}/{key}: {error}", self.path.display());
        match error.kind() {
            ErrorKind::NotFound => {
                self.put_folders_off(id);
                DeleteOutcome::Absent
            }
            ErrorKind::PermissionDenied
            | ErrorKind::IsADirectory
            | ErrorKind::NotADirectory
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::CrossesDevices
            | ErrorKind::InvalidInput => DeleteOutcome::Denied(text()),
            _ => DeleteOutcome::Retry(text()),
        }
    }

    fn put_folders_off(&self, id: u64) {
        if !self.folders.put_off(id) {
            self.remove_folders(id);
        }
    }

    /// Remove the two directories of an object that has gone, the inner one first,
    /// as far as they are empty. What stays is tried again by nobody: it is two
    /// empty directories, which harm nobody either.
    ///
    /// Safe beside a writer. The name of the outer one is the id in another
    /// spelling, so only a late upload of this very object or an index with
    /// the same hash can be written into it. A writer that has created its file
    /// keeps both, as the kernel removes no directory that is not empty. One
    /// that has not yet finds its directory missing and makes it anew
    /// (`object_store`'s `LocalFileSystem`, which PicoMQ writes through, does so
    /// in a loop). Between its two `mkdir` nothing is taken away: the outer one
    /// goes only right after this call has removed an inner one.
    pub(crate) fn remove_folders(&self, id: u64) {
        let key = object_key(id);
        let Some((folders, _)) = key.rsplit_once('/') else {
            return;
        };
        let Some((outer, _)) = folders.split_once('/') else {
            return;
        };
        // A link in its place leads to a directory that is no object's.
        let is_dir = |metadata: Metadata| metadata.is_dir();
        if !self.root.symlink_metadata(outer).is_ok_and(is_dir) {
            return;
        }
        if self.root.remove_dir(folders).is_ok() {
            // Not empty any more is as good an answer.
            let _ = self.root.remove_dir(outer);
        }
    }

    pub(crate) fn head(&self, id: u64) -> Result<Option<Stored>, StorageError> {
        let key = object_key(id);
        Ok(self.file(&key)?.map(|metadata| stored(key, &metadata)))
    }

    /// Bytes of an object from `offset` on, and its size; none if there is no
    /// such object. An `offset` of none reads its last `length` bytes.
    pub(crate) fn read(
        &self,
        id: u64,
        offset: Option<u64>,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, StorageError> {
        self.read_key(&object_key(id), offset, length)
    }

    /// [`FileStore::read`] of any key.
    pub(crate) fn read_key(
        &self,
        key: &str,
        offset: Option<u64>,
        length: u64,
    ) -> Result<Option<(Bytes, u64)>, StorageError> {
        // Opening what is no file could wait for ever.
        if self.file(key)?.is_none() {
            return Ok(None);
        }
        let file = match self.root.open(key) {
            Ok(file) => file.into_std(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.key_failed(key, &error)),
        };
        let read = || -> io::Result<(Bytes, u64)> {
            let size = file.metadata()?.len();
            let offset = offset.unwrap_or(size.saturating_sub(length)).min(size);
            let length = usize::try_from(length.min(size - offset)).unwrap_or(usize::MAX);
            let mut bytes = vec![0; length];
            let mut filled = 0;
            while filled < length {
                match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                    Ok(0) => break,
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            bytes.truncate(filled);
            Ok((bytes.into(), size))
        };
        read()
            .map(Some)
            .map_err(|error| self.key_failed(key, &error))
    }

    /// What lies at a key.
    pub(crate) fn head_key(&self, key: &str) -> Result<Option<Stored>, StorageError> {
        let found = self.file(key)?;
        Ok(found.map(|metadata| stored(key.to_owned(), &metadata)))
    }

    /// Write a whole object in one step: whoever reads the key sees all of the
    /// bytes or none. `apart` names a file beside it that nobody else writes.
    pub(crate) fn put_key(&self, key: &str, apart: &str, bytes: &[u8]) -> Result<(), StorageError> {
        self.still_there()?;
        let write = || -> io::Result<()> {
            if let Some((folders, _)) = key.rsplit_once('/') {
                self.root.create_dir_all(folders)?;
            }
            let mut file = self.root.create(apart)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            self.root.rename(apart, &self.root, key)
        };
        write().map_err(|error| {
            // What was begun is of no use to anybody.
            let _ = self.root.remove_file(apart);
            self.key_failed(key, &error)
        })
    }

    pub(crate) fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Stored>, StorageError> {
        self.still_there()?;
        let parked = self
            .walk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let mut walk = parked
            .filter(|walk| walk.continues(prefix, after))
            .unwrap_or_else(|| Walk::new(prefix, after));
        let mut found = Vec::new();
        while found.len() < limit {
            let next = walk
                .next(&self.root)
                .map_err(|(at, error)| self.key_failed(&at, &error))?;
            let Some(key) = next else { break };
            // It may have gone since its directory was read.
            if let Some(metadata) = self.file(&key)? {
                found.push(stored(key, &metadata));
            }
        }
        if found.len() == limit {
            *self.walk.lock().unwrap_or_else(PoisonError::into_inner) = Some(walk);
        }
        Ok(found)
    }

    /// What lies at a key, if it is a file.
    fn file(&self, key: &str) -> Result<Option<Metadata>, StorageError> {
        match self.root.metadata(key) {
            Ok(metadata) if metadata.is_file() => Ok(Some(metadata)),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.still_there()?;
                Ok(None)
            }
            Err(error) => Err(self.key_failed(key, &error)),
        }
    }

    fn key_failed(&self, key: &str, error: &io::Error) -> StorageError {
        failed(&self.path.join(key), error)
    }

    fn place(&self) -> String {
        format!("directory {}", self.path.display())
    }
}

fn stored(key: String, metadata: &Metadata) -> Stored {
    let modified = metadata
        .mtime()
        .saturating_mul(1000)
        .saturating_add(metadata.mtime_nsec() / 1_000_000);
    Stored::new(key, metadata.len(), UnixMillis(modified))
}

fn failed(path: &Path, error: &io::Error) -> StorageError {
    let path = path.to_path_buf();
    match error.kind() {
        ErrorKind::NotFound => StorageError::MissingDirectory { path },
        ErrorKind::NotADirectory => StorageError::NotADirectory { path },
        ErrorKind::PermissionDenied => StorageError::Denied {
            place: path.display().to_string(),
            reason: error.to_string(),
        },
        _ => StorageError::Failed {
            place: path.display().to_string(),
            reason: error.to_string(),
        },
    }
}
