//! Text workloads: times worked out by hand, and text out and in again runs the same.
//!
//! Formula: a ring all-reduce of `m` bytes on `p` NPUs, one chunk, no endpoint delay, takes `2
//! (p-1) (m / (p bandwidth) + latency)` (docs/models/collectives.md); the loops add up as
//! docs/reference/text-workloads.md says.

use crate::common::scratch::Scratch;
use platform::config::native;
use sim::{BackendKind, Config, Outcome, Source, Watch, run};
use trace::chakra::ReadOptions;
use trace::text::{Layers, parse, recover};

const BACKENDS: [BackendKind; 5] = BackendKind::ALL;
/// Those that carry whole messages; packets have headers.
const MESSAGES: [BackendKind; 3] = [BackendKind::Analytical, BackendKind::Link, BackendKind::Flow];
/// 1 byte a ns and a direction, 100 ns a link.
const RING: &str = "topology: Ring(4)\nlinks: {bandwidth: 1 GB/s, latency: 100 ns}\n\
    collectives: {rings: one_way}\nscheduler: {chunks: 1, endpoint_delay: 0 ns}\n";

fn config(path: &str, platform: &str, backend: BackendKind, fold: bool) -> Config {
    let platform = native::from_yaml(platform, "p.yml", &[])
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    Config {
        workload: Source::Traces(path.into()),
        groups: Vec::new(),
        platform,
        backend,
        fold,
        watch: Watch::default(),
    }
}

fn outcome(config: &Config) -> Outcome {
    run(config, &mut |_| true).unwrap_or_else(|error| panic!("{error}"))
}

/// The report of `passes` passes, in ns and as JSON.
fn report(
    layers: &Layers,
    passes: u32,
    sizes: &[u32],
    platform: &str,
    backend: BackendKind,
) -> (f64, String) {
    let mut workload = layers
        .workload(passes, Some(sizes), "t.txt")
        .unwrap_or_else(|problems| panic!("{problems:#?}"));
    // They count what the text says and the loop doesn't use, which is not written back.
    workload.notes.clear();
    let config = Config {
        workload: Source::Built(Box::new(workload)),
        ..config("", platform, backend, true)
    };
    let outcome = outcome(&config);
    (
        outcome.finish(0).as_ns(),
        serde_json::to_string_pretty(&outcome.report).expect("a report is JSON"),
    )
}

/// ns of a ring all-reduce on `RING`.
fn all_reduce(bytes: f64) -> f64 {
    6.0 * (bytes / 4.0 + 100.0)
}

fn close(name: &str, measured: f64, expected: f64) {
    println!(
        "{name}: expected {expected} ns, measured {measured} ns, deviation {}",
        measured - expected
    );
    assert!((measured - expected).abs() < 1e-6, "{name}: {measured} instead of {expected}");
}

/// Forward 10 + 20, gradients of the weights 40 and 30, of the inputs 50; the second layer's
/// all-reduce of 8,000 bytes takes 12,600 ns and ends long after the first layer's, of 800 bytes,
/// could have.
#[test]
fn two_data_parallel_layers_take_what_the_loop_says() {
    let body = "DATA\n2\na -1 10 NONE 0 99 NONE 0 30 ALLREDUCE 800 7\nb -1 20 NONE 0 50 NONE 0 40 ALLREDUCE 8000 9\n";
    let layers = parse(body.as_bytes(), "t.txt").expect("it is right");
    let compute = 10.0 + 20.0 + 40.0 + 50.0 + 30.0;
    // The ring is busy with the second layer when the first layer's gradients are ready.
    let started = 10.0 + 20.0 + 40.0;
    let second = started + all_reduce(8000.0);
    let first = second + all_reduce(800.0);
    for backend in MESSAGES {
        let platform = format!("{RING}  ")
            .replace("chunks: 1", "chunks: 1, active_chunks: 1, queues_per_dim: 1");
        let one = report(&layers, 1, &[4], &platform, backend.clone()).0;
        close("one pass", one, (first + 7.0).max(second + 9.0).max(compute));
        // The next pass waits for the first layer, whose update takes 7 ns; by then the second is
        // done.
        let two = report(&layers, 2, &[4], &platform, backend).0;
        close("two passes", two, 2.0 * (first + 7.0));
    }
}

/// Activations are exchanged before the next layer and input gradients next to the weight gradients,
/// each followed by the update.
#[test]
fn a_hybrid_layer_waits_for_its_exchanges() {
    let text = |kind: &str| {
        format!(
            "{kind}\n2\na -1 10 ALLREDUCE 800 20 ALLREDUCE 800 30 NONE 0 5\nb -1 11 NONE 0 21 ALLREDUCE 800 31 NONE 0 6\n"
        )
    };
    let exchange = all_reduce(800.0);
    let forward = 10.0 + exchange + 5.0 + 11.0;
    for backend in MESSAGES {
        let layers = parse(text("MODEL").as_bytes(), "t.txt").expect("it is right");
        let backward = 21.0 + (exchange + 6.0).max(31.0) + 20.0 + 30.0;
        close("MODEL", report(&layers, 1, &[4], RING, backend.clone()).0, forward + backward);
        let transformer = text("HYBRID_TRANSFORMER model_parallel_NPU_group: 4");
        let layers = parse(transformer.as_bytes(), "t.txt").expect("it is right");
        let backward = 21.0 + exchange + 6.0 + 31.0 + 20.0 + exchange + 5.0 + 30.0;
        close("HYBRID_TRANSFORMER", report(&layers, 1, &[4], RING, backend).0, forward + backward);
    }
}

