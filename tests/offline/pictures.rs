//! The pictures in `docs/images/`, each drawn from the text of the same name. `UPDATE_GOLDEN=1` draws them anew.
//!
//! A text has a title, the picture in characters, and behind `---` which cells are good, bad or in between.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Of a character, in pixels.
const WIDTH: usize = 8;
const HEIGHT: usize = 18;

/// Where the lines of a character go, from its middle: left, right, up, down.
fn arms(character: char) -> Option<[bool; 4]> {
    let arms = match character {
        '─' | '━' => "lr",
        '│' => "ud",
        '▶' => "l",
        '◀' => "r",
        '▼' => "u",
        '▲' => "d",
        '┌' => "rd",
        '┐' => "ld",
        '└' => "ru",
        '┘' => "lu",
        '├' => "rud",
        '┤' => "lud",
        '┬' => "lrd",
        '┴' => "lru",
        _ => return None,
    };
    Some(['l', 'r', 'u', 'd'].map(|arm| arms.contains(arm)))
}

/// The corners of an arrowhead, or a dot, in a cell.
fn tip(character: char, x: usize, y: usize) -> Option<String> {
    let [left, right, top, bottom] = [x, x + WIDTH, y, y + HEIGHT];
    let [middle, center] = [x + WIDTH / 2, y + HEIGHT / 2];
    let points = match character {
        '▶' => format!("{left},{} {right},{center} {left},{}", center - 4, center + 4),
        '◀' => format!("{right},{} {left},{center} {right},{}", center - 4, center + 4),
        '▼' => format!("{},{} {middle},{bottom} {},{}", middle - 4, bottom - 8, middle + 4, bottom - 8),
        '▲' => format!("{},{} {middle},{top} {},{}", middle - 4, top + 8, middle + 4, top + 8),
        '●' => format!("{left},{center} {middle},{} {right},{center} {middle},{}", center - 4, center + 4),
        _ => return None,
    };
    Some(format!("<polygon points=\"{points}\"/>\n"))
}

/// The cells of a line with text: where each begins, and its words. Two spaces, or lines, end a cell.
fn cells(line: &[char]) -> Vec<(usize, String)> {
    let mut cells: Vec<(usize, String)> = Vec::new();
    let mut end = None;
    for (column, character) in line.iter().enumerate() {
        if arms(*character).is_some() || *character == '●' {
            end = None;
        } else if *character != ' ' {
            match (cells.last_mut(), end) {
                (Some((_, text)), Some(end)) if column - end <= 1 => {
                    text.extend([' '].iter().take(column - end));
                    text.push(*character);
                }
                _ => cells.push((column, character.to_string())),
            }
            end = Some(column + 1);
        }
    }
    cells
}

fn draw(text: &str) -> String {
    let (title, rest) = text.split_once("\n\n").expect("a title and an empty line");
    let (picture, colors) = rest.split_once("---\n").expect("a line ---");
    let class = |cell: &str| {
        let named = colors.lines().filter_map(|line| line.split_once(": "));
        named
            .filter(|(_, cells)| format!(", {cells}, ").contains(&format!(", {cell}, ")))
            .map(|(class, _)| class)
            .next()
    };
    let (mut lines, mut texts, mut columns) = (String::new(), String::new(), 0);
    for (row, line) in picture.lines().enumerate() {
        let line: Vec<_> = line.chars().collect();
        columns = columns.max(line.len());
        let y = row * HEIGHT;
        for (column, character) in line.iter().enumerate() {
            let x = column * WIDTH;
            let [middle, center] = [x + WIDTH / 2, y + HEIGHT / 2];
            if let Some([left, right, up, down]) = arms(*character) {
                let ends = [(left, x, center), (right, x + WIDTH, center), (up, middle, y), (down, middle, y + HEIGHT)];
                let ends = ends.iter().filter(|(is_there, ..)| *is_there);
                let path: String = ends.map(|(_, x, y)| format!("M{middle} {center}L{x} {y}")).collect();
                let wide = if *character == '━' { " class=\"wide\"" } else { "" };
                writeln!(lines, "<path{wide} d=\"{path}\"/>").unwrap();
            }
            lines.extend(tip(*character, x, y));
        }
        for (column, cell) in cells(&line) {
            let class = class(&cell).map(|class| format!(" class=\"{class}\"")).unwrap_or_default();
            let [x, base, length] = [column * WIDTH, y + 13, cell.chars().count() * WIDTH];
            let cell = cell.replace('&', "&amp;").replace('<', "&lt;");
            writeln!(texts, "<text{class} x=\"{x}\" y=\"{base}\" textLength=\"{length}\">{cell}</text>").unwrap();
        }
    }
    let [width, height] = [(columns + 2) * WIDTH, picture.lines().count() * HEIGHT + HEIGHT];
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" viewBox=\"-8 -9 {width} {height}\" \
         font-family=\"ui-monospace,monospace\" font-size=\"13\">\n<title>{title}</title>\n{STYLE}\
         <rect x=\"-8\" y=\"-9\" width=\"100%\" height=\"100%\"/>\n{lines}{texts}</svg>\n"
    )
}

