//! The report of a run: data only. `sim` fills it in, Python and people read it.
//!
//! These types define the schema. `cargo run -p generate` writes everything else from them and from
//! their doc comments: the JSON Schema, the Python types (`python/armillary/schema.py`) and the
//! tables of fields in `docs/reference/report.md`. Counts of packets
//! and flits are those of the network (`network::usage`). Times are nanoseconds with decimals, exact to
//! the picosecond up to 2^53 ps. Here: one file per section of the report. Not here: pictures and
//! pages (`python/armillary/report`).

mod classes;
mod collectives;
mod detail;
mod flits;
mod network;
mod operations;
mod outside;
mod packets;
mod part;
mod path;
mod picture;
mod report;
mod roofline;
#[cfg(feature = "schema")]
mod schema;

pub use classes::{Class, StepParts, Symmetry};
pub use collectives::{Collective, CollectivePhase, CollectiveTerms};
pub use detail::{
    Activity, ActivityParts, Detail, GanttBar, GanttLane, HeldMemory, Layer, LayerParts, LayerPass,
    LayerPhase,
};
pub use flits::{FlitChannel, FlitClass, FlitLink, Flits};
pub use network::{Bounds, Dimension, Flow, Link, Network, Phase, Series};
pub use operations::{Counts, Operation};
pub use outside::{Outside, OutsideContents, OutsideOverTime};
pub use packets::{Connection, Packets, Port};
pub use part::{
    Part, PartActivity, PartBound, PartDeclaration, PartLane, PartSetting, PartStyle, PerPart,
};
pub use path::{CriticalPath, PathOperation, PathPart, PathSegment, PathSeries};
pub use picture::{Picture, PictureCable, PictureCell, PictureSort};
pub use report::{Config, Origin, Report};
pub use roofline::{Roofline, RooflineParts, RooflineResource};

/// Name of the form of the report. It changes when a field changes its meaning.
pub const SCHEMA: &str = "armillary.report/1";
