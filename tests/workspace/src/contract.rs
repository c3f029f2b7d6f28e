//! What is generated from the contract in `wit/`: its page in the docs, and the
//! bindings for C.

use std::fmt::Write as _;

use wit_bindgen_core::Files;
use wit_parser::{
    Docs, Function, Interface, InterfaceId, Resolve, Type, TypeDef, TypeDefKind, TypeId, WorldId,
    WorldItem,
};

use crate::root;

/// Where the page lies.
pub const PAGE: &str = "docs/wit.md";

/// Where the bindings for C lie.
pub const C: &str = "sdk/c/bindings";

const HEAD: &str = "\
# The contract, item by item

Made from [`wit/`](../wit) by `make generated`; change it there.

What a plugin can call and what the host calls is all here. [plugins.md](plugins.md)
tells how the parts go together, [`sdk/`](../sdk) has them in each language.
";

/// All that is generated: paths and contents.
#[must_use]
pub fn generated() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![(PAGE.to_owned(), page().0.into_bytes())];
    files.extend(c());
    files
}

fn resolve() -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit")).expect("valid WIT");
    let world = resolve.select_world(&[package], Some("plugin"));
    (resolve, world.expect("the world `plugin`"))
}

fn c() -> Vec<(String, Vec<u8>)> {
    let (mut resolve, world) = resolve();
    let mut files = Files::default();
    wit_bindgen_c::Opts::default()
        .build()
        .generate(&mut resolve, world, &mut files)
        .expect("bindings for C");
    files
        .iter()
        .map(|(name, bytes)| (format!("{C}/{name}"), bytes.to_vec()))
        .collect()
}

/// The page, and the items that have no text.
#[must_use]
pub fn page() -> (String, Vec<String>) {
    let (resolve, world) = resolve();
    let mut page = Page {
        resolve: &resolve,
        text: HEAD.to_owned(),
        bare: Vec::new(),
    };
    page.world(world);
    let text = page.text.replace("\n\n\n", "\n\n").trim_end().to_owned() + "\n";
    (text, page.bare)
}

struct Page<'a> {
    resolve: &'a Resolve,
    text: String,
    bare: Vec<String>,
}

