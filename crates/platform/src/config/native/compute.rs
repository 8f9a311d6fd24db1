//! `npu.compute`: a model's word alone, or a mapping with its settings.
//!
//! ```yaml
//! compute: {model: roofline, speedup: 0.5, efficiency: {gemm: 70.5 %}, memory_efficiency: 0.84}
//! compute: {model: roofline, kernel_overhead: 3 us, peak_by_type: {fp8: 1979 TFLOPS, fp32: 495 TFLOPS}, tiles: {multiprocessors: 132, fill_depth: 128, load_cost: 16}}
//! compute: {model: systolic, rows: 256, columns: 256, dataflow: weight_stationary, clock: 940 MHz, sram: {ifmap: 12 MiB}}
//! compute: {model: measured, table: gemm_a100.csv}
//! ```

use super::kernels::{Parts, below_whole, factor, given_part};
use crate::config::file;
use crate::platform;
use declared::findings::{At, Findings};
use declared::tree::Value;
use declared::{Misfit, Setting, Tried, Words, absent, counts, section, suited, words};
use device::compute::measured::{Measured, Table};
use device::compute::systolic::{self, Dataflow, Systolic};
use device::compute::{self as models, Efficiency, Roofline};
use engine::Digest;
use graph::Kernel;
use serde_json::{Map, json};
use std::path::Path;
use std::sync::Arc;
use units::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};

/// The memory of a roofline whose file gives no memory bandwidth: compute alone counts.
const BOUNDLESS: Bandwidth = Bandwidth(u64::MAX);

/// How long compute takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Model {
    Roofline,
    Recorded,
    Systolic,
    Measured,
}

words!(
    Model:
    "roofline" = Model::Roofline,
    "recorded" = Model::Recorded,
    "systolic" = Model::Systolic,
    "measured" = Model::Measured,
);

section! {
    /// How long compute takes.
    #[derive(Clone, Debug)]
    pub(super) struct Compute short model {
        /// How long a compute node takes ([compute](../models/compute.md)); `compute: roofline` is
        /// short for it.
        pub model: Option<Model>, default None, says "`roofline` with `npu.peak`, else `recorded`";
        /// Every duration of NPU compute, recorded or modelled, is divided by this: 2 is twice the
        /// compute power.
        pub speedup: Ratio as factor, default Ratio::ONE, was ["scale"];
        /// Part of their speed that kernels lose while their NPU communicates.
        pub comm_overlap_slowdown: Ratio as below_whole, default Ratio(0),
            was ["beside"] by complement;
        /// Part of the peak that kernels reach: one ratio, or by kind.
        pub efficiency: Parts, default Parts::default(), says "1",
            with [Model::Roofline, Model::Systolic, Model::Measured];
        /// Part of the memory bandwidth that kernels reach: one ratio, or by kind.
        pub memory_efficiency: Parts, default Parts::default(), says "1",
            with [Model::Roofline, Model::Systolic, Model::Measured];
        /// Hardware on which these efficiencies were fitted, where no measured training step supports
        /// this NPU ([assumed efficiencies](../models/compute.md#assumed-efficiencies)).
        pub fitted_on: Option<String>, default None, says "this NPU",
            with [Model::Roofline, Model::Systolic, Model::Measured];
        /// Time that every kernel adds: filling and draining the NPU, and small kernels next to it.
        pub kernel_overhead: Option<Span>, default None, says "0 ns",
            with [Model::Roofline, Model::Systolic, Model::Measured], was ["start"];
        /// Bytes that each row of an embedding table costs its memory in addition, where a kernel
        /// reads or writes it ([lookups](../models/compute.md#lookups)).
        pub row_access: Option<Bytes>, default None, says "0 B",
            with [Model::Roofline, Model::Systolic, Model::Measured];
        /// Peak rates of other element types.
        pub peak_by_type: Option<Rates>, default None, says "`npu.peak`",
            with [Model::Roofline, Model::Measured], was ["rates"];
        /// Part of their peak that matrix multiplications of other element types reach.
        pub efficiency_by_type: Option<Reached>, default None, says "`efficiency.gemm`",
            with [Model::Roofline, Model::Measured];
        /// Part of these efficiencies that matrix multiplications keep in training
        /// ([sustained](../models/compute.md#sustained-rates)).
        pub sustained: Option<Ratio> as given_part, default None, says "1",
            with [Model::Roofline, Model::Measured];
        /// Tiles of matrix multiplications ([tiles](../models/compute.md#tiles)).
        pub tiles: Option<Tiles>, default None, says "no tiles",
            with [Model::Roofline, Model::Measured];
        /// Whether multiplications of experts are a kernel for each expert, and so have
        /// [waves](../models/compute.md#tiles) of their own.
        pub kernel_per_expert: Option<bool>, default None, says "false",
            with [Model::Roofline, Model::Measured];
        /// Rows of the systolic array.
        pub rows: Option<u32> as side, default None, needed [Model::Systolic];
        /// Columns of the systolic array.
        pub columns: Option<u32> as side, default None, needed [Model::Systolic];
        /// Operand that stays in the cells of the array.
        pub dataflow: Option<Dataflow>, default None, needed [Model::Systolic];
        /// Clock of the array.
        pub clock: Option<Frequency>, default None, needed [Model::Systolic];
        /// Buffers of the array; half is used while the other half is filled.
        pub sram: Option<Sram>, default None, says "everything fits", with [Model::Systolic];
        /// A CSV file of measured matrix multiplications, seen from the platform file; with `--set`
        /// from the working directory.
        pub table: Option<String> as path, default None, needed [Model::Measured];
    }
}

