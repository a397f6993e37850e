//! Signals that stop the process.

use std::io;

/// Returns what ends when the process is to stop: on SIGTERM (the kubelet) or SIGINT (Ctrl-C).
#[cfg(unix)]
pub(super) fn requested() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// The same on Ctrl-C.
#[cfg(windows)]
pub(super) fn requested() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}
