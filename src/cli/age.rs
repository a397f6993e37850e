//! Ages, as kubectl prints them.

use k8s_openapi::jiff::Timestamp;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// As in kubectl, which knows no leap years.
const YEAR: i64 = 365 * DAY;

/// Returns the time since `then`, in the precision that its length deserves: that of `duration.HumanDuration` in
/// k8s.io/apimachinery. A time in the future is `<invalid>`, except for clocks that differ by a second.
pub(super) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    let whole = |unit: i64, name: &str| format!("{}{name}", seconds / unit);
    let both = |unit: i64, name: &str, part: i64, part_name: &str| match seconds % unit / part {
        0 => whole(unit, name),
        rest => format!("{}{rest}{part_name}", whole(unit, name)),
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        _ if seconds < 2 * MINUTE => whole(1, "s"),
        _ if seconds < 10 * MINUTE => both(MINUTE, "m", 1, "s"),
        _ if seconds < 3 * HOUR => whole(MINUTE, "m"),
        _ if seconds < 8 * HOUR => both(HOUR, "h", MINUTE, "m"),
        _ if seconds < 2 * DAY => whole(HOUR, "h"),
        _ if seconds < 8 * DAY => both(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => whole(DAY, "d"),
        _ if seconds < 8 * YEAR => both(YEAR, "y", DAY, "d"),
        _ => whole(YEAR, "y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let now = Timestamp::from_second(1_000_000_000).unwrap();
        // From TestHumanDurationBoundaries in k8s.io/apimachinery, and around it.
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (1, "1s"),
            (119, "119s"),
            (120, "2m"),
            (121, "2m1s"),
            (599, "9m59s"),
            (600, "10m"),
            (601, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + MINUTE, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (8 * HOUR + MINUTE, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY, "8d"),
            (8 * DAY + HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR, "8y"),
            (8 * YEAR + DAY, "8y"),
        ] {
            let then = Timestamp::from_second(now.as_second() - seconds).unwrap();
            assert_eq!(age(now, then), expected, "{seconds}");
        }
        assert_eq!(age(Timestamp::MAX, Timestamp::MIN), "20012y");
    }
}
