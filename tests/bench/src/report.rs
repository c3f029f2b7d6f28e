//! The figures as text: a table for the terminal, the same for the page.

use std::collections::BTreeMap;
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

/// The head of a section.
const SECTION: &str = "\n## ";

/// The page: the machine, and a section for each benchmark that ever ran there.
#[derive(Debug, Default)]
pub struct Page {
    sections: BTreeMap<String, String>,
}

impl Page {
    /// The page as it stands, for some of its sections to be written anew.
    pub fn parse(text: &str) -> Self {
        let sections = text.split(SECTION).skip(1);
        Self {
            sections: sections
                .filter_map(|section| section.split_once('\n'))
                .map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()))
                .collect(),
        }
    }

    /// Set the section of a benchmark: what it is about, when it ran, and what
    /// it measured.
    pub fn set(&mut self, name: &str, about: &str, ran: &str, figures: &[Figure]) {
        let text = format!(
            "{about}\n\n`cargo run --release -p aedile-tests-bench -- {name}`, {ran}\n\n{}",
            table(figures).trim_end()
        );
        self.sections.insert(name.to_owned(), text);
    }

    /// The page as text, its sections in the order of these names.
    pub fn text(&self, machine: &[(&str, String)], names: &[&str]) -> String {
        let mut text = String::from(
            "# Benchmarks\n\n\
             Written by `make bench`; do not edit. Product and baseline run in turn in the same \
             process. A figure is the median of its runs, with the lowest and the highest beside \
             it; a ratio is the median of those of the rounds. Bars are the project's own; a \
             figure of PicoMQ in one is from its own crates on this kind of machine.\n\n",
        );
        for (name, value) in machine {
            let _ = writeln!(text, "- {name}: {value}");
        }
        for name in names {
            if let Some(section) = self.sections.get(*name) {
                let _ = write!(text, "{SECTION}{name}\n\n{section}\n");
            }
        }
        text
    }
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
    fn a_page_keeps_the_sections_that_did_not_run() {
        let figure = |runs: f64| {
            [Figure::new(
                "x",
                Unit::Seconds,
                [runs].into_iter().collect(),
            )]
        };
        let machine = [("machine", "one".to_owned())];
        let names = ["append", "deploy"];
        let mut page = Page::default();
        page.set("deploy", "About it.", "monday", &figure(1.0));
        page.set("append", "About it.", "monday", &figure(2.0));
        let before = page.text(&machine, &names);

        let mut page = Page::parse(&before);
        assert_eq!(page.text(&machine, &names), before);
        page.set("append", "About it.", "tuesday", &figure(3.0));
        let after = page.text(&machine, &names);
        let (append, deploy) = after.split_once("## deploy").unwrap();
        assert!(
            append.contains("tuesday") && append.contains("3.00 s"),
            "{append}"
        );
        assert!(
            deploy.contains("monday") && deploy.contains("1.00 s"),
            "{deploy}"
        );
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
