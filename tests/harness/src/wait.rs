//! Waiting, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

/// How long anything may take to happen. Machines differ by a factor of ten, and the tests share
/// theirs: no test passes or fails by how fast it is.
pub const DEADLINE: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls `probe` until it returns something, at most for [`DEADLINE`]. An error of the probe counts
/// as nothing yet; the last one is reported if nothing ever comes.
///
/// # Errors
/// At the deadline: what it waited for, and the last error.
pub fn wait_until<T>(what: &str, probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait_within(DEADLINE, what, probe)
}

/// Does the same with a deadline of its own.
///
/// # Errors
/// At the deadline: what it waited for, and the last error.
pub fn wait_within<T>(
    deadline: Duration,
    what: &str,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match probe() {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if start.elapsed() >= deadline {
            let waited = anyhow!("waited {deadline:?} in vain for {what}");
            return Err(match last {
                Some(last) => last.context(waited),
                None => waited,
            });
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_error_names_what_it_waited_for() {
        let result = wait_within(Duration::ZERO, "x", || Ok(Some(1))).unwrap();
        assert_eq!(result, 1);
        let nothing = wait_within::<()>(Duration::ZERO, "the moon", || Ok(None));
        assert!(nothing.unwrap_err().to_string().contains("the moon"));
        let error = wait_within::<()>(Duration::ZERO, "the moon", || Err(anyhow!("clouds")));
        assert!(format!("{:#}", error.unwrap_err()).ends_with("the moon: clouds"));
    }
}
