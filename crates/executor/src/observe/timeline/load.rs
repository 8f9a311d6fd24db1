//! The load of the whole machine over time: shares of all NPUs, whether they are shown or not. It
//! is written when the run is over.
//!
//! The bins are those of `Report::detail`, so that memory and file stay small for a run of any
//! length.

use super::super::activities::Activities;
use super::super::bins::{self, Bins};
use super::instant::ns;
use stats::{Network, Part};
use std::io::Write;
use trace::perfetto::{Track, Unit, Writer};
use units::Time;

/// Writes the counters of `activities` of `ranks` ranks below `group`.
pub(super) fn write<W: Write>(
    activities: Activities,
    step: Time,
    (group, dimensions): (u64, &[String]),
    out: &mut Writer<W>,
) {
    let (mut order, ranks) = (0, activities.ranks() as f64);
    let mut put = |name: &str, description: &str, bins: Bins, unit: Option<Unit>| {
        order += 1;
        let means = bins.means(step, ranks);
        if means.iter().any(|&mean| mean > 0.0) {
            let track = out.track(&Track { parent: Some(group), name, description, order, unit });
            curve(
                track,
                (step, bins::width(step)),
                means
                    .iter()
                    .map(|mean| mean * if unit == Some(Unit::Percent) { 100.0 } else { 1.0 }),
                out,
            );
        }
    };
    let percent = Some(Unit::Percent);
    let mut parts = activities.parts;
    for (part, doing) in Part::charged() {
        put(doing.label, "Share of all NPUs.", std::mem::take(&mut parts[part]), percent);
    }
    for (name, bins) in dimensions.iter().zip(activities.dimensions) {
        put(
            &format!("using {name}"),
            "Share of all NPUs with a chunk in a phase on it.",
            bins,
            percent,
        );
    }
    for (name, bins) in dimensions.iter().zip(activities.waiting) {
        put(
            &format!("waiting for {name}"),
            "Chunks in its queue, mean of all NPUs.",
            bins,
            Some(Unit::Count),
        );
    }
}

/// Writes the links of `network` over time below `group`.
pub(super) fn write_links<W: Write>(
    network: &Network,
    step: Time,
    group: u64,
    out: &mut Writer<W>,
) {
    for (order, series) in (0..).zip(&network.series) {
        let (unit, scale) = match series.quantity.as_str() {
            "utilisation" => (Unit::Percent, 100.0),
            _ => (Unit::Count, 1.0),
        };
        let name = format!("{} {}", series.name, series.quantity);
        let description = format!("{} links are used like this one.", series.count);
        let track = Track {
            parent: Some(group),
            name: &name,
            description: &description,
            order,
            unit: Some(unit),
        };
        let track = out.track(&track);
        let width = (network.bin_ns * 1e3) as u64;
        curve(track, (step, width), series.values.iter().map(|value| value * scale), out);
    }
}

fn curve<W: Write>(
    track: u64,
    (step, width): (Time, u64),
    means: impl Iterator<Item = f64>,
    out: &mut Writer<W>,
) {
    let mut last = None;
    for (bin, mean) in means.enumerate() {
        if last.replace(mean) != Some(mean) {
            out.measure(ns(Time(bin as u64 * width)), track, mean);
        }
    }
    out.measure(ns(step), track, 0.0);
}
