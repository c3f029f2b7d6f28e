//! The interfaces of `wit/`, one file each.

mod commands;
mod job;
mod logging;
mod metrics;
mod state;
mod storage;

use super::context::Context;
use crate::bindings::generated::aedile::maintenance::types;

impl types::Host for Context {}
