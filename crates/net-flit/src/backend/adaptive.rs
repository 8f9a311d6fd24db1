//! Minimal adaptive routes with a way of last resort.
//!
//! A packet may take every link that leads nearer to its destination, on channels of a class of
//! their own. Where none of them is idle, it may take a channel of the *escape* routes, which cannot
//! lock up by themselves: then no packet waits for ever (Duato, "A new theory of deadlock-free
//! adaptive routing in wormhole networks", IEEE Transactions on Parallel and Distributed Systems 4,
//! 1993).
//!
//! On a stack, escape routes cross the dimensions in order. Their class follows from the router and
//! the destination only, so a packet may leave them and come back. The theorem then asks for a graph
//! without circles of all dependencies between escape channels, those over adaptive channels in
//! between included. All ways are minimal, so a packet that uses an escape channel of a dimension
//! has crossed those before it, for good: such dependencies lead only to the same line or to later
//! dimensions. (So a packet may enter a switch only when it has crossed the dimensions before.) Within a line, whatever way a packet takes is one that it could take on escape
//! channels. So the proof looks at the minimal ways of a line of each dimension, both ways round
//! where they are equally short.
//!
//! On a graph, escape routes go up and down. A packet stays on them once it has taken them, so no
//! other dependencies exist (Silla and Duato, "Improving the efficiency of adaptive routing in
//! networks with irregular topology", HiPC 1997).

use super::datelines::Datelines;
use super::plan_request::{PlanRequest, datelines, up_down};
use super::proof::Dependencies;
use super::routing_choice::{Hop, Refusal};
use super::search::{Search, spread};
use topology::{Fabric, LinkGraph};

/// The escape routes.
#[derive(Clone, Debug)]
pub(super) enum Adaptive {
    /// Datelines of a stack.
    Stack(Datelines),
    /// Search in a graph.
    Graph(Box<Search>),
}

impl Adaptive {
    pub(super) fn new(request: &PlanRequest<'_>) -> Result<Adaptive, Refusal> {
        if let Fabric::Graph(_) = request.fabric {
            return up_down(request).map(|search| Adaptive::Graph(search.into()));
        }
        let prove = |lines: &Datelines| {
            let mut all = Dependencies::new(request.links.len(), lines.classes);
            for (node, dst) in lines.lines() {
                depend(request.links, lines, node, dst, &mut all);
            }
            all.check()
        };
        datelines(request, prove).map(Adaptive::Stack)
    }

    /// The class of adaptive channels: the one after those of the escape routes.
    pub(super) fn class(&self) -> u16 {
        match self {
            Adaptive::Stack(lines) => lines.classes,
            Adaptive::Graph(_) => 1,
        }
    }

    /// Classes in all.
    pub(super) fn classes(&self) -> u16 {
        self.class() + 1
    }

    /// The escape channel of a packet at `node`, which came there by `escape` if it came on one.
    pub(super) fn escape(
        &self,
        links: &LinkGraph,
        node: u32,
        dst: u32,
        escape: Option<u32>,
    ) -> Option<Hop> {
        match self {
            Adaptive::Stack(lines) => {
                let link = links.route(node, dst).next()?.link;
                Some(Hop { link, class: lines.class_towards(links, link, dst) })
            }
            Adaptive::Graph(search) => {
                let link = search.next(node, escape, dst, spread(node, dst))?;
                Some(Hop { link, class: 0 })
            }
        }
    }

    /// Whether a packet that came by an escape channel has no other way on.
    pub(super) fn stays(&self) -> bool {
        matches!(self, Adaptive::Graph(_))
    }
}

/// Dependencies of the minimal ways from a node.
fn depend(links: &LinkGraph, lines: &Datelines, node: u32, dst: u32, all: &mut Dependencies) {
    let channel = |link: u32| Hop { link, class: lines.class_towards(links, link, dst) };
    links.nearer(node, dst, |hop| {
        links.nearer(hop.to, dst, |next| all.add(channel(hop.link), channel(next.link)));
    });
}

#[cfg(test)]
mod tests {
    use super::super::circle::circle;
    use super::*;
    use crate::backend::routing_choice::RoutingChoice;
    use std::collections::BTreeSet;

    /// All dependencies between escape channels, those over adaptive channels included.
    fn extended(links: &LinkGraph, adaptive: &Adaptive, classes: u32) -> Vec<Vec<u32>> {
        let mut after = vec![BTreeSet::new(); (links.len() * classes) as usize];
        let number = |hop: Hop| hop.link * classes + u32::from(hop.class);
        for dst in 0..links.npus() {
            // All NPUs, and the switches on ways from them.
            let mut nodes: BTreeSet<u32> = (0..links.npus()).filter(|&npu| npu != dst).collect();
            for npu in nodes.clone() {
                links.nearer(npu, dst, |hop| nodes.extend((hop.to != dst).then_some(hop.to)));
            }
            for node in nodes {
                let Some(held) = adaptive.escape(links, node, dst, None) else { continue };
                let mut open = vec![links.link(held.link).to];
                while let Some(at) = open.pop() {
                    let next = adaptive.escape(links, at, dst, None);
                    after[number(held) as usize].extend(next.map(number));
                    links.nearer(at, dst, |hop| open.push(hop.to));
                }
            }
        }
        after.into_iter().map(|next| next.into_iter().collect()).collect()
    }

    /// The proof of a line is true of the whole stack.
    #[test]
    fn all_dependencies_of_small_stacks_have_no_circle() {
        for (shape, classes) in [
            ("R(5)_R(4)", 2),
            ("M(4)_M(3)_M(2)", 1),
            ("R(3)_SW(4)_R(6)", 2),
            ("FC(4)_FC(3)", 1),
            ("R(3)_R(3)", 1),
        ] {
            let shape: topology::Topology = shape.parse().expect("a shape");
            let (bandwidth, latency) = (units::Bandwidth(1), units::Span(1));
            let dim =
                |&(block, size)| topology::Dim { block, size, bandwidth, latency, parallel: 1 };
            let fabric = Fabric::Stacked(shape.dims.iter().map(dim).collect());
            let links = LinkGraph::new(&fabric).expect("a network");
            let routing = &RoutingChoice::Adaptive;
            let request = PlanRequest {
                fabric: &fabric,
                links: &links,
                routing,
                classes: None,
                may_lock_up: false,
            };
            let adaptive = Adaptive::new(&request).expect("no circle");
            assert_eq!(adaptive.class(), classes, "{shape}");
            assert_eq!(circle(&extended(&links, &adaptive, classes.into())), None, "{shape}");
        }
    }
}
