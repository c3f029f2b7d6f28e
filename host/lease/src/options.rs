//! What a keeper is told, and the checks on it.

use std::fmt;
use std::time::Duration;

use crate::LeaseError;

/// The shortest and the longest lease.
const TTL: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(300));
/// The longest name of a node or a lease, in bytes.
const NAME_LIMIT: usize = 128;

/// Which lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LeaseName {
    /// Row 0 of `meta_lease`, which PicoMQ's own nodes contend for as well.
    Shared,
    /// A row of `aedile_lease`.
    Named(String),
}

impl fmt::Display for LeaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.write_str("meta_lease"),
            Self::Named(name) => f.write_str(name),
        }
    }
}

/// What a keeper is told.
#[derive(Clone)]
pub struct LeaseOptions {
    /// The database: `sqlite:PATH`, `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Which lease.
    pub name: LeaseName,
    /// This node's name, for people. The holder's name is made from it.
    pub node: String,
    /// How long a lease lasts without a renewal: 500 ms to 5 min. Shorter ones
    /// are taken over sooner and forgive a slow database less.
    pub ttl: Duration,
    /// Time between attempts, before jitter takes up to a tenth of it away.
    pub interval: Duration,
    /// Authority ends this long before the lease lapses; at least a tenth of
    /// the TTL. It pays for clocks whose rates differ and for what was sent just
    /// before the end.
    pub margin: Duration,
    /// Longest time of one attempt, connecting included. After a failure the
    /// next begins at once, so at least two have to fit before authority ends.
    /// `None`: a fifth of the TTL, less where two would not fit.
    pub timeout: Option<Duration>,
    /// Take the lease from one of PicoMQ's own nodes instead of waiting for it
    /// to stop: such a node renews for ever and cannot be told not to.
    pub take_over: bool,
}

impl Default for LeaseOptions {
    /// The shared lease with a TTL of 10 s, without a URL and a node name.
    fn default() -> Self {
        Self {
            url: String::new(),
            name: LeaseName::Shared,
            node: String::new(),
            ttl: Duration::ZERO,
            interval: Duration::ZERO,
            margin: Duration::ZERO,
            timeout: None,
            take_over: false,
        }
        .with_ttl(Duration::from_secs(10))
    }
}

impl LeaseOptions {
    /// The shared lease with a TTL of 10 s.
    pub fn new(url: impl Into<String>, node: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            node: node.into(),
            ..Self::default()
        }
    }

    /// Set the TTL and derive from it: an attempt every quarter, a margin of a
    /// tenth and at least one second.
    #[must_use]
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self.interval = ttl / 4;
        self.margin = (ttl / 10).max(Duration::from_secs(1));
        self
    }

    /// Longest time of one attempt, as given or derived.
    pub fn attempt_limit(&self) -> Duration {
        let room = self.ttl.saturating_sub(self.margin + self.interval) / 2;
        self.timeout.unwrap_or((self.ttl / 5).min(room))
    }

    /// Check what is checkable without the database.
    ///
    /// # Errors
    /// Names the option that is wrong and what it may be.
    pub fn validate(&self) -> Result<(), LeaseError> {
        name("node", &self.node)?;
        if let LeaseName::Named(lease) = &self.name {
            name("lease", lease)?;
        }
        range("TTL", self.ttl, TTL.0, TTL.1)?;
        let least = Duration::from_millis(10);
        range("interval", self.interval, least, self.ttl)?;
        range("margin", self.margin, self.ttl / 10, self.ttl)?;
        if let Some(timeout) = self.timeout {
            range("timeout", timeout, least, self.ttl)?;
        }
        let timeout = self.attempt_limit().max(least);
        let needed = self.interval + 2 * timeout + self.margin;
        if self.ttl < needed {
            return Err(LeaseError::Times {
                ttl: self.ttl,
                interval: self.interval,
                timeout,
                margin: self.margin,
                least: needed,
            });
        }
        Ok(())
    }
}

fn name(what: &'static str, name: &str) -> Result<(), LeaseError> {
    if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
        return Err(LeaseError::Name {
            what,
            name: name.to_owned(),
            limit: NAME_LIMIT,
        });
    }
    Ok(())
}

fn range(
    what: &'static str,
    given: Duration,
    least: Duration,
    most: Duration,
) -> Result<(), LeaseError> {
    if given < least || given > most {
        return Err(LeaseError::Range {
            what,
            given,
            least,
            most,
        });
    }
    Ok(())
}

impl fmt::Debug for LeaseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseOptions")
            .field("url", &crate::url::mask(&self.url))
            .field("name", &self.name)
            .field("node", &self.node)
            .field("ttl", &self.ttl)
            .field("interval", &self.interval)
            .field("margin", &self.margin)
            .field("timeout", &self.timeout)
            .field("take_over", &self.take_over)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> LeaseOptions {
        LeaseOptions::new("sqlite:x.db", "n")
    }

    #[test]
    fn the_defaults_hold_and_leave_two_attempts() {
        let options = options();
        options.validate().expect("the defaults are valid");
        assert_eq!(options.interval, Duration::from_millis(2500));
        assert_eq!(options.margin, Duration::from_secs(1));
        assert_eq!(options.attempt_limit(), Duration::from_secs(2));
        options
            .with_ttl(Duration::from_secs(2))
            .validate()
            .expect("a short one");
    }

    #[test]
    fn river_217_a_ttl_no_longer_than_interval_and_timeout_is_refused() {
        let mut options = options();
        options.interval = Duration::from_secs(8);
        options.timeout = Some(Duration::from_secs(2));
        let text = options.validate().expect_err("refused").to_string();
        assert!(text.contains("raise the TTL to at least 13s"), "{text}");
    }

    #[test]
    fn each_wrong_option_is_named() {
        type Change = fn(&mut LeaseOptions);
        let cases: [(&str, Change); 6] = [
            ("node name", |o| o.node.clear()),
            ("lease name", |o| o.name = LeaseName::Named("a\nb".into())),
            ("TTL", |o| o.ttl = Duration::from_millis(1)),
            ("interval", |o| o.interval = Duration::ZERO),
            ("timeout", |o| o.timeout = Some(Duration::ZERO)),
            ("margin", |o| o.margin = Duration::from_millis(1)),
        ];
        for (what, change) in cases {
            let mut options = options();
            change(&mut options);
            let text = options.validate().expect_err(what).to_string();
            assert!(text.contains(what), "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let options = LeaseOptions::new("postgres://u:secret@h/db?password=secret", "n");
        assert!(!format!("{options:?}").contains("secret"));
    }
}
