//! SIGTERM and SIGINT: the first asks for a clean stop, the second ends at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancel the token at the first signal; at the second, end the process with
/// 128 and the signal's number, as a shell reports it.
///
/// The task lives as long as the runtime: the second signal must work while
/// everything else is being stopped.
pub(crate) fn stop_token() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    tokio::spawn(async move {
        let mut received = 0_u32;
        loop {
            let number = tokio::select! {
                Some(()) = terminate.recv() => SignalKind::terminate().as_raw_value(),
                Some(()) = interrupt.recv() => SignalKind::interrupt().as_raw_value(),
                else => return,
            };
            received += 1;
            if received > 1 {
                tracing::warn!("second signal: ending at once");
                std::process::exit(128 + number);
            }
            tracing::info!("stopping; a second signal ends at once");
            stop.cancel();
        }
    });
    Ok(token)
}
