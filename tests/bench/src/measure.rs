//! Alternating runs.

use std::time::Duration;

use crate::Samples;

/// Run product and baseline in turn, each first in every other round: samples of
/// both.
pub(crate) async fn alternate(
    rounds: usize,
    mut product: impl AsyncFnMut() -> anyhow::Result<f64>,
    mut baseline: impl AsyncFnMut() -> anyhow::Result<f64>,
) -> anyhow::Result<(Samples, Samples)> {
    let (mut products, mut baselines) = (Samples::default(), Samples::default());
    for round in 0..rounds {
        if round % 2 == 0 {
            products.push(product().await?);
            baselines.push(baseline().await?);
        } else {
            baselines.push(baseline().await?);
            products.push(product().await?);
        }
    }
    Ok((products, baselines))
}

/// Things a second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(f64::EPSILON)
}
