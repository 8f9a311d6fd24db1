//! Which links a transfer that can split uses, and how much of it goes over each.
//!
//! It goes over the route of its policy, and where messages spread over cards over all their lanes.
//! With [`Routing::Spray`] it splits into equal parts over the equally near next hops of every node
//! on its way. Parts are counted in [`WHOLE`]ths and rounded up, so that the parts on a link are
//! never too few.

use crate::{Fabric, Hop, Lanes, LinkGraph, Routing};

/// Parts of a whole transfer that splits: divisible by the numbers up to 16, and by powers of two up to 2^16.
const WHOLE: u64 = (1 << 16) * 9 * 5 * 7 * 11 * 13;

/// A link of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Number of the link in the topology.
    pub link: u32,
    /// Dimension of the link; 0 in an explicit graph.
    pub dim: u32,
    /// Parts of the transfer that go over it.
    pub parts: u64,
    /// One of the links at this distance from the source, which are all equally long; where some
    /// routes end here and others go on, one that goes on.
    pub leads: bool,
    /// It leaves an NPU.
    pub from_npu: bool,
}

impl Fabric {
    /// Meaning of a policy where transfers can split: on a stack, [`Routing::Auto`] is
    /// [`Routing::Spray`].
    pub fn splitting(&self, routing: Routing) -> Routing {
        match (self, routing) {
            (Fabric::Stacked(_), Routing::Auto) => Routing::Spray,
            (_, routing) => routing,
        }
    }
}

impl Part {
    fn of(graph: &LinkGraph, from: u32, hop: Hop) -> Part {
        let from_npu = from < graph.npus();
        Part { link: hop.link, dim: hop.dim, parts: 0, leads: false, from_npu }
    }
}

/// Finds parts of transfers; buffers are reused.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The route that was found last.
    pub found: Vec<Part>,
    /// Nodes at one distance from the destination with the part of the transfer that reaches them.
    here: Vec<(u32, u64)>,
    next: Vec<(u32, u64)>,
    lanes: Lanes,
}

impl Splitter {
    /// Parts in a whole transfer under the policy of `graph`.
    pub fn whole(graph: &LinkGraph) -> u64 {
        if Splitter::splits(graph) { WHOLE } else { 1 }
    }

    /// Whether transfers may split under the policy of `graph`.
    #[inline]
    pub fn splits(graph: &LinkGraph) -> bool {
        graph.routing() == Routing::Spray || graph.spreads()
    }

    /// Finds every link from `src` to `dst` for a transfer of `bytes`, in the order of the way.
    pub fn find(&mut self, graph: &LinkGraph, (src, dst): (u32, u32), bytes: u64) {
        self.found.clear();
        if graph.spreads() {
            return self.over_lanes(graph, (src, dst), bytes);
        }
        if graph.routing() != Routing::Spray {
            let mut at = src;
            self.found.extend(graph.route(src, dst).map(|hop| {
                let from = std::mem::replace(&mut at, hop.to);
                Part { parts: 1, leads: true, ..Part::of(graph, from, hop) }
            }));
            return;
        }
        self.here.clear();
        self.here.push((src, WHOLE));
        while self.here.iter().any(|&(node, _)| node != dst) {
            let first = self.found.len();
            for &(node, parts) in &self.here {
                let (start, mut ways) = (self.found.len(), 0);
                graph.each_choice(node, dst, |hop| {
                    ways += 1;
                    // A link that is there several times takes that many parts.
                    match self.found[start..].last_mut() {
                        Some(last) if last.link == hop.link => last.parts += 1,
                        _ => {
                            self.found.push(Part { parts: 1, ..Part::of(graph, node, hop) });
                            self.next.push((hop.to, 0));
                        }
                    }
                });
                let of = |part: &mut Part| part.parts = (parts * part.parts).div_ceil(ways);
                self.found[start..].iter_mut().for_each(of);
            }
            let goes_on = self.next.iter().position(|&(node, _)| node != dst);
            if let Some(leading) = self.found.get_mut(first + goes_on.unwrap_or(0)) {
                leading.leads = true;
            }
            let reached = self.next.iter_mut().zip(&self.found[first..]);
            reached.for_each(|(next, part)| next.1 = part.parts);
            self.merge();
        }
    }

    /// Finds every link of the lanes from `src` to `dst` that carry `bytes`.
    fn over_lanes(&mut self, graph: &LinkGraph, (src, dst): (u32, u32), bytes: u64) {
        self.lanes.find(graph, (src, dst));
        for (lane, parts) in self.lanes.shares(bytes, WHOLE) {
            // Lanes with more latency come later.
            self.found.iter_mut().for_each(|part| part.leads = false);
            let mut at = src;
            for &link in &lane.links {
                let hop = Hop { link, to: graph.link(link).to, dim: 0 };
                let from = std::mem::replace(&mut at, hop.to);
                let part = Part { parts, leads: true, ..Part::of(graph, from, hop) };
                match self.found.iter_mut().find(|known| known.link == hop.link) {
                    Some(known) => (known.parts, known.leads) = (known.parts + parts, true),
                    None => self.found.push(part),
                }
            }
        }
    }

    /// Makes the nodes that were reached the ones to go on from.
    fn merge(&mut self) {
        self.here.clear();
        if self.next.len() > 1 {
            self.next.sort_unstable();
        }
        for &(node, parts) in &self.next {
            match self.here.last_mut() {
                Some((last, sum)) if *last == node => *sum += parts,
                _ => self.here.push((node, parts)),
            }
        }
        self.next.clear();
    }
}
