//! `network.flit.pipeline`: the stages of an input-queued router.

use declared::{counts, section, words};

section! {
    /// Stages and allocators of an input-queued router.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Pipeline {
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
        pub allocator: Allocator, default Allocator::Islip;
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
pub enum Allocator {
    /// iSLIP: outputs grant and inputs accept, both in turn (McKeown, "The iSLIP Scheduling
    /// Algorithm for Input-Queued Switches", IEEE/ACM Transactions on Networking 7, 1999).
    Islip,
    /// Separable, inputs first: each input picks a request, then each output an input, both in turn
    /// (Dally and Towles, "Principles and Practices of Interconnection Networks", 2004, section
    /// 19.3).
    RoundRobin,
    /// The same, but outputs take the input that they have served least recently: a matrix arbiter
    /// (section 18.5).
    Matrix,
    /// The same, but both take the packet that was created first.
    Age,
}

words!(
    Allocator:
    "islip" = Allocator::Islip,
    "round_robin" = Allocator::RoundRobin,
    "matrix" = Allocator::Matrix,
    "age" = Allocator::Age,
);

impl Default for Pipeline {
    fn default() -> Pipeline {
        declared::absent()
    }
}
