//! Runs one tick of a Wasm plugin within its limits and grants.
