//! What `wit-bindgen` makes of the package `aedile:maintenance`.
//!
//! Plugins use the typed layer at the root of the crate; this module is public
//! because [`export!`](crate::export) refers to it from their crates.
#![allow(
    missing_docs,
    missing_debug_implementations,
    unreachable_pub,
    unsafe_code
)]

wit_bindgen::generate!({
    path: "wit",
    world: "plugin",
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "aedile_plugin::bindings",
    additional_derives: [PartialEq, Eq],
    generate_unused_types: true,
});
