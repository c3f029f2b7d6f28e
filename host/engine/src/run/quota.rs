//! Memory and tables.

use wasmtime::ResourceLimiter;

use super::end::Ended;
use crate::limits::{LimitName, Limits};

/// Core instances, memories and tables of one tick: more than any module that
/// loads can ask for sensibly.
const COUNT: usize = 1000;

/// What a tick has taken of memory and tables, and what it may.
#[derive(Debug)]
pub(crate) struct Quota {
    memory: usize,
    memory_limit: usize,
    /// Largest sum of memories, in bytes.
    pub(crate) peak: usize,
    elements: usize,
    element_limit: usize,
}

impl Quota {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            memory: 0,
            memory_limit: limits.memory,
            peak: 0,
            elements: 0,
            element_limit: limits.table_elements,
        }
    }
}

/// The sum after growing, unless it exceeds the limit.
fn grown(sum: usize, current: usize, desired: usize, limit: usize) -> Option<usize> {
    sum.checked_add(desired.saturating_sub(current))
        .filter(|sum| *sum <= limit)
}

// An error ends the tick and says which limit it was. `Ok(false)` would let the
// plugin see a failed allocation, and most answer that with a bare trap.
impl ResourceLimiter for Quota {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        match grown(self.memory, current, desired, self.memory_limit) {
            Some(sum) => {
                self.memory = sum;
                self.peak = self.peak.max(sum);
                Ok(true)
            }
            None => Err(Ended::limit(
                LimitName::Memory,
                format!(
                    "its memory was to grow from {current} to {desired} bytes; it may have {} in all",
                    self.memory_limit
                ),
            )
            .into()),
        }
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        match grown(self.elements, current, desired, self.element_limit) {
            Some(sum) => {
                self.elements = sum;
                Ok(true)
            }
            None => Err(Ended::limit(
                LimitName::TableElements,
                format!(
                    "a table was to grow from {current} to {desired} elements; {} are allowed in all",
                    self.element_limit
                ),
            )
            .into()),
        }
    }

    fn instances(&self) -> usize {
        COUNT
    }

    fn tables(&self) -> usize {
        COUNT
    }

    fn memories(&self) -> usize {
        COUNT
    }
}
