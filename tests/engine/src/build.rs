//! From a guest's text to a module.
//!
//! A file that begins with `(module` or `(component` is taken as it is. Any
//! other holds the fields of a core module, imports first, and gets what it does
//! not define itself: a memory, `cabi_realloc`, a `tick` and a `validate-config`
//! that answer "nothing to do", the WIT metadata and a manifest. Lines at its
//! top give what differs:
//!
//! - `;; grants: state, commands.put-kv`: what its manifest asks for;
//! - `;; manifest: {…}` or `;; manifest: none`: another manifest;
//! - `;; exports: its own`: `tick` and `validate-config` are not added;
//! - `;; wit: old => new`: built against WIT files that differ in that text.

use std::fs;
use std::path::{Path, PathBuf};

use aedile_engine::MANIFEST_SECTION;
use wit_component::StringEncoding;
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Resolve, UnresolvedPackageGroup, WorldId, WorldItem};

const EXPORT: &str = "aedile:maintenance/maintenance@0.1.0";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Names of all guests.
///
/// # Panics
/// If the folder cannot be read.
pub fn guests() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder("guests"))
        .expect("the guests are there")
        .map(|entry| {
            let name = entry.expect("a readable folder").file_name();
            let name = name.into_string().expect("a name in UTF-8");
            name.strip_suffix(".wat")
                .expect("nothing but .wat files")
                .to_owned()
        })
        .collect();
    names.sort();
    names
}

/// The module of a guest.
///
/// # Panics
/// If there is no such guest or its text is wrong.
pub fn guest(name: &str) -> Vec<u8> {
    let path = folder("guests").join(format!("{name}.wat"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    module(name, &text)
}

/// The module of a guest's text, under this name.
///
/// # Panics
/// If the text is wrong.
pub fn module(name: &str, text: &str) -> Vec<u8> {
    let code = text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with(";;"))
        .unwrap_or_default();
    if code.starts_with("(module") || code.starts_with("(component") {
        return wat::parse_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let directive = |key: &'static str| {
        text.lines()
            .filter_map(move |line| {
                line.strip_prefix(";; ")?
                    .strip_prefix(key)?
                    .strip_prefix(": ")
            })
            .map(str::trim)
    };
    let mut module = wat::parse_str(format!("(module\n{text}\n{})", rest(text)))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let changes: Vec<(&str, &str)> = directive("wit")
        .map(|change| change.split_once(" => ").expect("old => new"))
        .collect();
    embed(&mut module, &changes);
    let manifest = match directive("manifest").next() {
        Some("none") => return module,
        Some(manifest) => manifest.to_owned(),
        None => {
            let grants: Vec<String> = directive("grants")
                .flat_map(|list| list.split(", "))
                .map(|grant| format!("\"{grant}\""))
                .collect();
            format!(
                r#"{{"name":"{}","version":"0.1.0","grants":[{}],"schedule":{{"interval":"1s"}}}}"#,
                name.replace('_', "-"),
                grants.join(",")
            )
        }
    };
    custom_section(&mut module, MANIFEST_SECTION, manifest.as_bytes());
    module
}

/// A guest as the component that the engine would make of it.
///
/// # Panics
/// If there is no such guest, or it is wrong.
pub fn component(name: &str) -> Vec<u8> {
    wit_component::ComponentEncoder::default()
        .module(&guest(name))
        .and_then(|mut encoder| encoder.encode())
        .unwrap_or_else(|error| panic!("{name}: {error:#}"))
}

/// Append a section to a module or component.
pub fn section(bytes: &mut Vec<u8>, id: u8, contents: &[u8]) {
    bytes.push(id);
    leb(bytes, contents.len());
    bytes.extend_from_slice(contents);
}

/// What a guest does not define itself.
fn rest(text: &str) -> String {
    let mut rest = String::new();
    let mut add = |mark: &str, field: &str| {
        if !text.contains(mark) {
            rest.push_str(field);
            rest.push('\n');
        }
    };
    add("(memory", "(memory (export \"memory\") 4)");
    add(
        "cabi_realloc",
        r#"(global $top (mut i32) (i32.const 65536))
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
            (local.set $at (i32.and (i32.add (global.get $top) (i32.const 15)) (i32.const -16)))
            (global.set $top (i32.add (local.get $at) (local.get 3)))
            (block $fits
                (br_if $fits (i32.le_u (global.get $top) (i32.mul (memory.size) (i32.const 65536))))
                (br_if $fits (i32.ne (i32.const -1) (memory.grow
                    (i32.add (i32.const 1) (i32.div_u (local.get 3) (i32.const 65536))))))
                (unreachable))
            (local.get $at))"#,
    );
    // Nothing but zeros at 1024: `ok`, and a report of nothing.
    for (function, parameters) in [("tick", ""), ("validate-config", "(param i32 i32)")] {
        let export = format!("\"{EXPORT}#{function}\"");
        let field = format!("(func (export {export}) {parameters} (result i32) (i32.const 1024))");
        if text.contains(";; exports: its own") {
            continue;
        }
        add(&export, &field);
    }
    rest
}

