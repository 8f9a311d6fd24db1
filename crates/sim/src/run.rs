//! The main path: configuration in, report out. One call a stage.
//!
//! read workload -> load algorithms -> check -> fold ranks into classes -> execute (scheduler,
//! plans, network) -> report. Not here: files (`config`, `trace`), what a stage does (the module
//! named by its call).

use crate::error::Error;
use crate::estimate::{Estimate, estimate};
use crate::executor::{Executor, Finished, Folding, Halt, Lowering, Progress, Settings};
use crate::observe::{Log, Observer, Shown, Timeline, TimelineRequest};
use crate::platform::Platform;
use crate::{backends, check, custom_files, report, settings, symmetry};
use graph::Workload;
use network::Backend;
use stats::Report;
use std::path::PathBuf;
use units::{Span, Time};

/// Which network backend to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// Latency, hops and bandwidth; no contention.
    #[default]
    Analytical,
    /// A queue on every link.
    Link,
}

/// Where the operations come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Chakra traces, in any form `trace::chakra::find` takes, or a text workload, which runs once.
    Traces(PathBuf),
    /// Made by a program.
    Built(Box<Workload>),
}

/// One run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Operations.
    pub workload: Source,
    /// Communicator groups from a file: name and ranks in ring order.
    pub groups: Vec<(String, Vec<u32>)>,
    /// Network, NPUs, collectives, scheduler.
    pub platform: Platform,
    /// Fidelity.
    pub backend: BackendKind,
    /// Simulate one rank of each class of ranks that must behave alike.
    pub fold: bool,
    /// Seed of every random stream.
    pub seed: u64,
    /// What to watch the run for.
    pub watch: Watch,
}

/// What is kept of a run beside its sums.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// A log, for `Report::detail`.
    pub detail: bool,
    /// A timeline, written to a file.
    pub timeline: Option<TimelineRequest>,
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcome {
    /// The report.
    pub report: Report,
    /// Finish and device time by class.
    pub classes: Vec<(Time, Span)>,
    /// Class of each rank; `None` when every rank is its own.
    pub class_of: Option<Vec<u32>>,
    /// Ranks simulated, events handled: what the run cost, not part of the report.
    pub simulated_ranks: u64,
    /// Events handled.
    pub events: u64,
    /// What the timeline shows, if there is one.
    pub timeline: Option<Shown>,
}

impl Outcome {
    /// End of the last operation of `rank`.
    pub fn finish(&self, rank: u32) -> Time {
        self.classes[self.class(rank)].0
    }

    /// Finish of `rank` minus the durations of what its NPU did itself: what ASTRA-sim calls
    /// exposed communication.
    pub fn exposed(&self, rank: u32) -> Span {
        let (finish, device) = self.classes[self.class(rank)];
        finish.since(Time::ZERO).saturating_sub(device)
    }

    fn class(&self, rank: u32) -> usize {
        self.class_of.as_ref().map_or(rank as usize, |c| c[rank as usize] as usize)
    }
}

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
    let lowering = settings::lowering(&platform);
    let contention_free = config.backend == BackendKind::Analytical && platform.astra_sim.is_some();
    // What a phase is made of is seen only step by step; the closed form takes as long.
    let closed_form = closed_form && !config.watch.detail;
    let departures_only = config.backend == BackendKind::Analytical && platform.astra_sim.is_none();
    let settings = Settings {
        closed_form,
        contention_free,
        departures_only,
        ..settings::settings(&platform, workload)
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
    let mut timeline = parts.timeline(config, &classes.folding)?;
    let failed = timeline.as_ref().map(Timeline::failed);
    let progress = &mut |now| failed.as_ref().is_none_or(|failed| !failed.get()) && progress(now);
    let observers = log.iter_mut().map(|log| log as &mut dyn Observer);
    let observers = observers
        .chain(timeline.iter_mut().map(|timeline| timeline as &mut dyn Observer))
        .collect();
    let ended = match config.backend {
        BackendKind::Analytical => {
            parts.execute(backends::analytical(&platform)?, observers, progress)
        }
        BackendKind::Link => {
            let private =
                symmetry::private_links(workload, &platform, &settings, lowering.as_ref());
            parts.execute(
                backends::link(&platform)?.with_private_links(private),
                observers,
                progress,
            )
        }
    };
    // Whether the run was stopped because it can't be written is for the timeline to say.
    let timeline = timeline
        .map(|timeline| timeline.finish(ended.as_ref().ok().map(Finished::step)))
        .transpose()?;
    Ok(Outcome { timeline, ..report::outcome(config, &parts, &classes, ended?, log) })
}

/// What the stages share.
pub(crate) struct Parts<'a> {
    pub workload: &'a Workload,
    pub platform: &'a Platform,
    pub settings: &'a Settings,
    pub folding: &'a Folding,
    pub lowering: &'a dyn Lowering,
}

impl Parts<'_> {
    fn timeline(&self, config: &Config, symmetry: &Folding) -> Result<Option<Timeline<'_>>, Error> {
        let begin = |request| {
            let dims = 0..self.settings.sizes.len() as u32;
            let name = |dim| match &self.platform.logical {
                None => format!("dim {} {}", dim + 1, report::dimension_name(self, dim)),
                Some(_) => format!("dim {}", dim + 1),
            };
            Timeline::new(
                request,
                self.workload,
                (self.folding, symmetry),
                dims.map(name).collect(),
            )
        };
        config.watch.timeline.as_ref().map(begin).transpose()
    }

    fn execute<'s, B: Backend>(
        &'s self,
        backend: B,
        observers: Vec<&'s mut dyn Observer>,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Finished, Error> {
        let executor = Executor::new(
            self.workload,
            self.settings,
            self.folding,
            self.lowering,
            backend,
            observers,
        );
        executor.run(progress).map_err(|halt| match halt {
            Halt::Stalled(stall) => Error::Stalled(stall),
            Halt::Input(problem) => Error::Input(vec![problem]),
            Halt::Cancelled => Error::Cancelled,
        })
    }
}

/// Reads the traces, or takes the workload as it is.
///
/// # Errors
/// Every problem found in the files.
pub fn read(config: &Config) -> Result<Workload, Error> {
    match &config.workload {
        Source::Built(workload) => Ok((**workload).clone()),
        Source::Traces(path) => {
            let options = settings::read_options(&config.platform);
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
    let (lowering, settings) =
        (settings::lowering(&platform), settings::settings(&platform, workload));
    check::all(workload, &platform, unreadable, &settings, lowering.as_ref(), backend)
}
