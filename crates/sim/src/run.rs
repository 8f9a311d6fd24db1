//! The main path: configuration in, report out. One call a stage.
//!
//! read workload -> load algorithms -> check -> fold ranks into classes -> execute (scheduler,
//! plans, network) -> report. Not here: files (`config`, `trace`), what a stage does (the module
//! named by its call).

use crate::backends::{self, BackendKind};
use crate::check::{self};
use crate::config::{Config, Source};
use crate::error::Error;
use crate::estimate::{Estimate, estimate};
use crate::parts::{Outcome, Parts};
use crate::{report, symmetry};
use executor::observe::{Log, Observer, Timeline};
use executor::{Executor, Finished, Folding, Halt, Progress, Settings};
use graph::Workload;
use network::Backend;
use platform::{Platform, custom_files};

/// Runs `config`; `progress` is called now and then and stops the run by returning false.
///
/// # Errors
/// [`Error`]: wrong input (every problem found), a stalled run, a timeline that can't be written,
/// or the hook's wish.
pub fn run(config: &Config, progress: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, Error> {
    run_with(config, true, progress)
}

/// As [`run`]; `foresee` hears what the run will take before it takes it, and may refuse it.
///
/// # Errors
/// As [`run`], and what `foresee` says.
pub fn run_foreseen(
    config: &Config,
    foresee: Foresee<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    start(config, true, foresee, progress)
}

/// Hears what a run will take.
pub type Foresee<'a> = &'a mut dyn FnMut(&Estimate) -> Result<(), Error>;

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
    foresee: Foresee<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    let workload = read(config)?;
    if let Some(request) = &config.watch.timeline {
        request.check(workload.ranks.len() as u32)?;
    }
    simulate(&workload, config, closed_form, foresee, progress)
        .map_err(|error| error.named(&workload.origin))
}

fn simulate(
    workload: &Workload,
    config: &Config,
    closed_form: bool,
    foresee: Foresee<'_>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, Error> {
    let (platform, unreadable) = custom_files::load(&config.platform, workload);
    let lowering = lowering::of(&platform);
    let contention_free = config.backend == BackendKind::Analytical && platform.astra_sim.is_some();
    // What a phase is made of is seen only step by step; the closed form takes as long.
    let closed_form = closed_form && !config.watch.detail;
    let departures_only = config.backend == BackendKind::Analytical && platform.astra_sim.is_none();
    let settings = Settings {
        closed_form,
        contention_free,
        departures_only,
        ..Settings::of(&platform, workload)
    };
    check::all(workload, &platform, unreadable, &settings, lowering.as_ref(), config.backend)?;
    let classes = symmetry::find(workload, &platform, &settings, lowering.as_ref(), config.backend);
    let folding = if config.fold { classes.folding.clone() } else { Folding::none(settings.ranks) };
    let parts = Parts {
        workload,
        platform: &platform,
        settings: &settings,
        folding: &folding,
        lowering: lowering.as_ref(),
    };
    foresee(&estimate(&parts, config.backend, config.watch.detail))?;
    let mut log = config.watch.detail.then(|| Log::new(workload, &folding, settings.sizes.len()));
    let mut timeline = timeline(&parts, config, &classes.folding)?;
    let failed = timeline.as_ref().map(Timeline::failed);
    let progress = &mut |now| failed.as_ref().is_none_or(|failed| !failed.get()) && progress(now);
    let observers = log.iter_mut().map(|log| log as &mut dyn Observer);
    let observers = observers
        .chain(timeline.iter_mut().map(|timeline| timeline as &mut dyn Observer))
        .collect();
    let ended = match config.backend {
        BackendKind::Analytical => {
            execute(&parts, backends::analytical(&platform)?, observers, progress)
        }
        BackendKind::Link => {
            let private =
                symmetry::private_links(workload, &platform, &settings, lowering.as_ref());
            execute(
                &parts,
                backends::link(&platform)?.with_private_links(private),
                observers,
                progress,
            )
        }
    };
    // Whether the run was stopped because it can't be written is for the timeline to say.
    let timeline = timeline
        .map(|timeline| timeline.finish(ended.as_ref().ok().map(Finished::step)))
        .transpose()
        .map_err(Error::Output)?;
    Ok(Outcome { timeline, ..report::outcome(config, &parts, &classes, ended?, log) })
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

fn execute<'s, B: Backend>(
    parts: &'s Parts<'s>,
    backend: B,
    observers: Vec<&'s mut dyn Observer>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Finished, Error> {
    let Parts { workload, settings, folding, lowering, .. } = *parts;
    let executor = Executor::new(workload, settings, folding, lowering, backend, observers);
    executor.run(progress).map_err(|halt| match halt {
        Halt::Stalled(stall) => Error::Stalled(stall),
        Halt::Input(problem) => Error::Input(vec![problem]),
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
            let read =
                trace::read(path, Some(&config.platform.sizes()), &config.groups, 1, &options);
            read.map_err(|problems| Error::from(problems).named(&path.display().to_string()))
        }
    }
}

/// Refuses what [`run`] would refuse, without running it.
///
/// # Errors
/// Every problem found.
pub fn check(workload: &Workload, platform: &Platform, backend: BackendKind) -> Result<(), Error> {
    let (platform, unreadable) = custom_files::load(platform, workload);
    let (lowering, settings) = (lowering::of(&platform), Settings::of(&platform, workload));
    check::all(workload, &platform, unreadable, &settings, lowering.as_ref(), backend)
}
