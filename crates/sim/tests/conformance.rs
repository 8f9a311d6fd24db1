//! ASTRA-sim's numbers, rank by rank: the recorded cases, every one written to files, read back by
//! ASTRA-sim's flags and run on both backends, folded and not.
//!
//! Not here: native semantics (`cross_fidelity.rs`, `paper_targets.rs`), wrong inputs
//! (`bad_input.rs`).

use crate::common::cases::{self, Case, Stretch, backend, difference, read_folder, times};
use crate::common::random::thorough;
use crate::common::scratch::Scratch;
use sim::Error;
use sim::{BackendKind, Config, Watch, run};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The cases that differ from ASTRA-sim, on every backend, and why. `COMPARE.md` has the same list.
const DIFFERENT: [(&str, &str); 2] = [
    (
        "D_FC4_a2a_sharedbus",
        "the LogGP memory bus (model-shared-bus) is not modelled; the run warns of it",
    ),
    (
        "D_Ring8_ar_sharedbus",
        "the LogGP memory bus (model-shared-bus) is not modelled; the run warns of it",
    ),
];

/// One run: its case, how it was run, and what is wrong with it.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Verdict {
    case: String,
    how: String,
    fault: Option<String>,
    /// The report warns of the memory bus, which is all that may make a difference.
    warned: bool,
}

fn verdict(
    config: &Result<Config, Error>,
    case: &str,
    peer: &str,
    fold: bool,
    expected: &[Stretch],
) -> Verdict {
    let mut warned = false;
    let fault = match config {
        Ok(config) => {
            match run(&Config { backend: backend(peer), fold, ..config.clone() }, &mut |_| true) {
                Ok(outcome) => {
                    warned = outcome.report.warnings.iter().any(|w| w.contains("model-shared-bus"));
                    difference(expected, &times(&outcome))
                }
                Err(error) => Some(error.to_string()),
            }
        }
        Err(error) => Some(error.to_string()),
    };
    Verdict {
        case: case.to_string(),
        how: format!("{peer}{}", if fold { ", folded" } else { "" }),
        fault,
        warned,
    }
}

/// Runs of a case: folded or not in turn, or both in `make thorough`.
fn all_runs((turn, case): &(usize, Case)) -> Vec<Verdict> {
    let folder = Scratch::new(&case.id);
    case.write(&folder);
    let config = case.read(&folder);
    let peers = case.expected.iter();
    peers
        .flat_map(|(peer, wanted)| {
            let folds = if thorough() { vec![false, true] } else { vec![turn % 2 == 0] };
            folds.into_iter().map(|fold| verdict(&config, &case.id, peer, fold, wanted))
        })
        .collect()
}

/// The results of `work` for every item, on as many threads as there are cores.
fn in_parallel<I: Sync, T: Send>(items: &[I], work: impl Fn(&I) -> Vec<T> + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = work(item);
                    results.lock().expect("nothing panics while it holds the lock").extend(found);
                }
            });
        }
    });
    results.into_inner().expect("nothing panics while it holds the lock")
}

