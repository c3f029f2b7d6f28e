//! What a component imports and exports, by name: the layout lists it.

use wasmparser::{Parser, Payload};

use crate::SupplyError;

/// The names at the top level of a component.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Surface {
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
}

/// The names of a component; none for a core module.
pub(super) fn of(module: &[u8]) -> Result<Option<Surface>, SupplyError> {
    let broken = |error: wasmparser::BinaryReaderError| SupplyError::NotWasm {
        reason: error.to_string(),
    };
    if Parser::is_core_wasm(module) {
        return Ok(None);
    }
    if !Parser::is_component(module) {
        return Err(SupplyError::NotWasm {
            reason: "it does not begin as Wasm does".to_owned(),
        });
    }
    let mut surface = Surface::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(module) {
        match payload.map_err(broken)? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let name = import.map_err(broken)?.name.name;
                    surface.imports.push(name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    let name = export.map_err(broken)?.name.name;
                    surface.exports.push(name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(Some(surface))
}
