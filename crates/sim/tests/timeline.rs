//! A timeline shows the run that its report tells of: its busy intervals are the report's sums, on
//! random workloads.

use crate::common::built::{WORK, collective, recv, send};
use crate::common::perfetto::{Slice, Timeline, sum, union};
use crate::common::random::{RandomPlatform, Step, backends, cases, platform, steps};
use crate::common::scratch::Scratch;
use crate::common::{built, perfetto, random};
use executor::observe::TimelineRequest;
use graph::{CollectiveKind, Op, Workload};
use proptest::prelude::*;
use sim::Error;
use sim::{BackendKind, Config, Outcome, Watch, run};
use stats::{Class, Part, Report};

/// Runs and reads the timeline of `ranks`.
fn watched(mut config: Config, ranks: Vec<u32>, scratch: &Scratch) -> (Outcome, Vec<u8>) {
    let path = scratch.file("t.pftrace");
    config.watch = Watch {
        timeline: Some(TimelineRequest { path: path.clone().into(), ranks }),
        ..Watch::default()
    };
    let outcome = run(&config, &mut |_| true).unwrap_or_else(|error| panic!("{error}"));
    (outcome, std::fs::read(path).expect("the timeline was written"))
}

fn random_run(
    test: &str,
    platform: &RandomPlatform,
    steps: &[(Step, bool)],
    backend: BackendKind,
    fold: bool,
) -> (Report, Vec<u8>) {
    let workload = random::workload(&platform.sizes, steps);
    let all = (0..workload.ranks.len() as u32).collect();
    let config = Config { fold, ..built::config(&platform.text, workload, backend.clone()) };
    let (outcome, bytes) = watched(config, all, &Scratch::new(&format!("{test}-{backend:?}")));
    (outcome.report, bytes)
}

/// The class of the report that a group's ranks are in, and how many they are.
fn class_of<'r>(report: &'r Report, name: &str) -> (&'r Class, f64) {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).collect();
    let first: u64 = digits.parse().expect("a group is named by its ranks");
    let within = |part: &str| {
        let (part, stride) = part.split_once(':').unwrap_or((part, "1"));
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let [from, to, stride] =
            [from, to, stride].map(|text| text.parse::<u64>().expect("a number"));
        (from..=to).step_by(stride as usize).any(|rank| rank == first)
    };
    let class = report
        .classes
        .iter()
        .find(|class| class.ranks.split(',').any(within))
        .expect("every rank is in a class");
    let count = name
        .split_once('(')
        .map_or(1.0, |(_, count)| count.trim_end_matches(')').parse().expect("a number"));
    (class, count)
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1e3
}

fn state(timeline: &Timeline, group: u64, name: &str) -> f64 {
    ns(sum(&timeline
        .on(group, None)
        .into_iter()
        .filter(|slice| slice.name == name)
        .collect::<Vec<_>>()))
}

