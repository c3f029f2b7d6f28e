//! `metrics`: figures under the plugin's name.

use crate::bindings::generated::aedile::maintenance::metrics::Host;
use crate::run::context::Context;

/// Names that one tick may use.
const NAMES: usize = 64;

/// Longest name, in bytes.
const NAME_BYTES: usize = 64;

impl Context {
    /// Whether a figure may be set; counts it as dropped if not.
    fn takes(&mut self, name: &str, known: bool, other_kind: bool) -> bool {
        let metrics = &mut self.metrics;
        let names = metrics.counters.len() + metrics.gauges.len();
        let takes = well_formed(name) && !other_kind && (known || names < NAMES);
        if !takes {
            metrics.dropped = metrics.dropped.saturating_add(1);
        }
        takes
    }
}

/// Lower-case words joined by underscores.
fn well_formed(name: &str) -> bool {
    name.len() <= NAME_BYTES
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.split('_').all(|word| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        })
}

impl Host for Context {
    fn count(&mut self, name: String, by: u64) -> wasmtime::Result<()> {
        let known = self.metrics.counters.contains_key(&name);
        let other_kind = self.metrics.gauges.contains_key(&name);
        if self.takes(&name, known, other_kind) {
            let counter = self.metrics.counters.entry(name).or_default();
            *counter = counter.saturating_add(by);
        }
        Ok(())
    }

    fn gauge(&mut self, name: String, value: f64) -> wasmtime::Result<()> {
        let known = self.metrics.gauges.contains_key(&name);
        let other_kind = self.metrics.counters.contains_key(&name) || !value.is_finite();
        if self.takes(&name, known, other_kind) {
            self.metrics.gauges.insert(name, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::well_formed;

    #[test]
    fn names_are_lower_case_words_joined_by_underscores() {
        for name in ["a", "objects_deleted", "p99_ms", &"a".repeat(64)] {
            assert!(well_formed(name), "{name}");
        }
        for name in [
            "",
            "_a",
            "a_",
            "a__b",
            "A",
            "9a",
            "a-b",
            "a b",
            "ä",
            "a\n",
            &"a".repeat(65),
        ] {
            assert!(!well_formed(name), "{name}");
        }
    }
}
