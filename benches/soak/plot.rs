//! `soak.svg`: memory, requests and repairs over time.

use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::report::{Repair, Report, quantile};

const SIZE: (u32, u32) = (1000, 960);
const FONT: &str = "sans-serif";
const BLUE: RGBColor = RGBColor(0x1f, 0x77, 0xb4);
const ORANGE: RGBColor = RGBColor(0xff, 0x7f, 0x0e);
const GREEN: RGBColor = RGBColor(0x2c, 0xa0, 0x2c);
const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);
/// Maximum number of points of a line; an hour may have thousands.
const MAX_POINTS: f64 = 240.0;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b, Y> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, Y>>;
/// A name, a color, and points of minutes and values.
type Line = (&'static str, RGBColor, Vec<(f64, f64)>);

/// Draws the report.
pub fn write(report: &Report, path: &Path) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    draw(report, &root).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn draw(report: &Report, root: &Area<'_>) -> Result<()> {
    root.fill(&WHITE)?;
    let title = format!(
        "{} nodes, two replicas ({} build), Kubernetes {}; shaded: something is broken on purpose",
        report.nodes, report.profile, report.kubernetes
    );
    let root = root.titled(&title, (FONT, 16))?;
    let areas = root.split_evenly((3, 1));
    let [memory, requests, repairs] = &areas[..] else { return Ok(()) };
    let highest = |lines: &[Line]| {
        let values = lines.iter().flat_map(|(.., points)| points).map(|(_, value)| *value);
        values.fold(1.0, f64::max)
    };

    let lines =
        [("kept to the end", BLUE, memory_of(report, 1)), ("killed now and then", ORANGE, memory_of(report, 0))];
    let y = 0.0..highest(&lines) * 1.25;
    panel(report, memory, ("Resident memory of each replica", "MiB"), y.clone(), y, &lines)?;

    let rate = |test: fn(&str) -> bool| {
        let points = report.samples.iter().map(|sample| {
            let rates = sample.requests_per_s.iter().filter(|(kind, _)| test(kind));
            (sample.at / 60.0, rates.map(|(_, rate)| rate).sum::<f64>())
        });
        points.collect::<Vec<_>>()
    };
    let is_patch: fn(&str) -> bool = |kind| kind.starts_with("PATCH nodes/status");
    let lines = [
        ("patches of nodes", BLUE, rate(is_patch)),
        ("all others", ORANGE, rate(|kind| !kind.starts_with("PATCH nodes/status"))),
    ];
    let y = 0.0..highest(&lines) * 1.25;
    panel(report, requests, ("Requests of both", "requests/s"), y.clone(), y, &lines)?;

    let of = |share, disturbed: fn(&Repair) -> bool| binned(report, share, disturbed);
    let lines = [
        ("median", BLUE, of(0.5, |repair| !repair.disturbed)),
        ("longest", GREEN, of(1.0, |repair| !repair.disturbed)),
        ("longest while or after something is broken", ORANGE, of(1.0, |repair| repair.disturbed)),
    ];
    let y = 1.0..highest(&lines) * 4.0;
    let caption = ("From a reset to its repair in a watch, logarithmic", "ms");
    panel(report, repairs, caption, y.clone(), y.log_scale(), &lines)?;
    root.present()?;
    Ok(())
}

/// Draws one panel of lines over minutes.
fn panel<Y>(
    report: &Report,
    area: &Area<'_>,
    (caption, unit): (&str, &str),
    range: Range<f64>,
    y: Y,
    lines: &[Line],
) -> Result<()>
where
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let end = report.samples.last().map_or(1.0, |sample| sample.at / 60.0);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, (FONT, 15))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, y)?;
    chart
        .configure_mesh()
        .x_desc("minutes")
        .y_desc(unit)
        .max_light_lines(0)
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 12))
        .draw()?;
    shade(report, &mut chart, range)?;
    for (name, colour, points) in lines {
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), colour))?;
        drawn.label(*name).legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], *colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .label_font((FONT, 12))
        .draw()?;
    Ok(())
}

/// Shades the times of disruptions.
fn shade<Y>(report: &Report, chart: &mut Chart<'_, '_, Y>, range: Range<f64>) -> Result<()>
where
    Y: Ranged<ValueType = f64>,
{
    chart.draw_series(report.disruptions.iter().map(|disruption| {
        let [from, until] = [disruption.at, disruption.until].map(|at| at / 60.0);
        Rectangle::new([(from, range.start), (until, range.end)], GREY.mix(0.2).filled())
    }))?;
    Ok(())
}

fn memory_of(report: &Report, replica: usize) -> Vec<(f64, f64)> {
    let samples = report.samples.iter();
    samples.filter_map(|it| Some((it.at / 60.0, *it.memory_mib.get(replica)?))).collect()
}

/// Returns a quantile of the repairs in each span of time.
fn binned(report: &Report, share: f64, test: fn(&Repair) -> bool) -> Vec<(f64, f64)> {
    let end = report.samples.last().map_or(1.0, |sample| sample.at);
    let width = (end / MAX_POINTS).max(10.0);
    let bins = (end / width).ceil() as usize;
    let points = (0..bins).filter_map(|bin| {
        let span = bin as f64 * width..(bin + 1) as f64 * width;
        let repairs = report.repairs.iter().filter(|it| test(it) && span.contains(&it.at));
        let values: Vec<_> = repairs.map(|repair| repair.ms.max(1.0)).collect();
        (!values.is_empty()).then(|| ((span.start + width / 2.0) / 60.0, quantile(&values, share)))
    });
    points.collect()
}
