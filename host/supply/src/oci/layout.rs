//! The layout of a Wasm module in a registry: a manifest with a config of its
//! own type and exactly one layer, the module.
//!
//! <https://tag-runtime.cncf.io/wgs/wasm/deliverables/wasm-oci-artifact/>

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::surface::{self, Surface};
use crate::digest::is_sha256_hex;
use crate::{SupplyError, sha256_hex};

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";

/// What a registry is asked for. The kinds that are refused are among them, so
/// that they can be named.
pub(super) const ACCEPTED: [&str; 4] = [
    MANIFEST,
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];

/// The annotation of a manifest that holds the module's minisign signature. The
/// layout has one layer, so that a signature can be no second one.
pub const SIGNATURE_ANNOTATION: &str = "dev.aedile.signature.minisign";

const TITLE: &str = "org.opencontainers.image.title";
const VERSION: &str = "org.opencontainers.image.version";
const DESCRIPTION: &str = "org.opencontainers.image.description";

/// The most entries that are named of a foreign layout.
const NAMED: usize = 8;

/// A module to be pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its bytes.
    pub module: Vec<u8>,
    /// Name of the plugin.
    pub title: String,
    /// Its version.
    pub version: String,
    /// What it does; may be empty.
    pub description: String,
    /// Its signature in minisign's format, if it is signed.
    pub signature: Option<String>,
}

/// The blobs of a package. The same package gives the same bytes.
pub(super) struct Blobs {
    pub(super) module_digest: String,
    pub(super) config: Vec<u8>,
    pub(super) config_digest: String,
    pub(super) manifest: Vec<u8>,
    pub(super) manifest_digest: String,
}

impl Package {
    pub(super) fn blobs(&self) -> Result<Blobs, SupplyError> {
        let unwritable = |error: serde_json::Error| SupplyError::NotWasm {
            reason: format!("its manifest cannot be written: {error}"),
        };
        let module_digest = format!("sha256:{}", sha256_hex(&self.module));
        let mut config = json!({
            // Readers insist on a time; the digest is not to depend on one.
            "created": "1970-01-01T00:00:00Z",
            "architecture": "wasm",
            "os": "wasip1",
            "layerDigests": [module_digest],
        });
        if let Some(Surface { imports, exports }) = surface::of(&self.module)? {
            config["os"] = json!("wasip2");
            config["component"] = json!({ "imports": imports, "exports": exports });
        }
        let config = serde_json::to_vec(&config).map_err(unwritable)?;
        let config_digest = format!("sha256:{}", sha256_hex(&config));
        let mut annotations = BTreeMap::from([
            (TITLE, self.title.as_str()),
            (VERSION, self.version.as_str()),
        ]);
        if !self.description.is_empty() {
            annotations.insert(DESCRIPTION, &self.description);
        }
        if let Some(signature) = &self.signature {
            annotations.insert(SIGNATURE_ANNOTATION, signature);
        }
        let manifest = serde_json::to_vec(&json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": { "mediaType": CONFIG, "digest": config_digest, "size": config.len() },
            "layers": [
                { "mediaType": LAYER, "digest": module_digest, "size": self.module.len() },
            ],
            "annotations": annotations,
        }))
        .map_err(unwritable)?;
        let manifest_digest = format!("sha256:{}", sha256_hex(&manifest));
        Ok(Blobs {
            module_digest,
            config,
            config_digest,
            manifest,
            manifest_digest,
        })
    }
}

/// What a manifest says of a module.
#[derive(Debug)]
pub(super) struct Described {
    /// `sha256:` and hex.
    pub(super) digest: String,
    pub(super) size: u64,
    pub(super) signature: Option<String>,
    pub(super) title: Option<String>,
    pub(super) version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

/// Read a manifest, and refuse any other layout by the types found.
pub(super) fn read(bytes: &[u8], reference: &str) -> Result<Described, SupplyError> {
    let layout = |found: String| SupplyError::Layout {
        reference: reference.to_owned(),
        found,
        expected: format!("a manifest {MANIFEST} with the config {CONFIG} and one layer {LAYER}"),
    };
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|_| layout("a manifest that is no JSON".to_owned()))?;
    // Its own type may be left out of a manifest.
    match value.get("mediaType") {
        None => {}
        Some(Value::String(kind)) if kind == MANIFEST => {}
        Some(kind) => return Err(layout(format!("a manifest {}", short(kind)))),
    }
    let manifest: Manifest = serde_json::from_value(value)
        .map_err(|_| layout("a manifest without config and layers".to_owned()))?;
    let layers = &manifest.layers;
    if manifest.config.media_type != CONFIG || layers.len() != 1 || layers[0].media_type != LAYER {
        let mut types: Vec<_> = layers
            .iter()
            .take(NAMED)
            .map(|layer| plain(&layer.media_type))
            .collect();
        if layers.len() > NAMED {
            types.push("…".to_owned());
        }
        let listed = match layers.len() {
            0 => "no layer".to_owned(),
            1 => format!("one layer {}", types[0]),
            n => format!("{n} layers {}", types.join(", ")),
        };
        let config = plain(&manifest.config.media_type);
        return Err(layout(format!("the config {config} and {listed}")));
    }
    let layer = &layers[0];
    let hex = layer.digest.strip_prefix("sha256:").unwrap_or_default();
    if !is_sha256_hex(hex) {
        return Err(layout(format!(
            "a layer with the digest {}",
            plain(&layer.digest)
        )));
    }
    let note = |name: &str| manifest.annotations.get(name).cloned();
    Ok(Described {
        digest: layer.digest.clone(),
        size: layer.size,
        signature: note(SIGNATURE_ANNOTATION),
        title: note(TITLE),
        version: note(VERSION),
    })
}

