//! The main path: configuration in, report out. One call a stage.
//!
//! read workload -> load algorithms -> check -> fold ranks into classes -> execute (scheduler,
//! plans, network) -> report. Not here: files (`config`, `trace`), what a stage does (the module
//! named by its call).

use crate::backends::{BackendKind, Network};
use crate::check::{self};
use crate::config::{Config, Source};
use crate::error::Error;
use crate::estimate::{Estimate, estimate};
use crate::parts::{Outcome, Parts};
use crate::pools::{self, Fill};
use crate::{names, report, symmetry};
use executor::observe::{Ends, Log, NetworkRecorder, Observer, Timeline};
use executor::{Executor, Finished, Folding, Halt, Progress, Settings, Stall};
use graph::{Problem, Workload};
use network::{Backend, Contention};
use platform::{Platform, custom_files};
use units::Time;

/// Runs `config`; `progress` is called now and then and stops the run by returning false.
///
/// # Errors
/// [`Error`]: wrong input (every problem found), a stalled run, a timeline that can't be written,
/// or the hook's wish.
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, Error> {
    run_with(config, true, progress)
}

/// As [`run`]; `on_estimate` gets the estimate of the run before it starts, and may refuse it.
///
/// # Errors
/// As [`run`], and those of `on_estimate`.
pub fn run_with_estimate(
    config: &Config,
    on_estimate: OnEstimate<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    start(config, true, on_estimate, progress)
}

/// Gets the estimate of a run before it starts, and may refuse it.
pub type OnEstimate<'a> = &'a mut dyn FnMut(&Estimate) -> Result<(), Error>;

/// As [`run`]; without `closed_form` every transfer is simulated, and the report is the same.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    config: &Config,
    closed_form: bool,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    start(config, closed_form, &mut |_| Ok(()), progress)
}

fn start(
    config: &Config,
    closed_form: bool,
    on_estimate: OnEstimate<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    let workload = read(config)?;
    if let Some(request) = &config.watch.timeline {
        request.check(workload.ranks.len() as u32)?;
    }
    simulate(&workload, config, closed_form, None, on_estimate, progress)
        .map_err(|error| error.named(&workload.origin))
}

/// Runs `config` and gives the end of every node, by simulated rank. The class of each rank in the outcome is the index of the simulated rank that it is like.
///
/// # Errors
/// As [`run`].
pub fn ends(
    config: &Config,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<(Outcome, Vec<Vec<Time>>), Error> {
    let workload = read(config)?;
    let mut ends = Ends::default();
    let outcome = simulate(&workload, config, true, Some(&mut ends), &mut |_| Ok(()), progress)?;
    Ok((outcome, ends.into_times()))
}

fn simulate(
    workload: &Workload,
    config: &Config,
    closed_form: bool,
    mut watcher: Option<&mut Ends>,
    on_estimate: OnEstimate<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    let (platform, mut unfit) = custom_files::load(&config.platform, workload);
    let lowering = lowering::of(&platform, workload);
    let network = make(&config.backend, &platform, &mut unfit);
    let contention = network.as_ref().map_or(Contention::Links, |network| network.contention());
    // A timeline shows links where transfers meet.
    let links = config.watch.timeline.is_some() && contention == Contention::Links;
    let observed = config.watch.detail || links;
    let settings = Settings {
        // The parts of a phase are seen only step by step; the closed form takes the same time.
        closed_form: closed_form && !observed,
        contention,
        ..Settings::of(&platform, workload)
    };
    check::all(workload, &platform, unfit, &settings, lowering.as_ref())?;
    let mut network = network.expect("a backend that can't be made was refused");
    let mut classes = symmetry::find(workload, &platform, &settings, lowering.as_ref(), &network);
    let folding = if config.fold { classes.folding.clone() } else { Folding::none(settings.ranks) };
    if let Some(links) = classes.links.take().filter(|_| config.fold) {
        network.fold(links);
    }
    let parts = Parts {
        workload,
        platform: &platform,
        settings: &settings,
        folding: &folding,
        lowering: lowering.as_ref(),
    };
    let reason = if config.fold { classes.reason.clone() } else { String::new() };
    on_estimate(&Estimate { reason, ..estimate(&parts, &network, config.watch.detail) })?;
    let recorder = observed.then(NetworkRecorder::default);
    let recorder = recorder.filter(|recorder| network.observe(Box::new(recorder.clone())));
    let dims = settings.sizes.len();
    let new_log = || Log::new(workload, &folding, &classes.folding, dims);
    let mut log = config.watch.detail.then(new_log);
    let mut timeline = timeline(&parts, config, &classes.folding)?;
    let failed = timeline.as_ref().map(Timeline::failed);
    let progress = &mut |now| failed.as_ref().is_none_or(|failed| !failed.get()) && progress(now);
    let observers = log.iter_mut().map(|log| log as &mut dyn Observer);
    let observers = observers
        .chain(timeline.iter_mut().map(|timeline| timeline as &mut dyn Observer))
        .chain(watcher.iter_mut().map(|ends| &mut **ends as &mut dyn Observer))
        .collect();
    let private = symmetry::private_links(&parts, &network);
    if let Some(form) = network.closed_form_mut() {
        form.set_private_links(private);
    }
    let capture = config.watch.capture.as_deref();
    let capture = capture.map(|path| crate::capture::begin(&mut network, path)).transpose()?;
    let ended = execute(&parts, &config.backend, network, observers, progress);
    capture.map_or(Ok(()), |failure| failure.check())?;
    let step = ended.as_ref().ok().map(Finished::step);
    let observed = recorder.zip(step).map(|(recorder, step)| {
        crate::network::observed(config.backend.name(), &parts, &recorder.take(), step)
    });
    // Whether the run was stopped because it can't be written is for the timeline to say.
    let timeline = timeline
        .map(|timeline| timeline.finish(step, observed.as_ref().map(|observed| &observed.network)))
        .transpose()
        .map_err(Error::Output)?;
    let reported = observed.filter(|_| config.watch.detail);
    let ended = ended?;
    let outside = pools::fills(&parts, &ended.ranks);
    let full: Vec<Problem> = outside.iter().filter_map(Fill::problem).collect();
    if !full.is_empty() {
        return Err(full.into());
    }
    let outcome = report::outcome(config, &parts, &classes, ended, &outside, (log, reported));
    Ok(Outcome { timeline, ..outcome })
}

fn timeline<'a>(
    parts: &Parts<'a>,
    config: &Config,
    symmetry: &Folding,
) -> Result<Option<Timeline<'a>>, Error> {
    let begin = |request| {
        let dims = 0..parts.settings.sizes.len() as u32;
        let name = |dim| match &parts.platform.logical {
            None => format!("dim {} {}", dim + 1, report::dimension_name(parts, dim)),
            Some(_) => format!("dim {}", dim + 1),
        };
        let names = dims.map(name).collect();
        Timeline::new(request, parts.workload, (parts.folding, symmetry), names)
    };
    config.watch.timeline.as_ref().map(begin).transpose().map_err(Error::Output)
}

