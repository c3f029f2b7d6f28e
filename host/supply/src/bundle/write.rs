//! Writing a bundle.

use std::io::{self, Write};
use std::path::Path;

use tar::{Builder, EntryType, Header};

use super::{Bundle, Entry, INDEX, Index, MODULE, RECORD, SIGNATURE, VERSION};
use crate::{SupplyError, sha256_hex};

impl Bundle {
    /// Write it to a new file, which appears whole or not at all.
    ///
    /// # Errors
    /// If there is a file of that name already, or it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), SupplyError> {
        let failed = |source| SupplyError::File {
            path: path.to_owned(),
            action: "written",
            source,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        self.encode(file.as_file_mut()).map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(path)
            .map_err(|error| failed(error.error))?;
        Ok(())
    }

    pub(super) fn encode(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut record = serde_json::to_vec_pretty(&self.record)?;
        record.push(b'\n');
        let mut files = vec![(RECORD, &record[..]), (MODULE, &self.module[..])];
        if let Some(signature) = &self.signature {
            files.push((SIGNATURE, signature.as_bytes()));
        }
        let entries = files.iter().map(|(name, bytes)| {
            let entry = Entry {
                size: bytes.len() as u64,
                sha256: sha256_hex(bytes),
            };
            ((*name).to_owned(), entry)
        });
        let mut index = serde_json::to_vec_pretty(&Index {
            v: VERSION,
            files: entries.collect(),
        })?;
        index.push(b'\n');
        let mut archive = Builder::new(out);
        append(&mut archive, INDEX, &index)?;
        for (name, bytes) in files {
            append(&mut archive, name, bytes)?;
        }
        archive.into_inner()?.flush()
    }
}

/// No time, owner or mode of this machine: the same content, the same bytes.
fn append(archive: &mut Builder<&mut dyn Write>, name: &str, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(bytes.len() as u64);
    archive.append_data(&mut header, name, bytes)
}
