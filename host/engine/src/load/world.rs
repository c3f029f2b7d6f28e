//! Whether a component is one of our world, by the names that it imports and
//! exports. Their types are compared when it is linked.

use std::collections::BTreeSet;

use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;

use super::scan::Scan;
use crate::SERVED;
use crate::error::LoadError;
use crate::grant::{Grant, INTERFACES};
use crate::text::line_of;

/// Longest name in a message.
const NAME_BYTES: usize = 128;

/// The package of the world.
pub(super) const PACKAGE: &str = "aedile:maintenance";
const EXPORTED: [&str; 2] = ["validate-config", "tick"];

pub(super) struct World {
    pub(super) version: String,
    pub(super) grants: Vec<Grant>,
    pub(super) functions: Vec<String>,
}

pub(super) fn check(scan: &Scan) -> Result<World, LoadError> {
    let types = &scan.types;
    let mut grants = BTreeSet::new();
    let mut functions = BTreeSet::new();
    for name in &scan.imports {
        let foreign = || LoadError::ForeignImport {
            import: line_of(name, NAME_BYTES),
        };
        let (interface, _) = ours(name)?.ok_or_else(foreign)?;
        let item = types.component_item_for_import(name).map(|item| item.ty);
        for function in instance_functions(types, item).ok_or_else(foreign)? {
            if !known(interface, &function) {
                return Err(LoadError::UnknownFunction {
                    interface: line_of(interface, NAME_BYTES),
                    function: line_of(&function, NAME_BYTES),
                    served: SERVED,
                });
            }
            grants.extend(Grant::of(interface, &function));
            functions.insert(format!("{interface}.{function}"));
        }
    }
    Ok(World {
        version: exported(scan)?,
        grants: grants.into_iter().collect(),
        functions: functions.into_iter().collect(),
    })
}

/// The version of the exported interface `maintenance`.
fn exported(scan: &Scan) -> Result<String, LoadError> {
    let mut wrong = None;
    for name in &scan.exports {
        let (interface, version) = match ours(name) {
            Ok(Some(parts)) => parts,
            Ok(None) => continue,
            Err(error) => {
                wrong = Some(error);
                continue;
            }
        };
        if interface != "maintenance" {
            continue;
        }
        let item = scan
            .types
            .component_item_for_export(name)
            .map(|item| item.ty);
        let functions = instance_functions(&scan.types, item).unwrap_or_default();
        return match EXPORTED
            .iter()
            .find(|wanted| !functions.iter().any(|function| function == **wanted))
        {
            None => Ok(version.to_owned()),
            Some(missing) => Err(LoadError::MissingExport {
                missing: format!("{name}.{missing}"),
                found: listed(&functions),
            }),
        };
    }
    Err(wrong.unwrap_or_else(|| {
        let (_, version) = SERVED.split_once('@').unwrap_or_default();
        LoadError::MissingExport {
            missing: format!("{PACKAGE}/maintenance@{version}"),
            found: listed(&scan.exports),
        }
    }))
}

/// The interface and version of a name of our package; none for other names.
fn ours(name: &str) -> Result<Option<(&str, &str)>, LoadError> {
    let Some((PACKAGE, rest)) = name.split_once('/') else {
        return Ok(None);
    };
    let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
    let (_, served) = SERVED.split_once('@').unwrap_or_default();
    if track(version).is_none() || track(version) != track(served) {
        return Err(LoadError::WrongVersion {
            found: line_of(name, NAME_BYTES),
            served: SERVED,
        });
    }
    Ok(Some((interface, version)))
}

/// The part of a version within which versions are compatible: `1` of 1.2.3,
/// `0.1` of 0.1.2, all of 0.0.1. A pre-release is compatible with nothing else.
fn track(version: &str) -> Option<String> {
    if version.contains(['-', '+']) {
        return Some(version.to_owned());
    }
    let mut numbers = version.split('.').map(str::parse::<u64>);
    let (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) = (
        numbers.next(),
        numbers.next(),
        numbers.next(),
        numbers.next(),
    ) else {
        return None;
    };
    Some(match (major, minor) {
        (0, 0) => format!("0.0.{patch}"),
        (0, _) => format!("0.{minor}"),
        _ => major.to_string(),
    })
}

/// The functions of an instance; none if it is something else.
fn instance_functions(types: &Types, item: Option<ComponentEntityType>) -> Option<Vec<String>> {
    let Some(ComponentEntityType::Instance(id)) = item else {
        return None;
    };
    types[id]
        .exports
        .iter()
        .filter_map(|(name, item)| match item.ty {
            ComponentEntityType::Type { .. } => None,
            _ => Some(Some(name.clone())),
        })
        .collect()
}

fn known(interface: &str, function: &str) -> bool {
    INTERFACES
        .iter()
        .any(|(name, functions)| *name == interface && functions.contains(&function))
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    let mut text = names
        .iter()
        .take(8)
        .map(|name| format!("`{}`", line_of(name, NAME_BYTES)))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > 8 {
        text.push_str(&format!(" and {} more", names.len() - 8));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compatible_within_their_track() {
        for (left, right, same) in [
            ("0.1.0", "0.1.9", true),
            ("0.1.0", "0.2.0", false),
            ("0.0.1", "0.0.2", false),
            ("1.2.3", "1.0.0", true),
            ("1.0.0", "2.0.0", false),
            ("0.1.0-rc.1", "0.1.0", false),
        ] {
            assert_eq!(track(left) == track(right), same, "{left} {right}");
        }
        for broken in ["", "1", "0.1", "a.b.c", "0.1.0.0"] {
            assert_eq!(track(broken), None, "{broken}");
        }
    }
}
