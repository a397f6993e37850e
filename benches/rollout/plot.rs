//! Cost over the number of nodes, from one file of results for each number.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::pair;
use crate::report::{Report, Row};

const SIZE: (u32, u32) = (1000, 900);
const FONT: &str = "sans-serif";
const COLORS: [RGBColor; 4] =
    [RGBColor(0x1f, 0x77, 0xb4), RGBColor(0xff, 0x7f, 0x0e), RGBColor(0x2c, 0xa0, 0x2c), RGBColor(0x80, 0x80, 0x80)];

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
/// A name, and points of nodes and values.
type Line = (String, Vec<(f64, f64)>);

/// Draws the reports.
pub fn write(reports: &[Report], path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    draw(reports, &root).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw(reports: &[Report], root: &Area<'_>) -> Result<()> {
    root.fill(&WHITE)?;
    let areas = root.split_evenly((3, 1));
    let [cpu, ratios, memory] = &areas[..] else { return Ok(()) };
    let rollouts = [pair::ADVERTISE, pair::EDIT_ALL, pair::WITHDRAW];

    let per_node = |report: &Report, median: f64| median * 1000.0 / report.nodes as f64;
    let mut lines: Vec<Line> = Vec::new();
    for row in [pair::ADVERTISE, pair::EDIT_ALL] {
        let of = |value: fn(&Row) -> Option<f64>| {
            let scaled = |report: &Report| Some(per_node(report, value(report.find(row, "apiserver CPU")?)?));
            points(reports, scaled)
        };
        lines.push((row.to_owned(), of(|row| Some(row.controller.spread.median))));
        lines.push((format!("{row}: baseline"), of(|row| Some(row.baseline.as_ref()?.spread.median))));
    }
    panel(cpu, ("CPU of the API server for each node", "ms"), &lines)?;

    let ratio =
        |row: &str, measure: &str| points(reports, |report| Some(report.find(row, measure)?.ratio.as_ref()?.median));
    let mut lines: Vec<_> =
        rollouts.iter().map(|row| (format!("{row}: CPU of the API server"), ratio(row, "apiserver CPU"))).collect();
    lines.push(("repair: median time".to_owned(), ratio(pair::REPAIR, "p50")));
    panel(ratios, ("Ratio to the baseline", ""), &lines)?;

    let peak = points(reports, |report| Some(report.find(pair::MEMORY, "peak")?.controller.spread.median));
    panel(memory, ("Peak memory of the controller", "MiB"), &[("peak".to_owned(), peak)])?;
    root.present()?;
    Ok(())
}

fn points(reports: &[Report], value: impl Fn(&Report) -> Option<f64>) -> Vec<(f64, f64)> {
    reports.iter().filter_map(|report| Some((report.nodes as f64, value(report)?))).collect()
}

/// Draws one panel of lines over the number of nodes, which is logarithmic.
fn panel(area: &Area<'_>, (caption, unit): (&str, &str), lines: &[Line]) -> Result<()> {
    let all = || lines.iter().flat_map(|(_, points)| points);
    let (least, most) = all().fold((f64::INFINITY, 1.0_f64), |(least, most), (x, _)| (least.min(*x), most.max(*x)));
    let highest = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (FONT, 15))
        .margin(8)
        .margin_right(30)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d((least.min(most)..most).log_scale(), 0.0..highest.max(0.1) * 1.8)?;
    chart
        .configure_mesh()
        .x_desc("nodes")
        .y_desc(unit)
        .x_label_formatter(&|nodes| format!("{nodes:.0}"))
        .max_light_lines(0)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 12))
        .draw()?;
    for ((name, points), color) in lines.iter().zip(COLORS) {
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), color).point_size(3))?;
        drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}
