//! End-to-end tests, as one binary: their waits overlap.

mod bad_input;
mod captured;
mod database;
mod deploy_cli;
mod deploy_nodes;
mod deploy_refused;
mod divergence;
mod overlap;
mod parked;
mod plugins;
mod shipped;
mod storage;
mod storage_ledger;
mod supply;
mod swap;
mod swap_ticks;
mod swaps;
mod takeover;
