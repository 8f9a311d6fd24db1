//! The links of a pool behind switches, shared max-min fairly by the accesses under way.
//!
//! An access takes an equal part of its rate from every one of the parallel links of a kind, so
//! these are one link with the sum of their bandwidths. All accesses share the links above the
//! nodes, those of a node its links, and an NPU has one link for itself. A gather in the switches
//! brings every NPU of a group the shards of all of them. Its bytes cross the links above once, and
//! those of each node of the group once.
//!
//! Rates grow together. Where a link is full, those of its accesses stay (progressive filling:
//! Bertsekas and Gallager, Data Networks, section 6.5.2). A link is as loaded for an access of rate
//! r as if no other were faster: `sum of min(r', r) / r` over its accesses. So the slowest link of
//! an access takes `W / r`. Where all rates are equal, the loads are those of the paper.

use super::Load;
use super::stations::deal;
use units::Bandwidth;

/// Parts of an access by which loads are rounded where rates differ.
const PARTS: u32 = 1 << 16;

/// Who shares links of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// All NPUs.
    All,
    /// The NPUs of a node.
    Node,
    /// One NPU.
    One,
}

/// Links of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Links {
    /// Who shares them.
    pub users: Users,
    /// Parallel links, over which bytes are spread evenly.
    pub parallel: u128,
    /// Bandwidth of one of them.
    pub bandwidth: Bandwidth,
}

/// A pool behind switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// NPUs.
    pub(super) npus: u32,
    /// Switches next to them.
    pub(super) nodes: u32,
    /// From the memory to an NPU.
    links: Vec<Links>,
}

/// The accesses under way, all of them loads or all of them stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// NPUs that access tensors of their own, for each place.
    pub own: Vec<u64>,
    /// Gathers in the switches.
    pub gathers: Vec<Gather>,
}

/// A gather in the switches of the shards of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    /// Places of its NPUs, each once.
    pub places: Vec<u32>,
    /// NPUs of the group: each has a shard.
    pub members: u32,
}

/// The rates of a crowd.
#[derive(Clone, Debug)]
pub struct Rates {
    /// NPUs that access their own tensors, and the rate of each, for each node.
    own: Vec<(u64, f64)>,
    /// Each gather and its rate.
    gathers: Vec<(Gather, f64)>,
    /// Gathers that reach a node, for each node.
    reaching: Vec<Vec<usize>>,
    /// Distinct rates and how many accesses have them.
    all: Vec<(f64, f64)>,
    links: Vec<Links>,
}

/// A link while rates grow.
#[derive(Clone, Copy)]
struct Filling {
    /// Bytes per second that are left.
    left: f64,
    /// Accesses whose rates still grow.
    growing: u64,
}

impl Filling {
    /// The rate at which the link is full.
    fn full(&self) -> f64 {
        if self.growing == 0 { f64::INFINITY } else { self.left / self.growing as f64 }
    }

    /// `count` accesses keep `rate`.
    fn settle(&mut self, count: u64, rate: f64) {
        self.left = (self.left - count as f64 * rate).max(0.0);
        self.growing -= count;
    }
}

impl Tree {
    pub(super) fn new(npus: u32, nodes: u32, links: Vec<Links>) -> Tree {
        Tree { npus, nodes, links }
    }

    /// Loads when all NPUs access their own tensors, on the fullest node; and in a gather of all.
    pub(super) fn everybody(&self) -> (Vec<Load>, Vec<Load>) {
        let own = self.rates(&Crowd { own: deal(self.npus, self.nodes), gathers: Vec::new() });
        let gathers = vec![Gather { places: (0..self.nodes).collect(), members: self.npus }];
        let gather = self.rates(&Crowd { own: vec![0; self.nodes as usize], gathers });
        (own.own(0), gather.gather(0))
    }

    /// Bytes per second of the narrowest links of one kind.
    fn capacity(&self, users: Users) -> f64 {
        let of_kind = self.links.iter().filter(|links| links.users == users);
        of_kind.map(|l| l.parallel as f64 * l.bandwidth.0 as f64).fold(f64::INFINITY, f64::min)
    }

    pub(super) fn rates(&self, crowd: &Crowd) -> Rates {
        let mut reaching = vec![Vec::new(); self.nodes as usize];
        for (index, gather) in crowd.gathers.iter().enumerate() {
            gather.places.iter().for_each(|&node| reaching[node as usize].push(index));
        }
        let mut rates = Rates {
            own: crowd.own.iter().map(|&count| (count, 0.0)).collect(),
            gathers: crowd.gathers.iter().map(|gather| (gather.clone(), 0.0)).collect(),
            reaching,
            all: Vec::new(),
            links: self.links.clone(),
        };
        self.fill(&mut rates);
        rates.count();
        rates
    }

    /// Lets the rates grow until all stay.
    fn fill(&self, rates: &mut Rates) {
        let accesses = rates.own.iter().map(|own| own.0).sum::<u64>() + rates.gathers.len() as u64;
        let mut above = Filling { left: self.capacity(Users::All), growing: accesses };
        let node = |(own, reaching): (&(u64, f64), &Vec<usize>)| Filling {
            left: self.capacity(Users::Node),
            growing: own.0 + reaching.len() as u64,
        };
        let mut nodes: Vec<Filling> = rates.own.iter().zip(&rates.reaching).map(node).collect();
        let single = self.capacity(Users::One);
        while above.growing > 0 {
            let least = nodes.iter().map(Filling::full).fold(single.min(above.full()), f64::min);
            let all = above.full() <= least || single <= least;
            let full: Vec<bool> = nodes.iter().map(|node| all || node.full() <= least).collect();
            for (index, (count, rate)) in rates.own.iter_mut().enumerate() {
                if full[index] && *rate == 0.0 && *count > 0 {
                    *rate = least;
                    above.settle(*count, least);
                    nodes[index].settle(*count, least);
                }
            }
            for (Gather { places, .. }, rate) in rates.gathers.iter_mut().filter(|g| g.1 == 0.0) {
                if places.iter().any(|&place| full[place as usize]) {
                    *rate = least;
                    above.settle(1, least);
                    places.iter().for_each(|&place| nodes[place as usize].settle(1, least));
                }
            }
        }
    }
}

