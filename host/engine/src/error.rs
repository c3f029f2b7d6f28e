//! Why an engine does not start and why a module is refused.

use std::time::Duration;

use crate::grant::Grant;
use crate::manifest::ManifestError;
use crate::options::OptionsError;

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// An option is out of its range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// This machine or build cannot run what the engine needs.
    #[error("the Wasm engine does not start: {0}")]
    Setup(String),
    /// The thread that interrupts plugins did not start.
    #[error("the thread that interrupts plugins did not start")]
    Ticker(#[source] std::io::Error),
}

/// Why a module is refused. The text says what it is and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not Wasm.
    #[error("it is not a Wasm module or component: {found}")]
    NotWasm {
        /// What it seems to be.
        found: String,
    },
    /// It is larger than allowed.
    #[error(
        "it has {size} bytes; at most {limit} are allowed (strip debug sections, or optimise for size)"
    )]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The bound in bytes.
        limit: usize,
    },
    /// It would cost too much to compile.
    #[error("it would cost too much to compile: {what} is {found}, at most {limit} is allowed")]
    TooComplex {
        /// What there is too much of.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// The bound.
        limit: u64,
    },
    /// It asks for more memory at its start than allowed.
    #[error(
        "it asks for {found} bytes of memory at its start; at most {limit} are allowed \
         (C: lower the stack, as by -Wl,-z,stack-size=65536)"
    )]
    InitialMemory {
        /// What it asks for, in bytes.
        found: u64,
        /// The bound in bytes.
        limit: u64,
    },
    /// It uses a feature of Wasm that is off, as garbage collection or threads,
    /// or it is broken.
    #[error("it is not valid here: {detail}")]
    Invalid {
        /// What the validator says.
        detail: String,
    },
    /// A core module for WASI preview 1.
    #[error(
        "it is a core module for WASI preview 1 (it imports `{import}`), which is not served; \
         rebuild it without WASI: cargo build --release --target wasm32-unknown-unknown"
    )]
    Preview1 {
        /// The first such import.
        import: String,
    },
    /// A core module that does not say which world it is for.
    #[error(
        "it is a core module without WIT metadata, so it was not built for the world \
         `aedile:maintenance/plugin`: build it with bindings for that world \
         (in Rust, the crate `aedile-plugin`)"
    )]
    NoWorld,
    /// A core module that cannot be made a component.
    #[error("it is a core module that cannot be made a component: {detail}")]
    Wrap {
        /// What is wrong.
        detail: String,
    },
    /// It imports what the world does not have.
    #[error(
        "it imports `{import}`, which is not part of the world `aedile:maintenance/plugin`{}",
        import_hint(import)
    )]
    ForeignImport {
        /// The first such import.
        import: String,
    },
    /// It is built for a version of the package that is not served.
    #[error(
        "it is built for `{found}`; this host serves {served}: rebuild it with the WIT files of \
         that version, or run a host that serves its version"
    )]
    WrongVersion {
        /// Its import or export, with the version.
        found: String,
        /// The version served.
        served: &'static str,
    },
    /// It does not export what a plugin exports.
    #[error(
        "it does not export `{missing}`, so it is no plugin (it exports {found}): \
         build it for the world `aedile:maintenance/plugin`"
    )]
    MissingExport {
        /// What is missing.
        missing: String,
        /// What it exports instead.
        found: String,
    },
    /// It calls a function that this host does not have.
    #[error(
        "it calls `{function}` of `{interface}`, which this host does not have: it is built for a \
         newer host; upgrade this one, or build it against the WIT files of {served}"
    )]
    UnknownFunction {
        /// The interface.
        interface: String,
        /// The function.
        function: String,
        /// The version served.
        served: &'static str,
    },
    /// It imports what it was not granted.
    #[error(
        "it imports `{grant}`, which is not granted; add \"{grant}\" to the plugin's `grants`{}",
        destructive(grant)
    )]
    NotGranted {
        /// What is not granted.
        grant: Grant,
    },
    /// It imports what its own manifest does not ask for.
    #[error(
        "it imports `{grant}`, which its manifest does not ask for; add \"{grant}\" to the manifest's `grants`"
    )]
    NotRequested {
        /// What it does not ask for.
        grant: Grant,
    },
    /// Its manifest is missing or wrong.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A function or type differs from the one in `wit/`.
    #[error(
        "its imports or exports do not fit `wit/` of {served}: {detail}; rebuild it with the WIT \
         files of that version"
    )]
    Mismatch {
        /// What differs.
        detail: String,
        /// The version served.
        served: &'static str,
    },
    /// The compiler refuses it.
    #[error("it does not compile: {detail}")]
    Compile {
        /// What the compiler says.
        detail: String,
    },
    /// Compiling took too long.
    #[error("it was not compiled within {limit:?}; make it smaller, or raise the compile timeout")]
    CompileTimeout {
        /// The bound.
        limit: Duration,
    },
    /// The compiler failed on it in a way that it should not.
    #[error("the compiler failed on it: {detail}")]
    CompilerPanic {
        /// What it said.
        detail: String,
    },
}

fn import_hint(import: &str) -> &'static str {
    if import.starts_with("wasi:http") || import.starts_with("wasi:sockets") {
        ": a plugin has no network (componentize-js: disable the features http and fetch-event)"
    } else if import.starts_with("wasi:") {
        ": WASI is not served (Rust: build for wasm32-unknown-unknown; componentize-js: disable \
         its features; componentize-py: --stub-wasi)"
    } else {
        ""
    }
}

fn destructive(grant: &Grant) -> &'static str {
    if grant.destructive() {
        " if you mean it: the grant is destructive, it can take live data out of the catalog"
    } else {
        ""
    }
}
