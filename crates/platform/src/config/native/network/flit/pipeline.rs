//! `network.flit.pipeline`: the stages of an input-queued router.

use declared::{counts, section, words};

section! {
    /// Stages and allocators of an input-queued router.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct FlitPipeline {
        /// Cycles in which a head gets its route. 0: it is looked up a router ahead (lookahead).
        pub route_computation: u32 as stage, default 1;
        /// Cycles in which a head gets a virtual channel.
        pub channel_allocation: u32 as allocation, default 1;
        /// Cycles in which a flit gets the switch.
        pub switch_allocation: u32 as allocation, default 1;
        /// Cycles in which it crosses the switch.
        pub switch_traversal: u32 as stage, default 1;
        /// Cycles from the arrival of a credit until it counts.
        pub credit_processing: u32 as stage, default 0;
        /// Whether heads ask for the switch together with a virtual channel.
        pub speculation: bool, default false;
        /// How virtual channels and the switch are allocated.
        pub allocator: FlitAllocator, default FlitAllocator::Islip;
        /// Iterations of `islip`.
        pub iterations: u32 as iterations, default 1;
        /// Whether a virtual channel is free for the next packet only when all flits of the last one
        /// have left the buffer behind the link. Otherwise it is free behind the last flit, and
        /// buffers hold several packets.
        pub waits_for_tail_credit: bool, default false;
    }
}

counts! {
    /// Cycles of a stage.
    stage: 0 to 1024;
    /// Cycles of an allocation.
    allocation: 1 to 1024;
    /// Iterations of an allocation.
    iterations: 1 to 64;
}

/// How virtual channels and the switch are allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlitAllocator {
    /// Outputs grant and inputs accept, both in turn (McKeown, IEEE/ACM Transactions on Networking
    /// 7, 1999).
    Islip,
    /// Inputs pick a request, then outputs an input, both in turn.
    RoundRobin,
    /// The same; outputs take the input that they have served least recently.
    Matrix,
    /// The same; both take the oldest packet.
    Age,
}

words!(
    FlitAllocator:
    "islip" = FlitAllocator::Islip,
    "round_robin" = FlitAllocator::RoundRobin,
    "matrix" = FlitAllocator::Matrix,
    "age" = FlitAllocator::Age,
);

impl Default for FlitPipeline {
    fn default() -> FlitPipeline {
        declared::absent()
    }
}
