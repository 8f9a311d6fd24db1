//! The parts of the step: what a rank's time can be charged to.
//!
//! At every moment a rank is in one state: the first part of the list below that has something in
//! flight. A new part is one entry here, and the place that charges it (`charge.rs` of the
//! executor). Everything else iterates over the list: sums and activity of a run, the report's
//! classes and layers, the timeline, and by the generated `python/armillary/step_parts.py` every table,
//! page and chart.

#[cfg(feature = "schema")]
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::{Index, IndexMut};

/// Everything about one part of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartDeclaration {
    /// Field of a class and of a layer that has its time.
    pub field: &'static str,
    /// Name as a part of the step.
    pub label: &'static str,
    /// Name where there is little room.
    pub heading: &'static str,
    /// Meaning of the part, in a sentence or two.
    pub meaning: &'static str,
    /// Whether views show it even where a run has none of it.
    pub always: bool,
    /// Activity of a rank meanwhile. Null for idle time.
    pub doing: Option<PartActivity>,
    /// How it looks.
    pub style: PartStyle,
    /// Limit that the part counts as where a verdict names the limit of the step.
    pub bound: PartBound,
    /// The setting of a platform that removes it, if one does.
    pub removed_by: Option<PartSetting>,
}

/// Activity of a rank while a part goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartActivity {
    /// Field of the activity over time.
    pub field: &'static str,
    /// Name of the activity.
    pub label: &'static str,
    /// Field of a layer that has the time in flight, charged or not.
    pub in_flight: Option<&'static str>,
    /// How lanes over time show it.
    pub lane: PartLane,
    /// Kinds of the segments of the critical path that belong to it alone.
    pub kinds: &'static [&'static str],
}

/// Bars of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartLane {
    /// Their kind. Parts may share one.
    pub kind: &'static str,
    /// Their colour, which differs from those of passes.
    pub colour: &'static str,
}

/// Colours and characters. Shapes distinguish parts where colours are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartStyle {
    /// Colour in charts (Okabe and Ito, 2008).
    pub colour: &'static str,
    /// Character of a bar in a terminal.
    pub mark: &'static str,
    /// The same where only ASCII can be shown.
    pub ascii: &'static str,
    /// Colour in a terminal.
    pub terminal: &'static str,
}

/// Possible limit of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartBound {
    /// Name in data.
    pub name: &'static str,
    /// The subject of the sentence `... bounds the step`.
    pub subject: &'static str,
}

/// A setting to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct PartSetting {
    /// Meaning, as in `... would help most`.
    pub what: &'static str,
    /// Key of the platform.
    pub key: &'static str,
    /// Value.
    pub value: &'static str,
}

const COMPUTING: PartBound = PartBound { name: "compute", subject: "computing" };
const COMMUNICATION: PartBound = PartBound { name: "communication", subject: "communication" };
const MEMORY: PartBound = PartBound { name: "memory", subject: "moving data to and from memory" };
const HOSTS: PartBound =
    PartBound { name: "hosts", subject: "waiting for hosts to compute or to launch the next work" };
const WAITING: PartBound = PartBound { name: "waiting", subject: "waiting for other ranks" };

/// Declares `Part` and the table of what is known about each.
macro_rules! declare {
    ($($name:ident $declaration:expr;)*) => {
        /// A part of the step. Parts are ordered by precedence.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Part {
            $(#[doc = concat!("See [`Part::about`] of `", stringify!($name), "`.")] $name,)*
        }

        const DECLARATIONS: &[PartDeclaration] = &[$($declaration,)*];

        impl Part {
            /// Every part by precedence; idle time is the last.
            pub const ALL: [Part; DECLARATIONS.len()] = [$(Part::$name,)*];
        }
    };
}

