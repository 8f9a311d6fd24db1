//! A direct all-reduce: a reduce-scatter and an all-gather, each with a message to every other host.

use engine::Random;
use net_packet::Packets;
use network::Backend;
use units::Time;

/// In which order a host opens its messages.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// To host 0 first.
    Ascending,
    /// To the next host first.
    Rotation,
    /// At random.
    Random(u64),
}

impl Order {
    /// The other hosts in the order in which `host` sends to them.
    pub fn of(self, hosts: u32, host: u32) -> Vec<u32> {
        let mut all: Vec<u32> = match self {
            Order::Rotation => (1..hosts).map(|i| (host + i) % hosts).collect(),
            _ => (0..hosts).filter(|&other| other != host).collect(),
        };
        if let Order::Random(seed) = self {
            // Fisher-Yates from the end, with the remainder of SplitMix64's numbers.
            let start = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(host.into());
            let mut random = Random::new(start);
            for i in (1..all.len()).rev() {
                all.swap(i, (random.bits() % (i as u64 + 1)) as usize);
            }
        }
        all
    }
}

/// A direct all-reduce of `bytes`: each host sends its part of a reduce-scatter to every other one,
/// and of an all-gather when it has received all parts. Returns when the last message arrives;
/// `None` if the network is stuck.
pub fn all_reduce(network: &mut Packets, hosts: u32, bytes: u64, order: Order) -> Option<Time> {
    let part = bytes / u64::from(hosts);
    let orders: Vec<Vec<u32>> = (0..hosts).map(|host| order.of(hosts, host)).collect();
    let step = |network: &mut Packets, now: Time, step: u64, host: u32| {
        for &dst in &orders[host as usize] {
            let token =
                (step * u64::from(hosts) + u64::from(host)) * u64::from(hosts) + u64::from(dst);
            network.start(now, super::transfer((host, dst), part, token));
        }
    };
    for host in 0..hosts {
        step(network, Time::ZERO, 0, host);
    }
    let square = u64::from(hosts) * u64::from(hosts);
    let mut missing = vec![hosts - 1; hosts as usize];
    let (mut finished, mut last, mut left) =
        (Vec::new(), Time::ZERO, 2 * square - 2 * u64::from(hosts));
    while left > 0 {
        let next = network.next_event()?;
        network.advance(next, &mut finished);
        for delivery in finished.drain(..) {
            (last, left) = (delivery.time, left - 1);
            let dst = (delivery.token % u64::from(hosts)) as u32;
            if delivery.token < square {
                missing[dst as usize] -= 1;
                if missing[dst as usize] == 0 {
                    step(network, delivery.time, 1, dst);
                }
            }
        }
    }
    Some(last)
}
