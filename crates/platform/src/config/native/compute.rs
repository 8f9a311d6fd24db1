//! `npu.compute`: a model's word alone, or a mapping with its settings; reading and showing.
//!
//! ```yaml
//! compute: {model: roofline, speedup: 0.5, efficiency: {gemm: 70.5 %}, memory_efficiency: 0.84}
//! compute: {model: roofline, kernel_overhead: 3 us, peak_by_type: {fp8: 1979 TFLOPS, fp32: 495 TFLOPS}, tiles: {multiprocessors: 132, fill_depth: 128, load_cost: 16}}
//! compute: {model: systolic, rows: 256, columns: 256, dataflow: weight_stationary, clock: 940 MHz, sram: {ifmap: 12 MiB}}
//! compute: {model: measured, table: gemm_a100.csv}
//! ```

use crate::config::declared::keys;
use crate::config::file;
use crate::config::findings::{At, Findings};
use crate::config::tree::{Origin, Value};
use crate::platform::Npu;
use device::compute::measured::{Measured, Table};
use device::compute::systolic::{Dataflow, Sram, Systolic};
use device::compute::{Compute, Efficiency, Roofline, Tiles};
use engine::Digest;
use graph::Kernel;
use serde_json::{Map, json};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use units::{Bandwidth, Flops, Ratio, Span};

/// The memory of a roofline whose file gives no memory bandwidth: compute alone counts.
const BOUNDLESS: Bandwidth = Bandwidth(u64::MAX);
/// Largest factor on compute.
const MOST_SCALE: Ratio = Ratio(1_000_000 * Ratio::ONE.0);
/// Largest side of an array.
const MOST_CELLS: u32 = 65_536;
keys! { pub(super) KEYS:
    /// How long a compute node takes ([compute](../models/compute.md)); `compute: roofline` is
    /// short for it.
    model: "`recorded`, `roofline`, `systolic`, `measured`", "`roofline` with `npu.peak`, else `recorded`";
    /// Every duration of NPU compute, recorded or modelled, is divided by this: 2 is twice the
    /// compute power.
    speedup: "ratio", "1", was ["scale"];
    /// Part of their speed that kernels lose while their NPU communicates.
    comm_overlap_slowdown: "ratio", "0", was ["beside"] by complement;
    /// Part of the peak that kernels reach (`roofline`, `systolic`, `measured`): one ratio, or by
    /// kind: `other`, `gemm`, `grouped` (experts' multiplications; as `gemm`), `convolution`,
    /// `attention`, `unmasked_attention` (against other ranks' keys under context parallelism; as
    /// `attention`), `elementwise`, `normalization`, `embedding`, `optimizer`.
    efficiency: "ratio, or ratios by kind", "1";
    /// Part of the memory bandwidth that kernels reach, likewise.
    memory_efficiency: "ratio, or ratios by kind", "1";
    /// Time that every kernel adds: filling and draining the NPU, small kernels that come with it.
    kernel_overhead: "time", "0 ns", was ["start"];
    /// Peak rates of other element types (`roofline`, `measured`).
    peak_by_type: "mapping", "`npu.peak`", was ["rates"], in RATES;
    /// Tiles of matrix multiplications (`roofline`, `measured`;
    /// [tiles](../models/compute.md#tiles)).
    tiles: "mapping", "no tiles", in TILES;
    /// Cells of a systolic array, 1 to 65,536 (`systolic`).
    rows: "count", "required with `systolic`";
    /// Cells of a systolic array, 1 to 65,536 (`systolic`).
    columns: "count", "required with `systolic`";
    /// What stays in the cells (`systolic`).
    dataflow: "`output_stationary`, `weight_stationary`, `input_stationary`", "required with `systolic`";
    /// Clock of the array (`systolic`).
    clock: "frequency", "required with `systolic`";
    /// Buffers of the array (`systolic`); half is used while the other half is filled.
    sram: "mapping", "everything fits", in SRAM;
    /// A CSV file of measured matrix multiplications (`measured`), seen from the platform file;
    /// with `--set` from the working directory.
    table: "path", "required with `measured`";
}
keys! { RATES:
    /// Elements of 1 byte.
    fp8: "rate", "`npu.peak`";
    /// Elements of 4 bytes and more.
    fp32: "rate", "`npu.peak`";
}
keys! { TILES:
    /// Multiprocessors; each works on one tile.
    multiprocessors: "count", "required", was ["units"];
    /// Depth of a product that filling a multiprocessor's pipeline costs, for each tile.
    fill_depth: "count from 0", "0", was ["fill"];
    /// Cost of loading a tile of `a x b`: its time is multiplied by `1 + load_cost (1/a + 1/b)`.
    load_cost: "count from 0", "0", was ["load"];
}
keys! { SRAM:
    /// For inputs.
    ifmap: "size", "everything fits";
    /// For weights.
    filter: "size", "everything fits";
    /// For outputs.
    ofmap: "size", "everything fits";
}