section! {
    /// Peak rates of element types other than `peak`'s 16 bits.
    #[derive(Clone, Debug)]
    pub(super) struct Rates {
        /// Elements of 4 bits.
        pub fp4: Option<Flops>, default None, says "`npu.peak`";
        /// Elements of 1 byte.
        pub fp8: Option<Flops>, default None, says "`npu.peak`";
        /// Elements of 4 bytes and more.
        pub fp32: Option<Flops>, default None, says "`npu.peak`";
    }
}

section! {
    /// Efficiencies of matrix multiplications of element types other than `peak`'s 16 bits. Those of
    /// experts reach as much less as with 16 bits.
    #[derive(Clone, Debug)]
    pub(super) struct Reached {
        /// Elements of 4 bits.
        pub fp4: Option<Ratio> as given_part, default None, says "`efficiency.gemm`";
        /// Elements of 1 byte.
        pub fp8: Option<Ratio> as given_part, default None, says "`efficiency.gemm`";
        /// Elements of 4 bytes and more.
        pub fp32: Option<Ratio> as given_part, default None, says "`efficiency.gemm`";
    }
}

section! {
    /// Tiles of matrix multiplications.
    #[derive(Clone, Debug)]
    pub(super) struct Tiles {
        /// Multiprocessors; each works on one tile.
        pub multiprocessors: u32 as side, required "multiprocessors of the NPU", was ["units"];
        /// Depth of a product that filling a multiprocessor's pipeline costs, for each tile.
        pub fill_depth: u32 as depth, default 0, was ["fill"];
        /// Cost of loading a tile of `a x b`: its time is multiplied by
        /// `1 + load_cost (1/a + 1/b)`.
        pub load_cost: u32 as cost, default 0, was ["load"];
    }
}

section! {
    /// Buffers of a systolic array.
    #[derive(Clone, Debug)]
    pub(super) struct Sram {
        /// For inputs.
        pub ifmap: Option<Bytes>, default None, says "everything fits";
        /// For weights.
        pub filter: Option<Bytes>, default None, says "everything fits";
        /// For outputs.
        pub ofmap: Option<Bytes>, default None, says "everything fits";
    }
}