impl Rates {
    /// Counts accesses by their rate.
    fn count(&mut self) {
        let own = self.own.iter().map(|&(count, rate)| (rate, count as f64));
        let gathers = self.gathers.iter().map(|gather| (gather.1, 1.0));
        let mut all: Vec<(f64, f64)> = own.chain(gathers).filter(|rate| rate.1 > 0.0).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        self.all = all;
    }

    /// On the way to an NPU of `node` that accesses its own tensor.
    pub(super) fn own(&self, node: u32) -> Vec<Load> {
        self.loads(self.own[node as usize].1, &[node], 1)
    }

    /// On the way of gather `index`, by the bytes of a shard.
    pub(super) fn gather(&self, index: usize) -> Vec<Load> {
        let (gather, rate) = &self.gathers[index];
        self.loads(*rate, &gather.places, gather.members.into())
    }

    /// Loads for an access of `rate` to `nodes`; each byte of it represents `bytes`.
    fn loads(&self, rate: f64, nodes: &[u32], bytes: u128) -> Vec<Load> {
        let shared = |users| match users {
            Users::All => weigh(rate, self.all.iter().copied()),
            Users::Node => nodes.iter().map(|&node| self.at(node, rate)).fold(1.0, f64::max),
            Users::One => 1.0,
        };
        let load = |links: &Links| {
            let parts = (shared(links.users) * f64::from(PARTS)).round() as u128;
            Load::new(parts * bytes, links.parallel * u128::from(PARTS))
        };
        self.links.iter().map(load).collect()
    }

    /// Accesses on the links of a node, as one of `rate` sees them.
    fn at(&self, node: u32, rate: f64) -> f64 {
        let (count, own) = self.own[node as usize];
        let gathers =
            self.reaching[node as usize].iter().map(|&index| (self.gathers[index].1, 1.0));
        weigh(rate, gathers.chain([(own, count as f64)]))
    }
}

/// Accesses, given by rate and number, as one of `rate` sees them.
fn weigh(rate: f64, accesses: impl Iterator<Item = (f64, f64)>) -> f64 {
    accesses.map(|(other, count)| if other < rate { count * other / rate } else { count }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    /// The pool of section IV-D: 16 nodes of 16 NPUs; 3,200 GB/s above, 200 to a node, 256 to an
    /// NPU.
    fn example() -> Tree {
        let links =
            |users, parallel, gb: u64| Links { users, parallel, bandwidth: Bandwidth(gb * GB) };
        let all =
            [links(Users::All, 32, 100), links(Users::Node, 4, 50), links(Users::One, 1, 256)];
        Tree::new(256, 16, all.to_vec())
    }

    fn crowd(own: &[(usize, u64)], gathers: &[&[u32]]) -> Crowd {
        let mut all = vec![0; 16];
        own.iter().for_each(|&(node, count)| all[node] = count);
        let gather = |places: &&[u32]| Gather { places: places.to_vec(), members: 256 };
        Crowd { own: all, gathers: gathers.iter().map(gather).collect() }
    }

    fn values(loads: &[Load]) -> Vec<f64> {
        loads.iter().map(|load| load.value()).collect()
    }

    #[test]
    fn an_npu_alone_has_the_links_of_its_node() {
        let rates = example().rates(&crowd(&[(3, 1)], &[]));
        assert_eq!(rates.own[3].1, 200e9);
        assert_eq!(values(&rates.own(3)), [1.0 / 32.0, 0.25, 1.0]);
    }

    /// A full node gets 200 GB/s for 16 NPUs. A second one with a single NPU still gets 200.
    #[test]
    fn nodes_do_not_delay_one_another_below_the_switches() {
        let rates = example().rates(&crowd(&[(0, 16), (1, 1)], &[]));
        assert_eq!((rates.own[0].1, rates.own[1].1), (12.5e9, 200e9));
        assert_eq!(values(&rates.own(0)), [17.0 / 32.0, 4.0, 1.0]);
        // 16 NPUs of 12.5 GB/s are one of 200.
        assert_eq!(values(&rates.own(1)), [2.0 / 32.0, 0.25, 1.0]);
    }

    /// 600 GB/s above: the node of 16 gets its 200, and the other three share 400.
    #[test]
    fn what_a_full_node_leaves_is_shared() {
        let mut tree = example();
        tree.links[0] = Links { parallel: 6, ..tree.links[0] };
        let rates = tree.rates(&crowd(&[(0, 16), (1, 1), (2, 1), (3, 1)], &[]));
        let rate = |node: usize| rates.own[node].1;
        assert_eq!((rate(0), rate(1)), (12.5e9, 400e9 / 3.0));
        let load = values(&rates.own(1))[0];
        assert!((load - 4.5 / 6.0).abs() < 1e-4, "{load}");
    }

    /// A gather takes the part of one access on the links of each node.
    #[test]
    fn a_gather_is_one_access_on_every_link() {
        let rates = example().rates(&crowd(&[(0, 1)], &[&[0, 1]]));
        assert_eq!((rates.own[0].1, rates.gathers[0].1), (100e9, 100e9));
        assert_eq!(values(&rates.gather(0)), [256.0 * 2.0 / 32.0, 256.0 * 2.0 / 4.0, 256.0]);
    }
}
