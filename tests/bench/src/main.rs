//! Benchmarks that print a ratio against a baseline of the same run. These
//! figures are medians of several rounds; quote them with the machine.

mod append;
mod delete;
mod median;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    append::run().await?;
    delete::run().await
}
