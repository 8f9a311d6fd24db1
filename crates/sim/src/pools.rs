//! Whether memories outside of the NPUs have room for what lies there, where that is not certain.
//!
//! What surely does not fit is refused before a run (`lowering::contents`).

use crate::parts::Parts;
use lowering::contents::{self, large};
use platform::Fits;

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
