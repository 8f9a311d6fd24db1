//! Rail-optimized and rail-only networks: NPU i of every node is joined to leaf switches of rail i.
//!
//! A node is `npus_per_node` NPUs at one switch or several (NVSwitch; an NVL72 has 18, each with a
//! link to all 72 NPUs). A rail leaf joins NPU i of
//! `nodes_per_leaf` nodes; all leaves are joined to all spines. Without spines (rail-only) messages
//! between rails pass a node's switch. NPUs pass messages on where that is as short (NVIDIA's PXN):
//! between rails it is 4 links either way, and the least latency decides.
//!
//! Sources: NVIDIA DGX SuperPOD reference architecture (H100), 2023; Wang, Ghobadi, Shakeri, Zhang,
//! Hasani, "Rail-only: a low-cost high-performance network for training LLMs", HotI 2024.

use super::generator::{FabricBuilder, Fault, Generator, Key, MOST_NPUS, words};
use crate::recipe::Values;
use crate::{GraphDim, Symmetry};
use std::borrow::Cow;

pub(super) struct RailNetwork {
    /// The rails may be joined by spines.
    spines: bool,
}

pub(super) static OPTIMIZED: RailNetwork = RailNetwork { spines: true };
pub(super) static ONLY: RailNetwork = RailNetwork { spines: false };

struct Rails {
    npus: u32,
    /// Switches in a node.
    inside: u32,
    nodes: u32,
    per_leaf: u32,
    spines: u32,
    cables: u32,
}

impl Rails {
    fn of(values: &Values) -> Rails {
        let nodes = values.one("nodes");
        Rails {
            npus: values.one("npus_per_node"),
            inside: values.one("switches_per_node"),
            nodes,
            per_leaf: values.given("nodes_per_leaf").unwrap_or(nodes),
            spines: values.given("spines").unwrap_or(0),
            cables: values.one("cables"),
        }
    }

    /// Name of the switches in nodes.
    fn switch(&self) -> &'static str {
        if self.inside == 1 { "node" } else { "nvswitch" }
    }

    /// Leaves of a rail.
    fn leaves(&self) -> u32 {
        self.nodes.div_ceil(self.per_leaf)
    }
}

impl Generator for RailNetwork {
    fn name(&self) -> &'static str {
        if self.spines { "rail_optimized" } else { "rail_only" }
    }

    fn about(&self) -> &'static str {
        if self.spines {
            "nodes with switches inside; NPU i of each node at the leaves of rail i"
        } else {
            "nodes with switches inside; a rail joins NPU i of all nodes, and nothing joins rails"
        }
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 6] = [
            Key::one("npus_per_node", "NPUs of a node, which is also the number of rails"),
            Key::one("nodes", "nodes"),
            Key::one("switches_per_node", "switches in a node, each joined to all its NPUs")
                .or("1"),
            Key::one("nodes_per_leaf", "nodes at each leaf; by default all").or(""),
            Key::one("spines", "spine switches over all rails; 0: rail-only").or("0").from(0),
            Key::one("cables", "cables from each leaf to each spine").or("1"),
        ];
        if self.spines { &KEYS } else { KEYS.split_at(3).0 }
    }

    fn outer(&self) -> &'static str {
        "nodes"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let rails = Rails::of(values);
        let mut faults = Vec::new();
        if rails.leaves() > 1 && rails.spines == 0 {
            let message = format!("{} leaves per rail, but no spines to join them", rails.leaves());
            faults.push(Fault::new("spines", message, "1 or more, or more nodes_per_leaf"));
        }
        if rails.leaves() > 1 && !rails.nodes.is_multiple_of(rails.per_leaf) {
            let message = format!(
                "{} nodes cannot be divided among leaves of {}",
                rails.nodes, rails.per_leaf
            );
            let allowed = format!("a divisor of {}", rails.nodes);
            faults.push(Fault::new("nodes_per_leaf", message, allowed));
        }
        if u64::from(rails.npus) * u64::from(rails.nodes) > MOST_NPUS {
            let message = format!("{} nodes of {} NPUs", rails.nodes, rails.npus);
            faults.push(Fault::new("nodes", message, format!("{} NPUs", MOST_NPUS)));
        }
        faults
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let rails = Rails::of(values);
        let dim = |name, size| GraphDim::new(name, size, Symmetry::Full);
        let mut dims = vec![dim("node", rails.npus)];
        if rails.leaves() > 1 {
            dims.extend([dim("rail", rails.per_leaf), dim("spine", rails.leaves())]);
        } else {
            dims.push(dim("rail", rails.nodes));
        }
        dims
    }

    fn unit(&self, values: &Values) -> u64 {
        u64::from(Rails::of(values).npus)
    }

    fn kinds(&self, values: &Values) -> Vec<Cow<'static, str>> {
        let all = ["node", "rail", "spine"];
        words(&all[..if Rails::of(values).spines > 0 { 3 } else { 2 }])
    }

    fn machine(&self, _: &Values) -> (usize, usize) {
        (1, 1)
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        let rails = Rails::of(values);
        Some(match (rails.npus > 1, rails.nodes > 1) {
            (false, false) => 0,
            (true, false) => 2,
            (false, true) => 2 + 2 * u32::from(rails.leaves() > 1),
            (true, true) => 4,
        })
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let rails = Rails::of(values);
        let inside = builder.switches(rails.switch(), rails.nodes * rails.inside, 1);
        let leaves = builder.switches("leaf", rails.npus * rails.leaves(), 1);
        let spines = builder.switches("spine", rails.spines, 2);
        for npu in 0..rails.npus * rails.nodes {
            let (rail, node) = (npu % rails.npus, npu / rails.npus);
            for switch in 0..rails.inside {
                builder.cables(npu, inside + node * rails.inside + switch, 0, 1);
            }
            builder.cables(npu, leaves + rail * rails.leaves() + node / rails.per_leaf, 1, 1);
        }
        for leaf in 0..rails.npus * rails.leaves() {
            (0..rails.spines)
                .for_each(|s| builder.cables(leaves + leaf, spines + s, 2, rails.cables));
        }
    }
}
