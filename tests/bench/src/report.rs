//! The figures as text: a table for the terminal, the same for the page.

use std::fmt::Write as _;

use crate::{Bar, Figure, Unit};

const HEAD: [&str; 7] = [
    "figure", "median", "range", "baseline", "ratio", "must be", "holds",
];

/// A Markdown table of the figures.
pub fn table(figures: &[Figure]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "| {} |", HEAD.join(" | "));
    let _ = writeln!(text, "|{}", "---|".repeat(HEAD.len()));
    for figure in figures {
        let _ = writeln!(text, "| {} |", cells(figure).join(" | "));
    }
    text
}

fn cells(figure: &Figure) -> [String; 7] {
    let unit = figure.unit;
    let product = &figure.product;
    [
        figure.what.clone(),
        format!("{} {unit}", number(product.median())),
        format!(
            "{} to {} ({} runs)",
            number(product.quantile(0.0)),
            number(product.quantile(1.0)),
            product.runs()
        ),
        figure
            .baseline
            .as_ref()
            .map_or_else(String::new, |(name, samples)| {
                format!("{} {unit} ({name})", number(samples.median()))
            }),
        figure
            .ratio()
            .map_or_else(String::new, |ratio| format!("{ratio:.2}")),
        figure.bar.map_or_else(String::new, |bar| must(bar, unit)),
        match figure.holds() {
            None => String::new(),
            Some(true) => "yes".to_owned(),
            Some(false) => "**no**".to_owned(),
        },
    ]
}

fn must(bar: Bar, unit: Unit) -> String {
    let why = |text: &str| match text {
        "" => String::new(),
        text => format!(" ({text})"),
    };
    match bar {
        Bar::RatioAtLeast(bar) => format!("ratio ≥ {bar}"),
        Bar::RatioAtMost(bar) => format!("ratio ≤ {bar}"),
        Bar::AtLeast(bar, text) => format!("≥ {} {unit}{}", number(bar), why(text)),
        Bar::AtMost(bar, text) => format!("≤ {} {unit}{}", number(bar), why(text)),
        Bar::P99AtMost(bar, text) => format!("p99 ≤ {} {unit}{}", number(bar), why(text)),
    }
}

/// Three significant digits below a thousand, thin groups above.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value < 10.0 {
        return format!("{value:.2}");
    }
    if value < 1000.0 {
        return format!("{value:.0}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A benchmark that ran: its name, what it is about, its figures.
pub type Section = (&'static str, &'static str, Vec<Figure>);

/// The page: where it was measured, how to measure it again, and the tables.
pub fn document(machine: &[(&str, String)], sections: &[Section]) -> String {
    let mut text = String::from(
        "# Benchmarks\n\n\
         Written by `make bench`; do not edit. Product and baseline run in turn in the same \
         process; a figure is the median of its runs, with the lowest and the highest beside \
         it. Bars are the project's own; a figure of PicoMQ in one is from its own crates on \
         this kind of machine.\n\n",
    );
    for (name, value) in machine {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for (name, about, figures) in sections {
        let _ = write!(
            text,
            "\n## {name}\n\n{about}\n\n`cargo run --release -p aedile-tests-bench -- {name}`\n\n{}",
            table(figures)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.123, "0.12"),
            (12.3, "12"),
            (999.4, "999"),
            (1234.0, "1 234"),
            (1_234_567.0, "1 234 567"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn a_bar_that_does_not_hold_stands_out() {
        let figure = Figure::new(
            "reads",
            Unit::PerSecond("rows"),
            [10.0].into_iter().collect(),
        )
        .beside("slow", [20.0].into_iter().collect())
        .must(Bar::RatioAtLeast(1.0));
        let line = "| reads | 10 rows/s | 10 to 10 (1 runs) | 20 rows/s (slow) | 0.50 | ratio ≥ 1 | **no** |";
        assert!(table(&[figure]).contains(line));
    }
}
