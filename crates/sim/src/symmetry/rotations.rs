//! Whether a turn of the ranks takes all that they may send to what they may send.

use super::{Finder, Ports};
use collective::To;
use lowering::Geometry;

impl Finder<'_> {
    /// Whether rank r + `by`, around the end, sends what rank r sends, to ranks that are `by` on as
    /// well. True only where that is plain to see.
    pub(super) fn turns(&self, by: u32) -> bool {
        let ranks = self.colours.len() as u32;
        let alike = |rank: u32| {
            let other = (rank + by) % ranks;
            self.colours[rank as usize] == self.colours[other as usize]
                && self.first[rank as usize] == self.first[other as usize]
        };
        self.programs.messages.iter().all(Vec::is_empty)
            && self.ports.iter().flat_map(|ports| ports.iter()).all(|ports| turn(ports, by, ranks))
            && (0..ranks).all(alike)
    }
}

fn turn(ports: &Ports, by: u32, ranks: u32) -> bool {
    let inside = |stride: u32, size: u32| by.is_multiple_of(stride * size);
    let Geometry::Line { stride, size } = ports.geometry else { return false };
    let enters = ports.phases.iter().flat_map(|peers| &peers.phase.only);
    if !enters.into_iter().all(|only| inside(only.stride, only.size)) {
        return false;
    }
    // A line goes to another one, each position to the same one.
    if inside(stride, size) {
        return true;
    }
    // A line that ends where the ranks end turns around itself: positions move on.
    let plans = ports.phases.iter().flat_map(|peers| &peers.phase.plans);
    let mut plans = plans.flat_map(|directed| [&directed.forward.plan, &directed.backward.plan]);
    stride * size == ranks
        && by.is_multiple_of(stride)
        && plans.all(|plan| {
            let mut steps = plan.scripts.iter().flat_map(|script| &script.steps);
            plan.n == size
                && plan.is_uniform()
                && steps.all(|step| matches!(step.to, None | Some(To::Shift(_))))
        })
}
