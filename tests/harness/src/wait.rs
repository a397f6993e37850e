//! Waiting, with a deadline.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Error, Result, anyhow};

use crate::costs;

/// The deadline of every wait. Machines differ by a factor of ten, and tests share one: no result may depend
/// on its speed.
pub const DEADLINE: Duration = Duration::from_secs(180);

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls `probe` until it returns a value, for at most [`DEADLINE`]. An error counts as no value yet; the last
/// error is reported at the deadline.
///
/// # Errors
/// Returns an error at the deadline: what it waited for, and the last error of the probe.
pub fn wait_until<T>(what: &str, probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    wait_within(DEADLINE, what, probe)
}

/// Does the same with another deadline.
///
/// # Errors
/// Returns an error at the deadline: what it waited for, and the last error of the probe.
pub fn wait_within<T>(deadline: Duration, what: &str, probe: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    let result = poll(start + deadline, probe);
    costs::add_wait(what, start);
    result.map_err(|last| {
        let waited = anyhow!("waited {deadline:?} in vain for {what}");
        match last {
            Some(last) => last.context(waited),
            None => waited,
        }
    })
}

/// Waits until the next second of the clock begins: creation times are in whole seconds.
///
/// # Errors
/// Returns an error if the clock stands.
pub fn wait_next_second() -> Result<()> {
    let second = || SystemTime::now().duration_since(UNIX_EPOCH).map(|time| time.as_secs());
    let start = second()?;
    wait_until("the next second", || Ok((second()? > start).then_some(())))
}

/// Returns the last error of the probe at the deadline.
fn poll<T>(deadline: Instant, mut probe: impl FnMut() -> Result<Option<T>>) -> Result<T, Option<Error>> {
    loop {
        let last = match probe() {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        if Instant::now() >= deadline {
            return Err(last);
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
