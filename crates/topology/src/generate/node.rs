//! The inside of a machine: an NVLink domain, a full mesh, DGX-1's cube mesh. As `inner` of `nested`
//! they are the nodes of a cluster.
//!
//! - NVLink domain: every NPU has `cables` links to each of `switches` switches. A DGX H100 has 4
//!   switches (18 links an NPU: 5, 5, 4, 4), a GB200 NVL72 has 18 with one link to each of 72 NPUs.
//! - Full mesh: `cables` links between every two NPUs. An MI300X platform joins 8 by one xGMI link
//!   each.
//! - Cube mesh: 8 NPUs in two quads. A quad is a full mesh, and NPU i is joined to its twin in the
//!   other quad. With 6 NVLinks an NPU (V100) four of an NPU's neighbours share two more links.
//!
//! Links between the same two nodes act as one, as NVLinks do.
//!
//! Sources: NVIDIA, "DGX-1 with Tesla V100 system architecture", WP-08437-002 (2017), figure 4; links
//! of pairs as `nvidia-smi topo -m` prints them (NVIDIA/nccl issue 671); NVIDIA, "GB200 NVL72" data
//! sheet; AMD, "CDNA 3" white paper (2023), figure 10.

use super::generator::{FabricBuilder, Fault, Generator, Key, words};
use crate::recipe::Values;
use crate::{GraphDim, Paths, Symmetry};
use std::borrow::Cow;

/// NPUs that are all joined to several switches.
pub(super) struct NvlinkDomain;

impl Generator for NvlinkDomain {
    fn name(&self) -> &'static str {
        "nvlink_domain"
    }

    fn about(&self) -> &'static str {
        "NPUs that are all joined to each of several switches"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 3] = [
            Key::one("npus", "NPUs"),
            Key::one("switches", "switches").or("1"),
            Key::one("cables", "cables from each NPU to each switch, which act as one").or("1"),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "npus"
    }

    fn faults(&self, _: &Values) -> Vec<Fault> {
        Vec::new()
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        vec![GraphDim::new("domain", values.one("npus"), Symmetry::Full)]
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&["nvlink"])
    }

    fn machine(&self, _: &Values) -> (usize, usize) {
        (1, 1)
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        Some(2 * u32::from(values.one("npus") > 1))
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let switches = values.one("switches");
        let first = builder.switches("nvswitch", switches, 1);
        for npu in 0..values.one("npus") {
            (0..switches).for_each(|s| builder.bond(npu, first + s, 0, values.one("cables")));
        }
    }
}

/// NPUs that are all joined to each other.
pub(super) struct FullMesh;

impl Generator for FullMesh {
    fn name(&self) -> &'static str {
        "full_mesh"
    }

    fn about(&self) -> &'static str {
        "NPUs that are all joined to each other"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 2] = [
            Key::one("npus", "NPUs"),
            Key::one("cables", "cables between every two NPUs, which act as one").or("1"),
        ];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        "npus"
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        let npus = values.one("npus");
        if npus <= MOST_MESH {
            return Vec::new();
        }
        vec![Fault::new("npus", format!("{npus} NPUs"), format!("at most {MOST_MESH}"))]
    }

    fn dims(&self, values: &Values) -> Vec<GraphDim> {
        let dim = GraphDim::new("mesh", values.one("npus"), Symmetry::Full);
        vec![GraphDim { paths: Paths::Direct, ..dim }]
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&["mesh"])
    }

    fn machine(&self, _: &Values) -> (usize, usize) {
        (1, 1)
    }

    fn diameter(&self, values: &Values) -> Option<u32> {
        Some(u32::from(values.one("npus") > 1))
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        let npus = values.one("npus");
        for (a, b) in (0..npus).flat_map(|a| (a + 1..npus).map(move |b| (a, b))) {
            builder.bond(a, b, 0, values.one("cables"));
        }
    }
}

/// Most NPUs of a full mesh: each has a table with a row for each.
const MOST_MESH: u32 = 1024;

/// 8 NPUs as in a DGX-1.
pub(super) struct CubeMesh;

/// Pairs with the number of their links: with 4 links an NPU, and with 6.
const CUBE: [(u32, u32, u32, u32); 16] = [
    (0, 1, 1, 1),
    (0, 2, 1, 1),
    (0, 3, 1, 2),
    (0, 4, 1, 2),
    (1, 2, 1, 2),
    (1, 3, 1, 1),
    (1, 5, 1, 2),
    (2, 3, 1, 2),
    (2, 6, 1, 1),
    (3, 7, 1, 1),
    (4, 5, 1, 1),
    (4, 6, 1, 1),
    (4, 7, 1, 2),
    (5, 6, 1, 2),
    (5, 7, 1, 1),
    (6, 7, 1, 2),
];

impl Generator for CubeMesh {
    fn name(&self) -> &'static str {
        "cube_mesh"
    }

    fn about(&self) -> &'static str {
        "DGX-1's 8 NPUs: two quads that are full meshes, each NPU joined to its twin"
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 1] =
            [Key::one("ports", "links of an NPU: 6 (V100) or 4 (P100)").or("6").from(4)];
        &KEYS
    }

    fn outer(&self) -> &'static str {
        ""
    }

    fn unit(&self, _: &Values) -> u64 {
        8
    }

    fn resize(&self, values: &mut Values, npus: u32) -> Result<(), u64> {
        if npus == 8 { Ok(()) } else { Err(self.unit(values)) }
    }

    fn faults(&self, values: &Values) -> Vec<Fault> {
        match values.one("ports") {
            4 | 6 => Vec::new(),
            ports => vec![Fault::new("ports", format!("{ports} links an NPU"), "4 or 6")],
        }
    }

    fn dims(&self, _: &Values) -> Vec<GraphDim> {
        vec![GraphDim::new("cube", 8, Symmetry::None)]
    }

    fn kinds(&self, _: &Values) -> Vec<Cow<'static, str>> {
        words(&["nvlink"])
    }

    fn machine(&self, _: &Values) -> (usize, usize) {
        (1, 1)
    }

    fn diameter(&self, _: &Values) -> Option<u32> {
        Some(2)
    }

    fn wire(&self, values: &Values, builder: &mut FabricBuilder) {
        for (a, b, four, six) in CUBE {
            builder.bond(a, b, 0, if values.one("ports") == 6 { six } else { four });
        }
    }
}