declare! {
    Compute PartDeclaration {
        field: "compute_ns",
        label: "compute",
        heading: "Compute",
        meaning: "The NPU computes.",
        always: true,
        doing: Some(PartActivity {
            field: "compute",
            label: "compute",
            in_flight: None,
            lane: PartLane { kind: "compute", colour: "#56b4e9" },
            kinds: &["compute"],
        }),
        style: PartStyle { colour: "#0072b2", mark: "\u{2588}", ascii: "#", terminal: "green" },
        bound: COMPUTING,
        removed_by: None,
    };
    Communication PartDeclaration {
        field: "exposed_comm_ns",
        label: "exposed communication",
        heading: "Exposed comm.",
        meaning: "The rank communicates (a collective, a send, or a message on its way to a posted \
                  receive) and does not compute.",
        always: true,
        doing: Some(PartActivity {
            field: "communication",
            label: "communication",
            in_flight: Some("comm_ns"),
            lane: PartLane { kind: "communication", colour: "#d55e00" },
            kinds: &[],
        }),
        style: PartStyle { colour: "#d55e00", mark: "\u{2593}", ascii: "=", terminal: "red" },
        bound: COMMUNICATION,
        removed_by: None,
    };
    Remote PartDeclaration {
        field: "exposed_remote_ns",
        label: "exposed remote memory",
        heading: "Remote mem.",
        meaning: "The rank accesses memory outside the NPU and neither computes nor communicates.",
        always: false,
        doing: Some(PartActivity {
            field: "remote",
            label: "remote memory",
            in_flight: Some("remote_ns"),
            lane: PartLane { kind: "memory", colour: "#f0e442" },
            kinds: &["load", "store"],
        }),
        style: PartStyle { colour: "#e69f00", mark: "\u{2592}", ascii: "~", terminal: "yellow" },
        bound: MEMORY,
        removed_by: None,
    };
    Local PartDeclaration {
        field: "exposed_local_ns",
        label: "exposed local memory",
        heading: "Local mem.",
        meaning: "The rank accesses the NPU's own memory by a load or store node and does nothing \
                  else. What kernels read and write is part of `compute_ns`.",
        always: false,
        doing: Some(PartActivity {
            field: "local",
            label: "local memory",
            in_flight: Some("local_ns"),
            lane: PartLane { kind: "memory", colour: "#f0e442" },
            kinds: &[],
        }),
        style: PartStyle { colour: "#f0e442", mark: "\u{259e}", ascii: ":", terminal: "blue" },
        bound: MEMORY,
        removed_by: None,
    };
    Launch PartDeclaration {
        field: "exposed_launch_ns",
        label: "waiting for launches",
        heading: "Launches",
        meaning: "Nothing is in flight. A kernel, a collective, a send or a receive could begin, \
                  but the host has not launched it yet.",
        always: false,
        doing: Some(PartActivity {
            field: "launch",
            label: "waiting for launches",
            in_flight: None,
            lane: PartLane { kind: "launch", colour: "#f2b48c" },
            kinds: &["launch"],
        }),
        style: PartStyle { colour: "#009e73", mark: "\u{25a4}", ascii: "-", terminal: "magenta" },
        bound: HOSTS,
        removed_by: Some(PartSetting {
            what: "launches that take no time, as with a CUDA graph",
            key: "npu.launch",
            value: "0 ns",
        }),
    };
    Host PartDeclaration {
        field: "exposed_host_ns",
        label: "waiting for the host",
        heading: "Host",
        meaning: "Only work of the host is in flight: recorded operators, data loading.",
        always: false,
        doing: Some(PartActivity {
            field: "host",
            label: "host",
            in_flight: Some("host_ns"),
            lane: PartLane { kind: "host", colour: "#5b5b5b" },
            kinds: &["host"],
        }),
        style: PartStyle { colour: "#5b5b5b", mark: "\u{25a5}", ascii: "*", terminal: "cyan" },
        bound: HOSTS,
        removed_by: None,
    };
    Idle PartDeclaration {
        field: "idle_ns",
        label: "idle",
        heading: "Idle",
        meaning: "Nothing is in flight: pipeline bubbles, and the time after the rank's end.",
        always: true,
        doing: None,
        style: PartStyle { colour: "#c8c8c8", mark: "\u{2591}", ascii: ".", terminal: "bright_black" },
        bound: WAITING,
        removed_by: None,
    };
}

impl Part {
    /// Facts about the part.
    pub const fn about(self) -> &'static PartDeclaration {
        &DECLARATIONS[self as usize]
    }

    /// Every part that time is charged to, all but idle time, with what a rank does meanwhile.
    pub fn charged() -> impl Iterator<Item = (Part, &'static PartActivity)> {
        Part::ALL.into_iter().filter_map(|part| Some((part, part.about().doing.as_ref()?)))
    }
}

/// A value for each part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerPart<T>([T; Part::ALL.len()]);

impl<T> PerPart<T> {
    /// Makes the value of each part.
    pub fn of(value: impl FnMut(Part) -> T) -> PerPart<T> {
        PerPart(Part::ALL.map(value))
    }

    /// Each value changed.
    pub fn map<U>(self, change: impl FnMut(T) -> U) -> PerPart<U> {
        PerPart(self.0.map(change))
    }

    /// Parts and values, by precedence.
    pub fn iter(&self) -> impl Iterator<Item = (Part, &T)> {
        Part::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<Part> for PerPart<T> {
    type Output = T;

    #[inline]
    fn index(&self, part: Part) -> &T {
        &self.0[part as usize]
    }
}

impl<T> IndexMut<Part> for PerPart<T> {
    #[inline]
    fn index_mut(&mut self, part: Part) -> &mut T {
        &mut self.0[part as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Class, Layer};
    use std::collections::BTreeSet;

    #[test]
    fn only_the_last_part_is_idle() {
        let idle = |part: &Part| part.about().doing.is_none();
        assert_eq!(Part::ALL.into_iter().filter(idle).collect::<Vec<_>>(), [Part::Idle]);
        assert_eq!(Part::ALL.last(), Some(&Part::Idle));
    }

    #[test]
    fn parts_differ_in_every_name_and_look() {
        let names: [fn(&PartDeclaration) -> &str; 6] = [
            |about| about.field,
            |about| about.label,
            |about| about.heading,
            |about| about.style.colour,
            |about| about.style.mark,
            |about| about.style.ascii,
        ];
        for name in names {
            let different: BTreeSet<_> = DECLARATIONS.iter().map(name).collect();
            assert_eq!(different.len(), DECLARATIONS.len(), "{different:?}");
        }
    }

    /// Whatever is declared, classes and layers of a report have a field for it.
    #[test]
    fn a_report_has_a_field_for_each_part() {
        let class = serde_json::to_value(Class::default()).unwrap();
        let layer = serde_json::to_value(Layer::default()).unwrap();
        for part in Part::ALL {
            assert!(class[part.about().field].is_number(), "{part:?}");
            assert_eq!(layer[part.about().field].is_number(), part != Part::Idle, "{part:?}");
        }
    }
}
