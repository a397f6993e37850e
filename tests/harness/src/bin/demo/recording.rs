//! A recording of what was printed: as asciicast, which terminals play, and as an animated SVG, which browsers do.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::stage::Output;

/// What a reader waits for at most.
const MAX_PAUSE: Duration = Duration::from_millis(500);
/// Of it all, and of the last screen.
const LENGTH: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(3);

/// Of the terminal, in characters, and of a character, in pixels.
const COLUMNS: usize = 110;
const ROWS: usize = 30;
const WIDTH: f64 = 7.4;
const HEIGHT: usize = 17;

pub(crate) struct Recording {
    /// Lines, and when each is shown.
    lines: Vec<(Duration, String)>,
}

impl Recording {
    pub(crate) fn of(output: &Output) -> Self {
        let (mut lines, mut time, mut last) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        for (printed, text) in output {
            time += printed.saturating_sub(last).min(MAX_PAUSE);
            last = *printed;
            for line in text.lines() {
                lines.extend(wrapped(line).into_iter().map(|row| (time, row)));
                time += reading_time(line);
            }
        }
        // Shorter pauses, in proportion, where it would take too long.
        let factor = ((LENGTH - END).as_secs_f64() / time.as_secs_f64()).min(1.0);
        Self { lines: lines.into_iter().map(|(time, line): (Duration, _)| (time.mul_f64(factor), line)).collect() }
    }

    /// Writes `<path>.cast` and `<path>.svg`.
    ///
    /// # Errors
    /// Where a file cannot be written.
    pub(crate) fn write(&self, path: &str) -> Result<()> {
        for (extension, text) in [("cast", self.asciicast()), ("svg", self.svg())] {
            let file = format!("{path}.{extension}");
            fs::write(&file, text).with_context(|| format!("cannot write {file}"))?;
            println!("{file}");
        }
        Ok(())
    }

    /// Version 2: <https://docs.asciinema.org/manual/asciicast/v2/>.
    fn asciicast(&self) -> String {
        let header = json!({"version": 2, "width": COLUMNS, "height": ROWS, "title": "make demo"});
        let events = self.lines.iter().map(|(time, line)| {
            let time = time.as_millis() as f64 / 1000.0;
            json!([time, "o", format!("{}\r\n", styled(line))])
        });
        let lines: Vec<_> = std::iter::once(header).chain(events).map(|line| line.to_string()).collect();
        lines.join("\n") + "\n"
    }

    /// Each line appears at its time, and what is above the last rows is scrolled away.
    fn svg(&self) -> String {
        let total = self.lines.last().map_or(END, |(time, _)| *time + END).as_secs_f64();
        let (width, height) = (COLUMNS as f64 * WIDTH + 20.0, ROWS * HEIGHT + 20);
        let percent = |time: &Duration| 100.0 * time.as_secs_f64() / total;
        let (mut scroll, mut styles, mut texts) = (String::new(), String::new(), String::new());
        for (index, (time, line)) in self.lines.iter().enumerate() {
            let up = (index + 1).saturating_sub(ROWS) * HEIGHT;
            let _ = write!(scroll, "{:.2}%{{transform:translateY(-{up}px)}}", percent(time));
            let _ = write!(styles, "@keyframes l{index}{{0%{{opacity:0}}{:.2}%{{opacity:1}}}}", percent(time));
            let class = class(line);
            let y = index * HEIGHT + HEIGHT;
            let _ = writeln!(
                texts,
                r#"<text class="{class}" x="10" y="{y}" style="animation-name:l{index}">{}</text>"#,
                escaped(line)
            );
        }
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {width} {height}" font-family="ui-monospace,monospace" font-size="12">
<style>text{{fill:#d0d0d0;white-space:pre;animation:{total:.2}s step-end infinite}}.h{{fill:#6cb6ff;font-weight:bold}}.c{{fill:#8ddb8c}}
g{{animation:s {total:.2}s step-end infinite}}@keyframes s{{{scroll}}}{styles}</style>
<rect width="100%" height="100%" rx="6" fill="#1c2128"/>
<svg y="10" height="{}"><g>
{texts}</g></svg>
</svg>
"##,
            ROWS * HEIGHT
        )
    }
}

/// How long a reader needs for a line, before the next one appears.
fn reading_time(line: &str) -> Duration {
    Duration::from_millis(match class(line) {
        "h" => 1500,
        "c" => 700,
        _ => 120,
    })
}

/// A line as the rows of the terminal that it takes.
fn wrapped(line: &str) -> Vec<String> {
    let characters: Vec<_> = line.chars().collect();
    let rows: Vec<_> = characters.chunks(COLUMNS).map(|row| row.iter().collect()).collect();
    if rows.is_empty() { vec![String::new()] } else { rows }
}

fn class(line: &str) -> &'static str {
    match line {
        _ if line.starts_with("==> ") => "h",
        _ if line.starts_with("$ ") => "c",
        _ => "o",
    }
}

fn styled(line: &str) -> String {
    match class(line) {
        "h" => format!("\u{1b}[1;34m{line}\u{1b}[0m"),
        "c" => format!("\u{1b}[32m{line}\u{1b}[0m"),
        _ => line.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
