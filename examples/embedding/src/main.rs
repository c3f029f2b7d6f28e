//! A service that runs Aedile's maintenance inside its own process.
//!
//! The service is a small one: it answers `GET /` with what it is for and
//! `GET /maintenance` with what the maintenance in it does. Its own work goes on
//! whether or not its node holds the lease.
//!
//!     aedile-example-embedding sqlite:cluster.db -- '-2@file:///srv/objects' 127.0.0.1:8080
//!
//! `maintenance` is all that a program needs to embed the runtime; `http` is the
//! service around it.

mod http;
mod maintenance;

use std::net::SocketAddr;

use anyhow::{Context, bail};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_max_level(tracing::Level::INFO)
        .init();
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--")
        .collect();
    let [database, storage, address] = &arguments[..] else {
        bail!("usage: aedile-example-embedding DATABASE-URL BUCKET-ID@URI ADDRESS");
    };
    let address: SocketAddr = address.parse().context("ADDRESS is like 127.0.0.1:8080")?;
    let mut terminate = signal(SignalKind::terminate())?;

    let listener = TcpListener::bind(address).await?;
    let maintenance = maintenance::start(database, storage).await?;
    // Whoever starts the service on port 0 reads which one it got.
    println!("listening on {}", listener.local_addr()?);

    let served = tokio::select! {
        served = http::serve(&listener, &maintenance) => served,
        _ = terminate.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    // Awaited, so that the lease is free for the next node at once.
    maintenance.stop().await;
    served
}