/// Prints how many runs are equal, and fails unless exactly the known cases differ.
fn judge(mut verdicts: Vec<Verdict>) {
    verdicts.sort();
    let equal = verdicts.iter().filter(|v| v.fault.is_none()).count();
    println!("{equal} of {} runs equal in every rank", verdicts.len());
    let known: BTreeSet<&str> = DIFFERENT.iter().map(|d| d.0).collect();
    let mut wrong = Vec::new();
    for v in &verdicts {
        match (&v.fault, known.contains(v.case.as_str())) {
            (Some(fault), false) => wrong.push(format!("{} ({}): {fault}", v.case, v.how)),
            (None, true) => {
                wrong.push(format!("{} ({}) is listed as different and is equal", v.case, v.how))
            }
            (Some(fault), true) if v.warned => {
                println!("  differs as known: {} ({}): {fault}", v.case, v.how)
            }
            (Some(fault), true) => {
                wrong.push(format!("{} ({}) differs without a warning: {fault}", v.case, v.how))
            }
            (None, false) => {}
        }
    }
    let listed = known.iter().filter(|id| !verdicts.iter().any(|v| v.case == **id));
    wrong.extend(listed.map(|id| format!("{id} is listed as different and was not run")));
    assert!(wrong.is_empty(), "{} runs are not as expected:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_rank_ends_when_it_ends_in_astra_sim() {
    let cases: Vec<_> = cases::all().into_iter().enumerate().collect();
    let runs: usize = cases.iter().map(|(_, case)| case.expected.len()).sum();
    let verdicts = in_parallel(&cases, all_runs);
    let made = verdicts.len() / if thorough() { 2 } else { 1 };
    assert_eq!((cases.len(), runs, made), (280, 715, 715), "cases, runs expected, runs made");
    judge(verdicts);
}

/// The same on the recorded files themselves, where they are at hand. Folded: that folding changes
/// nothing is what the test above shows.
#[test]
fn the_recorded_files_run_as_they_are() {
    let corpus =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/conformance/astra-sim");
    let Ok(text) = std::fs::read_to_string(corpus.join("index.json")) else {
        println!("skipped: the recorded corpus is not at {}", corpus.display());
        return;
    };
    let index: serde_json::Value = serde_json::from_str(&text).expect("the index is JSON");
    let recorded = index["cases"].as_array().expect("a list of cases");
    judge(in_parallel(recorded, |case| recorded_runs(&corpus, case)));
}

fn recorded_runs(corpus: &Path, case: &serde_json::Value) -> Vec<Verdict> {
    let id = case["id"].as_str().expect("an id");
    let npus = case["npus"].as_u64().expect("a number of NPUs") as usize;
    let args: Vec<String> = serde_json::from_value(case["args"].clone()).expect("a list of flags");
    let one_file = case.get("uniform_trace").or(case.get("replicate_rank0")).is_some();
    let config = read_folder(&corpus.join("cases").join(id), &args, one_file);
    let mut verdicts = Vec::new();
    for (peer, answer) in case["expected"].as_object().expect("answers by backend") {
        if answer["rc"] == 0 && answer["all_finished"] == true {
            verdicts.push(verdict(&config, id, peer, true, &answer_of(answer, npus)));
        }
    }
    verdicts
}

/// Finish and exposed time of each rank; some cases store one number for all.
fn answer_of(answer: &serde_json::Value, npus: usize) -> Vec<Stretch> {
    let one = |value: &serde_json::Value| value.as_u64().map(|t| vec![t; npus]);
    let list = |key: &str| serde_json::from_value::<Vec<u64>>(answer[key].clone()).ok();
    let finish = list("finish").or(one(&answer["finish_all_equal"])).expect("finish times");
    let exposed =
        list("exposed").map(|e| e.into_iter().map(Some).collect()).unwrap_or(vec![None; npus]);
    finish.into_iter().zip(exposed).map(|(finish, exposed)| (1, finish, exposed)).collect()
}

/// What Armillary answers where ASTRA-sim crashes, hangs or stops in silence on all its backends.
enum Answer {
    /// Finish of every rank in ns.
    Finishes([u64; 4]),
    /// A problem with this in its text.
    Refused(&'static str),
}

use Answer::{Finishes, Refused};

const UNDEFINED: [(&str, Answer); 12] = [
    // 5 us, nothing, 3 us: a node of invalid type wakes its children.
    ("N_Ring4_chain_invalid", Finishes([8_000; 4])),
    // The same next to an all-reduce of 4 chunks, e + 2(n-1)(d + e) + (n-1)R = 10 + 6 (1720 + 10) +
    // 3 * 120 ns each.
    ("N_Ring4_chain_invalid_other", Finishes([43_000; 4])),
    ("N_Ring4_metadata_pg", Finishes([43_000; 4])),
    // A group of one has nothing to send: its member goes on to compute for 2 us.
    ("N_Ring4_grp_single", Finishes([1_000, 1_000, 2_000, 1_000])),
    // Two roofline nodes of floor(1e9 / 900e12 * 1e9) = 1,111 ns, and one without a tensor between
    // them.
    ("N_Ring4_roofline_tensor0_chain", Finishes([2_222; 4])),
    ("N_Ring4_pg_unknown", Refused("pg_name \"9\" is not the name of a communicator group")),
    ("N_Ring4_size_mismatch", Refused("rank 0 sends")),
    ("N_Ring6_dbt", Refused("doubleBinaryTree cannot run all_reduce over 6 NPUs")),
    ("N_Ring8_ag_3B", Refused("an all-gather of 3 bytes cannot be split into 4 chunks")),
    ("N_Ring8_ar_splits0", Refused("\"preferred-dataset-splits\" is missing")),
    ("N_Ring8_grp_nonmember", Refused("but rank 4 is not in it")),
    ("N_Ring8_reduce_op", Refused("ASTRA-sim does not support reduce")),
];

#[test]
fn what_astra_sim_leaves_undefined_has_an_answer() {
    let cases: Vec<Case> = cases::all().into_iter().filter(|c| c.expected.is_empty()).collect();
    for case in &cases {
        let expected = UNDEFINED.iter().find(|u| u.0 == case.id);
        let (_, expected) =
            expected.unwrap_or_else(|| panic!("{}: {:?}", case.id, case.nothing_to_compare));
        let folder = Scratch::new(&format!("undefined-{}", case.id));
        case.write(&folder);
        for backend in [BackendKind::Analytical, BackendKind::Link] {
            let answer = case.read(&folder).and_then(|config| {
                run(&Config { backend: backend.clone(), ..config }, &mut |_| true)
            });
            match (answer, expected) {
                (Ok(outcome), Finishes(ns)) => {
                    let finish: Vec<f64> = times(&outcome).iter().map(|t| t.0).collect();
                    assert_eq!(finish, ns.map(|t| t as f64), "{} on {backend:?}", case.id);
                }
                (Err(Error::Input(problems)), Refused(text)) => {
                    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
                    assert!(
                        said.iter().any(|p| p.contains(text)),
                        "{} on {backend:?}: {said:#?}",
                        case.id
                    );
                }
                (Ok(outcome), Refused(_)) => {
                    panic!("{} on {backend:?} ended: {:?}", case.id, times(&outcome))
                }
                (Err(error), _) => panic!("{} on {backend:?}: {error}", case.id),
            }
        }
    }
    assert_eq!(cases.len(), UNDEFINED.len(), "every answer has its case");
}

/// `COMPARE.md` names every case that differs or has nothing to compare with, and the numbers this
/// file asserts.
#[test]
fn the_comparison_page_names_every_case() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../COMPARE.md"))
        .expect("the page is there");
    let named = DIFFERENT.iter().map(|d| d.0).chain(UNDEFINED.iter().map(|u| u.0));
    let missing: Vec<&str> = named.filter(|id| !page.contains(&format!("`{id}`"))).collect();
    assert!(missing.is_empty(), "COMPARE.md does not name {missing:?}");
    let cases = cases::all();
    let runs: usize = cases.iter().map(|c| c.expected.len()).sum();
    let different = cases
        .iter()
        .filter(|c| DIFFERENT.iter().any(|d| d.0 == c.id))
        .map(|c| c.expected.len())
        .sum::<usize>();
    assert!(
        page.contains(&format!("**{} of {runs} ", runs - different)),
        "the page counts {} of {runs}",
        runs - different
    );
}

/// Watched, a phase has no closed form: the run is the same, and the terms of its collectives sum
/// to their durations.
#[test]
fn watched_runs_are_the_same_and_sum() {
    let mut watched = 0;
    for case in cases::all().into_iter().filter(|case| case.npus() <= 8) {
        let folder = Scratch::new(&format!("watched-{}", case.id));
        case.write(&folder);
        let Ok(config) = case.read(&folder) else { continue };
        for peer in case.expected.keys() {
            let [plain, told] = [false, true].map(|detail| {
                let config = Config {
                    backend: backend(peer),
                    watch: Watch { detail, ..Watch::default() },
                    ..config.clone()
                };
                run(&config, &mut |_| true)
                    .unwrap_or_else(|error| panic!("{}: {error}", case.id))
                    .report
            });
            assert_eq!(plain.digest, told.digest, "{}", case.id);
            for row in &told.detail.expect("it was asked for").collectives {
                let waits = row.late_ns - row.ahead_ns;
                let sum =
                    waits + row.terms.iter().map(stats::CollectiveTerms::total_ns).sum::<f64>();
                assert!(
                    (sum - row.mean_ns).abs() <= 1e-9 * row.mean_ns,
                    "{}: {sum} is not {row:?}",
                    case.id
                );
            }
            watched += 1;
        }
    }
    assert!(watched > 50, "{watched} runs");
}
