//! Tests: contract.
