//! From a core module with WIT metadata to a component.

use wit_component::ComponentEncoder;

use super::metadata;
use super::scan::Scan;
use crate::error::LoadError;
use crate::text::line;

/// Module names that WASI had before components.
const PREVIEW1: [&str; 2] = ["wasi_snapshot_preview1", "wasi_unstable"];

pub(super) fn wrap(module: &[u8], scan: &Scan) -> Result<Vec<u8>, LoadError> {
    if let Some((namespace, name)) = scan
        .core_imports
        .iter()
        .find(|(namespace, _)| PREVIEW1.contains(&namespace.as_str()))
    {
        return Err(LoadError::Preview1 {
            import: line(&format!("{namespace}.{name}")),
        });
    }
    if scan.metadata.is_empty() {
        return Err(LoadError::NoWorld);
    }
    for metadata in &scan.metadata {
        metadata::check(metadata)?;
    }
    // The encoder is made for the output of tools, not for hostile bytes.
    let encoded = std::panic::catch_unwind(|| {
        ComponentEncoder::default()
            .validate(true)
            .module(module)
            .and_then(|mut encoder| encoder.encode())
    });
    match encoded {
        Ok(encoded) => encoded.map_err(|error| LoadError::Wrap {
            detail: line(&format!("{error:#}")),
        }),
        Err(_) => Err(LoadError::Wrap {
            detail: "its WIT metadata is broken".to_owned(),
        }),
    }
}
