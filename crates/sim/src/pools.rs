//! What lies in memories outside of the NPUs, and whether they have room for it where that is not
//! certain.
//!
//! What surely does not fit is refused before a run (`lowering::contents`).

use crate::parts::Parts;
use lowering::contents::{self, large};
use platform::Fits;
use stats::Outside;

/// Contents of each kind of memory.
pub(crate) fn rows(parts: &Parts) -> Vec<Outside> {
    let contents = contents::of(parts.workload, parts.platform);
    let clamped = |bytes: u128| u64::try_from(bytes).unwrap_or(u64::MAX);
    let row = |store: usize| {
        let (memories, ranks) = contents.users(parts.workload, store);
        (memories > 0).then(|| Outside {
            name: contents.stores[store].name.into(),
            memories,
            ranks,
            least_bytes: clamped(contents.least(parts.workload, store)),
            most_bytes: clamped(contents.most(parts.workload, store)),
            capacity_bytes: contents.stores[store].capacity.map(clamped),
        })
    };
    (0..contents.stores.len()).filter_map(row).collect()
}

/// A warning for each memory that may be too small.
pub(crate) fn warnings(parts: &Parts) -> Vec<String> {
    let contents = contents::of(parts.workload, parts.platform);
    let warning = |store: usize| {
        let capacity = contents.stores[store].capacity?;
        let least = contents.least(parts.workload, store);
        let most = contents.most(parts.workload, store);
        (Fits::counted(least, most, capacity) == Fits::Near).then(|| {
            format!(
                "the {} may be too small: it has {}, and between {} and {} lie in it; accesses \
                 without the number of their tensor may be to one tensor or to several",
                contents.stores[store].name,
                large(capacity),
                large(least),
                large(most)
            )
        })
    };
    (0..contents.stores.len()).filter_map(warning).collect()
}
