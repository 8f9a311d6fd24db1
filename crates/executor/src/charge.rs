//! Which part of the step the time of an operation is charged to.
//!
//! Here: what is charged by the kind of an operation. The recorder charges waits for launches
//! ([`Part::Launch`]). The rest is idle time. Not here: the parts themselves (crate `stats`).

use graph::OpKind;
use stats::Part;

/// The part that an operation is charged to while it runs. A receive is charged only while its
/// message is on its way.
pub fn part(kind: OpKind) -> Option<Part> {
    match kind {
        OpKind::Compute => Some(Part::Compute),
        OpKind::Communication => Some(Part::Communication),
        OpKind::Remote => Some(Part::Remote),
        OpKind::Local => Some(Part::Local),
        OpKind::Host => Some(Part::Host),
        OpKind::Receive | OpKind::Nothing => None,
    }
}