fn short(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        _ => "whose type is no text".to_owned(),
    }
}

/// A foreign text for a message.
fn plain(text: &str) -> String {
    let mut shown: String = text.chars().take(120).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A component that imports the empty interface `a:b/c@0.1.0`.
    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0\
        \x07\x03\x01\x42\0\
        \x0a\x10\x01\0\x0ba:b/c@0.1.0\x05\0";

    fn package() -> Package {
        Package {
            module: b"\0asm\x01\0\0\0".to_vec(),
            title: "kv-ttl".to_owned(),
            version: "0.1.0".to_owned(),
            description: String::new(),
            signature: None,
        }
    }

    #[test]
    fn a_package_is_read_as_it_was_laid_out() {
        let package = Package {
            signature: Some("text".to_owned()),
            module: COMPONENT.to_vec(),
            ..package()
        };
        let blobs = package.blobs().expect("laid out");
        let read = read(&blobs.manifest, "x").expect("our own");
        assert_eq!(read.digest, blobs.module_digest);
        assert_eq!(read.size, COMPONENT.len() as u64);
        assert_eq!(read.signature.as_deref(), Some("text"));
        assert_eq!(read.title.as_deref(), Some("kv-ttl"));
        let config: Value = serde_json::from_slice(&blobs.config).expect("JSON");
        assert_eq!(config["os"], "wasip2");
        assert_eq!(config["layerDigests"][0], blobs.module_digest.as_str());
        assert_eq!(config["component"]["imports"], json!(["a:b/c@0.1.0"]));
        assert_eq!(config["component"]["exports"], json!([]));
        let again = package.blobs().expect("laid out");
        assert_eq!(again.manifest_digest, blobs.manifest_digest);
    }

    #[test]
    fn other_layouts_are_named_by_what_was_found_and_expected() {
        let layer = |kind: &str| json!({ "mediaType": kind, "digest": "sha256:0", "size": 1 });
        let of = |config: &str, layers: &[&str]| {
            let layers: Vec<_> = layers.iter().map(|kind| layer(kind)).collect();
            json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": layer(config), "layers": layers })
        };
        let old = "application/vnd.wasm.content.layer.v1+wasm";
        let image = "application/vnd.oci.image.config.v1+json";
        for (manifest, expect) in [
            (of(CONFIG, &[old]), format!("one layer {old};")),
            (
                of(image, &[LAYER]),
                format!("the config {image} and one layer {LAYER};"),
            ),
            (of(CONFIG, &[]), "and no layer;".to_owned()),
            (
                of(CONFIG, &[LAYER, LAYER]),
                format!("2 layers {LAYER}, {LAYER};"),
            ),
            (of(CONFIG, &[LAYER]), "the digest sha256:0;".to_owned()),
            (
                json!({ "mediaType": ACCEPTED[1], "manifests": [] }),
                format!("a manifest {};", ACCEPTED[1]),
            ),
            (
                json!({ "mediaType": ACCEPTED[2] }),
                format!("a manifest {};", ACCEPTED[2]),
            ),
            (json!({ "mediaType": 7 }), "no text".to_owned()),
            (json!([]), "without config and layers".to_owned()),
            (of("a\u{1b}[2J", &[LAYER]), "a\\u{1b}[2J".to_owned()),
        ] {
            let bytes = serde_json::to_vec(&manifest).expect("JSON");
            let error = read(&bytes, "oci://r.io/a:1")
                .expect_err("refused")
                .to_string();
            assert!(error.contains(&expect), "{error}");
            assert!(
                error.contains(CONFIG) && error.contains("oci://r.io/a:1"),
                "{error}"
            );
        }
        assert!(read(b"\xff", "x").is_err());
    }

    #[test]
    fn a_manifest_may_leave_out_its_own_type() {
        let mut manifest: Value =
            serde_json::from_slice(&package().blobs().expect("laid out").manifest).expect("JSON");
        manifest
            .as_object_mut()
            .expect("an object")
            .remove("mediaType");
        assert!(read(&serde_json::to_vec(&manifest).expect("JSON"), "x").is_ok());
    }
}