/// A long bottom MLP hides the embedding's exchange, a short one doesn't.
#[test]
fn a_dlrm_hides_the_embedding_behind_the_bottom_mlp() {
    let text = |bottom: u32| {
        format!(
            "HYBRID_DLRM 1\n3\ne -1 10 ALLTOALL 800 0 NONE 0 0 NONE 0 0\nb -1 {bottom} NONE 0 0 NONE 0 0 NONE 0 0\nt -1 7 NONE 0 0 NONE 0 0 NONE 0 0\n"
        )
    };
    let step = |bottom: u32| {
        let layers = parse(text(bottom).as_bytes(), "t.txt").expect("it is right");
        report(&layers, 1, &[4], RING, BackendKind::Link).0
    };
    let exchange = step(0) - 17.0;
    assert!(exchange > 100.0, "an exchange of {exchange} ns");
    for bottom in [1, exchange as u32, 2 * exchange as u32] {
        close("DLRM", step(bottom), 10.0 + exchange.max(f64::from(bottom)) + 7.0);
    }
}

const BODY: &str = "4\na -1 1300 ALLGATHER 70000 1200 ALLREDUCE 70000 900 ALLREDUCE 300000 32\n\
    b -1 2500 NONE 0 2600 REDUCESCATTER 70000 2300 NONE 0 0\nc -1 800 ALLTOALL 4000 900 NONE 0 1000 ALLREDUCE 9000 3\n\
    b -1 700 ALLREDUCE 1000 500 ALLGATHER 3000 600 ALLREDUCE 80000 4\n";

/// Every loop, as text and from the workload it became, in turn on two machines, on all networks.
#[test]
fn text_out_and_in_again_runs_the_same() {
    let own = BODY.lines().skip(1).zip(["DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"]);
    let custom: String = own.map(|(line, own)| format!("{line} {own}\n")).collect();
    let dlrm = BODY.replacen("1300 ALLGATHER", "1300 ALLTOALL", 1);
    let group = "model_parallel_NPU_group: 4";
    let texts = [
        format!("DATA\n{BODY}"),
        format!("MODEL\n{BODY}"),
        format!("HYBRID_DATA_MODEL\n{BODY}"),
        format!("HYBRID_MODEL_DATA\n{BODY}"),
        format!("HYBRID_CUSTOMIZED\n4\n{custom}"),
        format!("HYBRID_TRANSFORMER {group}\n{BODY}"),
        format!(
            "HYBRID_TRANSFORMER_FWD_IN_BCKWD {group} checkpoints: 1 0 checkpoint_initiates: 1 3\n{BODY}"
        ),
        format!("HYBRID_DLRM 2\n{dlrm}"),
        format!("HYBRID_DLRM_ENHANCED 1\n{dlrm}"),
        format!("MICRO\n{BODY}"),
        format!("DISTRIBUTED_INFERENCE\n{BODY}"),
    ];
    let links = "links: {bandwidth: 25 GB/s, latency: 700 ns}\n";
    let machines = [
        (vec![4, 2], format!("topology: Ring(4)_Switch(2)\n{links}")),
        (vec![8], format!("topology: Ring(8)\n{links}")),
    ];
    for (text, (sizes, platform)) in texts.iter().zip(machines.iter().cycle()) {
        let layers = parse(text.as_bytes(), "t.txt")
            .unwrap_or_else(|problems| panic!("{text}\n{problems:#?}"));
        assert_eq!(parse(layers.to_string().as_bytes(), "t.txt").as_ref(), Ok(&layers));
        for backend in BACKENDS {
            let workload = layers.workload(2, Some(sizes), "t.txt").expect("it fits");
            let (back, passes) = recover(&workload, None, &|node| node.duration)
                .unwrap_or_else(|p| panic!("{text}\n{p:#?}"));
            let again = parse(back.to_string().as_bytes(), "t.txt").expect("printed text reads");
            let (before, after) = (
                report(&layers, 2, sizes, platform, backend.clone()),
                report(&again, passes, sizes, platform, backend),
            );
            assert_eq!(before.1, after.1, "{text}became\n{again}on {platform}");
        }
    }
}

