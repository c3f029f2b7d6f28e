//! One pass over the bytes: what compiling them would cost, whether they are
//! valid, and what they import and export.
//!
//! The bounds are on what grows faster than the bytes do. A few bytes can
//! declare fifty thousand locals or a type of a thousand parameters, and nested
//! components instantiate one another, each level multiplying the one below.

use wasmparser::types::Types;
use wasmparser::{
    BlockType, ComponentInstance, CompositeInnerType, FuncToValidate, FunctionBody, Operator,
    Parser, Payload, ValidPayload, Validator, ValidatorResources, WasmFeatures,
};

use crate::error::LoadError;
use crate::manifest::MANIFEST_SECTION;
use crate::options::EngineOptions;
use crate::text::line;

/// Instantiations of nested components. Sixteen, however they are nested, make
/// fewer than four hundred instances.
const COMPONENT_INSTANCES: u64 = 16;

/// Component and instance types within the types of one section.
const NESTED_TYPES: u64 = 200;

/// What each loop costs for every loop before it in the same function: the
/// compiler relates them to one another.
const LOOP: u64 = 8;

/// What each use of a table of functions costs for every one before it in the
/// same function: the compiler makes blocks of it, to fill the table's entry on
/// its first use. 8192 calls of five bytes each took 4 s, 32768 took 105 s.
const THROUGH_TABLE: u64 = 4;

/// What each entry of a branch table costs for each variable that it may carry.
/// 4096 entries of one byte, with 500 variables, took 49 s and 213 MiB.
const ENTRY: u64 = 4;

/// What one pass over a module or component found.
pub(super) struct Scan {
    /// Imports of nested and outer core modules: module name and item name.
    pub(super) core_imports: Vec<(String, String)>,
    /// Names of what the outermost component imports.
    pub(super) imports: Vec<String>,
    /// Names of what the outermost component exports.
    pub(super) exports: Vec<String>,
    /// Contents of the sections that carry a manifest.
    pub(super) manifests: Vec<Vec<u8>>,
    /// Contents of the sections with WIT metadata.
    pub(super) metadata: Vec<Vec<u8>>,
    /// Bytes of memory taken at the start.
    pub(super) memory: u64,
    /// Types of the outermost component.
    pub(super) types: Types,
}

/// Sums over all nested modules and components.
#[derive(Default)]
struct Cost {
    functions: u64,
    locals: u64,
    flow: u64,
    types: u64,
    items: u64,
    nested: u64,
    component_instances: u64,
    memory: u64,
    table_elements: u64,
}

impl Scan {
    pub(super) fn of(bytes: &[u8], options: &EngineOptions) -> Result<Self, LoadError> {
        // Costs first: validating is cheap, but not free.
        let mut pass = Pass::new(bytes, options);
        for payload in Parser::new(0).parse_all(bytes) {
            pass.payload(&payload.map_err(invalid)?)?;
        }
        let types = validate(bytes)?;
        Ok(Self {
            core_imports: pass.core_imports,
            imports: pass.imports,
            exports: pass.exports,
            manifests: pass.manifests,
            metadata: pass.metadata,
            memory: pass.cost.memory,
            types,
        })
    }
}

struct Pass<'o> {
    bytes: &'o [u8],
    options: &'o EngineOptions,
    cost: Cost,
    depth: u32,
    /// How many parameters each type of the current core module has.
    signatures: Vec<u64>,
    core_imports: Vec<(String, String)>,
    imports: Vec<String>,
    exports: Vec<String>,
    manifests: Vec<Vec<u8>>,
    metadata: Vec<Vec<u8>>,
}

impl<'o> Pass<'o> {
    fn new(bytes: &'o [u8], options: &'o EngineOptions) -> Self {
        Self {
            bytes,
            options,
            cost: Cost::default(),
            depth: 0,
            signatures: Vec::new(),
            core_imports: Vec::new(),
            imports: Vec::new(),
            exports: Vec::new(),
            manifests: Vec::new(),
            metadata: Vec::new(),
        }
    }

