//! Signals that stop the process.

use std::io;

use futures::FutureExt as _;
use futures::future::Shared;

/// The exit code of a shell for a program that Ctrl-C has ended.
const INTERRUPTED: i32 = 130;

/// As [`requested`]. A second signal ends the process at once, also while it waits for somebody to read its output.
pub(super) fn requested_or_exit() -> io::Result<Shared<impl Future<Output = ()>>> {
    let request = requested()?.shared();
    let first = request.clone();
    tokio::spawn(async move {
        first.await;
        if let Ok(second) = requested() {
            second.await;
            std::process::exit(INTERRUPTED);
        }
    });
    Ok(request)
}

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
