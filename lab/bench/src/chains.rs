//! Irregular workloads: each NPU runs a chain of compute nodes of random length and random
//! durations, so no two ranks are alike and no two events share an instant by design.

use crate::inputs::Numbers;
use graph::{Kernel, Node, Op, ProgramBuilder, RankBinding, Workload};
use std::sync::Arc;
use units::{Bytes, Span};

/// Chains of `mean / 2` to `3 mean / 2` nodes on `ranks` NPUs.
pub fn chains(ranks: u32, mean: u64) -> Workload {
    let mut numbers = Numbers(u64::from(ranks) * mean);
    let programs = (0..ranks).map(|_| {
        let length = mean / 2 + numbers.below(mean + 1);
        let mut builder = ProgramBuilder::default();
        for id in 0..length {
            let operations = 1_000_000 + numbers.below(1_000_000_000);
            let op = Op::Compute {
                operations: Some(operations),
                bytes: Some(Bytes(1 + numbers.below(1 << 16))),
                cpu: false,
                kernel: Kernel::Other,
            };
            builder.push(
                Node { id, duration: Span::from_ns(1 + numbers.below(10_000)), op },
                "work",
                id.checked_sub(1),
            );
        }
        Arc::new(builder.build().expect("a chain"))
    });
    Workload {
        programs: programs.collect(),
        ranks: (0..ranks).map(|program| RankBinding { program, slots: 0 }).collect(),
        ..Workload::default()
    }
}