/// The tracks of a dimension: `dim 2 Ring(8)`.
fn dimension_track(report: &Report, dim: usize) -> String {
    format!("dim {} {}", dim + 1, report.dimensions[dim].name)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

/// No two slices of a track overlap.
fn no_overlap(timeline: &Timeline) -> bool {
    timeline.tracks.keys().all(|&track| {
        let slices: Vec<&Slice> =
            timeline.slices.iter().filter(|slice| slice.track == track).collect();
        slices.windows(2).all(|pair| pair[0].end() <= pair[1].start())
    })
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn busy_intervals_are_the_reports_sums(platform in platform(), steps in steps(), backends in backends(), fold in any::<bool>()) {
        for backend in backends {
            let (report, bytes) = random_run("sums", &platform, &steps, backend, fold);
            let timeline = perfetto::read(&bytes);
            let mut busy = vec![0.0; report.dimensions.len()];
            let mut ranks = 0.0;
            for group in timeline.groups() {
                let (class, count) = class_of(&report, &timeline.tracks[&group].name);
                let computed = ns(sum(&timeline.on(group, Some("compute"))));
                prop_assert_eq!(computed, class.parts[Part::Compute]);
                prop_assert_eq!(ns(union(&timeline.on(group, Some("communication")))), class.comm_ns);
                for (part, _) in Part::charged() {
                    prop_assert_eq!(state(&timeline, group, part.about().label), class.parts[part]);
                }
                for (dim, busy) in busy.iter_mut().enumerate() {
                    let slices = timeline.on(group, Some(&dimension_track(&report, dim)));
                    *busy += ns(union(&slices)) * count;
                }
                ranks += count;
            }
            prop_assert_eq!(ranks, report.ranks as f64);
            for (dimension, busy) in report.dimensions.iter().zip(busy) {
                prop_assert!(close(busy / ranks, dimension.busy_ns), "{} is not {}", busy / ranks, dimension.busy_ns);
            }
        }
    }

    #[test]
    fn chunks_queues_and_phases_are_the_reports(platform in platform(), steps in steps(), fold in any::<bool>()) {
        let (report, bytes) = random_run("chunks", &platform, &steps, BackendKind::Analytical, fold);
        let timeline = perfetto::read(&bytes);
        let (mut queued, mut network, mut chunks) = (0.0, 0.0, 0.0);
        for group in timeline.groups() {
            let (_, count) = class_of(&report, &timeline.tracks[&group].name);
            for dim in 0..report.dimensions.len() {
                let track = dimension_track(&report, dim);
                let slices = timeline.on(group, Some(&track));
                let waited: u64 = slices.iter().map(|slice| slice.numbers["queued_ps"]).sum();
                queued += ns(waited) * count;
                network += ns(sum(&slices)) * count;
                chunks += slices.len() as f64 * count;
                // Counters move with what is counted, and nothing stays in a queue.
                for name in ["using ", "waiting for "] {
                    let values = timeline.counter(group, &format!("{name}{track}"));
                    prop_assert!(values.is_none_or(|values| values.last().is_some_and(|last| last.1 == 0.0)));
                }
                let most = timeline.counter(group, &format!("using {track}")).into_iter().flatten().map(|v| v.1);
                let lanes = timeline.tracks.values().filter(|t| t.parent == group && t.name == track).count();
                prop_assert!(most.fold(0.0, f64::max) <= lanes as f64);
            }
        }
        let of = |part: fn(&stats::Phase) -> f64| -> f64 { report.phases.iter().map(|p| part(p) * p.count as f64).sum() };
        prop_assert!(close(queued, of(|phase| phase.queue_ns)));
        prop_assert!(close(network, of(|phase| phase.network_ns)));
        // A slice begins when its chunk is ready: the wait in the ready queue is part of it.
        prop_assert_eq!(chunks, of(|phase| f64::from(!phase.name.starts_with("P0"))));
    }

    #[test]
    fn slices_nest_and_flows_lead_on(platform in platform(), steps in steps(), fold in any::<bool>()) {
        let (report, bytes) = random_run("flows", &platform, &steps, BackendKind::Link, fold);
        let timeline = perfetto::read(&bytes);
        prop_assert!(no_overlap(&timeline));
        prop_assert_eq!(timeline.stray, 0);
        for &(from, to) in &timeline.flows {
            let (from, to) = (&timeline.slices[from], &timeline.slices[to]);
            let message = from.texts["kind"] == "send" && to.texts["kind"] == "recv" && from.track != to.track;
            let waited = from.end() <= to.start();
            prop_assert!(waited || message && from.end() <= to.end(), "{:?} does not lead to {:?}", from, to);
        }
        for slice in &timeline.slices {
            prop_assert_eq!((slice.start() / 1000, slice.end() / 1000), slice.ns);
            prop_assert!(ns(slice.end()) <= report.step_time_ns);
        }
        prop_assert_eq!(random_run("flows", &platform, &steps, BackendKind::Link, fold).1, bytes);
    }
}

/// Two ranks on a switch: 1 us a hop, 1 GB/s, and computations of 10 ns.
fn by_hand(test: &str, programs: &[&[(Op, &[u64])]]) -> Timeline {
    let text = format!(
        "topology: Switch({})\nlinks: [{{ bandwidth: 1 GB/s, latency: 500 ns }}]\n",
        programs.len()
    );
    let config = built::config(&text, built::workload(programs, &[]), BackendKind::Analytical);
    perfetto::read(&watched(config, Vec::new(), &Scratch::new(test)).1)
}

fn lines(timeline: &Timeline, category: &str) -> Vec<(String, String, u64, u64)> {
    let of = |slice: &&Slice| slice.category == category;
    let line = |slice: &Slice| {
        let track = &timeline.tracks[&slice.track];
        let (group, row) = match timeline.tracks.get(&track.parent) {
            Some(group) => (group.name.clone(), track.name.clone()),
            None => (track.name.clone(), slice.name.clone()),
        };
        (group, row, slice.start(), slice.end())
    };
    timeline.slices.iter().filter(of).map(line).collect()
}

#[test]
fn a_message_is_shown_from_its_send_to_its_receive() {
    let timeline = by_hand(
        "message",
        &[&[(WORK, &[]), (send(1, 1000), &[0])], &[(recv(-1, 1000), &[]), (WORK, &[0])]],
    );
    // Posted at 0, the receive is under way from the send on: two hops of 500 ns and 1000 bytes at
    // 1 GB/s.
    let line = |rank: &str, row: &str, from, to| (rank.to_string(), row.to_string(), from, to);
    let expected = [
        line("rank 0", "compute", 0, 10_000),
        line("rank 0", "communication", 10_000, 2_010_000),
        line("rank 1", "communication", 10_000, 2_010_000),
        line("rank 1", "compute", 2_010_000, 2_020_000),
    ];
    assert_eq!(lines(&timeline, "operation"), expected);
    let named = |at: usize| {
        (timeline.slices[at].texts["kind"].clone(), timeline.slices[at].texts["cause"].clone())
    };
    let flows: Vec<_> =
        timeline.flows.iter().map(|&(from, to)| (named(from).0, named(to))).collect();
    let to = |kind: &str, cause: &str| (kind.to_string(), cause.to_string());
    let expected = [
        ("compute".to_string(), to("send", "dependency")),
        ("send".to_string(), to("recv", "start")),
        ("recv".to_string(), to("compute", "dependency")),
    ];
    assert_eq!(flows, expected);
    let sent = timeline
        .slices
        .iter()
        .find(|slice| slice.texts.get("kind").is_some_and(|kind| kind == "send"));
    let sent = sent.expect("it is shown");
    assert_eq!((sent.numbers["bytes"], sent.numbers["peer"], sent.numbers["node"]), (1000, 1, 1));
    assert_eq!(sent.texts["layer"], "n1");
    let states = lines(&timeline, "state");
    assert!(
        states.contains(&line("rank 0", "exposed communication", 10_000, 2_010_000)),
        "{states:?}"
    );
}

#[test]
fn a_collective_says_whom_it_waited_for() {
    let all = collective(CollectiveKind::AllReduce, 1000, 0);
    let timeline = by_hand("meeting", &[&[(all, &[])], &[(WORK, &[]), (WORK, &[0]), (all, &[1])]]);
    let waited = |rank: &str| {
        let shown = |s: &&Slice| {
            s.texts.contains_key("group")
                && timeline.tracks[&timeline.tracks[&s.track].parent].name == rank
        };
        let slice = timeline.slices.iter().find(shown).expect("a collective on each rank");
        (
            slice.numbers.get("last_member").copied(),
            slice.numbers.get("waited_for_members_ps").copied(),
        )
    };
    assert_eq!(waited("rank 0"), (Some(1), Some(20_000)));
    assert_eq!(waited("rank 1"), (None, None));
}

/// Forty ranks that compute and reduce, the last four among themselves and after computing twice.
fn two_groups() -> Workload {
    let all = |slot| collective(CollectiveKind::AllReduce, 1 << 20, slot);
    let many: &[(Op, &[u64])] = &[(WORK, &[]), (all(1), &[0])];
    let few: &[(Op, &[u64])] = &[(WORK, &[]), (WORK, &[0]), (all(2), &[1])];
    let programs: Vec<_> = (0..40).map(|rank| if rank < 36 { many } else { few }).collect();
    let groups: [Vec<u32>; 2] = [(0..36).collect(), (36..40).collect()];
    built::workload(&programs, &[&groups[0], &groups[1]])
}

fn shown(test: &str, ranks: Vec<u32>, fold: bool) -> (Vec<String>, u32, u32) {
    let text = "topology: Switch(40)\nlinks: [{ bandwidth: 1 GB/s, latency: 500 ns }]\n";
    let config = Config { fold, ..built::config(text, two_groups(), BackendKind::Analytical) };
    let (outcome, bytes) = watched(config, ranks, &Scratch::new(test));
    let timeline = perfetto::read(&bytes);
    let names = timeline.groups().iter().map(|group| timeline.tracks[group].name.clone()).collect();
    let told = outcome.timeline.expect("there is a timeline");
    (names, told.shown, told.of)
}

#[test]
fn there_are_no_more_ranks_than_can_be_looked_at() {
    let (names, shown, of) = shown("all", Vec::new(), false);
    assert_eq!((names.len(), shown, of), (32, 32, 40));
    assert!(names.contains(&"rank 36".to_string()), "the one that is different is not left out");
}

#[test]
fn ranks_are_picked() {
    assert_eq!(shown("some", vec![39, 3, 3], false).0, ["rank 03", "rank 39"]);
    assert_eq!(shown("folded", vec![39], true), (vec!["ranks 36-39 (4)".into()], 1, 2));
}

#[test]
fn ranks_that_do_not_exist_are_refused() {
    let mut config = built::config(
        "topology: Switch(40)\nlinks: [{ bandwidth: 1 GB/s, latency: 500 ns }]\n",
        two_groups(),
        BackendKind::Analytical,
    );
    let scratch = Scratch::new("absent");
    let request = TimelineRequest { path: scratch.file("t").into(), ranks: vec![40, 0, 50] };
    config.watch.timeline = Some(request);
    let Err(Error::Input(problems)) = run(&config, &mut |_| true) else {
        panic!("it must be refused")
    };
    let said: Vec<_> = problems.iter().map(|p| (p.message.as_str(), p.help.as_str())).collect();
    assert_eq!(
        said,
        [("rank 40 does not exist", "0 to 39"), ("rank 50 does not exist", "0 to 39")]
    );
}

#[test]
fn a_timeline_that_cannot_be_written_is_an_error() {
    let text = "topology: Switch(40)\nlinks: [{ bandwidth: 1 GB/s, latency: 500 ns }]\n";
    for path in ["/nowhere/t.pftrace", "/dev/full"] {
        let mut config = built::config(text, two_groups(), BackendKind::Analytical);
        config.watch.timeline = Some(TimelineRequest { path: path.into(), ranks: Vec::new() });
        assert!(matches!(run(&config, &mut |_| true), Err(Error::Output(_))), "{path}");
    }
}