const STYLE: &str = "<style>rect{fill:#ffffff}text,polygon{fill:#1f2328}path{stroke:#59636e;fill:none}\
    .wide{stroke:#0969da;stroke-width:3}text.good{fill:#1a7f37;font-weight:bold}text.bad{fill:#d1242f;font-weight:bold}\
    text.warn{fill:#9a6700;font-weight:bold}@media(prefers-color-scheme:dark){rect{fill:#0d1117}text,polygon{fill:#e6edf3}\
    path{stroke:#9198a1}.wide{stroke:#4493f8}text.good{fill:#3fb950}text.bad{fill:#f85149}text.warn{fill:#d29922}}</style>\n";

#[test]
fn pictures_are_drawn_from_their_texts() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/images");
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let texts: Vec<_> = files.filter(|path| path.extension().is_some_and(|extension| extension == "txt")).collect();
    assert!(texts.len() > 3, "{texts:?}");
    for path in texts {
        let text = fs::read_to_string(&path).unwrap();
        let picture = path.with_extension("svg");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&picture, draw(&text)).unwrap();
        } else {
            let drawn = fs::read_to_string(&picture).unwrap_or_default();
            assert_eq!(drawn, draw(&text), "{}: UPDATE_GOLDEN=1 draws it anew", picture.display());
        }
    }
}

#[test]
fn picture_has_its_lines_and_the_colors_of_its_cells() {
    let drawn = draw("A & B\n\n┌─▶ fine  not fine\n---\ngood: fine\nbad: not fine\n");
    assert!(drawn.contains("<path d=\"M4 9L8 9M4 9L4 18\"/>\n"), "{drawn}");
    assert!(drawn.contains("<polygon points=\"16,5 24,9 16,13\"/>\n"), "{drawn}");
    assert!(drawn.contains("<text class=\"good\" x=\"32\" y=\"13\" textLength=\"32\">fine</text>\n"), "{drawn}");
    assert!(drawn.contains("<text class=\"bad\" x=\"80\" y=\"13\" textLength=\"64\">not fine</text>\n"), "{drawn}");
}

/// `make dashboard` draws it, and `make test-alerts` compares all of it.
#[test]
fn picture_of_the_dashboard_has_its_panels() {
    let board = crate::read("charts/node-resource-advertiser/files/dashboard.json");
    let board: serde_json::Value = serde_json::from_str(&board).unwrap();
    let panels: Vec<_> =
        board["panels"].as_array().unwrap().iter().filter_map(|panel| panel["title"].as_str()).collect();
    let picture = crate::read("docs/images/dashboard.svg");
    let titles =
        picture.lines().filter_map(|line| line.strip_prefix("<text class=\"title\"")?.split(['>', '<']).nth(1));
    let titles: Vec<_> = titles.collect();
    assert_eq!(titles, panels);
}

/// What README shows a newcomer, as `make recording` plays it.
#[test]
fn recording_is_short_and_shows_each_step() {
    let cast = crate::read("docs/images/demo.cast");
    let lines: Vec<serde_json::Value> = cast.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.last().unwrap()[0].as_f64().is_some_and(|end| end <= 20.0), "seconds");
    let shown: String = lines.iter().filter_map(|line| line[2].as_str()).collect();
    let steps = [
        "quantity: 4",
        "pod/dongle-user created",
        "Running",
        "node/node-1 patched",
        "4\r\n",
        "\"dongle\" deleted",
        "nothing",
    ];
    let mut rest = shown.as_str();
    for step in steps {
        (_, rest) = rest.split_once(step).unwrap_or_else(|| panic!("{step:?} is not shown next: {rest}"));
    }
    assert!(!shown.contains("policy") && !shown.contains("WARN"), "{shown}");
}
