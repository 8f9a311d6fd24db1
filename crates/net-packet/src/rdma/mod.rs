//! RDMA over converged Ethernet, version 2 (RoCEv2): reliable connections.
//!
//! Here: the sending side (`sender.rs`), its rate (`dcqcn.rs`), and the receiving side
//! (`receiver.rs`). A sender sends at its rate, and at most a window beyond what was acknowledged.
//! Sources: InfiniBand Architecture Specification 1.4, volume 1, section 9.7 (reliable service:
//! acknowledgements, negative acknowledgements, retransmission timer) and annex A17 (RoCEv2).

mod dcqcn;
mod receiver;
mod sender;

pub(crate) use receiver::{Receiver, Reply};
pub(crate) use sender::Sender;
