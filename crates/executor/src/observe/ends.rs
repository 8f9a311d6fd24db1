//! When each node of each simulated rank ended.

use super::Observer;
use graph::OpKind;
use units::Time;

/// See the module.
#[derive(Default)]
pub struct Ends {
    times: Vec<Vec<Time>>,
}

impl Ends {
    /// The ends by simulated rank and node.
    pub fn into_times(self) -> Vec<Vec<Time>> {
        self.times
    }
}

impl Observer for Ends {
    fn completed(&mut self, rank: u32, node: u32, _kind: OpKind, _start: Time, now: Time) {
        let (rank, node) = (rank as usize, node as usize);
        if self.times.len() <= rank {
            self.times.resize_with(rank + 1, Vec::new);
        }
        let nodes = &mut self.times[rank];
        if nodes.len() <= node {
            nodes.resize(node + 1, Time::ZERO);
        }
        nodes[node] = now;
    }
}
