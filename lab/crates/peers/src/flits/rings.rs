//! Collectives on unidirectional rings, as the ASTRA-SIM paper has them on Garnet (Rashidi et al.,
//! ISPASS 2020): each ring is a virtual network with links of its own.

use net_flit::garnet::{Arrival, Garnet, Settings};
use net_flit::{CYCLE, Channel, End, Fabric, Packet, Refused, Routing, Way};
use std::collections::VecDeque;

/// A fabric of rings in three dimensions: inside packages, and two between them.
#[derive(Clone, Copy, Debug)]
pub struct Hierarchy {
    /// NPUs of a ring in each dimension: local, vertical, horizontal.
    pub sizes: [u32; 3],
    /// Unidirectional rings in each dimension.
    pub rings: [u16; 3],
    /// Bytes of a flit.
    pub flit: u32,
    /// Width of links inside packages and between them, bytes.
    pub widths: [u32; 2],
    /// Latency of links inside packages and between them, and of those to routers, cycles.
    pub latencies: [u32; 2],
    /// See `latencies`.
    pub interface_latency: u32,
    /// Bytes of packets inside packages and between them.
    pub packets: [u32; 2],
}

impl Hierarchy {
    fn npus(&self) -> u32 {
        self.sizes.iter().product()
    }

    fn vnets(&self) -> u16 {
        self.rings.iter().sum()
    }

    /// The virtual networks of a dimension.
    fn vnets_of(&self, dim: usize) -> std::ops::Range<u16> {
        let first: u16 = self.rings[..dim].iter().sum();
        first..first + self.rings[dim]
    }

    /// Whoever comes after `npu` on a ring; every other ring turns the other way.
    fn next(&self, npu: u32, dim: usize, ring: u16) -> u32 {
        let stride: u32 = self.sizes[..dim].iter().product();
        let size = self.sizes[dim];
        let place = npu / stride % size;
        let next =
            if ring.is_multiple_of(2) { (place + 1) % size } else { (place + size - 1) % size };
        npu - place * stride + next * stride
    }

    /// 0 inside packages, 1 between them.
    fn outside(dim: usize) -> usize {
        usize::from(dim > 0)
    }

    /// A router and a node for each NPU; for each virtual network a link to and from its router,
    /// and a link to the next one. Returns the channel of each (router, virtual network) to the
    /// next router and to the node.
    fn fabric(&self) -> (Fabric, Vec<[u32; 2]>) {
        let npus = self.npus();
        let mut fabric = Fabric { routers: npus, nodes: npus, ..Fabric::default() };
        let mut ways = vec![[0; 2]; npus as usize * usize::from(self.vnets())];
        let way =
            |npu: u32, vnet: u16| npu as usize * usize::from(self.vnets()) + usize::from(vnet);
        for npu in 0..npus {
            for vnet in 0..self.vnets() {
                let (node, router, only) = (End::Node(npu), End::Router(npu), vnet..vnet + 1);
                fabric.channel(node, router, self.interface_latency, only.clone());
                ways[way(npu, vnet)][1] =
                    fabric.channel(router, node, self.interface_latency, only);
            }
        }
        for npu in 0..npus {
            for dim in 0..3 {
                for vnet in self.vnets_of(dim) {
                    let next = self.next(npu, dim, vnet - self.vnets_of(dim).start);
                    let place = Self::outside(dim);
                    fabric.channels.push(Channel {
                        from: End::Router(npu),
                        to: End::Router(next),
                        latency: self.latencies[place],
                        occupancy: u64::from(self.flit.div_ceil(self.widths[place])) * CYCLE,
                        vnets: vnet..vnet + 1,
                    });
                    ways[way(npu, vnet)][0] = fabric.channels.len() as u32 - 1;
                }
            }
        }
        (fabric, ways)
    }
}

/// The virtual network alone says the way.
struct Around {
    vnets: usize,
    ways: Vec<[u32; 2]>,
}

impl Routing for Around {
    fn next(&mut self, router: u32, packet: &Packet, _: u32) -> Way {
        let ways = self.ways[router as usize * self.vnets + usize::from(packet.vnet)];
        Way { channel: ways[usize::from(packet.dst == router)], vnet: packet.vnet }
    }
}

/// A step of a chunk: a message to the next NPU of a ring.
#[derive(Clone, Copy, Debug)]
struct Step {
    dim: usize,
    bytes: u64,
}

/// An all-reduce in chunks, and each chunk goes through the dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Bytes of an NPU.
    pub bytes: u64,
    /// Chunks; all start at once.
    pub chunks: u64,
    /// Whether only what a package has scattered inside leaves it.
    pub enhanced: bool,
    /// Cycles from the end of a step to the next.
    pub delay: u64,
}

impl Rings {
    /// The steps of a chunk on a hierarchy.
    fn steps(&self, hierarchy: &Hierarchy) -> Vec<Step> {
        let chunk = self.bytes / self.chunks;
        let [local, ..] = hierarchy.sizes.map(u64::from);
        let mut steps = Vec::new();
        let mut phase = |dim: usize, times: u64, bytes: u64| {
            let size = u64::from(hierarchy.sizes[dim]);
            let step = Step { dim, bytes: bytes.div_ceil(size) };
            steps.extend(std::iter::repeat_n(step, (times * (size - 1)) as usize));
        };
        if self.enhanced {
            phase(0, 1, chunk);
            phase(1, 2, chunk / local);
            phase(2, 2, chunk / local);
            phase(0, 1, chunk);
        } else {
            (0..3).for_each(|dim| phase(dim, 2, chunk));
        }
        steps
    }