impl Page<'_> {
    fn world(&mut self, id: WorldId) {
        let world = &self.resolve.worlds[id];
        let package = world.package.map(|id| &self.resolve.packages[id].name);
        let package = package.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(self.text, "\n## World `{}` of `{package}`\n", world.name);
        self.docs(&world.name, &world.docs);
        self.text
            .push_str("| interface | | grant |\n|---|---|---|\n");
        let side = |items: &mut dyn Iterator<Item = &WorldItem>| -> Vec<InterfaceId> {
            let mut ids: Vec<_> = items.filter_map(interface).collect();
            ids.sort_by_key(|id| {
                let name = self.resolve.interfaces[*id].name.as_deref();
                ORDER.iter().position(|known| Some(*known) == name)
            });
            ids
        };
        let (imports, exports) = (
            side(&mut world.imports.values()),
            side(&mut world.exports.values()),
        );
        for (ids, called) in [
            (&imports, "a plugin calls it"),
            (&exports, "the host calls it"),
        ] {
            for &id in ids {
                let name = self.name(id).to_owned();
                let grant = match name.as_str() {
                    "commands" | "storage" => format!("`{name}.<function>`"),
                    "state" | "metrics" => format!("`{name}`"),
                    _ => "none needed".to_owned(),
                };
                let called = if name == "types" {
                    "words of the others"
                } else {
                    called
                };
                let _ = writeln!(
                    self.text,
                    "| [`{name}`](#interface-{name}) | {called} | {grant} |"
                );
            }
        }
        for id in imports.into_iter().chain(exports) {
            self.interface(id);
        }
    }

    fn name(&self, id: InterfaceId) -> &str {
        self.resolve.interfaces[id].name.as_deref().expect("a name")
    }

    fn interface(&mut self, id: InterfaceId) {
        let interface: &Interface = &self.resolve.interfaces[id];
        let name = self.name(id).to_owned();
        let _ = writeln!(self.text, "\n## Interface `{name}`\n");
        self.docs(&name, &interface.docs);
        if !interface.functions.is_empty() {
            self.text.push_str("### Functions\n\n");
        }
        for function in interface.functions.values() {
            self.function(&name, function);
        }
        let types: Vec<_> = interface
            .types
            .values()
            .map(|&id| &self.resolve.types[id])
            .filter(|ty| !self.is_used(ty))
            .collect();
        if !types.is_empty() {
            self.text.push_str("### Types\n\n");
        }
        for ty in types {
            self.ty(&name, ty);
        }
    }

    /// Whether a type is another interface's, made known by a `use`.
    fn is_used(&self, ty: &TypeDef) -> bool {
        match ty.kind {
            TypeDefKind::Type(Type::Id(id)) => self.resolve.types[id].owner != ty.owner,
            _ => false,
        }
    }

    fn function(&mut self, interface: &str, function: &Function) {
        let params: Vec<_> = function
            .params
            .iter()
            .map(|param| format!("{}: {}", param.name, self.written(param.ty)))
            .collect();
        let result = function
            .result
            .map(|ty| format!(" -> {}", self.written(ty)));
        let _ = writeln!(
            self.text,
            "`{}: func({}){}`\n",
            function.name,
            params.join(", "),
            result.unwrap_or_default()
        );
        self.docs(&format!("{interface}.{}", function.name), &function.docs);
    }

    fn ty(&mut self, interface: &str, ty: &TypeDef) {
        let name = ty.name.as_deref().expect("a name");
        let path = format!("{interface}.{name}");
        let (head, rows): (_, Vec<_>) = match &ty.kind {
            TypeDefKind::Record(record) => {
                let rows = record.fields.iter();
                let row = |field: &wit_parser::Field| {
                    let name = format!("{}: {}", field.name, self.written(field.ty));
                    (name, field.docs.clone())
                };
                ("record", rows.map(row).collect())
            }
            TypeDefKind::Variant(variant) => {
                let rows = variant.cases.iter();
                let row = |case: &wit_parser::Case| {
                    let payload = case.ty.map(|ty| format!("({})", self.written(ty)));
                    (
                        case.name.clone() + &payload.unwrap_or_default(),
                        case.docs.clone(),
                    )
                };
                ("variant", rows.map(row).collect())
            }
            TypeDefKind::Enum(cases) => {
                let rows = cases.cases.iter();
                let row = |case: &wit_parser::EnumCase| (case.name.clone(), case.docs.clone());
                ("enum", rows.map(row).collect())
            }
            TypeDefKind::Type(other) => {
                let _ = writeln!(self.text, "`type {name} = {}`\n", self.written(*other));
                return self.docs(&path, &ty.docs);
            }
            other => panic!("{path}: the page does not know a {} yet", other.as_str()),
        };
        let _ = writeln!(self.text, "`{head} {name}`\n");
        self.docs(&path, &ty.docs);
        self.text.push_str("| | |\n|---|---|\n");
        for (item, docs) in rows {
            let text = docs.contents.unwrap_or_default().replace('\n', " ");
            if text.is_empty() {
                self.bare.push(format!("{path}.{item}"));
            }
            let _ = writeln!(
                self.text,
                "| `{item}` | {} |",
                text.trim().replace('|', "\\|")
            );
        }
        self.text.push('\n');
    }

    fn docs(&mut self, item: &str, docs: &Docs) {
        match docs.contents.as_deref().map(str::trim) {
            None | Some("") => self.bare.push(item.to_owned()),
            Some(text) => {
                let _ = writeln!(self.text, "{text}\n");
            }
        }
    }

    /// A type as WIT writes it.
    fn written(&self, ty: Type) -> String {
        let name = match ty {
            Type::Bool => "bool",
            Type::U8 => "u8",
            Type::U16 => "u16",
            Type::U32 => "u32",
            Type::U64 => "u64",
            Type::S8 => "s8",
            Type::S16 => "s16",
            Type::S32 => "s32",
            Type::S64 => "s64",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::Char => "char",
            Type::String => "string",
            Type::ErrorContext => "error-context",
            Type::Id(id) => return self.defined(id),
        };
        name.to_owned()
    }

    fn defined(&self, id: TypeId) -> String {
        let ty = &self.resolve.types[id];
        if let Some(name) = &ty.name {
            return name.clone();
        }
        let part = |ty: &Option<Type>| ty.map_or_else(|| "_".to_owned(), |ty| self.written(ty));
        match &ty.kind {
            TypeDefKind::List(of) => format!("list<{}>", self.written(*of)),
            TypeDefKind::Option(of) => format!("option<{}>", self.written(*of)),
            TypeDefKind::Result(of) => match of.err {
                None => format!("result<{}>", part(&of.ok)),
                Some(_) => format!("result<{}, {}>", part(&of.ok), part(&of.err)),
            },
            TypeDefKind::Tuple(of) => {
                let parts: Vec<_> = of.types.iter().map(|ty| self.written(*ty)).collect();
                format!("tuple<{}>", parts.join(", "))
            }
            other => panic!("the page does not know a {} yet", other.as_str()),
        }
    }
}

/// The order of the interfaces on the page.
const ORDER: [&str; 8] = [
    "maintenance",
    "job",
    "logging",
    "state",
    "commands",
    "storage",
    "metrics",
    "types",
];

fn interface(item: &WorldItem) -> Option<InterfaceId> {
    match item {
        WorldItem::Interface { id, .. } => Some(*id),
        _ => None,
    }
}
