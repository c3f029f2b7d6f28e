//! How an engine is set up.

use std::time::Duration;

/// How an engine is set up. Its bounds keep what a module can cost before it
/// has run at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Whether the instructions of a tick are counted, in wasmtime's unit of
    /// fuel: [`Usage::fuel`](crate::Usage::fuel). The count is the same on every
    /// machine; it slows plugins down, so it is for measuring them. Default:
    /// false.
    pub count_fuel: bool,
    /// Longest time for one compilation, the wait for a free place included. A
    /// compilation that takes longer cannot be killed, but it keeps its place,
    /// so that no more than `compilations` ever run on. 1 s to 10 min.
    pub compile_timeout: Duration,
    /// Compilations at a time; 1 to 16.
    pub compilations: usize,
    /// Size of a module or component, in bytes; up to 256 MiB.
    pub module_bytes: usize,
    /// Functions, summed over the nested modules.
    pub functions: u64,
    /// Size of one function's body, in bytes. That of CPython's interpreter loop
    /// is 417 KiB, with a flow of 35 million.
    pub function_bytes: u64,
    /// Local variables, summed over all functions: a few bytes can declare
    /// fifty thousand, and each costs the compiler.
    pub locals: u64,
    /// Parameters of a function: a call passes them all with two bytes of code.
    pub params: u64,
    /// Results of a function, and parameters and results of a block: a call or
    /// a branch of two bytes makes or passes them all. Compilers use one.
    pub results: u64,
    /// Flow of one function: for each block, branch and call through a table, the
    /// local variables that it may carry and how deep it is nested; for a loop,
    /// eight times the loops before it, and for a call through a table, four
    /// times the calls before it; a branch table counts four times for each of
    /// its entries, and the square of them. The compiler's time and memory grow
    /// with it, and it can be the square of the bytes.
    pub function_flow: u64,
    /// Flow, summed over all functions.
    pub flow: u64,
    /// Types, summed over the nested modules and components.
    pub types: u64,
    /// Imports, exports, aliases and instances, summed over the nested modules
    /// and components.
    pub items: u64,
    /// Nested modules and components.
    pub nested: u64,
    /// Smallest memory that a module may ask for at its start, in bytes, summed
    /// over its memories.
    pub initial_memory: u64,
    /// Smallest number of table elements that a module may ask for at its
    /// start, summed over its tables.
    pub initial_table_elements: u64,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            count_fuel: false,
            compile_timeout: Duration::from_secs(60),
            compilations: 2,
            module_bytes: 32 << 20,
            functions: 50_000,
            function_bytes: 512 << 10,
            locals: 2_000_000,
            params: 128,
            results: 4,
            function_flow: 36_000_000,
            flow: 400_000_000,
            types: 50_000,
            items: 200_000,
            nested: 200,
            initial_memory: 64 << 20,
            initial_table_elements: 100_000,
        }
    }
}

/// An option that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("engine option {option} must be {range}")]
pub struct OptionsError {
    /// Which option.
    pub option: &'static str,
    /// What it may be.
    pub range: &'static str,
}

impl EngineOptions {
    /// Check the ranges.
    ///
    /// # Errors
    /// The first option that is out of its range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        let time = Duration::from_secs(1)..=Duration::from_secs(600);
        if !time.contains(&self.compile_timeout) {
            return Err(OptionsError {
                option: "compile_timeout",
                range: "1 s to 10 min",
            });
        }
        if !(1..=16).contains(&self.compilations) {
            return Err(OptionsError {
                option: "compilations",
                range: "1 to 16",
            });
        }
        if !(8..=256 << 20).contains(&self.module_bytes) {
            return Err(OptionsError {
                option: "module_bytes",
                range: "8 bytes to 256 MiB",
            });
        }
        Ok(())
    }
}
