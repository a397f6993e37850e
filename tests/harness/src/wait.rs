//! Waiting, with a deadline.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

const PAUSE: Duration = Duration::from_millis(50);

/// Asks `probe` again and again until it has an answer. An error of the probe is no answer yet; the
/// last one is told if none ever comes.
///
/// # Errors
/// At the deadline: what was waited for, and the last error.
pub fn wait_until<T>(
    what: &str,
    deadline: Duration,
    mut probe: impl FnMut() -> Result<Option<T>>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        let last = match probe() {
            Ok(Some(answer)) => return Ok(answer),
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
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_what_it_waited_for() {
        let answer = wait_until("x", Duration::ZERO, || Ok(Some(1))).unwrap();
        assert_eq!(answer, 1);
        let nothing = wait_until::<()>("the moon", Duration::ZERO, || Ok(None));
        assert!(nothing.unwrap_err().to_string().contains("the moon"));
        let error = wait_until::<()>("the moon", Duration::ZERO, || Err(anyhow!("clouds")));
        assert!(format!("{:#}", error.unwrap_err()).ends_with("the moon: clouds"));
    }
}