fn execute<'s>(
    parts: &'s Parts<'s>,
    backend: &BackendKind,
    network: Network,
    observers: Vec<&'s mut dyn Observer>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Finished, Error> {
    let Parts { workload, platform, settings, folding, lowering } = *parts;
    let executor = Executor::new(workload, settings, folding, lowering, network, observers);
    executor.run(progress).map_err(|halt| match halt {
        Halt::Stalled(stall, stuck) => {
            let network = stuck.map(|stuck| names::stall(&platform.fabric, stuck));
            Error::Stalled(Box::new(Stall { network, ..*stall }))
        }
        Halt::Input(problem) => Error::Input(vec![problem]),
        Halt::Network(failure) => Problem::new(backend.name(), "", failure).into(),
        Halt::Cancelled => Error::Cancelled,
    })
}

/// Reads the traces, or takes the workload as it is.
///
/// # Errors
/// Every problem found in the files.
pub fn read(config: &Config) -> Result<Workload, Error> {
    match &config.workload {
        Source::Built(workload) => Ok((**workload).clone()),
        Source::Traces(path) => {
            let options = config.platform.read_options();
            let read = trace::read(
                path,
                Some(&config.platform.sizes()),
                &config.groups,
                1.into(),
                &options,
            );
            read.map_err(|problems| Error::from(problems).named(&path.display().to_string()))
        }
    }
}

/// Refuses what [`run`] would refuse, without running it. Returns warnings and assumptions of the
/// run, as far as they are known before it.
///
/// # Errors
/// Every problem found.
pub fn check(
    workload: &Workload,
    platform: &Platform,
    backend: &BackendKind,
) -> Result<Vec<String>, Error> {
    let (platform, mut unfit) = custom_files::load(platform, workload);
    make(backend, &platform, &mut unfit);
    let (lowering, settings) =
        (lowering::of(&platform, workload), Settings::of(&platform, workload));
    check::all(workload, &platform, unfit, &settings, lowering.as_ref())?;
    Ok(report::warnings_before(workload, &platform, backend.name()))
}

/// The network of a run; what keeps it from being made goes to `unfit`.
fn make(backend: &BackendKind, platform: &Platform, unfit: &mut Vec<Problem>) -> Option<Network> {
    backend.make(platform).map_err(|problem| unfit.push(problem)).ok()
}