counts! {
    /// Cells along a side of an array; multiprocessors.
    side: 1 to 65_536;
    /// Depths of a product.
    depth: 0 to 65_536;
    /// Costs of a load.
    cost: 0 to 1024;
}

/// The path of a table.
mod path {
    use declared::findings::{At, Findings};
    use declared::{Setting, Shown};

    pub(super) fn kind() -> String {
        "path".into()
    }

    pub(super) fn example() -> String {
        "the path of a table of measured matrix multiplications".into()
    }

    pub(super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Option<String>> {
        findings.text(at).map(|text| Some(text.to_string()))
    }

    pub(super) fn show(path: &Option<String>) -> Option<Shown> {
        path.show()
    }

    pub(super) fn json(path: &Option<String>) -> serde_json::Value {
        path.json()
    }
}

/// The old key was the part that is kept, `comm_overlap_slowdown` is the part that is lost.
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

/// Values of other keys of the NPU.
#[derive(Clone, Copy)]
pub(super) struct Given {
    pub peak: Option<Flops>,
    pub memory: Option<Bandwidth>,
    pub latency: Span,
}

/// Values of `npu.compute`.
pub(super) struct Read {
    pub compute: models::Compute,
    /// The factor on its speed.
    pub speedup: Ratio,
    /// Part of its speed that is lost while the NPU communicates.
    pub slowdown: Ratio,
    /// Other hardware on which its efficiencies were fitted.
    pub fitted_on: Option<String>,
}

/// The places of `npu` and of `npu.compute`, where they are given.
#[derive(Clone, Copy)]
pub(super) struct Places<'p, 'a> {
    pub npu: Option<&'p At<'a>>,
    pub compute: Option<&'p At<'a>>,
}

/// The model and the factors on its speed.
pub(super) fn resolve(
    keys: Tried<Compute>,
    given: Given,
    places: Places<'_, '_>,
    findings: &mut Findings,
) -> Option<Read> {
    let keys = keys.or(absent)?;
    let model = keys.model.unwrap_or(match given.peak {
        Some(_) => Model::Roofline,
        None => Model::Recorded,
    });
    let before = findings.problems.len();
    if let Some(at) = places.compute {
        let tag = Compute::model;
        suited(at, Compute::keys(), tag, model.word(), Misfit::Warn, findings);
        if let (None, Some(found), true) =
            (given.memory, at.get(Compute::memory_efficiency), model != Model::Recorded)
        {
            let text = format!("{} has no effect without npu.memory.bandwidth", found.path);
            findings.warnings.push(text);
        }
    }
    let compute = of_model(model, &keys, given, places, findings);
    if findings.problems.len() > before {
        return None;
    }
    let fitted_on = keys.fitted_on.filter(|_| model != Model::Recorded);
    let (speedup, slowdown) = (keys.speedup, keys.comm_overlap_slowdown);
    Some(Read { compute: compute?, speedup, slowdown, fitted_on })
}

fn of_model(
    model: Model,
    keys: &Compute,
    given: Given,
    places: Places<'_, '_>,
    findings: &mut Findings,
) -> Option<models::Compute> {
    let parts = |parts: &Parts| if model == Model::Recorded { Parts::whole() } else { parts.all() };
    let reached = keys.efficiency_by_type.as_ref();
    let efficiency = Efficiency {
        rate: parts(&keys.efficiency),
        memory: parts(&keys.memory_efficiency),
        widths: reached.map_or([None; 3], |r| [r.fp4, r.fp8, r.fp32]),
        sustained: keys.sustained.unwrap_or_default(),
    };
    let rates = keys.peak_by_type.as_ref();
    let tiles = keys.tiles.as_ref();
    let roofline = |peak| Roofline {
        peak,
        memory: given.memory.unwrap_or(BOUNDLESS),
        latency: given.latency,
        efficiency,
        start: keys.kernel_overhead.unwrap_or(Span::ZERO),
        row: keys.row_access.unwrap_or(Bytes(0)),
        widths: rates.map_or([None; 3], |r| [r.fp4, r.fp8, r.fp32]),
        tiles: tiles.map(|t| models::Tiles {
            units: t.multiprocessors,
            fill: t.fill_depth,
            load: t.load_cost,
        }),
        apart: keys.kernel_per_expert.unwrap_or(false),
    };
    match model {
        Model::Recorded => Some(models::Compute::Recorded),
        Model::Systolic => systolic(keys, given, roofline).map(models::Compute::Systolic),
        Model::Roofline => {
            Some(models::Compute::Roofline(roofline(peak(places, model, given, findings)?)))
        }
        Model::Measured => {
            let table = places.compute.and_then(|at| table(at, findings));
            let rest = roofline(peak(places, model, given, findings)?);
            Some(models::Compute::Measured(Arc::new(Measured { table: table?, rest })))
        }
    }
}

fn peak(
    places: Places<'_, '_>,
    model: Model,
    given: Given,
    findings: &mut Findings,
) -> Option<Flops> {
    if let (None, Some(npu)) = (given.peak, places.npu) {
        let (what, allowed) = match model {
            Model::Measured => (
                "\"peak\" is missing: shapes that the table lacks use the roofline",
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

fn systolic(
    keys: &Compute,
    given: Given,
    roofline: impl Fn(Flops) -> Roofline,
) -> Option<Systolic> {
    let (rows, columns, clock) = (keys.rows?, keys.columns?, keys.clock?);
    let array = 2 * u128::from(rows) * u128::from(columns) * u128::from(clock.0);
    let array = Flops(u64::try_from(array).unwrap_or(u64::MAX));
    let sram = keys.sram.as_ref();
    Some(Systolic {
        rows,
        columns,
        dataflow: keys.dataflow?,
        clock,
        sram: systolic::Sram {
            ifmap: sram.and_then(|s| s.ifmap),
            filter: sram.and_then(|s| s.filter),
            ofmap: sram.and_then(|s| s.ofmap),
        },
        memory: given.memory,
        rest: roofline(given.peak.unwrap_or(array)),
    })
}

/// The table next to the platform file, or where the command line says; `compute` is the mapping.
fn table(compute: &At<'_>, findings: &mut Findings) -> Option<Table> {
    let at = compute.get(Compute::table)?;
    let name = findings.text(&at)?;
    let place = file::place(&at, name, findings);
    let whole = file::whole(&place);
    if place.exists() && !place.is_file() {
        findings.refuse(&at, format!("\"{name}\" is not a file"), path::example());
        return None;
    }
    let mut inner = Findings::new(&place.to_string_lossy());
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

fn rest(compute: &models::Compute) -> Option<&Roofline> {
    match compute {
        models::Compute::Recorded => None,
        models::Compute::Roofline(roofline) => Some(roofline),
        models::Compute::Systolic(systolic) => Some(&systolic.rest),
        models::Compute::Measured(measured) => Some(&measured.rest),
    }
}

/// The keys that read back to the compute of an NPU.
pub(super) fn keys(npu: &platform::Npu) -> Compute {
    let mut keys = Compute {
        speedup: npu.compute_scale,
        comm_overlap_slowdown: npu.comm_overlap_slowdown,
        fitted_on: npu.fitted_on.clone(),
        ..absent()
    };
    if let Some(roofline) = rest(&npu.compute) {
        keys.efficiency = Parts::of(roofline.efficiency.rate);
        keys.memory_efficiency = Parts::of(roofline.efficiency.memory);
        keys.kernel_overhead = Some(roofline.start).filter(|&start| start != Span::ZERO);
        keys.row_access = Some(roofline.row).filter(|&row| row != Bytes(0));
        keys.kernel_per_expert = roofline.apart.then_some(true);
        let [fp4, fp8, fp32] = roofline.widths;
        keys.peak_by_type =
            [fp4, fp8, fp32].iter().any(Option::is_some).then_some(Rates { fp4, fp8, fp32 });
        let [fp4, fp8, fp32] = roofline.efficiency.widths;
        keys.efficiency_by_type =
            [fp4, fp8, fp32].iter().any(Option::is_some).then_some(Reached { fp4, fp8, fp32 });
        keys.sustained = Some(roofline.efficiency.sustained).filter(|&part| part != Ratio::ONE);
        keys.tiles = roofline.tiles.map(|t| Tiles {
            multiprocessors: t.units,
            fill_depth: t.fill,
            load_cost: t.load,
        });
    }
    keys.model = Some(match &npu.compute {
        models::Compute::Recorded => Model::Recorded,
        models::Compute::Roofline(_) => Model::Roofline,
        models::Compute::Measured(measured) => {
            keys.table = Some(measured.table.path.clone());
            Model::Measured
        }
        models::Compute::Systolic(array) => {
            keys.rows = Some(array.rows);
            keys.columns = Some(array.columns);
            keys.dataflow = Some(array.dataflow);
            keys.clock = Some(array.clock);
            let systolic::Sram { ifmap, filter, ofmap } = array.sram;
            let some = ifmap.is_some() || filter.is_some() || ofmap.is_some();
            keys.sram = some.then_some(Sram { ifmap, filter, ofmap });
            Model::Systolic
        }
    });
    keys
}

/// The settings of the model, integers with their unit in the key.
pub(super) fn json(npu: &platform::Npu) -> serde_json::Value {
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
        out["fitted_on"] = json!(npu.fitted_on);
        out["efficiency_ppm"] = by_kind(roofline.efficiency.rate).into();
        out["memory_efficiency_ppm"] = by_kind(roofline.efficiency.memory).into();
        out["kernel_overhead_ps"] = roofline.start.0.into();
        out["row_access_bytes"] = roofline.row.0.into();
        out["kernel_per_expert"] = roofline.apart.into();
        let [fp4, fp8, fp32] = roofline.widths.map(|rate| rate.map(|r| r.0));
        out["peak_by_type_flops"] = json!({ "fp4": fp4, "fp8": fp8, "fp32": fp32 });
        let [fp4, fp8, fp32] = roofline.efficiency.widths.map(|part| part.map(|r| r.0));
        out["efficiency_by_type_ppm"] = json!({ "fp4": fp4, "fp8": fp8, "fp32": fp32 });
        out["sustained_ppm"] = roofline.efficiency.sustained.0.into();
        let tiles = roofline.tiles.map(
            |t| json!({ "multiprocessors": t.units, "fill_depth": t.fill, "load_cost": t.load }),
        );
        out["tiles"] = tiles.unwrap_or_default();
    }
    match &npu.compute {
        models::Compute::Systolic(s) => {
            let word = s.dataflow.word();
            let size = |bytes: Option<units::Bytes>| bytes.map(|b| b.0);
            out["array"] = json!({
                "rows": s.rows, "columns": s.columns, "dataflow": word, "clock_hz": s.clock.0,
                "ifmap_bytes": size(s.sram.ifmap), "filter_bytes": size(s.sram.filter), "ofmap_bytes": size(s.sram.ofmap),
            });
        }
        models::Compute::Measured(measured) => {
            // By name and contents, not by folder: the same inputs give the same report everywhere.
            let mut digest = Digest::default();
            measured.table.words().for_each(|word| digest.add(word));
            let file =
                Path::new(&measured.table.path).file_name().map(|name| name.to_string_lossy());
            let shapes: usize = measured.table.widths().map(|(_, count)| count).sum();
            out["table"] = json!({ "file": file, "shapes": shapes, "digest": format!("{:016x}", digest.value()) });
        }
        models::Compute::Recorded | models::Compute::Roofline(_) => {}
    }
    out
}