/// Add the metadata of the world in `wit/`, changed in places.
///
/// # Panics
/// If the WIT files cannot be read, or a change changes nothing.
pub fn embed(module: &mut Vec<u8>, changes: &[(&str, &str)]) {
    let (resolve, world) = world(changes);
    wit_component::embed_component_metadata(module, &resolve, world, StringEncoding::UTF8)
        .expect("metadata that can be encoded");
}

/// The world `plugin` of the WIT files, changed in places.
fn world(changes: &[(&str, &str)]) -> (Resolve, WorldId) {
    let mut text = String::new();
    let mut files: Vec<PathBuf> = fs::read_dir(folder("../../wit"))
        .expect("the WIT files are there")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    // The file with the package's name comes first.
    files.sort_by_key(|path| (!path.ends_with("types.wit"), path.clone()));
    for file in files {
        text.push_str(&fs::read_to_string(file).expect("a readable WIT file"));
    }
    for (old, new) in changes {
        assert!(text.contains(old), "`{old}` is not in wit/");
        text = text.replace(old, new);
    }
    let mut resolve = Resolve::default();
    let group = UnresolvedPackageGroup::parse("wit", &text).expect("valid WIT");
    let package = resolve.push_group(group).expect("WIT that resolves");
    let world = resolve
        .select_world(&[package], Some("plugin"))
        .expect("the world `plugin`");
    (resolve, world)
}

/// A function that a plugin may import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Its interface: `commands`.
    pub interface: String,
    /// Its name there: `put-kv`.
    pub function: String,
    /// Parameters and results of the core function, as text.
    signature: String,
}

impl Import {
    /// The field of a core module that imports it under this name.
    pub fn field(&self, name: &str) -> String {
        let Self {
            interface,
            function,
            signature,
        } = self;
        format!(
            "(import \"aedile:maintenance/{interface}@0.1.0\" \"{function}\" \
             (func {name} {signature}))"
        )
    }
}

/// Every function that a plugin may import.
///
/// # Panics
/// If the WIT files cannot be read.
pub fn imports() -> Vec<Import> {
    let (resolve, world) = world(&[]);
    let text = |kind: &str, types: &[WasmType]| match types {
        [] => String::new(),
        types => format!(
            "({kind} {})",
            types.iter().map(core).collect::<Vec<_>>().join(" ")
        ),
    };
    let mut found = Vec::new();
    for item in resolve.worlds[world].imports.values() {
        let WorldItem::Interface { id, .. } = item else {
            continue;
        };
        let interface = &resolve.interfaces[*id];
        for function in interface.functions.values() {
            let core = resolve.wasm_signature(AbiVariant::GuestImport, function);
            found.push(Import {
                interface: interface.name.clone().unwrap_or_default(),
                function: function.name.clone(),
                signature: format!(
                    "{} {}",
                    text("param", &core.params),
                    text("result", &core.results)
                ),
            });
        }
    }
    found
}

fn core(kind: &WasmType) -> &'static str {
    match kind {
        WasmType::I32 | WasmType::Pointer | WasmType::Length => "i32",
        WasmType::I64 | WasmType::PointerOrI64 => "i64",
        WasmType::F32 => "f32",
        WasmType::F64 => "f64",
    }
}

fn custom_section(module: &mut Vec<u8>, name: &str, data: &[u8]) {
    let mut body = Vec::new();
    leb(&mut body, name.len());
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    section(module, 0, &body);
}

fn leb(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let byte = (value & 0x7f) as u8;
        value >>= 7;
        if value == 0 {
            return out.push(byte);
        }
        out.push(byte | 0x80);
    }
}
