//! WIT metadata in a core module, checked before it is decoded.
//!
//! The metadata is a component of its own, and its decoder trusts it: packages
//! that depend on each other in a circle make it recurse until the process
//! dies. A world of ours has the interfaces of one package in one version, so
//! that is what is allowed; the world itself may be in a package of the
//! plugin's own, which has no interfaces.

use wasmparser::{
    ComponentType, ComponentTypeDeclaration, InstanceTypeDeclaration, Parser, Payload,
};

use super::scan::{invalid, shallow};
use crate::error::LoadError;
use crate::text::line_of;

/// Largest metadata, in bytes.
const BYTES: usize = 1 << 20;

/// Longest name in a message.
const NAME_BYTES: usize = 128;

pub(super) fn check(metadata: &[u8]) -> Result<(), LoadError> {
    if metadata.len() > BYTES {
        return Err(LoadError::TooComplex {
            what: "the size of the WIT metadata in bytes",
            found: metadata.len() as u64,
            limit: BYTES as u64,
        });
    }
    // An older encoding begins with a version of its own.
    if !Parser::is_component(metadata) {
        return Err(LoadError::Wrap {
            detail:
                "its WIT metadata has a form that is not known; build it with a newer wit-bindgen"
                    .to_owned(),
        });
    }
    let mut names = Names::default();
    for payload in Parser::new(0).parse_all(metadata) {
        match payload.map_err(invalid)? {
            Payload::ComponentTypeSection(section) => {
                shallow(metadata, section.range())?;
                for ty in section {
                    names.in_type(&ty.map_err(invalid)?)?;
                }
            }
            Payload::ComponentExportSection(_)
            | Payload::CustomSection(_)
            | Payload::Version { .. }
            | Payload::End(_) => {}
            _ => {
                return Err(LoadError::Wrap {
                    detail: "its WIT metadata contains more than types".to_owned(),
                });
            }
        }
    }
    Ok(())
}

/// The package of the interfaces seen so far, with its version.
#[derive(Default)]
struct Names<'m> {
    package: Option<(&'m str, &'m str)>,
}

impl<'m> Names<'m> {
    fn in_type(&mut self, ty: &ComponentType<'m>) -> Result<(), LoadError> {
        match ty {
            ComponentType::Component(declarations) => {
                for declaration in declarations {
                    match declaration {
                        ComponentTypeDeclaration::Type(ty) => self.in_type(ty)?,
                        ComponentTypeDeclaration::Import(import) => self.name(import.name.name)?,
                        ComponentTypeDeclaration::Export { name, ty } => {
                            // A component is a world: it may be the plugin's own.
                            if !matches!(ty, wasmparser::ComponentTypeRef::Component(_)) {
                                self.name(name.name)?;
                            }
                        }
                        ComponentTypeDeclaration::CoreType(_)
                        | ComponentTypeDeclaration::Alias(_) => {}
                    }
                }
                Ok(())
            }
            ComponentType::Instance(declarations) => {
                for declaration in declarations {
                    match declaration {
                        InstanceTypeDeclaration::Type(ty) => self.in_type(ty)?,
                        InstanceTypeDeclaration::Export { name, .. } => self.name(name.name)?,
                        InstanceTypeDeclaration::CoreType(_)
                        | InstanceTypeDeclaration::Alias(_) => {}
                    }
                }
                Ok(())
            }
            ComponentType::Defined(_) | ComponentType::Func(_) | ComponentType::Resource { .. } => {
                Ok(())
            }
        }
    }

    fn name(&mut self, name: &'m str) -> Result<(), LoadError> {
        let Some((package, rest)) = name.split_once('/') else {
            // The name of a function or a type.
            return Ok(());
        };
        let (_, version) = rest.split_once('@').unwrap_or((rest, ""));
        if package != super::world::PACKAGE {
            return Err(LoadError::ForeignImport {
                import: line_of(name, NAME_BYTES),
            });
        }
        match self.package.replace((package, version)) {
            Some((_, before)) if before != version => Err(LoadError::Wrap {
                detail: format!(
                    "its WIT metadata mixes versions of {package}: {} and {}",
                    line_of(before, NAME_BYTES),
                    line_of(version, NAME_BYTES)
                ),
            }),
            _ => Ok(()),
        }
    }
}
