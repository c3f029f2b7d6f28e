//! When a plugin is due: at an interval, by a cron expression, or when asked.

use std::time::Duration;

use aedile_clock::UnixMillis;
use chrono::DateTime;

use crate::entropy::Entropy;
use crate::schedule::Rhythm;

/// When a plugin is due.
#[derive(Clone, Debug)]
pub(crate) enum Timetable {
    /// At an interval, from one tick's start to the next.
    Every(Rhythm),
    /// By a cron expression.
    Cron(Cron),
    /// When an operator asks.
    OnDemand,
}

impl Timetable {
    /// What is left to wait after a tick that took `took`; none where it is not
    /// an interval that decides.
    pub(crate) fn wait(&self, took: Duration, entropy: &Entropy) -> Option<Duration> {
        match self {
            Self::Every(rhythm) => Some(rhythm.wait(took, entropy)),
            Self::Cron(_) | Self::OnDemand => None,
        }
    }

    /// For people.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Every(rhythm) => {
                let every = humantime::format_duration(rhythm.interval);
                match rhythm.jitter.is_zero() {
                    true => format!("every {every}"),
                    false => format!(
                        "every {every} + up to {}",
                        humantime::format_duration(rhythm.jitter)
                    ),
                }
            }
            Self::Cron(cron) => format!("cron {} UTC", cron.text),
            Self::OnDemand => "on demand".to_owned(),
        }
    }
}

/// A cron expression, in UTC.
#[derive(Clone)]
pub(crate) struct Cron {
    text: String,
    /// Apart: it is ten times as large as an interval.
    parsed: Box<croner::Cron>,
}

impl std::fmt::Debug for Cron {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cron").field(&self.text).finish()
    }
}

impl Cron {
    /// Read an expression of five fields, or of six with the seconds first.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |reason: String| {
            format!(
                "`{}` is no cron expression ({reason}); write five fields, as `0 3 * * *` for each \
                 day at 03:00 UTC",
                text.escape_debug()
            )
        };
        let parsed = croner::Cron::new(text)
            .with_seconds_optional()
            .parse()
            .map_err(|error| wrong(error.to_string()))?;
        let cron = Self {
            text: text.to_owned(),
            parsed: Box::new(parsed),
        };
        // The 30th of February would be looked for at each tick.
        match cron.after(UnixMillis(0)) {
            Some(_) => Ok(cron),
            None => Err(wrong("no such time ever comes".to_owned())),
        }
    }

    /// The first time after this one; none if there is none.
    pub(crate) fn after(&self, time: UnixMillis) -> Option<UnixMillis> {
        let time = DateTime::from_timestamp_millis(time.0)?;
        let next = self.parsed.find_next_occurrence(&time, false).ok()?;
        Some(UnixMillis(next.timestamp_millis()))
    }
}

/// Check a cron expression: five fields, or six with the seconds first, in UTC.
///
/// # Errors
/// What is wrong with it.
pub fn check_cron(text: &str) -> Result<(), String> {
    Cron::parse(text).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-02T23:00:00Z.
    const NOW: UnixMillis = UnixMillis(1_796_252_400_000);

    fn seconds_to(text: &str) -> i64 {
        let cron = Cron::parse(text).expect(text);
        (cron.after(NOW).expect("it comes").0 - NOW.0) / 1000
    }

    #[test]
    fn the_next_time_is_in_utc_and_later() {
        for (text, seconds) in [
            ("* * * * *", 60),
            ("*/10 * * * * *", 10),
            ("0 3 * * *", 4 * 3600),
            ("30 23 * * *", 1800),
            ("0 23 * * *", 24 * 3600),
            ("0 0 3 12 *", 3600),
            ("0 12 * * MON", (4 * 24 + 13) * 3600),
        ] {
            assert_eq!(seconds_to(text), seconds, "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_an_example() {
        for text in [
            "",
            "* * * *",
            "61 * * * *",
            "0 0 30 2 *",
            "@often",
            "ä * * * *",
        ] {
            let error = Cron::parse(text).map(|_| ()).expect_err(text);
            assert!(error.contains("is no cron expression") && error.contains("0 3 * * *"));
        }
    }
}
