//! A figure: samples of the product, of its baseline, and the bar.

use std::fmt;

/// What a sample counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things a second, by their name.
    PerSecond(&'static str),
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Bytes, of what.
    Bytes(&'static str),
    /// MiB.
    Mebibytes,
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerSecond(what) => write!(f, "{what}/s"),
            Self::Seconds => f.write_str("s"),
            Self::Milliseconds => f.write_str("ms"),
            Self::Microseconds => f.write_str("µs"),
            Self::Bytes(of) => write!(f, "bytes/{of}"),
            Self::Mebibytes => f.write_str("MiB"),
        }
    }
}

/// What several runs of one thing came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// How many.
    pub fn runs(&self) -> usize {
        self.0.len()
    }

    /// Add one.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// In the order in which they were taken.
    pub fn iter(&self) -> impl Iterator<Item = f64> {
        self.0.iter().copied()
    }

    /// The middle one; of an even number the lower of the two in the middle. NaN
    /// of none.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The sample below which at least this share of them lies.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (share * sorted.len() as f64).ceil() as usize;
        let last = sorted.len().saturating_sub(1);
        let at = rank.saturating_sub(1).min(last);
        sorted.get(at).copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        Self(samples.into_iter().collect())
    }
}

/// What a figure must hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bar {
    /// The product over the baseline, at least.
    RatioAtLeast(f64),
    /// The same, at most.
    RatioAtMost(f64),
    /// The median, at least; and where the number comes from.
    AtLeast(f64, &'static str),
    /// The median, at most.
    AtMost(f64, &'static str),
    /// The 99th percentile, at most.
    P99AtMost(f64, &'static str),
}

/// One line of the report.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// In which unit.
    pub unit: Unit,
    /// The product's runs.
    pub product: Samples,
    /// The baseline: its name and its runs in between.
    pub baseline: Option<(&'static str, Samples)>,
    /// What must hold; none for a figure that is only told.
    pub bar: Option<Bar>,
}

impl Figure {
    /// A figure without a baseline and a bar.
    pub fn new(what: impl Into<String>, unit: Unit, product: Samples) -> Self {
        Self {
            what: what.into(),
            unit,
            product,
            baseline: None,
            bar: None,
        }
    }

    /// Set it beside a baseline.
    #[must_use]
    pub fn beside(mut self, name: &'static str, baseline: Samples) -> Self {
        self.baseline = Some((name, baseline));
        self
    }

    /// Set the bar.
    #[must_use]
    pub fn must(mut self, bar: Bar) -> Self {
        self.bar = Some(bar);
        self
    }

    /// The product over the baseline: the median of the rounds' own ratios, so
    /// that a machine that is slower for a while weighs on both; where they did
    /// not run in rounds, the ratio of the medians.
    pub fn ratio(&self) -> Option<f64> {
        let (_, baseline) = self.baseline.as_ref()?;
        if self.product.runs() != baseline.runs() {
            return Some(self.product.median() / baseline.median());
        }
        let rounds = self.product.iter().zip(baseline.iter());
        Some(
            rounds
                .map(|(product, baseline)| product / baseline)
                .collect::<Samples>()
                .median(),
        )
    }

    /// Whether the bar holds; none without one.
    pub fn holds(&self) -> Option<bool> {
        let ratio = self.ratio().unwrap_or(f64::NAN);
        Some(match self.bar? {
            Bar::RatioAtLeast(bar) => ratio >= bar,
            Bar::RatioAtMost(bar) => ratio <= bar,
            Bar::AtLeast(bar, _) => self.product.median() >= bar,
            Bar::AtMost(bar, _) => self.product.median() <= bar,
            Bar::P99AtMost(bar, _) => self.product.quantile(0.99) <= bar,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(all: &[f64]) -> Samples {
        all.iter().copied().collect()
    }

    #[test]
    fn quantiles_are_samples() {
        let five = samples(&[5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(five.median(), 3.0);
        assert_eq!(five.quantile(0.99), 5.0);
        assert_eq!(five.quantile(0.0), 1.0);
        assert_eq!(samples(&[2.0, 1.0]).median(), 1.0);
        assert!(samples(&[]).median().is_nan());
    }

    #[test]
    fn a_ratio_is_that_of_a_round() {
        let figure = |baseline: &[f64]| {
            Figure::new("x", Unit::Seconds, samples(&[1.0, 20.0, 30.0]))
                .beside("y", samples(baseline))
                .ratio()
        };
        // One slow round: the medians say 2, two of three rounds say 1.
        assert_eq!(figure(&[1.0, 10.0, 30.0]), Some(1.0));
        assert_eq!(figure(&[10.0]), Some(2.0));
    }

    #[test]
    fn a_bar_holds_or_not() {
        let figure = |bar| {
            Figure::new("x", Unit::Seconds, samples(&[9.0, 10.0, 20.0]))
                .beside("y", samples(&[10.0]))
                .must(bar)
                .holds()
        };
        for (bar, holds) in [
            (Bar::RatioAtLeast(1.0), true),
            (Bar::RatioAtLeast(1.1), false),
            (Bar::RatioAtMost(1.0), true),
            (Bar::RatioAtMost(0.9), false),
            (Bar::AtLeast(10.0, ""), true),
            (Bar::AtLeast(10.1, ""), false),
            (Bar::AtMost(10.0, ""), true),
            (Bar::AtMost(9.9, ""), false),
            (Bar::P99AtMost(20.0, ""), true),
            (Bar::P99AtMost(19.0, ""), false),
        ] {
            assert_eq!(figure(bar), Some(holds), "{bar:?}");
        }
        let nothing = Figure::new("x", Unit::Seconds, samples(&[])).must(Bar::AtMost(1.0, ""));
        assert_eq!(nothing.holds(), Some(false), "no run proves nothing");
    }
}
