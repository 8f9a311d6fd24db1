//! `npu.compute`: what its keys mean, broken values against their exact message, and models that
//! read back.

use super::{from_yaml, load_with, to_json, to_yaml};
use crate::platform::{Launch, Platform};
use declared::Words;
use device::compute::systolic::{Dataflow, Sram, Systolic};
use device::compute::{Compute, Efficiency, Measured, Roofline, Tiles};
use graph::{Gemm, Kernel, Problem};
use proptest::prelude::*;
use std::path::PathBuf;
use units::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};

/// A platform whose NPU has `compute`, a peak of 312 TFLOPS and 1555 GB/s.
fn read(compute: &str) -> Result<Platform, Vec<Problem>> {
    read_with(compute, &[])
}

fn read_with(compute: &str, set: &[(&str, &str)]) -> Result<Platform, Vec<Problem>> {
    let npu =
        format!("npu: {{compute: {compute}, peak: 312 TFLOPS, memory: {{bandwidth: 1555 GB/s}}}}");
    let set: Vec<(String, String)> =
        set.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    from_yaml(
        &format!("topology: R(4)\nlinks: {{bandwidth: 1 GB/s, latency: 1 ns}}\n{npu}\n"),
        "p.yml",
        &set,
    )
}

fn message(compute: &str) -> String {
    let problems = read(compute).unwrap_err();
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const PEAK: Flops = Flops(312_000_000_000_000);
const MEMORY: Bandwidth = Bandwidth(1_555_000_000_000);

#[test]
fn a_word_and_a_mapping_mean_the_same() {
    let word = read("roofline").unwrap();
    assert_eq!(word.npu.compute, Compute::Roofline(Roofline::ideal(PEAK, MEMORY)));
    assert_eq!(read("{model: roofline}").unwrap(), word);
    assert_eq!(read("{speedup: 1}").unwrap(), word);
    assert_eq!(read("recorded").unwrap(), read("{model: recorded, speedup: 100 %}").unwrap());
}

/// Neo and ZionEX, ISCA 2022, appendix A: GEMM at 70.5 % of an A100's peak.
#[test]
fn efficiencies_are_by_kind_or_for_all() {
    let platform =
        read("{efficiency: {gemm: 70.5 %, attention: 0.5}, memory_efficiency: 0.836}").unwrap();
    let mut efficiency =
        Efficiency { memory: [Ratio(836_000); Kernel::ALL.len()], ..Efficiency::default() };
    efficiency.rate[Kernel::Gemm as usize] = Ratio(705_000);
    efficiency.rate[Kernel::Grouped as usize] = Ratio(705_000);
    efficiency.rate[Kernel::Attention as usize] = Ratio(500_000);
    efficiency.rate[Kernel::UnmaskedAttention as usize] = Ratio(500_000);
    assert_eq!(
        platform.npu.compute,
        Compute::Roofline(Roofline { efficiency, ..Roofline::ideal(PEAK, MEMORY) })
    );
    let shown = to_json(&platform);
    assert_eq!(shown["npu"]["compute"], "roofline");
    let own = read(
        "{efficiency: {gemm: 70.5 %, grouped: 0.6, attention: 0.5}, memory_efficiency: 0.836}",
    )
    .unwrap();
    let Compute::Roofline(own) = own.npu.compute else { panic!("another model") };
    assert_eq!(own.efficiency.rate[Kernel::Grouped as usize], Ratio(600_000));
    assert_eq!(shown["npu"]["compute_settings"]["efficiency_ppm"]["gemm"], 705_000);
    assert_eq!(shown["npu"]["compute_settings"]["memory_efficiency_ppm"]["other"], 836_000);
}

#[test]
fn an_array_reads_all_its_keys() {
    let keys = "{model: systolic, rows: 256, columns: 128, dataflow: weight_stationary, clock: 940 MHz, \
                sram: {ifmap: 12 MiB, ofmap: 4 MiB}}";
    let expected = Systolic {
        rows: 256,
        columns: 128,
        dataflow: Dataflow::WeightStationary,
        clock: Frequency(940_000_000),
        sram: Sram { ifmap: Some(Bytes(12 << 20)), filter: None, ofmap: Some(Bytes(4 << 20)) },
        memory: Some(MEMORY),
        rest: Roofline::ideal(PEAK, MEMORY),
    };
    assert_eq!(read(keys).unwrap().npu.compute, Compute::Systolic(expected));
    // Without a peak, kernels that are not matrix multiplications have the array's.
    let bare = format!(
        "topology: R(4)\nlinks: {{bandwidth: 1 GB/s, latency: 1 ns}}\nnpu: {{compute: {keys}}}\n"
    );
    let Compute::Systolic(bare) = from_yaml(&bare, "p.yml", &[]).unwrap().npu.compute else {
        panic!("another model")
    };
    assert_eq!(bare.rest.peak, Flops(2 * 256 * 128 * 940_000_000));
}

#[test]
fn a_setting_can_be_added_to_a_word() {
    let doubled = read_with("roofline", &[("npu.compute.speedup", "2")]).unwrap();
    assert_eq!(doubled.npu.compute_scale, Ratio(2_000_000));
    assert_eq!(doubled.npu.compute, read("roofline").unwrap().npu.compute);
    let nothing = from_yaml(
        "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n",
        "p.yml",
        &[("npu.compute.speedup".into(), "0.5".into())],
    );
    let npu = nothing.unwrap().npu;
    assert_eq!((npu.compute, npu.compute_scale), (Compute::Recorded, Ratio(500_000)));
}

#[test]
fn every_fault_is_named() {
    let cases = [
        (
            "{speedup: 0}",
            "line 3, npu.compute.speedup: ratio \"0\" is zero (allowed: a number of at least a millionth, or a percentage, such as 0.705 or \"70.5 %\")",
        ),
        (
            "{speedup: 1e7}",
            "line 3, npu.compute.speedup: 10000000 is too large (allowed: a factor from 0.000001 to 1000000)",
        ),
        (
            "{efficiency: 1.2}",
            "line 3, npu.compute.efficiency: 1.2 is more than the whole (allowed: a number above 0 up to 1, or a percentage up to 100 %)",
        ),
        (
            "{efficiency: {gem: 1}}",
            "line 3, npu.compute.efficiency.gem: unknown key \"gem\"; did you mean \"gemm\"? (allowed: other, gemm, grouped, convolution, attention, unmasked_attention, elementwise, normalization, embedding, embedding_update, optimizer)",
        ),
        (
            "{modell: roofline}",
            "line 3, npu.compute.modell: unknown key \"modell\"; did you mean \"model\"? (allowed: model, speedup, comm_overlap_slowdown, efficiency, memory_efficiency, fitted_on, kernel_overhead, row_access, peak_by_type, efficiency_by_type, sustained, tiles, kernel_per_expert, rows, columns, dataflow, clock, sram, table)",
        ),
        (
            "{model: fast}",
            "line 3, npu.compute.model: \"fast\" is not allowed (allowed: roofline, recorded, systolic, measured)",
        ),
        (
            "measured",
            "line 3, npu.compute: \"table\" is missing (allowed: the path of a table of measured matrix multiplications)",
        ),
        (
            "{model: systolic, rows: 0, columns: 8, dataflow: weights, clock: 1}",
            "line 3, npu.compute.rows: 0 is not allowed (allowed: a whole number from 1 to 65536)\n\
            p.yml: line 3, npu.compute.dataflow: \"weights\" is not allowed (allowed: output_stationary, weight_stationary, input_stationary)\n\
            p.yml: line 3, npu.compute.clock: frequency \"1\" has no unit (allowed: a number above zero with Hz, kHz, MHz or GHz, such as \"940 MHz\")",
        ),
        (
            "{model: measured, table: /dev/null}",
            "line 3, npu.compute.table: \"/dev/null\" is not a file (allowed: the path of a table of measured matrix multiplications)",
        ),
    ];
    for (compute, expected) in cases {
        assert_eq!(message(compute), format!("p.yml: {expected}"), "{compute}");
    }
    assert_eq!(
        message("{model: measured, table: nowhere.csv}"),
        "nowhere.csv: cannot read the table of measured matrix multiplications: there is no such file (allowed: the path of a \
         readable table of measured matrix multiplications)"
    );
}

#[test]
fn settings_without_effect_are_warned_about() {
    let warnings = read("{model: recorded, efficiency: 0.5, rows: 8}").unwrap().warnings;
    let expected = [
        "npu.compute.efficiency has no effect with model: recorded",
        "npu.compute.rows has no effect with model: recorded",
    ];
    assert_eq!(warnings, expected);
    assert!(read("{efficiency: 0.5}").unwrap().warnings.is_empty());
}

/// A table is next to the platform file, wherever the program runs; what is shown reads back from
/// elsewhere.
#[test]
fn a_table_is_next_to_its_platform() {
    let folder: PathBuf =
        std::env::temp_dir().join(format!("armillary-compute-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    file("gemm.csv", "m,n,k,width,time\n1024,1024,1024,2,18 us\n");
    file("broken.csv", "m,n,k,width,time\n1024,1024,1024,2,18\n");
    file(
        "p.yml",
        "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\n\
         npu: {peak: 312 TFLOPS, compute: {model: measured, table: gemm.csv, efficiency: 0.5}}\n",
    );
    let path = folder.join("p.yml").to_string_lossy().into_owned();
    let platform = load_with(&path, &[], &[]).unwrap();
    let Compute::Measured(measured) = &platform.npu.compute else { panic!("another model") };
    let Measured { table, rest } = measured.as_ref();
    assert_eq!(
        table.estimate(&Gemm { batch: 1, m: 1024, n: 1024, k: 1024, width: 2 }).unwrap().time,
        Span(18_000_000)
    );
    assert_eq!(rest.efficiency.rate, [Ratio(500_000); Kernel::ALL.len()]);
    assert_eq!(from_yaml(&to_yaml(&platform), "elsewhere/q.yml", &[]).as_ref(), Ok(&platform));
    let shown = to_json(&platform)["npu"]["compute_settings"]["table"].clone();
    assert_eq!((shown["file"].as_str(), shown["shapes"].as_u64()), (Some("gemm.csv"), Some(1)));
    let broken = load_with(
        &path,
        &[],
        &[("npu.compute.table".into(), folder.join("broken.csv").to_string_lossy().into())],
    );
    let message = broken.unwrap_err()[0].to_string();
    assert!(message.contains("broken.csv: line 2: time \"18\" has no unit"), "{message}");
    std::fs::remove_dir_all(&folder).unwrap();
}

fn ratios(most: u64) -> impl Strategy<Value = [Ratio; Kernel::ALL.len()]> {
    prop::array::uniform11(prop_oneof![Just(1_000_000), 1..=most]).prop_map(|all| all.map(Ratio))
}

fn rooflines() -> impl Strategy<Value = Roofline> {
    let rates = prop::array::uniform3(prop::option::of((1u64..).prop_map(Flops)));
    let reached = prop::array::uniform3(prop::option::of((1u64..=1_000_000).prop_map(Ratio)));
    let tiles = (1u32..=65_536, 0u32..=65_536, 0u32..=1024).prop_map(|(units, fill, load)| Tiles {
        units,
        fill,
        load,
    });
    let sustained = (1u64..=1_000_000).prop_map(Ratio);
    let parts = (ratios(1_000_000), ratios(1_000_000), reached, sustained).prop_map(
        |(rate, memory, widths, sustained)| Efficiency { rate, memory, widths, sustained },
    );
    let costs = (0u64..1_000_000_000_000, any::<u64>(), any::<bool>());
    (parts, costs, rates, prop::option::of(tiles)).prop_map(
        |(efficiency, (start, row, apart), widths, tiles)| Roofline {
            efficiency,
            start: Span(start),
            row: Bytes(row),
            apart,
            widths,
            tiles,
            ..Roofline::ideal(PEAK, MEMORY)
        },
    )
}

/// Those of compute, too, where something else of the NPU can't be read; a peak that can't is not
/// said to be missing.
#[test]
fn every_problem_of_an_npu_is_listed() {
    let text = "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 ns}\nnpu:\n  peak: fast\n  launch: 3 GB\n  compute:\n    \
                comm_overlap_slowdown: 2\n    kernel_overhead: 5\n    tiles: {fill_depth: 3}\n  memory: {bandwidth: 0 GB/s}\n";
    let problems = from_yaml(text, "p.yml", &[]).unwrap_err();
    let mut places: Vec<&str> =
        problems.iter().filter_map(|p| p.place.split(", npu.").nth(1)).collect();
    places.sort_unstable();
    let all = [
        "compute.comm_overlap_slowdown",
        "compute.kernel_overhead",
        "compute.tiles",
        "launch",
        "memory.bandwidth",
        "peak",
    ];
    assert_eq!(places, all, "{problems:#?}");
}

fn arrays() -> impl Strategy<Value = Systolic> {
    let size = || prop::option::of(any::<u64>().prop_map(Bytes));
    let sram =
        (size(), size(), size()).prop_map(|(ifmap, filter, ofmap)| Sram { ifmap, filter, ofmap });
    let dataflow = prop::sample::select(Dataflow::WORDS.iter().map(|w| w.1).collect::<Vec<_>>());
    (1u32..65_536, 1u32..65_536, dataflow, 1u64.., sram, rooflines()).prop_map(
        |(rows, columns, dataflow, clock, sram, rest)| Systolic {
            rows,
            columns,
            dataflow,
            clock: Frequency(clock),
            sram,
            memory: Some(MEMORY),
            // Keys that an array does not heed are not written.
            rest: Roofline {
                widths: [None; 3],
                tiles: None,
                apart: false,
                efficiency: Efficiency {
                    widths: [None; 3],
                    sustained: Ratio::ONE,
                    ..rest.efficiency
                },
                ..rest
            },
        },
    )
}

proptest! {
    #[test]
    fn models_read_back(
        array in arrays(),
        roofline in rooflines(),
        which in 0..3,
        scale in 1u64..1_000_000_000_000,
        slowdown in 0u64..1_000_000,
        launch in [0u64..1_000_000_000_000, 0..3, 0..1_000_000_000_000, 0..3],
    ) {
        let mut platform = read("recorded").unwrap();
        platform.npu.comm_overlap_slowdown = Ratio(slowdown);
        let [kernel, per_member, send, receive] = launch.map(Span);
        platform.npu.launch = Launch { kernel, per_member, send, receive };
        platform.npu.compute_scale = Ratio(scale);
        platform.npu.compute =
            [Compute::Recorded, Compute::Roofline(roofline), Compute::Systolic(array)][which as usize].clone();
        let text = to_yaml(&platform);
        prop_assert_eq!(from_yaml(&text, "again.yml", &[]), Ok(platform), "{}", text);
    }

    #[test]
    fn no_mapping_panics(text in "[a-z_:{}, 0-9.%-]{0,60}") {
        let _ = read(&text);
        let _ = read(&format!("{{model: systolic, {text}}}"));
    }
}