    /// Runs it. Returns the cycle in which the last NPU has all, and the network; `None` for the
    /// cycle if the network is stuck.
    ///
    /// # Errors
    /// If the network cannot have its settings.
    pub fn run(
        &self,
        hierarchy: &Hierarchy,
        settings: Settings,
        checked: bool,
    ) -> Result<(Option<u64>, Garnet<impl Routing + use<>>), Refused> {
        let (fabric, ways) = hierarchy.fabric();
        let routing = Around { vnets: usize::from(hierarchy.vnets()), ways };
        let settings = Settings { vnets: hierarchy.vnets(), ..settings };
        let mut network = Garnet::new(&fabric, settings, routing)?;
        if checked {
            network = network.checked();
        }
        let steps = self.steps(hierarchy);
        let npus = u64::from(hierarchy.npus());
        // By NPU and chunk: the step that it is in, and packets of this and of the next one that
        // have arrived.
        let mut at = vec![(0usize, 0u64, VecDeque::new()); (npus * self.chunks) as usize];
        let send = |network: &mut Garnet<Around>, cycle, npu: u32, chunk: u64, step: usize| {
            let Step { dim, bytes } = steps[step];
            let vnets = hierarchy.vnets_of(dim);
            let ring = (chunk % u64::from(hierarchy.rings[dim])) as u16;
            let packet = hierarchy.packets[Hierarchy::outside(dim)];
            let dst = hierarchy.next(npu, dim, ring);
            let count = bytes.div_ceil(u64::from(packet)).max(1);
            for _ in 0..count {
                let flits = packet.div_ceil(hierarchy.flit);
                let packet =
                    Packet { src: npu, dst, vnet: vnets.start + ring, flits, port: 0, way: 0 };
                let token = (step as u64 * self.chunks + chunk) * npus + u64::from(dst);
                network.send(cycle, packet, token);
            }
            count
        };
        let count = |step: usize| {
            let packet = u64::from(hierarchy.packets[Hierarchy::outside(steps[step].dim)]);
            steps[step].bytes.div_ceil(packet).max(1)
        };
        for chunk in 0..self.chunks {
            for npu in 0..npus as u32 {
                send(&mut network, 1, npu, chunk, 0);
            }
        }
        let (mut arrived, mut left): (Vec<Arrival>, u64) = (Vec::new(), npus * self.chunks);
        while left > 0 {
            if !network.advance(&mut arrived) {
                return Ok((None, network));
            }
            let now = network.now();
            for arrival in arrived.drain(..) {
                let npu = arrival.token % npus;
                let chunk = arrival.token / npus % self.chunks;
                let step = (arrival.token / npus / self.chunks) as usize;
                let (current, _, counts) = &mut at[(npu * self.chunks + chunk) as usize];
                while counts.len() <= step - *current {
                    counts.push_back(0u64);
                }
                counts[step - *current] += 1;
                while counts.front().is_some_and(|&found| found == count(*current)) {
                    counts.pop_front();
                    *current += 1;
                    if *current == steps.len() {
                        left -= 1;
                        break;
                    }
                    send(&mut network, now + self.delay, npu as u32, chunk, *current);
                }
            }
        }
        Ok((Some(network.now()), network))
    }
}

/// Settings of [`all_to_all_on_a_ring`].
#[derive(Clone, Copy, Debug)]
pub struct RingOfAll {
    /// NPUs.
    pub npus: u32,
    /// Whether packets go the shorter way; else all go up.
    pub both_ways: bool,
    /// Bytes of an NPU.
    pub bytes: u64,
    /// Bytes of a flit.
    pub flit: u32,
    /// Bytes of a packet.
    pub packet: u32,
    /// Latency of links between routers and to nodes, cycles.
    pub latencies: [u32; 2],
}

/// An all-to-all on rings: one virtual network for each direction, all messages at once, to the next
/// NPU first. Returns the cycle of the last arrival, `None` if the network is stuck, and the network.
///
/// # Errors
/// If the network cannot have its settings.
pub fn all_to_all_on_a_ring(
    ring: &RingOfAll,
    settings: Settings,
    checked: bool,
) -> Result<(Option<u64>, Garnet<impl Routing + use<>>), Refused> {
    let npus = ring.npus;
    let ways = if ring.both_ways { 2 } else { 1 };
    let hierarchy = Hierarchy {
        sizes: [npus, 1, 1],
        rings: [ways, 0, 0],
        flit: ring.flit,
        widths: [ring.flit; 2],
        latencies: [ring.latencies[0]; 2],
        interface_latency: ring.latencies[1],
        packets: [ring.packet; 2],
    };
    let (fabric, table) = hierarchy.fabric();
    let routing = Around { vnets: usize::from(ways), ways: table };
    let mut network = Garnet::new(&fabric, Settings { vnets: ways, ..settings }, routing)?;
    if checked {
        network = network.checked();
    }
    let part = ring.bytes / u64::from(npus);
    for src in 0..npus {
        for distance in 1..npus {
            let down = ring.both_ways && distance > npus / 2;
            for _ in 0..part.div_ceil(u64::from(ring.packet)) {
                let flits = ring.packet.div_ceil(ring.flit);
                let dst = (src + distance) % npus;
                network.send(
                    1,
                    Packet { src, dst, vnet: u16::from(down), flits, port: 0, way: 0 },
                    0,
                );
            }
        }
    }
    let mut arrived = Vec::new();
    while network.under_way() > 0 {
        if !network.advance(&mut arrived) {
            return Ok((None, network));
        }
        arrived.clear();
    }
    Ok((Some(network.now()), network))
}
