//! An all-reduce over two binary trees, as NCCL 2.4 numbers them.

use net_packet::Packets;
use network::Backend;
use units::Time;

/// A host's parent and children.
type Place = (Option<u32>, Vec<u32>);

/// A run: even chunks go over one tree and odd chunks over its mirror image. A host adds its part of
/// a chunk while it has fewer than `open` chunks that have not come back down.
pub struct Trees<'a> {
    network: &'a mut Packets,
    hosts: u32,
    chunks: u32,
    open: u32,
    trees: [Vec<Place>; 2],
    chunk_bytes: u64,
    /// Next chunk to open, and how many are open, of each host.
    state: Vec<(u32, u32)>,
    /// By host and chunk: parts that have come up, its own included.
    parts: Vec<u8>,
    done: u64,
}

/// The tree over `hosts`: label 0 has one child, an odd label is a leaf, and a label with lowest bit
/// b has children b / 2 away.
fn tree(hosts: u32, mirrored: bool) -> Vec<Place> {
    let host = |label: u32| if mirrored { hosts - 1 - label } else { label };
    let mut places: Vec<Place> = vec![(None, Vec::new()); hosts as usize];
    for label in 1..hosts {
        let bit = 1 << label.trailing_zeros();
        let up = (label ^ bit) | (bit << 1);
        let parent = host(if up < hosts { up } else { label ^ bit });
        places[host(label) as usize].0 = Some(parent);
        places[parent as usize].1.push(host(label));
    }
    places
}

impl<'a> Trees<'a> {
    /// `hosts` hosts, `chunks` in all, and at most `open` of a host under way.
    pub fn new(network: &'a mut Packets, hosts: u32, (chunks, open): (u32, u32)) -> Trees<'a> {
        Trees {
            network,
            hosts,
            chunks,
            open,
            trees: [tree(hosts, false), tree(hosts, true)],
            chunk_bytes: 0,
            state: vec![(0, 0); hosts as usize],
            parts: vec![0; (hosts * chunks) as usize],
            done: 0,
        }
    }

    /// Runs it over `bytes`. Returns when the last chunk is back; `None` if the network is stuck.
    pub fn run(mut self, bytes: u64) -> Option<Time> {
        self.chunk_bytes = bytes / u64::from(self.chunks);
        for host in 0..self.hosts {
            self.open(Time::ZERO, host);
        }
        let (mut finished, mut now) = (Vec::new(), Time::ZERO);
        while self.done < u64::from(self.hosts) * u64::from(self.chunks) {
            let next = self.network.next_event()?;
            self.network.advance(next, &mut finished);
            for delivery in std::mem::take(&mut finished) {
                now = delivery.time;
                let (chunk, dst) = ((delivery.token >> 32) as u32, delivery.token as u32 / 2);
                if delivery.token & 1 == 1 {
                    self.back(now, dst, chunk);
                } else {
                    self.part(now, dst, chunk);
                }
            }
        }
        Some(now)
    }

    fn place(&self, host: u32, chunk: u32) -> &Place {
        &self.trees[(chunk % 2) as usize][host as usize]
    }

    fn send(&mut self, now: Time, (src, dst): (u32, u32), chunk: u32, down: bool) {
        let token = u64::from(chunk) << 32 | u64::from(dst * 2 + u32::from(down));
        self.network.start(now, super::transfer((src, dst), self.chunk_bytes, token));
    }

    fn open(&mut self, now: Time, host: u32) {
        loop {
            let (next, open) = &mut self.state[host as usize];
            if *next == self.chunks || *open == self.open {
                return;
            }
            (*next, *open) = (*next + 1, *open + 1);
            let chunk = *next - 1;
            self.part(now, host, chunk);
        }
    }

    /// A part of a chunk has come up to `host`.
    fn part(&mut self, now: Time, host: u32, chunk: u32) {
        let parts = &mut self.parts[(host * self.chunks + chunk) as usize];
        *parts += 1;
        let parts = usize::from(*parts);
        let (parent, children) = self.place(host, chunk);
        if parts == children.len() + 1 {
            match *parent {
                Some(parent) => self.send(now, (host, parent), chunk, false),
                None => self.back(now, host, chunk),
            }
        }
    }

    /// A chunk has come down to `host`.
    fn back(&mut self, now: Time, host: u32, chunk: u32) {
        for child in self.place(host, chunk).1.clone() {
            self.send(now, (host, child), chunk, true);
        }
        self.done += 1;
        self.state[host as usize].1 -= 1;
        self.open(now, host);
    }
}
