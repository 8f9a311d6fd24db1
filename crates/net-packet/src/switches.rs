//! What the ports of a switch share: its buffer, and who is paused because of what waits in it.
//!
//! Priority flow control (IEEE 802.1Qbb): a switch counts the waiting bytes that came over each
//! link. Above a threshold it pauses that link's sender, and resumes it below another one. A pause
//! takes the time of its frame on the way back. What is under way meanwhile needs room: the headroom
//! is what the buffer has above the threshold.

use crate::packet::Packet;
use crate::settings::{Buffer, Pause, Switch};
use units::Ratio;

/// Accounts of all switches.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    buffer: Buffer,
    pause: Option<Pause>,
    /// By link: the switch that it leaves, or [`NPU`].
    of: Vec<u32>,
    /// By link, whether it enters a switch; empty unless the order of packets is drawn.
    into: Vec<bool>,
    /// By switch: bytes that wait in it.
    used: Vec<u64>,
    /// By link: bytes that came over it and wait, and whether it is paused.
    came: Vec<(u64, bool)>,
}

/// In the place of a switch: packets of an NPU wait in its memory.
const NPU: u32 = u32::MAX;

impl Switches {
    /// `ends`: the nodes that links leave and enter, of which the first `npus` are NPUs.
    pub(crate) fn new(
        settings: &Switch,
        ends: impl Iterator<Item = (u32, u32)> + Clone,
        npus: u32,
    ) -> Switches {
        let leaves = |(from, _)| if from < npus { NPU } else { from - npus };
        let of: Vec<u32> = ends.clone().map(leaves).collect();
        let into = ends.filter(|_| settings.draws()).map(|(_, to)| to >= npus).collect();
        let count = of.iter().filter(|&&at| at != NPU).max().map_or(0, |&most| most as usize + 1);
        let links = of.len();
        Switches {
            buffer: settings.buffer,
            pause: settings.pause,
            of,
            into,
            used: vec![0; count],
            came: vec![(0, false); links],
        }
    }

    /// Whether somebody has to know when each packet leaves.
    pub(crate) fn counts(&self) -> bool {
        self.pause.is_some() || matches!(self.buffer, Buffer::Shared { .. })
    }

    /// Whether packets that reach switches at one instant arrive in drawn order.
    #[inline]
    pub(crate) fn draws(&self) -> bool {
        !self.into.is_empty()
    }

    /// Whether a link enters a switch; where [`Switches::draws`].
    #[inline]
    pub(crate) fn is_entered_by(&self, link: u32) -> bool {
        self.into[link as usize]
    }

    /// Bytes that may wait at a port, where so many wait.
    #[inline]
    pub(crate) fn room(&self, port: u32, queued: u64) -> u64 {
        let switch = self.of[port as usize];
        match self.buffer {
            _ if switch == NPU => u64::MAX,
            Buffer::Unlimited => u64::MAX,
            Buffer::Port(bytes) => bytes.0,
            Buffer::Shared { total, alpha } => {
                let free = total.0.saturating_sub(self.used[switch as usize]);
                let most = u128::from(free) * u128::from(alpha.0) / u128::from(Ratio::ONE.0);
                u64::try_from(most).unwrap_or(u64::MAX).min(queued + free)
            }
        }
    }

    /// A packet waits at `port` from now on. Returns whether the link by which it came is to be
    /// paused.
    pub(crate) fn enters(&mut self, port: u32, packet: &Packet) -> bool {
        let switch = self.of[port as usize];
        if switch == NPU {
            return false;
        }
        self.used[switch as usize] += u64::from(packet.wire);
        let Some((bytes, paused)) = self.came.get_mut(packet.via as usize) else { return false };
        *bytes += u64::from(packet.wire);
        let stops = !*paused && self.pause.is_some_and(|pause| *bytes > pause.above.0);
        *paused |= stops;
        stops
    }

    /// A packet that waited at `port` leaves. Returns whether the link by which it came is to be
    /// resumed.
    pub(crate) fn leaves(&mut self, port: u32, packet: &Packet) -> bool {
        let switch = self.of[port as usize];
        if switch == NPU {
            return false;
        }
        self.used[switch as usize] -= u64::from(packet.wire);
        let Some((bytes, paused)) = self.came.get_mut(packet.via as usize) else { return false };
        *bytes -= u64::from(packet.wire);
        let resumes = *paused && self.pause.is_none_or(|pause| *bytes <= pause.below.0);
        *paused &= !resumes;
        resumes
    }

    /// Whether the sender of a link is paused.
    pub(crate) fn is_paused(&self, link: u32) -> bool {
        self.came[link as usize].1
    }
}
