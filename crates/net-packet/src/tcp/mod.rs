//! TCP: one connection for each ordered pair of NPUs that talks, set up before the run.
//!
//! Here: the sending side (`sender.rs`), its timeout (`rtt.rs`) and window (`control/`), and the
//! receiving side (`receiver.rs`). Not here: packets and ports.

mod control;
mod receiver;
mod recovery;
mod rtt;
#[cfg(test)]
mod scenario;
mod sender;

pub(crate) use receiver::{Answer, Receiver, Sack};
pub(crate) use sender::{Emit, Sender};

use crate::settings::Tcp;
use net_settings::packet::{Flight, Rescue, TcpControl, TcpRecovery};
