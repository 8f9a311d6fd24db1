//! Events of one instant, kept until time moves on. A flow is named where it starts, and the
//! operations that waited for a node are known only after the node has ended. So memory grows with
//! the number of events at one instant, not with the run.

use std::io::Write;
use trace::perfetto::{Details, Value, Writer};
use units::Time;

/// Event on a track.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// A slice with a category and a name begins.
    Begin(u32, u32),
    /// The innermost slice ends.
    End,
    /// A counter has a value.
    Count(u64),
}

/// One event.
struct Event {
    track: u64,
    what: What,
    /// Where its arguments end in `arguments`. They start where those of the event before end.
    arguments: usize,
    flows: Vec<u64>,
    ends: Vec<u64>,
}

/// See the module.
#[derive(Default)]
pub(super) struct Instant {
    pub now: Time,
    events: Vec<Event>,
    arguments: Vec<(u32, Value)>,
    /// Flows so far, for their numbers.
    flows: u64,
}

impl Instant {
    /// Adds an event and returns its place.
    pub(super) fn push(&mut self, track: u64, what: What, arguments: &[(u32, Value)]) -> usize {
        self.arguments.extend_from_slice(arguments);
        let arguments = self.arguments.len();
        self.events.push(Event { track, what, arguments, flows: Vec::new(), ends: Vec::new() });
        self.events.len() - 1
    }

    /// A flow that starts at an event.
    pub(super) fn start_flow(&mut self, event: usize) -> u64 {
        self.flows += 1;
        self.events[event].flows.push(self.flows);
        self.flows
    }

    /// Ends a flow at an event.
    pub(super) fn end_flow(&mut self, event: usize, flow: u64) {
        self.events[event].ends.push(flow);
    }

    /// Writes everything.
    pub(super) fn write<W: Write>(&mut self, out: &mut Writer<W>) {
        let (ns, mut from) = (ns(self.now), 0);
        for event in self.events.drain(..) {
            let arguments = &self.arguments[from..event.arguments];
            from = event.arguments;
            let details = Details { arguments, flows: &event.flows, ends: &event.ends };
            match event.what {
                What::Begin(category, name) => out.begin(ns, event.track, category, name, &details),
                What::End => out.end(ns, event.track, &details),
                What::Count(value) => out.count(ns, event.track, value),
            }
        }
        self.arguments.clear();
    }
}

/// Whole nanoseconds, the unit of Perfetto. Rounded down, so that order is kept.
pub(super) fn ns(time: Time) -> u64 {
    time.0 / 1000
}