/// `beside` was the part that is kept, `comm_overlap_slowdown` is the part that is lost.
fn complement(value: &mut Value) {
    let text = match value {
        Value::Text(text) => text.clone(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => x.to_string(),
        _ => return,
    };
    if let Ok(Ratio(kept)) = text.parse::<Ratio>() {
        *value = Value::Text(Ratio(Ratio::ONE.0.saturating_sub(kept)).to_string());
    }
}

/// Types of elements other than `peak`'s 16 bits, as in `Roofline::widths`.
const WIDTHS: [&str; 2] = ["fp8", "fp32"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Model {
    Roofline,
    Recorded,
    Systolic,
    Measured,
}

const MODELS: [(&str, Model); 4] = [
    ("roofline", Model::Roofline),
    ("recorded", Model::Recorded),
    ("systolic", Model::Systolic),
    ("measured", Model::Measured),
];

impl Model {
    /// True when the model heeds the key.
    fn heeds(self, key: &str) -> bool {
        match key {
            "model" | "speedup" | "comm_overlap_slowdown" => true,
            "efficiency" | "memory_efficiency" | "kernel_overhead" => self != Model::Recorded,
            "peak_by_type" | "tiles" => matches!(self, Model::Roofline | Model::Measured),
            "table" => self == Model::Measured,
            _ => self == Model::Systolic,
        }
    }
}

/// What other keys of the NPU say.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub peak: Option<Flops>,
    pub memory: Option<Bandwidth>,
}

/// What `npu.compute` says.
pub(super) struct Read {
    pub compute: Compute,
    /// The factor on its speed.
    pub scale: Ratio,
    /// Part of its speed that is lost while the NPU communicates.
    pub slowdown: Ratio,
}

/// The model and the factors on its speed; `npu` is the mapping `npu`.
pub(super) fn read(npu: &At<'_>, given: Given, findings: &mut Findings) -> Option<Read> {
    let at = npu.get("compute");
    let mapping = at.as_ref().filter(|at| at.is_map());
    let word = match (&at, mapping) {
        (Some(_), Some(mapping)) => {
            findings.declared(mapping, KEYS)?;
            mapping.get("model")
        }
        _ => at.clone(),
    };
    let model = match word {
        Some(word) => findings.one_of(&word, &MODELS)?,
        None if given.peak.is_some() => Model::Roofline,
        None => Model::Recorded,
    };
    if let Some(mapping) = mapping {
        warn_of_idle(mapping, model, given, findings);
    }
    let before = findings.problems.len();
    let settings = mapping.or(at.as_ref()).unwrap_or(npu);
    let scale = scale(settings, findings);
    let slowdown = settings.get("comm_overlap_slowdown");
    let slowdown = slowdown.map_or(Ratio(0), |at| self::slowdown(&at, findings));
    let compute = of_model(model, npu, settings, given, findings);
    if findings.problems.len() > before {
        None
    } else {
        Some(Read { compute: compute?, scale, slowdown })
    }
}

fn of_model(
    model: Model,
    npu: &At<'_>,
    at: &At<'_>,
    given: Given,
    findings: &mut Findings,
) -> Option<Compute> {
    let efficiency = if model == Model::Recorded {
        Efficiency::default()
    } else {
        Efficiency {
            rate: ratios(at, "efficiency", findings),
            memory: ratios(at, "memory_efficiency", findings),
        }
    };
    let memory = given.memory.unwrap_or(BOUNDLESS);
    let start =
        at.get("kernel_overhead").and_then(|at| findings.quantity(&at)).unwrap_or(Span::ZERO);
    let widths = rates(at.get("peak_by_type"), findings);
    let tiles = tiles(at.get("tiles"), findings);
    let roofline = |peak| Roofline { peak, memory, efficiency, start, widths, tiles };
    match model {
        Model::Recorded => Some(Compute::Recorded),
        Model::Systolic => systolic(at, given, roofline, findings).map(Compute::Systolic),
        Model::Roofline => Some(Compute::Roofline(roofline(peak(npu, model, given, findings)?))),
        Model::Measured => {
            let table = table(at, findings);
            let rest = roofline(peak(npu, model, given, findings)?);
            Some(Compute::Measured(Arc::new(Measured { table: table?, rest })))
        }
    }
}

fn peak(npu: &At<'_>, model: Model, given: Given, findings: &mut Findings) -> Option<Flops> {
    if given.peak.is_none() {
        let (what, allowed) = match model {
            Model::Measured => (
                "what the table lacks goes by the roofline, which needs \"peak\"",
                "peak: a rate such as \"989 TFLOPS\"",
            ),
            _ => (
                "the roofline needs \"peak\"",
                "peak: a rate such as \"989 TFLOPS\", or compute: recorded",
            ),
        };
        findings.refuse(npu, what, allowed);
    }
    given.peak
}

/// Warns of keys that the chosen model does not heed.
fn warn_of_idle(at: &At<'_>, model: Model, given: Given, findings: &mut Findings) {
    let word = MODELS.into_iter().find(|m| m.1 == model).map_or("", |m| m.0);
    for (_, value) in at.entries().into_iter().filter(|(key, _)| !model.heeds(&key.name)) {
        findings.warnings.push(format!("{} has no effect with model: {word}", value.path));
    }
    if given.memory.is_none() && model != Model::Recorded && at.get("memory_efficiency").is_some() {
        findings.warnings.push(
            "npu.compute.memory_efficiency has no effect without npu.memory.bandwidth".into(),
        );
    }
}

fn scale(at: &At<'_>, findings: &mut Findings) -> Ratio {
    let Some(at) = at.get("speedup") else { return Ratio::ONE };
    let scale = findings.quantity::<Ratio>(&at).unwrap_or(Ratio::ONE);
    if scale > MOST_SCALE {
        findings.refuse(&at, format!("{scale} is too large"), "a factor from 0.000001 to 1000000");
    }
    scale
}

/// One ratio for all kinds of kernel, or a mapping by kind.
fn ratios(at: &At<'_>, key: &str, findings: &mut Findings) -> [Ratio; Kernel::ALL.len()] {
    let mut all = [Ratio::ONE; Kernel::ALL.len()];
    let Some(at) = at.get(key) else { return all };
    if !at.is_map() {
        return [part(&at, findings); Kernel::ALL.len()];
    }
    if findings.mapping(&at, &Kernel::ALL.map(Kernel::name)).is_some() {
        for (key, value) in at.entries() {
            if let Some(kernel) = Kernel::from_name(&key.name) {
                all[kernel as usize] = part(&value, findings);
            }
        }
        for kernel in Kernel::ALL {
            if let Some(general) = kernel.general().filter(|_| at.get(kernel.name()).is_none()) {
                all[kernel as usize] = all[general as usize];
            }
        }
    }
    all
}

/// A part of a whole.
fn part(at: &At<'_>, findings: &mut Findings) -> Ratio {
    let part = findings.quantity::<Ratio>(at).unwrap_or(Ratio::ONE);
    if part > Ratio::ONE {
        findings.refuse(
            at,
            format!("{part} is more than the whole"),
            "a number above 0 up to 1, or a percentage up to 100 %",
        );
    }
    part
}

/// A part from 0 (or left out), below the whole.
fn slowdown(at: &At<'_>, findings: &mut Findings) -> Ratio {
    let zero = match &at.tree.value {
        Value::Int(0) => true,
        Value::Float(x) => *x == 0.0,
        Value::Text(text) => text.trim_end_matches([' ', '%']).parse() == Ok(0.0),
        _ => false,
    };
    let part = if zero { Ratio(0) } else { findings.quantity(at).unwrap_or(Ratio(0)) };
    if part >= Ratio::ONE {
        let allowed = "a number from 0 to below 1, or a percentage below 100 %";
        findings.refuse(at, format!("{part} leaves kernels no speed"), allowed);
    }
    part
}

/// Peak rates of other widths.
fn rates(at: Option<At<'_>>, findings: &mut Findings) -> [Option<Flops>; 2] {
    let Some(at) = at else { return [None; 2] };
    if findings.declared(&at, RATES).is_none() {
        return [None; 2];
    }
    WIDTHS.map(|width| at.get(width).and_then(|at| findings.quantity(&at)))
}

fn tiles(at: Option<At<'_>>, findings: &mut Findings) -> Option<Tiles> {
    let at = at?;
    findings.declared(&at, TILES)?;
    let units = findings
        .need(&at, "multiprocessors", "multiprocessors of the NPU")
        .and_then(|at| findings.whole(&at, 1, 65_536));
    let mut part = |key, most| at.get(key).and_then(|at| findings.whole(&at, 0, most)).unwrap_or(0);
    let (fill, load) = (part("fill_depth", 65_536), part("load_cost", 1024));
    Some(Tiles { units: units?, fill, load })
}

fn systolic(
    at: &At<'_>,
    given: Given,
    roofline: impl Fn(Flops) -> Roofline,
    findings: &mut Findings,
) -> Option<Systolic> {
    let side = format!("a whole number from 1 to {MOST_CELLS}");
    let [rows, columns] = ["rows", "columns"]
        .map(|key| findings.need(at, key, &side).and_then(|at| findings.whole(&at, 1, MOST_CELLS)));
    let words = Dataflow::WORDS.map(|w| w.0).join(", ");
    let dataflow =
        findings.need(at, "dataflow", &words).and_then(|at| findings.one_of(&at, &Dataflow::WORDS));
    let clock = findings
        .need(at, "clock", "a frequency, such as \"940 MHz\"")
        .and_then(|at| findings.quantity(&at));
    let sram = sram(at.get("sram"), findings);
    let (rows, columns, clock): (_, _, units::Frequency) = (rows?, columns?, clock?);
    let array = 2 * u128::from(rows) * u128::from(columns) * u128::from(clock.0);
    let array = Flops(u64::try_from(array).unwrap_or(u64::MAX));
    let rest = roofline(given.peak.unwrap_or(array));
    Some(Systolic {
        rows,
        columns,
        dataflow: dataflow?,
        clock,
        sram: sram?,
        memory: given.memory,
        rest,
    })
}

fn sram(at: Option<At<'_>>, findings: &mut Findings) -> Option<Sram> {
    let Some(at) = at else { return Some(Sram::default()) };
    findings.declared(&at, SRAM)?;
    let mut size = |key| at.get(key).map(|at| findings.quantity(&at));
    let [ifmap, filter, ofmap] = ["ifmap", "filter", "ofmap"].map(&mut size);
    let whole = |size: Option<Option<_>>| size.map_or(Some(None), |read| read.map(Some));
    Some(Sram { ifmap: whole(ifmap)?, filter: whole(filter)?, ofmap: whole(ofmap)? })
}

/// The table beside the platform file, or where the command line says.
fn table(at: &At<'_>, findings: &mut Findings) -> Option<Table> {
    let at =
        findings.need(at, "table", "the path of a table of measured matrix multiplications")?;
    let name = findings.text(&at)?;
    let folder = match at.tree.origin {
        Origin::Line { .. } => {
            Path::new(findings.file_of(at.tree.origin)).parent().unwrap_or(Path::new(""))
        }
        Origin::Set | Origin::Made => Path::new(""),
    };
    let path = folder.join(name);
    let whole =
        std::path::absolute(&path).unwrap_or_else(|_| path.clone()).to_string_lossy().into_owned();
    if path.exists() && !path.is_file() {
        findings.refuse(
            &at,
            format!("\"{name}\" is not a file"),
            "the path of a table of measured matrix multiplications",
        );
        return None;
    }
    let mut inner = Findings::new(&path.to_string_lossy());
    let read = file::text("table of measured matrix multiplications", &file::disk, &mut inner)
        .map(|text| Table::read(&inner.file, &text));
    findings.merge(inner);
    match read? {
        Ok(table) => Some(table.kept_at(whole)),
        Err(problems) => {
            findings.problems.extend(problems);
            None
        }
    }
}

fn rest(compute: &Compute) -> Option<&Roofline> {
    match compute {
        Compute::Recorded => None,
        Compute::Roofline(roofline) => Some(roofline),
        Compute::Systolic(systolic) => Some(&systolic.rest),
        Compute::Measured(measured) => Some(&measured.rest),
    }
}

/// The key with its value, as a platform file has it below `npu`.
pub(super) fn show(npu: &Npu, quoted: impl Fn(&str) -> String, out: &mut String) {
    let mut lines = Vec::new();
    if npu.compute_scale != Ratio::ONE {
        lines.push(format!("speedup: {}", npu.compute_scale));
    }
    if npu.comm_overlap_slowdown != Ratio(0) {
        lines.push(format!("comm_overlap_slowdown: {}", npu.comm_overlap_slowdown));
    }
    if let Some(roofline) = rest(&npu.compute) {
        for (key, ratios) in [
            ("efficiency", roofline.efficiency.rate),
            ("memory_efficiency", roofline.efficiency.memory),
        ] {
            let usual = |kernel: Kernel| {
                kernel.general().map_or(Ratio::ONE, |general| ratios[general as usize])
            };
            let parts = Kernel::ALL
                .into_iter()
                .zip(ratios)
                .filter(|(kernel, ratio)| *ratio != usual(*kernel));
            let parts: Vec<String> =
                parts.map(|(kernel, ratio)| format!("{}: {ratio}", kernel.name())).collect();
            lines.extend((!parts.is_empty()).then(|| format!("{key}: {{{}}}", parts.join(", "))));
        }
        show_rest(roofline, &mut lines);
    }
    match &npu.compute {
        Compute::Systolic(systolic) => show_systolic(systolic, &mut lines),
        Compute::Measured(measured) => {
            lines.push(format!("table: {}", quoted(&measured.table.path)))
        }
        Compute::Recorded | Compute::Roofline(_) => {}
    }
    let name = npu.compute.name();
    let _ = match lines.is_empty() {
        true => writeln!(out, "  compute: {name}"),
        false => writeln!(out, "  compute:\n    model: {name}\n    {}", lines.join("\n    ")),
    };
}

fn show_rest(roofline: &Roofline, lines: &mut Vec<String>) {
    if roofline.start != Span::ZERO {
        lines.push(format!("kernel_overhead: {}", roofline.start));
    }
    let rates = WIDTHS.iter().zip(roofline.widths);
    let rates: Vec<String> =
        rates.filter_map(|(width, rate)| Some(format!("{width}: {}", rate?))).collect();
    lines.extend((!rates.is_empty()).then(|| format!("peak_by_type: {{{}}}", rates.join(", "))));
    let tiles = roofline.tiles.map(|Tiles { units, fill, load }| {
        format!("tiles: {{multiprocessors: {units}, fill_depth: {fill}, load_cost: {load}}}")
    });
    lines.extend(tiles);
}

fn show_systolic(systolic: &Systolic, lines: &mut Vec<String>) {
    let word = Dataflow::WORDS.into_iter().find(|w| w.1 == systolic.dataflow).map_or("", |w| w.0);
    lines.push(format!("rows: {}", systolic.rows));
    lines.push(format!("columns: {}", systolic.columns));
    lines.push(format!("dataflow: {word}"));
    lines.push(format!("clock: {}", systolic.clock));
    let Sram { ifmap, filter, ofmap } = systolic.sram;
    let sizes = [("ifmap", ifmap), ("filter", filter), ("ofmap", ofmap)];
    let sizes: Vec<String> =
        sizes.into_iter().filter_map(|(key, size)| Some(format!("{key}: {}", size?))).collect();
    lines.extend((!sizes.is_empty()).then(|| format!("sram: {{{}}}", sizes.join(", "))));
}

/// The settings of the model, integers with their unit in the key.
pub(super) fn json(npu: &Npu) -> serde_json::Value {
    let by_kind = |ratios: [Ratio; Kernel::ALL.len()]| -> Map<String, serde_json::Value> {
        Kernel::ALL
            .into_iter()
            .zip(ratios)
            .map(|(kernel, ratio)| (kernel.name().to_string(), ratio.0.into()))
            .collect()
    };
    let mut out = json!({
        "speedup_ppm": npu.compute_scale.0,
        "comm_overlap_slowdown_ppm": npu.comm_overlap_slowdown.0,
    });
    if let Some(roofline) = rest(&npu.compute) {
        out["efficiency_ppm"] = by_kind(roofline.efficiency.rate).into();
        out["memory_efficiency_ppm"] = by_kind(roofline.efficiency.memory).into();
        out["kernel_overhead_ps"] = roofline.start.0.into();
        out["peak_by_type_flops"] = json!({ "fp8": roofline.widths[0].map(|r| r.0), "fp32": roofline.widths[1].map(|r| r.0) });
        let tiles = roofline.tiles.map(
            |t| json!({ "multiprocessors": t.units, "fill_depth": t.fill, "load_cost": t.load }),
        );
        out["tiles"] = tiles.unwrap_or_default();
    }
    match &npu.compute {
        Compute::Systolic(s) => {
            let word = Dataflow::WORDS.into_iter().find(|w| w.1 == s.dataflow).map_or("", |w| w.0);
            let size = |bytes: Option<units::Bytes>| bytes.map(|b| b.0);
            out["array"] = json!({
                "rows": s.rows, "columns": s.columns, "dataflow": word, "clock_hz": s.clock.0,
                "ifmap_bytes": size(s.sram.ifmap), "filter_bytes": size(s.sram.filter), "ofmap_bytes": size(s.sram.ofmap),
            });
        }
        Compute::Measured(measured) => {
            // By name and contents, not by folder: the same inputs give the same report everywhere.
            let mut digest = Digest::default();
            measured.table.words().for_each(|word| digest.add(word));
            let file =
                Path::new(&measured.table.path).file_name().map(|name| name.to_string_lossy());
            let shapes: usize = measured.table.widths().map(|(_, count)| count).sum();
            out["table"] = json!({ "file": file, "shapes": shapes, "digest": format!("{:016x}", digest.value()) });
        }
        Compute::Recorded | Compute::Roofline(_) => {}
    }
    out
}
