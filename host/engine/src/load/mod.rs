//! From bytes to a component that may be compiled.
//!
//! All that can be known without compiling is checked here, cheapest first:
//! size, kind, cost, validity, world, manifest, grants.

mod metadata;
mod scan;
mod world;
mod wrap;

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use crate::SERVED;
use crate::error::LoadError;
use crate::grant::{Grant, Grants};
use crate::manifest::{Manifest, ManifestError};
use crate::options::EngineOptions;
use crate::text::line;
use scan::Scan;

/// Which of the two forms a module has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A component.
    Component,
    /// A core module with WIT metadata, wrapped on load.
    Core,
}

/// What is known of a module without compiling it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspection {
    /// SHA-256 of its bytes, in lower-case hex.
    pub digest: String,
    /// Its form.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: usize,
    /// Size of the component that is compiled, in bytes.
    pub component_size: usize,
    /// The version of `aedile:maintenance` that it is built for.
    pub world: String,
    /// What it imports, and so all that it can do; sorted.
    pub imports: Vec<Grant>,
    /// The functions that it imports, as `state.objects`; sorted, with those
    /// that need no grant.
    pub functions: Vec<String>,
    /// What it says about itself.
    pub manifest: Manifest,
    /// Memory that it takes at its start, in bytes.
    pub minimum_memory: u64,
}

/// A module that may be compiled.
pub(crate) struct Examined<'a> {
    pub(crate) inspection: Inspection,
    pub(crate) component: Cow<'a, [u8]>,
}

impl Examined<'_> {
    /// Whether all that it imports is granted.
    pub(crate) fn check_grants(&self, grants: &Grants) -> Result<(), LoadError> {
        let imports = &self.inspection.imports;
        match imports.iter().find(|grant| !grants.contains(grant)) {
            Some(missing) => Err(LoadError::NotGranted { grant: *missing }),
            None => Ok(()),
        }
    }
}

/// Check everything that can be checked without compiling.
pub(crate) fn examine<'a>(
    bytes: &'a [u8],
    options: &EngineOptions,
) -> Result<Examined<'a>, LoadError> {
    if bytes.len() > options.module_bytes {
        return Err(LoadError::TooLarge {
            size: bytes.len(),
            limit: options.module_bytes,
        });
    }
    let kind = kind(bytes)?;
    let uploaded = Scan::of(bytes, options)?;
    let (component, scan) = match kind {
        Kind::Component => (Cow::Borrowed(bytes), None),
        Kind::Core => {
            let wrapped = wrap::wrap(bytes, &uploaded)?;
            let scan = Scan::of(&wrapped, options)?;
            (Cow::Owned(wrapped), Some(scan))
        }
    };
    let world = world::check(scan.as_ref().unwrap_or(&uploaded))?;
    let manifest = match uploaded.manifests.as_slice() {
        [] => Err(ManifestError::Missing),
        [one] => Manifest::parse(one),
        several => Err(ManifestError::Several(several.len())),
    }?;
    if let Some(grant) = world
        .grants
        .iter()
        .find(|grant| !manifest.grants.contains(grant))
    {
        return Err(LoadError::NotRequested { grant: *grant });
    }
    let inspection = Inspection {
        digest: hex::encode(Sha256::digest(bytes)),
        kind,
        size: bytes.len(),
        component_size: component.len(),
        world: world.version,
        imports: world.grants,
        functions: world.functions,
        manifest,
        minimum_memory: uploaded.memory,
    };
    Ok(Examined {
        inspection,
        component,
    })
}

/// What the eight bytes of the header say.
fn kind(bytes: &[u8]) -> Result<Kind, LoadError> {
    let not_wasm = |found: String| Err(LoadError::NotWasm { found });
    let text = bytes.trim_ascii_start();
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Ok(Kind::Core),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(Kind::Component),
        [0, b'a', b's', b'm', version @ ..] => not_wasm(format!(
            "it is Wasm of a version that is not known (header {})",
            hex::encode(version.get(..4).unwrap_or(version))
        )),
        [] => not_wasm("it is empty".to_owned()),
        _ if text.starts_with(b"(module") || text.starts_with(b"(component") => {
            not_wasm("it is Wasm text; compile it first, as with `wasm-tools parse`".to_owned())
        }
        [0x7f, b'E', b'L', b'F', ..] => not_wasm(
            "it is a native program; build it with --target wasm32-unknown-unknown".to_owned(),
        ),
        _ => not_wasm(format!(
            "it begins with the bytes {}",
            hex::encode(bytes.get(..8).unwrap_or(bytes))
        )),
    }
}

/// A difference between the component and the host that comparing names does
/// not show: a type.
pub(crate) fn mismatch(error: &wasmtime::Error) -> LoadError {
    LoadError::Mismatch {
        detail: line(&format!("{error:#}")),
        served: SERVED,
    }
}
