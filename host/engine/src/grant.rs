//! What a plugin may import.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The interfaces of the world and their functions, as in `wit/`. A test
/// compares them.
pub(crate) const INTERFACES: [(&str, &[&str]); 6] = [
    (
        "job",
        &[
            "now",
            "plugin",
            "node",
            "epoch",
            "config",
            "cpu-left-ms",
            "wall-left-ms",
            "should-stop",
            "seed",
        ],
    ),
    ("logging", &["log"]),
    (
        "state",
        &[
            "applied-index",
            "sizes",
            "lapsed-reservations",
            "lapsed-count",
            "destroyed",
            "objects",
            "object-ids",
            "get-object",
            "stream-objects",
            "streams",
            "get-stream",
            "nodes",
            "kv-get",
            "kv-scan",
            "kv-keys",
        ],
    ),
    ("metrics", &["count", "gauge"]),
    (
        "commands",
        &[
            "expire-reservations",
            "clean-destroyed",
            "put-kv",
            "put-kv-if-absent",
            "delete-kv",
            "trim-stream",
            "delete-stream",
            "compact-away",
            "transfer-stream",
        ],
    ),
    (
        "storage",
        &[
            "delete",
            "list",
            "head",
            "read",
            "find-orphans",
            "delete-orphan",
        ],
    ),
];

const DESTRUCTIVE: [(&str, &str); 5] = [
    ("commands", "trim-stream"),
    ("commands", "delete-stream"),
    ("commands", "compact-away"),
    ("commands", "transfer-stream"),
    ("storage", "delete-orphan"),
];

/// A part of the host that a plugin may import: the whole of `state` or of
/// `metrics`, or one function of `commands` or `storage`. `job` and `logging`
/// need no grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grant {
    /// Read the pinned view.
    State,
    /// Publish figures.
    Metrics,
    /// One function of `commands`, by its name in `wit/`.
    Commands(&'static str),
    /// One function of `storage`, by its name in `wit/`.
    Storage(&'static str),
}

/// A text that names no grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no grant; grants are {}", all_grants())]
pub struct UnknownGrant {
    /// The text.
    pub text: String,
}

/// Every grant, in the order of `wit/`.
fn all_grants() -> String {
    Grant::all()
        .map(|grant| grant.to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

impl Grant {
    /// Every grant there is.
    pub fn all() -> impl Iterator<Item = Self> {
        INTERFACES.into_iter().flat_map(|(interface, functions)| {
            let whole = functions.first().filter(|_| {
                // `state` and `metrics` are granted as a whole.
                matches!(interface, "state" | "metrics")
            });
            let single = functions
                .iter()
                .filter(move |_| matches!(interface, "commands" | "storage"));
            whole
                .into_iter()
                .chain(single)
                .filter_map(move |function| Self::of(interface, function))
        })
    }

    /// The grant that a function needs; none for those that are always there
    /// and for those that do not exist.
    pub(crate) fn of(interface: &str, function: &str) -> Option<Self> {
        let (_, functions) = INTERFACES
            .into_iter()
            .find(|(name, _)| *name == interface)?;
        let function = functions.iter().copied().find(|name| *name == function)?;
        match interface {
            "state" => Some(Self::State),
            "metrics" => Some(Self::Metrics),
            "commands" => Some(Self::Commands(function)),
            "storage" => Some(Self::Storage(function)),
            _ => None,
        }
    }

    /// Whether it can take live data out of the catalog, move it, or delete bytes
    /// that no mark names: an operator should give it knowingly.
    pub fn destructive(&self) -> bool {
        match self {
            Self::State | Self::Metrics => false,
            Self::Commands(function) => DESTRUCTIVE.contains(&("commands", function)),
            Self::Storage(function) => DESTRUCTIVE.contains(&("storage", function)),
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State => f.write_str("state"),
            Self::Metrics => f.write_str("metrics"),
            Self::Commands(function) => write!(f, "commands.{function}"),
            Self::Storage(function) => write!(f, "storage.{function}"),
        }
    }
}

impl FromStr for Grant {
    type Err = UnknownGrant;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('.') {
            None if text == "state" => Some(Self::State),
            None if text == "metrics" => Some(Self::Metrics),
            Some((interface @ ("commands" | "storage"), function)) => Self::of(interface, function),
            _ => None,
        }
        .ok_or_else(|| UnknownGrant {
            text: text.chars().take(64).collect(),
        })
    }
}

/// A set of grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants(BTreeSet<Grant>);

impl Grants {
    /// Every grant there is.
    pub fn all() -> Self {
        Grant::all().collect()
    }

    /// Whether `grant` is among them.
    pub fn contains(&self, grant: &Grant) -> bool {
        self.0.contains(grant)
    }

    /// In order.
    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }
}

impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        Self(grants.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interfaces_are_those_of_the_wit_files() {
        let mut resolve = wit_parser::Resolve::default();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/wit");
        let (package, _) = resolve.push_dir(folder).expect("valid WIT");
        let world = resolve
            .select_world(&[package], Some("plugin"))
            .expect("the world `plugin`");
        let mut found: Vec<(String, Vec<String>)> = resolve.worlds[world]
            .imports
            .values()
            .filter_map(|item| match item {
                wit_parser::WorldItem::Interface { id, .. } => Some(&resolve.interfaces[*id]),
                _ => None,
            })
            .map(|interface| {
                let name = interface.name.clone().expect("it has a name");
                (name, interface.functions.keys().cloned().collect())
            })
            .filter(|(name, _): &(String, Vec<String>)| name != "types")
            .collect();
        found.sort();
        let mut known: Vec<(String, Vec<String>)> = INTERFACES
            .iter()
            .map(|(name, functions)| {
                let functions = functions.iter().map(|&function| function.to_owned());
                ((*name).to_owned(), functions.collect())
            })
            .collect();
        known.sort();
        assert_eq!(found, known);
        let package = &resolve.packages[package].name;
        assert_eq!(package.to_string(), crate::SERVED);
    }

    #[test]
    fn every_grant_reads_back_from_its_text() {
        let all: Vec<Grant> = Grant::all().collect();
        assert_eq!(all.len(), 2 + 9 + 6);
        for grant in all {
            assert_eq!(grant.to_string().parse(), Ok(grant));
        }
    }

    #[test]
    fn a_text_that_names_no_grant_is_answered_with_those_there_are() {
        for text in [
            "",
            "job",
            "logging",
            "commands",
            "storage",
            "state.objects",
            "commands.",
            "metrics.",
            "commands.put",
            "storage.put-kv",
            "Commands.put-kv",
            "commands.put-kv ",
        ] {
            let error = text.parse::<Grant>().expect_err(text).to_string();
            assert!(error.contains("commands.clean-destroyed"), "{error}");
        }
    }

    #[test]
    fn destructive_grants_are_those_that_unindex_or_move_live_data_or_delete_without_a_mark() {
        let destructive: Vec<String> = Grant::all()
            .filter(Grant::destructive)
            .map(|grant| grant.to_string())
            .collect();
        assert_eq!(
            destructive,
            [
                "commands.trim-stream",
                "commands.delete-stream",
                "commands.compact-away",
                "commands.transfer-stream",
                "storage.delete-orphan"
            ]
        );
    }
}
