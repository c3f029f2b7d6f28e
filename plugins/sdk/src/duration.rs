//! Durations in a configuration: a whole number and a unit, `250ms`, `1s`,
//! `5m`, `2h`, `7d`. The manifest's schedule is written in the same way.
//!
//! ```
//! #[derive(serde::Deserialize)]
//! struct Rule {
//!     #[serde(deserialize_with = "aedile_plugin::duration::deserialize")]
//!     ttl: std::time::Duration,
//! }
//! let rule: Rule = serde_json::from_str(r#"{"ttl":"1h"}"#).expect("a duration");
//! assert_eq!(rule.ttl.as_secs(), 3600);
//! ```

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

/// Units and their length in milliseconds, longest first.
const UNITS: [(&str, u64); 5] = [
    ("d", 24 * 60 * 60 * 1000),
    ("h", 60 * 60 * 1000),
    ("m", 60 * 1000),
    ("s", 1000),
    ("ms", 1),
];

/// Reads a duration.
///
/// # Errors
/// What is wrong with the text, with an example of the right form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("`{text}` is no duration; write it like 250ms, 1s, 5m, 2h or 7d");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let (_, length) = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?;
    let millis = number
        .checked_mul(*length)
        .ok_or_else(|| format!("`{text}` is too long"))?;
    Ok(Duration::from_millis(millis))
}

/// Writes a duration for people, in its two largest units: `1h 5m`.
#[must_use]
pub fn format(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut parts = Vec::new();
    for (name, length) in UNITS {
        if left >= length && parts.len() < 2 {
            parts.push(format!("{}{name}", left / length));
            left %= length;
        }
    }
    if parts.is_empty() {
        return "0s".to_owned();
    }
    parts.join(" ")
}

/// For `#[serde(deserialize_with = "aedile_plugin::duration::deserialize")]`.
///
/// # Errors
/// As [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(from)?).map_err(D::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read() {
        for (text, millis) in [
            ("0ms", 0),
            ("250ms", 250),
            ("1s", 1000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_an_example() {
        for text in [
            "",
            "s",
            "1",
            "1.5s",
            "-1s",
            "1 s",
            "1S",
            "1min",
            "1s1s",
            "é",
            "99999999999999999999s",
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains("write it like"), "{text}: {error}");
        }
        assert!(
            parse("999999999999999999d")
                .expect_err("overflows")
                .contains("too long")
        );
    }

    #[test]
    fn two_units_are_written() {
        for (millis, text) in [
            (0, "0s"),
            (999, "999ms"),
            (61_500, "1m 1s"),
            (3_600_000, "1h"),
            (90_061_001, "1d 1h"),
        ] {
            assert_eq!(format(Duration::from_millis(millis)), text);
        }
    }
}
