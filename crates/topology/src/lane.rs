//! The lanes of the cards of an NPU, and those that a graph remembers.

use crate::LaneId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Most lanes that a graph remembers: some 20 MB.
const REMEMBERED: usize = 1 << 18;

/// A lane of the cards of an NPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// Name of the lane.
    pub id: LaneId,
    /// Bytes per second that its slowest link leaves to it.
    pub rate: u64,
    /// Latency of its links, in picoseconds.
    pub latency: u64,
    /// The links of its route; none on a graph on which messages do not spread.
    pub(crate) links: Box<[u32]>,
}

/// The lanes of pairs of NPUs that were asked for. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownLanes(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    of: BTreeMap<(u32, u32), Arc<[Lane]>>,
    lanes: usize,
}

impl KnownLanes {
    /// The lanes of a pair, which `find` finds.
    pub(crate) fn of(&self, ends: (u32, u32), find: impl FnOnce() -> Arc<[Lane]>) -> Arc<[Lane]> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lanes) = known.of.get(&ends) {
            return lanes.clone();
        }
        let lanes = find();
        if known.lanes + lanes.len() > REMEMBERED {
            *known = Known::default();
        }
        known.lanes += lanes.len();
        known.of.insert(ends, lanes.clone());
        lanes
    }
}
