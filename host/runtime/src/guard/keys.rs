//! Which keys of the key-value map a plugin may write.

/// The control range: Aedile's own keys.
const CONTROL: &str = "aedile/";
/// The part of it where plugins have their keys.
const PLUGINS: &str = "aedile/kv/";
/// Longest key that is proposed, in bytes.
const LONGEST: usize = 1024;

/// The rule for one plugin.
#[derive(Clone, Debug)]
pub(crate) struct KeyRule {
    own: String,
    granted: Vec<String>,
}

impl KeyRule {
    /// The plugin's own prefix, and those that the operator granted.
    pub(crate) fn new(plugin: &str, granted: Vec<String>) -> Self {
        Self {
            own: format!("{PLUGINS}{plugin}/"),
            granted,
        }
    }

    /// Why a key may not be written; `Ok` if it may.
    pub(crate) fn check(&self, key: &str) -> Result<(), String> {
        if key.len() > LONGEST {
            return Err(format!(
                "a key has at most {LONGEST} bytes, this one {}",
                key.len()
            ));
        }
        if below(key, &self.own) {
            return Ok(());
        }
        // Whatever was granted, the control range outside the plugins' part is
        // never writable: deployments live there.
        let control = key.starts_with(CONTROL) && !key.starts_with(PLUGINS);
        let granted = self
            .granted
            .iter()
            .filter(|prefix| !key.starts_with(CONTROL) || prefix.starts_with(PLUGINS))
            .any(|prefix| below(key, prefix));
        if granted && !control {
            return Ok(());
        }
        Err(format!(
            "the key `{}` is neither below `{}` nor below a granted prefix (`kv-prefixes`)",
            key.escape_debug(),
            self.own
        ))
    }
}

fn below(key: &str, prefix: &str) -> bool {
    !prefix.is_empty() && key.len() > prefix.len() && key.starts_with(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_and_granted_prefixes_only() {
        let rule = KeyRule::new(
            "ttl",
            vec![
                "tmp/".to_owned(),
                "a".to_owned(),
                "aedile/kv/other/".to_owned(),
                String::new(),
            ],
        );
        for allowed in ["aedile/kv/ttl/x", "tmp/x", "abc", "aedile/kv/other/x"] {
            assert_eq!(rule.check(allowed), Ok(()), "{allowed}");
        }
        for refused in [
            "aedile/kv/ttl/",
            "aedile/kv/ttl",
            "aedile/kv/ttl2/x",
            "aedile/kv/third/x",
            "aedile/plugins/x",
            "aedile/",
            "/stream",
            "tmp/",
            "",
            "z",
        ] {
            assert!(rule.check(refused).is_err(), "{refused}");
        }
        assert!(rule.check(&format!("tmp/{}", "x".repeat(LONGEST))).is_err());
    }

    proptest::proptest! {
        /// Whatever is granted, and however a key is spelt.
        #[test]
        fn the_control_range_is_never_writable(
            parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..6),
            prefixes in proptest::collection::vec(
                proptest::collection::vec(proptest::sample::select(PARTS), 0..4), 0..4),
        ) {
            let granted = prefixes.iter().map(|parts| parts.concat()).collect();
            let (key, rule) = (parts.concat(), KeyRule::new("ttl", granted));
            if rule.check(&key).is_ok() && key.starts_with("aedile/") {
                proptest::prop_assert!(key.starts_with("aedile/kv/"), "{key:?}");
            }
        }
    }

    /// What keys are made of here.
    const PARTS: &[&str] = &[
        "a", "aedile", "/", "aedile/", "kv", "kv/", "ttl", "ttl/", "plugin/", "..", ".", "rev/",
        "\0", "%2f", "AEDILE/", "\u{2215}",
    ];
}
