//! `armillary astra-sim`: ASTRA-sim's flags in, its lines out.
//!
//! Our own flags, in addition to ASTRA-sim's: `--backend analytical|link`, `--json FILE`,
//! `--no-fold`. Lines are ASTRA-sim's without date and time, so that the same input prints the same
//! bytes: `[workload] [info] sys[R] finished, C cycles, exposed communication E cycles.`, in the
//! order in which ranks finish, lower ranks first among equals. A cycle is a nanosecond.

use crate::errors;
use crate::simulate::run_with_estimate;
use graph::Problem;
use platform::Platform;
use platform::config::astra_sim::{self as files, AstraSimArgs};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use sim::{BackendKind, Config, Outcome, Source, Watch};
use std::io::{self, Write};
use std::path::PathBuf;

const PS_PER_CYCLE: u64 = 1000;

const HELP: &str = "\
Usage: armillary astra-sim FLAGS

Reads the files of ASTRA-sim's analytical front ends and prints what they print.

  --workload-configuration=PREFIX        rank i runs PREFIX.i.et
  --system-configuration=FILE            system.json, or a system file of ASTRA-sim 1.0
  --network-configuration=FILE           network.yml, or a network file of ASTRA-sim 1.0
  --remote-memory-configuration=FILE     remote_memory.json; not with files of ASTRA-sim 1.0
  --comm-group-configuration=FILE        communicator groups
  --logical-topology-configuration=FILE  logical dimensions
  --num-queues-per-dim=N                 1
  --rendezvous-protocol=BOOL             false
  --injection-scale=X                    1
  --num-passes=N                         1; how often a text workload runs
  --comm-scale, --compute-scale, --logging-configuration, --logging-folder, --total-stat-rows,
  --stat-row, --path, --run-name: accepted, without effect

Flags that ASTRA-sim does not have:
  --backend=NAME                         analytical (congestion-unaware, default), link (congestion-aware), flow,
                                         packet, flit or external:COMMAND
  --json=FILE                            write Armillary's result to FILE; - writes it to standard output instead of the lines
  --no-fold                              simulate every rank, even if some behave alike
";

/// Exit code, path of `--json`, report.
type Answer = (i32, Option<String>, Option<String>);

#[pyfunction]
pub fn astra_sim(py: Python<'_>, arguments: Vec<String>) -> PyResult<Answer> {
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        io::stdout().write_all(HELP.as_bytes())?;
        return Ok((0, None, None));
    }
    let (ours, theirs) = Ours::split(arguments);
    let config = configure(&ours, &theirs).map_err(|problems| errors::input(py, &problems))?;
    let json_to_stdout = ours.json.as_deref() == Some("-");
    if let (Some(path), false) = (&ours.json, json_to_stdout) {
        py.import("armillary.files")?.call_method1("require_writable", (path,))?;
    }
    let outcome = run_with_estimate(py, config, None)?;
    warn(&outcome)?;
    if !json_to_stdout {
        py.detach(|| print(&outcome, io::stdout().lock()))?;
    }
    let report = match ours.json {
        Some(_) => serde_json::to_string_pretty(&outcome.report).map(Some),
        None => Ok(None),
    };
    Ok((0, ours.json, report.map_err(|e| PyRuntimeError::new_err(e.to_string()))?))
}

/// Our own flags.
#[derive(Default)]
struct Ours {
    backend: Option<String>,
    json: Option<String>,
    no_fold: bool,
    problems: Vec<Problem>,
}

impl Ours {
    /// Takes our flags out of the arguments; both `--flag=value` and `--flag value`.
    fn split(arguments: Vec<String>) -> (Ours, Vec<String>) {
        let mut ours = Ours::default();
        let mut theirs = Vec::new();
        let mut words = arguments.into_iter().peekable();
        while let Some(word) = words.next() {
            let (flag, given) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_string())),
                None => (word.as_str(), None),
            };
            let slot = match flag {
                "--backend" => &mut ours.backend,
                "--json" => &mut ours.json,
                "--no-fold" => {
                    ours.no_fold = true;
                    continue;
                }
                _ => {
                    theirs.push(word);
                    continue;
                }
            };
            *slot = given.or_else(|| words.next_if(|next| !next.starts_with("--")));
            if slot.is_none() {
                ours.problems.push(
                    Problem::new("", flag, "the flag has no value").help(format!("{flag}=VALUE")),
                );
            }
        }
        (ours, theirs)
    }
}

fn configure(ours: &Ours, theirs: &[String]) -> Result<Config, Vec<Problem>> {
    let mut problems = ours.problems.clone();
    let backend = match ours.backend.as_deref().map(str::parse).transpose() {
        Ok(kind) => kind.unwrap_or(BackendKind::Analytical),
        Err(problem) => {
            problems.push(Problem { place: "--backend".into(), ..problem });
            BackendKind::Analytical
        }
    };
    let read = AstraSimArgs::parse(theirs)
        .and_then(|args| files::read(&args).map(|inputs| (args, inputs)));
    match read {
        Ok((args, (platform, groups))) if problems.is_empty() => {
            let workload = workload(&args, &platform, &groups)?;
            Ok(Config {
                workload,
                groups,
                platform,
                backend,
                fold: !ours.no_fold,
                watch: Watch::default(),
            })
        }
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            Err(problems)
        }
    }
}

/// The traces, or a text workload that runs several times.
fn workload(
    args: &AstraSimArgs,
    platform: &Platform,
    groups: &[(String, Vec<u32>)],
) -> Result<Source, Vec<Problem>> {
    let path = PathBuf::from(&args.workload);
    if args.num_passes == 1 {
        return Ok(Source::Traces(path));
    }
    let (sizes, options) = (platform.sizes(), platform.read_options());
    let read = trace::read(&path, Some(&sizes), groups, args.num_passes.into(), &options)?;
    Ok(Source::Built(Box::new(read)))
}

/// The text of the platform file that says what a network and a system file of ASTRA-sim 1.0 say,
/// and warnings.
#[pyfunction]
pub fn astra_sim_1(py: Python<'_>, network: &str, system: &str) -> PyResult<(String, Vec<String>)> {
    let converted = files::one::convert(network, system);
    let converted = converted.map_err(|problems| errors::input(py, &problems))?;
    Ok((converted.text, converted.warnings))
}

fn warn(outcome: &Outcome) -> io::Result<()> {
    let mut err = io::stderr().lock();
    outcome.report.warnings.iter().try_for_each(|warning| writeln!(err, "warning: {warning}"))
}

/// ASTRA-sim's line for every rank.
fn print(outcome: &Outcome, out: impl Write) -> io::Result<()> {
    let mut order: Vec<u32> = (0..outcome.report.ranks as u32).collect();
    order.sort_by_key(|&rank| outcome.finish(rank)); // stable: lower ranks first among equals
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    for rank in order {
        let cycles = outcome.finish(rank).0 / PS_PER_CYCLE;
        let exposed = outcome.exposed(rank).0 / PS_PER_CYCLE;
        writeln!(
            out,
            "[workload] [info] sys[{rank}] finished, {cycles} cycles, exposed communication {exposed} cycles."
        )?;
    }
    out.flush()
}
