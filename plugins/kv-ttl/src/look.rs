//! Finds out what is to be done. Reads only.

use std::cmp::Ordering;
use std::time::Duration;
use std::vec;

use aedile_plugin::{Host, KvEntry, Put, TimestampMs};

use crate::config::{Config, Rule};
use crate::seen::{Places, Seen, fingerprint};

/// How much is read at once.
const PAGE: u32 = 2000;

/// What a tick is to do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Entries to write.
    pub(crate) note: Vec<Put>,
    /// Keys that outlived their rule, with their entries.
    pub(crate) expire: Vec<(String, String)>,
    /// Keys of this plugin that serve nothing any more.
    pub(crate) forget: Vec<String>,
    /// Whether the commands of this tick were used up before the keys were.
    pub(crate) more: bool,
    /// What is left; only if this tick looked at every key.
    pub(crate) census: Option<Census>,
}

/// The keys that stay.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "next"), allow(dead_code))]
pub(crate) struct Census {
    /// How many.
    pub(crate) keys: u64,
    /// The age of the oldest.
    pub(crate) oldest: Duration,
}

/// Walks keys and entries side by side, from where the tick before ended.
pub(crate) fn look(host: &impl Host, config: &Config) -> Plan {
    let places = Places::new(host);
    let now = host.now();
    let stored = host.kv_get(&places.cursor);
    let start = stored
        .as_deref()
        .and_then(|key| std::str::from_utf8(key).ok());
    let mut keys = Keys::new(host, config.sorted(), start);
    let after = start.map(|key| format!("{}{key}", places.seen));
    let mut entries = Pages::new(host, &places.seen, after);

    let mut plan = Plan::default();
    let mut census = Census::default();
    let mut looked = 0;
    let mut last = None;
    let ended = loop {
        let key = keys.peek();
        let entry = entries.peek().map(|entry| &entry.key[places.seen.len()..]);
        let order = match (key, entry) {
            (None, None) => break true,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((key, _)), Some(entry)) => key.key.as_str().cmp(entry),
        };
        if looked == config.keys_per_tick {
            break false;
        }
        if plan.commands() + 2 > config.changes_per_tick as usize {
            plan.more = true;
            break false;
        }
        looked += 1;
        if order == Ordering::Greater {
            let entry = entries.next().map(|entry| entry.key).unwrap_or_default();
            last = Some(entry[places.seen.len()..].to_owned());
            plan.forget.push(entry);
            continue;
        }
        let seen = if order == Ordering::Equal {
            entries.next()
        } else {
            None
        };
        let Some((key, rule)) = keys.next() else {
            continue;
        };
        last = Some(key.key.clone());
        if let Some(age) = judge(&mut plan, &places, now, key, seen, rule) {
            census.keys += 1;
            census.oldest = census.oldest.max(age);
        }
    };

    if ended {
        plan.census = start.is_none().then_some(census);
        plan.forget
            .extend(stored.is_some().then_some(places.cursor));
    } else if !plan.more {
        plan.note.push(Put {
            key: places.cursor,
            value: last.unwrap_or_default().into_bytes(),
        });
    }
    plan
}

/// Decides on a key that is there; its age, if it stays.
fn judge(
    plan: &mut Plan,
    places: &Places,
    now: TimestampMs,
    key: KvEntry,
    seen: Option<KvEntry>,
    rule: &Rule,
) -> Option<Duration> {
    // A key too long for an entry cannot be timed and is left alone.
    let entry = places.entry(&key.key)?;
    let seen = seen
        .and_then(|seen| Seen::decode(&seen.value))
        .filter(|seen| seen.fingerprint == fingerprint(&key.value));
    let Some(seen) = seen else {
        plan.note.push(Put {
            key: entry,
            value: Seen::new(now, &key.value).encode(),
        });
        return Some(Duration::ZERO);
    };
    let age = Duration::from_millis(u64::try_from(now - seen.since).unwrap_or(0));
    if age < rule.ttl {
        return Some(age);
    }
    plan.expire.push((key.key, entry));
    None
}

impl Plan {
    fn commands(&self) -> usize {
        self.note.len() + 2 * self.expire.len() + self.forget.len()
    }
}

/// Entries with a prefix, read page by page.
struct Pages<'a, H> {
    host: &'a H,
    prefix: String,
    after: Option<String>,
    page: vec::IntoIter<KvEntry>,
    ended: bool,
}

impl<'a, H: Host> Pages<'a, H> {
    fn new(host: &'a H, prefix: &str, after: Option<String>) -> Self {
        Self {
            host,
            prefix: prefix.to_owned(),
            after,
            page: Vec::new().into_iter(),
            ended: false,
        }
    }

    fn peek(&mut self) -> Option<&KvEntry> {
        if self.page.as_slice().is_empty() && !self.ended {
            let page = self.host.kv_scan(&self.prefix, self.after.as_deref(), PAGE);
            self.ended = page.is_empty();
            self.after = page.last().map(|entry| entry.key.clone());
            self.page = page.into_iter();
        }
        self.page.as_slice().first()
    }

    fn next(&mut self) -> Option<KvEntry> {
        self.peek()?;
        self.page.next()
    }
}

/// The keys of all rules in order, each with its rule.
struct Keys<'a, H> {
    parts: Vec<(Pages<'a, H>, &'a Rule)>,
    at: usize,
}

impl<'a, H: Host> Keys<'a, H> {
    fn new(host: &'a H, rules: Vec<&'a Rule>, start: Option<&str>) -> Self {
        let mut parts = Vec::new();
        for rule in rules {
            let prefix = rule.prefix.as_str();
            let after = start.filter(|start| start.starts_with(prefix));
            if after.is_some() || start.is_none_or(|start| start < prefix) {
                let after = after.map(str::to_owned);
                parts.push((Pages::new(host, prefix, after), rule));
            }
        }
        Self { parts, at: 0 }
    }

    fn peek(&mut self) -> Option<(&KvEntry, &'a Rule)> {
        while self.parts.get_mut(self.at)?.0.peek().is_none() {
            self.at += 1;
        }
        let (pages, rule) = self.parts.get_mut(self.at)?;
        pages.peek().map(|entry| (entry, *rule))
    }

    fn next(&mut self) -> Option<(KvEntry, &'a Rule)> {
        self.peek()?;
        let (pages, rule) = self.parts.get_mut(self.at)?;
        pages.next().map(|entry| (entry, *rule))
    }
}
