//! Modules in OCI registries, in the layout that the CNCF describes for Wasm.
//!
//! A registry is a way in and out, never a part of what runs: a deploy pulls
//! once, keeps the bytes with the cluster's own, and notes where they came from
//! by digest.

mod credentials;
mod fault;
mod layout;
mod reference;
mod registry;
mod surface;

pub use credentials::Credentials;
pub use layout::{Package, SIGNATURE_ANNOTATION};
pub use reference::OciReference;
pub use registry::{Pulled, Registry, RegistryOptions};
