//! Sizes, durations and times as people read them.

use std::time::Duration;

/// A size in bytes.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64;
    let mut unit = "";
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    format!("{value:.1} {unit}")
}

/// A length of time with the precision that matters at its size.
pub(crate) fn span(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{:.1} s", duration.as_secs_f64()),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
        3_600_000..86_400_000 => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
        _ => format!("{} d {} h", millis / 86_400_000, millis / 3_600_000 % 24),
    }
}

/// How long ago, or how far ahead, a time is, both in Unix milliseconds.
pub(crate) fn ago(then: i64, now: i64) -> String {
    let distance = span(Duration::from_millis(then.abs_diff(now)));
    if then <= now {
        format!("{distance} ago")
    } else {
        format!("in {distance}")
    }
}

/// A count with its noun; the plural takes an s.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{} {noun}s", grouped(number))
    }
}

/// A number in groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A time in Unix milliseconds as UTC.
pub(crate) fn time(unix_ms: i64) -> String {
    u64::try_from(unix_ms)
        .ok()
        .and_then(|millis| std::time::UNIX_EPOCH.checked_add(Duration::from_millis(millis)))
        // Past the year 9999 the formatter refuses.
        .filter(|_| unix_ms < 253_402_300_800_000)
        .map_or_else(
            || format!("{unix_ms} ms"),
            |time| humantime::format_rfc3339_seconds(time).to_string(),
        )
}

/// The beginning of a digest, enough to tell two apart.
pub(crate) fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(5 << 20), "5.0 MiB");
        assert_eq!(bytes(u64::MAX), "16384.0 PiB");
    }

    #[test]
    fn spans() {
        assert_eq!(span(Duration::from_millis(999)), "999 ms");
        assert_eq!(span(Duration::from_millis(9_940)), "9.9 s");
        assert_eq!(span(Duration::from_secs(61)), "1 min 1 s");
        assert_eq!(span(Duration::from_secs(90_000)), "1 d 1 h");
        assert_eq!(ago(0, 1500), "1.5 s ago");
        assert_eq!(ago(3000, 1500), "in 1.5 s");
        assert_eq!(ago(i64::MIN, i64::MAX), "213503982334 d 14 h ago");
    }

    #[test]
    fn counts_and_times() {
        assert_eq!(count(1, "mark"), "1 mark");
        assert_eq!(count(1_234_567, "mark"), "1 234 567 marks");
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(-1), "-1 ms");
        assert_eq!(time(i64::MAX), "9223372036854775807 ms");
    }
}
