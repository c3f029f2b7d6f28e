//! The names of streams, as PicoMQ keeps them in the key-value map.

use std::collections::BTreeMap;

use aedile_plugin::{Host, StreamId};

use crate::Config;

/// The version of an entry that is known: its first byte. The stream's number
/// follows, eight bytes with the highest first.
const VERSION: u8 = 1;

/// Which streams have a name, and the rule of each.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The rule of a stream; none for one with a name that no rule fits.
    rules: BTreeMap<StreamId, Ruled>,
    /// Names that lead nowhere that can be told.
    pub(crate) unreadable: u64,
    /// Streams whose names fall under different rules: they are left alone.
    pub(crate) disputed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ruled {
    By(Option<usize>),
    Disputed,
}

impl Names {
    /// All names of the view.
    pub(crate) fn load(host: &impl Host, config: &Config) -> Self {
        let mut names = Self::default();
        let mut after: Option<String> = None;
        loop {
            let page = host.kv_scan("/", after.as_deref(), 2000);
            let Some(last) = page.last() else {
                return names;
            };
            after = Some(last.key.clone());
            for entry in &page {
                match stream(&entry.value) {
                    Some(id) => names.add(id, config.rule(&entry.key)),
                    None => names.unreadable += 1,
                }
            }
        }
    }

    fn add(&mut self, id: StreamId, rule: Option<usize>) {
        let ruled = Ruled::By(rule);
        let known = *self.rules.entry(id).or_insert(ruled);
        if known != ruled && known != Ruled::Disputed {
            self.rules.insert(id, Ruled::Disputed);
            self.disputed += 1;
        }
    }

    /// The rule of a stream, if it has one name or several under the same rule.
    pub(crate) fn rule(&self, id: StreamId) -> Option<usize> {
        match self.rules.get(&id) {
            Some(Ruled::By(rule)) => *rule,
            Some(Ruled::Disputed) | None => None,
        }
    }

    /// Whether it is certain that no name leads to a stream.
    pub(crate) fn unnamed(&self, id: StreamId) -> bool {
        self.unreadable == 0 && !self.rules.contains_key(&id)
    }
}

fn stream(value: &[u8]) -> Option<StreamId> {
    let (version, rest) = value.split_first()?;
    let (id, _) = rest.split_first_chunk::<8>()?;
    (*version == VERSION).then(|| StreamId::from_be_bytes(*id))
}