/// By its path, with nothing said of its format; folded and written as Chakra traces it stays the
/// same step.
#[test]
fn a_text_runs_by_its_path_folded_and_as_chakra() {
    let folder = Scratch::new("text-runs");
    let text = format!("HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4\n{BODY}");
    let path = folder.write("model.txt", &text);
    let platform = "topology: Ring(4)_Switch(16)\nlinks: {bandwidth: 25 GB/s, latency: 700 ns}\n";
    let json = |outcome: &Outcome| {
        serde_json::to_string_pretty(&outcome.report).expect("a report is JSON")
    };
    let folded = outcome(&config(&path, platform, BackendKind::Analytical, true));
    let unfolded = outcome(&config(&path, platform, BackendKind::Analytical, false));
    assert_eq!(json(&folded), json(&unfolded));
    assert_eq!((folded.simulated_ranks, unfolded.simulated_ranks), (1, 64));

    let workload =
        trace::read(path.as_ref(), Some(&[4, 16]), &[], 1.into(), &ReadOptions::default())
            .expect("it reads");
    for ending in ["compact", "chakra"] {
        let written = std::path::PathBuf::from(folder.file(ending));
        std::fs::create_dir_all(&written).expect("a temporary folder");
        let mut groups = Vec::new();
        match ending {
            "compact" => trace::chakra::write_compact(&workload, &written).expect("it is written"),
            _ => {
                trace::chakra::write_ranks(&workload, &written).expect("it is written");
                let file = written.join("comm_group.json").display().to_string();
                groups =
                    platform::config::astra_sim::groups(&file, Some(64)).expect("the groups read");
            }
        }
        let config = Config {
            groups,
            ..config(&written.display().to_string(), platform, BackendKind::Analytical, true)
        };
        let again = outcome(&config);
        assert_eq!(again.finish(0), folded.finish(0), "{ending}");
        assert_eq!(again.report.digest, folded.report.digest, "{ending}");
    }
}

#[test]
fn what_a_text_cannot_take_is_refused() {
    let folder = Scratch::new("text-refused");
    let path = folder.write("model.txt", format!("DATA\n{BODY}"));
    let read = |groups: &[(String, Vec<u32>)], options| {
        trace::read(path.as_ref(), Some(&[4]), groups, 1.into(), &options)
    };
    let said = |found: Result<graph::Workload, Vec<graph::Problem>>| {
        found.expect_err("it can't")[0].message.clone()
    };
    let group = [("1".to_string(), vec![0, 1])];
    assert!(said(read(&group, ReadOptions::default())).contains("communicator group file"));
    assert!(said(read(&[], ReadOptions { replay: true })).contains("can't be replayed"));
    let trace = folder.write("t.json", "{}");
    let passes = trace::read(trace.as_ref(), Some(&[4]), &[], 2.into(), &ReadOptions::default());
    assert_eq!(said(passes), "2 passes of a trace");
    // Any other text is still refused as no trace.
    let other = folder.write("notes.txt", "shopping\nmilk\n");
    assert!(
        said(trace::read(other.as_ref(), None, &[], 1.into(), &ReadOptions::default()))
            .contains("text, not a Chakra trace")
    );
}

/// The factor on compute is left out of a text, because a simulation divides by it; what takes no
/// time is said.
#[test]
fn a_text_has_the_times_of_its_platform() {
    let layers = parse(format!("DATA\n{BODY}").as_bytes(), "t.txt").expect("it is right");
    let mut workload = layers.workload(2, Some(&[4]), "t.txt").expect("it runs");
    let on =
        |more: &str| config("", &format!("{RING}{more}"), BackendKind::Analytical, true).platform;
    let text = sim::text::text(&workload, &on("npu: {compute: {model: recorded, speedup: 7}}\n"))
        .expect("a DATA loop");
    // What the loop doesn't use is not written back.
    let again = text.layers.workload(text.passes, Some(&[4]), "").expect("it runs");
    assert_eq!(*again.programs[0], *workload.programs[0]);
    assert_eq!((text.passes, text.warnings.len()), (2, 0));
    let timeless =
        parse(b"DATA\n1\na -1 0 NONE 0 1 NONE 0 1 NONE 0 0\n", "t.txt").expect("it is right");
    let timeless = timeless.workload(1, Some(&[4]), "").expect("it runs");
    let warnings = sim::text::text(&timeless, &on("")).expect("a DATA loop").warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("a.forward"), "{warnings:?}");

    workload.origin = "folder".into();
    let mut replayed = on("");
    replayed.scheduler.replay_only = true;
    let problems = sim::text::text(&workload, &replayed).expect_err("durations would be lost");
    assert!(problems.len() == 1 && problems[0].place == "scheduler.replay_only", "{problems:#?}");
    let small =
        config("", &RING.replace("Ring(4)", "Ring(2)"), BackendKind::Analytical, true).platform;
    let problems = sim::text::text(&workload, &small).expect_err("too few NPUs");
    assert!(
        problems[0].to_string().contains("has 2 NPUs, but the workload has 4 ranks"),
        "{problems:#?}"
    );
}