    fn payload(&mut self, payload: &Payload<'_>) -> Result<(), LoadError> {
        let options = self.options;
        let outermost = self.depth == 0;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => {
                self.depth += 1;
                add(
                    &mut self.cost.nested,
                    1,
                    "the number of nested modules",
                    options.nested,
                )
            }
            Payload::End(_) => {
                self.depth = self.depth.saturating_sub(1);
                Ok(())
            }
            Payload::CustomSection(section) => {
                if section.name() == MANIFEST_SECTION {
                    self.manifests.push(section.data().to_vec());
                }
                if section.name().starts_with("component-type") {
                    self.metadata.push(section.data().to_vec());
                }
                Ok(())
            }
            Payload::Version { .. } => {
                self.signatures.clear();
                Ok(())
            }
            Payload::TypeSection(section) => {
                self.types(section.count())?;
                for group in section.clone() {
                    for ty in group.map_err(invalid)?.types() {
                        self.signature(&ty.composite_type.inner)?;
                    }
                }
                Ok(())
            }
            Payload::CoreTypeSection(section) => self.types(section.count()),
            Payload::ComponentTypeSection(section) => {
                shallow(self.bytes, section.range())?;
                self.types(section.count())
            }
            Payload::ImportSection(section) => {
                for import in section.clone().into_imports() {
                    let import = import.map_err(invalid)?;
                    self.items(1)?;
                    self.core_imports
                        .push((import.module.to_owned(), import.name.to_owned()));
                }
                Ok(())
            }
            Payload::ComponentImportSection(section) => {
                self.items(section.count())?;
                if outermost {
                    for import in section.clone() {
                        self.imports
                            .push(import.map_err(invalid)?.name.name.to_owned());
                    }
                }
                Ok(())
            }
            Payload::ComponentExportSection(section) => {
                self.items(section.count())?;
                if outermost {
                    for export in section.clone() {
                        self.exports
                            .push(export.map_err(invalid)?.name.name.to_owned());
                    }
                }
                Ok(())
            }
            Payload::ExportSection(section) => self.items(section.count()),
            Payload::GlobalSection(section) => self.items(section.count()),
            Payload::ElementSection(section) => self.items(section.count()),
            Payload::DataSection(section) => self.items(section.count()),
            Payload::TagSection(section) => self.items(section.count()),
            Payload::InstanceSection(section) => self.items(section.count()),
            Payload::ComponentAliasSection(section) => self.items(section.count()),
            Payload::ComponentCanonicalSection(section) => self.items(section.count()),
            Payload::ComponentInstanceSection(section) => {
                self.items(section.count())?;
                for instance in section.clone() {
                    if let ComponentInstance::Instantiate { .. } = instance.map_err(invalid)? {
                        add(
                            &mut self.cost.component_instances,
                            1,
                            "the number of component instances",
                            COMPONENT_INSTANCES,
                        )?;
                    }
                }
                Ok(())
            }
            Payload::MemorySection(section) => {
                self.items(section.count())?;
                for memory in section.clone() {
                    let memory = memory.map_err(invalid)?;
                    let page = 1_u64
                        .checked_shl(memory.page_size_log2.unwrap_or(16))
                        .unwrap_or(u64::MAX);
                    let bytes = memory.initial.saturating_mul(page);
                    self.cost.memory = self.cost.memory.saturating_add(bytes);
                }
                if self.cost.memory > options.initial_memory {
                    return Err(LoadError::InitialMemory {
                        found: self.cost.memory,
                        limit: options.initial_memory,
                    });
                }
                Ok(())
            }
            Payload::TableSection(section) => {
                self.items(section.count())?;
                for table in section.clone() {
                    add(
                        &mut self.cost.table_elements,
                        table.map_err(invalid)?.ty.initial,
                        "the number of table elements at its start",
                        options.initial_table_elements,
                    )?;
                }
                Ok(())
            }
            Payload::FunctionSection(section) => add(
                &mut self.cost.functions,
                u64::from(section.count()),
                "the number of functions",
                options.functions,
            ),
            Payload::CodeSectionEntry(body) => self.body(body),
            _ => Ok(()),
        }
    }

    fn signature(&mut self, ty: &CompositeInnerType) -> Result<(), LoadError> {
        let (params, results) = match ty {
            CompositeInnerType::Func(ty) => (ty.params().len() as u64, ty.results().len() as u64),
            _ => (0, 0),
        };
        at_most(
            params,
            "the number of parameters of a function",
            self.options.params,
        )?;
        at_most(
            results,
            "the number of results of a function",
            self.options.results,
        )?;
        self.signatures.push(params);
        Ok(())
    }

    fn body(&mut self, body: &FunctionBody<'_>) -> Result<(), LoadError> {
        at_most(
            body.range().len() as u64,
            "the size of a function in bytes",
            self.options.function_bytes,
        )?;
        let mut locals: u64 = 0;
        for group in body.get_locals_reader().map_err(invalid)? {
            let (count, _) = group.map_err(invalid)?;
            locals = locals.saturating_add(u64::from(count));
            add(
                &mut self.cost.locals,
                u64::from(count),
                "the number of local variables",
                self.options.locals,
            )?;
        }
        self.flow(body, locals)
    }

    /// Blocks and branches. Parameters are few enough to be left out.
    fn flow(&mut self, body: &FunctionBody<'_>, locals: u64) -> Result<(), LoadError> {
        let (mut flow, mut depth, mut loops, mut through_table) = (0_u64, 0_u64, 0_u64, 0_u64);
        for operator in body.get_operators_reader().map_err(invalid)? {
            let mut cost = locals;
            match operator.map_err(invalid)? {
                Operator::Loop { blockty } => {
                    self.block(blockty)?;
                    cost += LOOP * loops;
                    loops += 1;
                    depth += 1;
                }
                Operator::Block { blockty } | Operator::If { blockty } => {
                    self.block(blockty)?;
                    depth += 1;
                }
                Operator::End => {
                    depth = depth.saturating_sub(1);
                    continue;
                }
                Operator::BrTable { targets } => {
                    let entries = u64::from(targets.len()) + 1;
                    let each = ENTRY.saturating_mul(locals + depth) + entries;
                    cost = cost.saturating_add(entries.saturating_mul(each));
                }
                Operator::CallIndirect { .. }
                | Operator::ReturnCallIndirect { .. }
                | Operator::CallRef { .. }
                | Operator::ReturnCallRef { .. }
                | Operator::TableGet { .. } => {
                    cost += THROUGH_TABLE * through_table;
                    through_table += 1;
                }
                Operator::Else
                | Operator::BrIf { .. }
                | Operator::BrOnNull { .. }
                | Operator::BrOnNonNull { .. } => {}
                _ => continue,
            }
            add(
                &mut flow,
                cost.saturating_add(depth),
                "the flow of a function (blocks, branches and calls through tables, by local \
                 variables and by those before)",
                self.options.function_flow,
            )?;
        }
        add(
            &mut self.cost.flow,
            flow,
            "the flow of all functions",
            self.options.flow,
        )
    }

    fn block(&self, ty: BlockType) -> Result<(), LoadError> {
        let BlockType::FuncType(index) = ty else {
            return Ok(());
        };
        let params = usize::try_from(index)
            .ok()
            .and_then(|index| self.signatures.get(index));
        at_most(
            params.copied().unwrap_or_default(),
            "the number of parameters of a block",
            self.options.results,
        )
    }

    fn types(&mut self, count: u32) -> Result<(), LoadError> {
        let limit = self.options.types;
        add(
            &mut self.cost.types,
            u64::from(count),
            "the number of types",
            limit,
        )
    }

    fn items(&mut self, count: u32) -> Result<(), LoadError> {
        let limit = self.options.items;
        add(
            &mut self.cost.items,
            u64::from(count),
            "the number of imports, exports and other items",
            limit,
        )
    }
}

