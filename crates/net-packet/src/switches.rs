//! Resources that the ports of a switch share: its buffer, and the pauses of senders because of the
//! packets that wait in it.
//!
//! Priority flow control (IEEE 802.1Qbb): a switch counts the waiting bytes that came over each
//! link. Above a threshold it pauses that link's sender, and resumes it below another one. A pause
//! takes the time of its frame on the way back. What is under way meanwhile needs room: the headroom
//! is what the buffer has above the threshold.

use crate::packet::Packet;
use crate::protocols::Protocols;
use crate::settings::Buffer;
use net_settings::packet::Pause;
use rustc_hash::FxHashMap;
use units::Ratio;

/// Accounts of all switches.
#[derive(Clone, Debug)]
pub(crate) struct Switches {
    /// Pool of the port that each link leaves, or [`NPU`]. The ports of a switch that lead to links
    /// of one kind share a pool.
    of: Vec<u32>,
    /// Whether each link enters a switch where the order of packets is drawn; empty where it is
    /// drawn nowhere.
    into: Vec<bool>,
    /// All pools.
    pools: Vec<Pool>,
    /// Packets that came over each link.
    came: Vec<Came>,
    /// See [`Switches::counts`].
    counts: bool,
}

/// Buffers that ports share.
#[derive(Clone, Copy, Debug)]
struct Pool {
    /// Bytes that wait.
    used: u64,
    /// Bytes that there is room for, and the part of what is free that a port may take; `None`
    /// where ports have rooms of their own.
    shared: Option<(u64, Ratio)>,
}

/// Packets that came over a link.
#[derive(Clone, Copy, Debug)]
struct Came {
    /// Bytes that wait.
    bytes: u64,
    paused: bool,
    pause: Option<Pause>,
}

/// In the place of a pool: packets of an NPU wait in its memory.
const NPU: u32 = u32::MAX;

impl Switches {
    /// `ends`: the nodes that links leave and enter; the first `npus` are NPUs.
    pub(crate) fn new(
        protocols: &Protocols,
        ends: impl Iterator<Item = (u32, u32)> + Clone,
        npus: u32,
    ) -> Switches {
        let switch = |link| &protocols.of_link(link).switch;
        let mut known: FxHashMap<(u32, u16), u32> = FxHashMap::default();
        let mut pools = Vec::new();
        let mut pool = |(link, (from, _)): (u32, (u32, u32))| {
            if from < npus {
                return NPU;
            }
            *known.entry((from, protocols.kind(link))).or_insert_with(|| {
                let shared = match switch(link).buffer {
                    Buffer::Shared { total, alpha } => Some((total.0, alpha)),
                    Buffer::Port(_) | Buffer::Unlimited => None,
                };
                pools.push(Pool { used: 0, shared });
                pools.len() as u32 - 1
            })
        };
        let of: Vec<u32> = (0..).zip(ends.clone()).map(&mut pool).collect();
        let mut into: Vec<bool> =
            (0..).zip(ends).map(|(link, (_, to))| to >= npus && switch(link).draws()).collect();
        if !into.contains(&true) {
            into.clear();
        }
        let came = |link| Came { bytes: 0, paused: false, pause: switch(link).pause };
        Switches {
            counts: protocols.pauses() || pools.iter().any(|pool| pool.shared.is_some()),
            came: (0..of.len() as u32).map(came).collect(),
            of,
            into,
            pools,
        }
    }

    /// Whether somebody has to know when each packet leaves.
    pub(crate) fn counts(&self) -> bool {
        self.counts
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

    /// Bytes that may wait at a port under the shared limits, where `queued` wait already.
    #[inline]
    pub(crate) fn room(&self, port: u32, queued: u64) -> u64 {
        let pool = self.pools.get(self.of[port as usize] as usize);
        let Some(Pool { used, shared: Some((total, alpha)) }) = pool else { return u64::MAX };
        let free = total.saturating_sub(*used);
        let most = u128::from(free) * u128::from(alpha.0) / u128::from(Ratio::ONE.0);
        u64::try_from(most).unwrap_or(u64::MAX).min(queued + free)
    }

    /// A packet waits at `port` from now on. Returns whether the link by which it came is to be
    /// paused.
    pub(crate) fn enters(&mut self, port: u32, packet: &Packet) -> bool {
        let pool = self.of[port as usize];
        if pool == NPU {
            return false;
        }
        self.pools[pool as usize].used += u64::from(packet.wire);
        let Some(came) = self.came.get_mut(packet.via as usize) else { return false };
        came.bytes += u64::from(packet.wire);
        let stops = !came.paused && came.pause.is_some_and(|pause| came.bytes > pause.above.0);
        came.paused |= stops;
        stops
    }

    /// A packet that waited at `port` leaves. Returns whether the link by which it came is to be
    /// resumed.
    pub(crate) fn leaves(&mut self, port: u32, packet: &Packet) -> bool {
        let pool = self.of[port as usize];
        if pool == NPU {
            return false;
        }
        self.pools[pool as usize].used -= u64::from(packet.wire);
        let Some(came) = self.came.get_mut(packet.via as usize) else { return false };
        came.bytes -= u64::from(packet.wire);
        let resumes = came.paused && came.pause.is_none_or(|pause| came.bytes <= pause.below.0);
        came.paused &= !resumes;
        resumes
    }

    /// Whether the sender of a link is paused.
    pub(crate) fn is_paused(&self, link: u32) -> bool {
        self.came[link as usize].paused
    }
}
