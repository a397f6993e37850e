//! Compares two files of results. Across machines, or across loads of one machine, compare the ratios to the
//! baseline; counts and memory compare directly.

use std::fmt;

use crate::report::{Report, Row};
use crate::sample::Key;

pub struct Comparison<'a> {
    pub old: &'a Report,
    pub new: &'a Report,
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, report) in [("old", self.old), ("new", self.new)] {
            let Report { date, commit, nodes, pairs, .. } = report;
            writeln!(f, "{name}: {commit} of {date}, {nodes} nodes, {pairs} pairs")?;
        }
        let mut line = |row: &str, measure: &str, unit: &str, cells: [&str; 5]| {
            let [old, new, change, old_ratio, new_ratio] = cells;
            writeln!(
                f,
                "{row:<21} {measure:<34} {unit:<9} {old:>9} {new:>9} {change:>7}   {old_ratio:>13} {new_ratio:>13}"
            )
        };
        let cells = ["old", "new", "new/old", "old/baseline", "new/baseline"];
        line("row", "measure", "unit", cells)?;
        for key in self.keys() {
            let [old, new] = [self.old, self.new].map(|report| find(report, key));
            let median = |row: Option<&Row>| row.map(|row| row.controller.spread.median);
            let ratio = |row: Option<&Row>| Some(row?.ratio.as_ref()?.median);
            let change = median(old).zip(median(new)).filter(|(old, _)| *old > 0.0);
            let cells = [median(old), median(new), change.map(|(old, new)| new / old), ratio(old), ratio(new)];
            let cells = cells.map(|cell| cell.map_or("-".to_owned(), digits));
            line(&key.row, &key.measure, &key.unit, cells.each_ref().map(String::as_str))?;
        }
        Ok(())
    }
}

impl Comparison<'_> {
    /// The old keys, with new keys inserted after those of the same row.
    fn keys(&self) -> Vec<&Key> {
        let mut keys: Vec<_> = self.old.rows.iter().map(|row| &row.key).collect();
        for Row { key, .. } in &self.new.rows {
            if keys.contains(&key) {
                continue;
            }
            let last_of_row = keys.iter().rposition(|other| other.row == key.row);
            keys.insert(last_of_row.map_or(keys.len(), |place| place + 1), key);
        }
        keys.retain(|key| !key.is_load_average());
        keys
    }
}

fn find<'a>(report: &'a Report, key: &Key) -> Option<&'a Row> {
    report.rows.iter().find(|row| row.key == *key)
}

fn digits(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 => format!("{value:.0}"),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value if value.abs() >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}