fn add(sum: &mut u64, more: u64, what: &'static str, limit: u64) -> Result<(), LoadError> {
    *sum = sum.saturating_add(more);
    at_most(*sum, what, limit)
}

fn at_most(found: u64, what: &'static str, limit: u64) -> Result<(), LoadError> {
    if found > limit {
        return Err(LoadError::TooComplex { what, found, limit });
    }
    Ok(())
}

/// The same features as the engine's own: no garbage collection, no threads, no
/// exceptions.
fn features() -> WasmFeatures {
    WasmFeatures::WASM3
        .difference(WasmFeatures::GC_TYPES | WasmFeatures::EXCEPTIONS | WasmFeatures::THREADS)
        .union(WasmFeatures::COMPONENT_MODEL)
}

fn validate(bytes: &[u8]) -> Result<Types, LoadError> {
    let mut validator = Validator::new_with_features(features());
    let mut bodies: Vec<(FuncToValidate<ValidatorResources>, FunctionBody<'_>)> = Vec::new();
    let mut outermost = None;
    for payload in Parser::new(0).parse_all(bytes) {
        match validator
            .payload(&payload.map_err(invalid)?)
            .map_err(invalid)?
        {
            ValidPayload::Func(function, body) => bodies.push((function, body)),
            ValidPayload::End(types) => outermost = Some(types),
            ValidPayload::Ok | ValidPayload::Parser(_) => {}
        }
    }
    let mut allocations = wasmparser::FuncValidatorAllocations::default();
    for (function, body) in bodies {
        let mut function = function.into_validator(allocations);
        function.validate(&body).map_err(invalid)?;
        allocations = function.into_allocations();
    }
    outermost.ok_or_else(|| LoadError::Invalid {
        detail: "it ends too early".to_owned(),
    })
}

/// Whether the types of a section are nested no deeper than a stack can take:
/// the parser reads a type within a type by calling itself, without a bound.
///
/// Each level is announced by the byte 1 (a type) and 0x41 or 0x42 (of a
/// component or an instance), so counting such pairs, some of which are
/// something else, gives a bound without reading the types.
pub(super) fn shallow(bytes: &[u8], section: std::ops::Range<usize>) -> Result<(), LoadError> {
    let pairs = bytes
        .get(section)
        .unwrap_or_default()
        .windows(2)
        .filter(|pair| matches!(pair, [1, 0x41 | 0x42]))
        .count();
    at_most(
        pairs as u64,
        "the number of types within types",
        NESTED_TYPES,
    )
}

pub(super) fn invalid(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Invalid {
        detail: line(&error.to_string()),
    }
}
