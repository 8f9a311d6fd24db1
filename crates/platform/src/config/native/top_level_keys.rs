//! The keys of a platform file, as the file gives them. What they amount to together is in
//! `reader.rs`.

use super::collectives::Given as Collectives;
use super::explicit::Graph;
use super::failed::Failed;
use super::links::Links;
use super::network::Network;
use super::nics::Nic;
use super::npu::Npu;
use super::shape::Shape;
use crate::library::Library;
use crate::platform::Scheduler;
use declared::{Tried, section};
use device::memory::keys::Remote;

section! {
    /// A platform file.
    pub(super) struct Root {
        /// Name for people.
        pub name: Tried<String>, default Tried::Absent, says "the file's name";
        /// Where the numbers are from; free text, kept.
        pub source: Tried<String>, default Tried::Absent, says "empty";
        /// Measurements of collectives that this platform was compared with; `none` makes reports say
        /// that there are none.
        pub measured: Tried<String>, default Tried::Absent, says "not said";
        /// Presets or files that this one starts from ([extending](#extending-a-platform)).
        pub extends: Tried<String> as parents, default Tried::Absent;
        /// Blocks, innermost first: `Ring(4)_FullyConnected(8)_Switch(16)`, short
        /// `R(4)_FC(8)_SW(16)`; 1 to 32 dimensions; or a mapping with a `generator`
        /// ([topologies](../models/topologies.md#generators)) or with a `file`
        /// ([graphs](../models/topologies.md#graphs)).
        pub topology: Tried<Shape>, default Tried::Absent, says "this or `graph`";
        /// Number of NPUs: resizes the outermost dimension (`1024` makes `SW(8)_SW(16)` an
        /// `SW(8)_SW(128)`; `--npus 1024`). Fewer than a node's are a part of one node, if that is
        /// a switch or has links between every two NPUs. A rack that consists of hosts
        /// (`library.node.hosts`) may be partly empty: racks of 72 in hosts of 4 take any multiple
        /// of 4, in equal parts. With a `library` whose only dimension is the node it makes a
        /// larger node. A warning says each of these. On a graph only the first NPUs run ranks.
        pub npus: Tried<u32>, default Tried::Absent, says "as `topology` says";
        /// An explicit graph ([below](#explicit-graphs)).
        pub graph: Tried<Graph>, default Tried::Absent, says "this or `topology`";
        /// One mapping for each dimension, or one for all. For a generated fabric, one for each kind
        /// of link.
        pub links: Tried<Links>, default Tried::Absent, says "required with `topology`";
        /// Network cards that dimensions of `topology` share, which `links` name.
        pub nics: Tried<Vec<Nic>>, default Tried::Absent, says "none: every dimension has its own";
        /// Links and nodes of a graph or a generated fabric that have failed
        /// ([topologies](../models/topologies.md#failed-links-and-nodes)).
        pub failed: Tried<Failed>, default Tried::Absent, says "nothing";
        /// How the network is simulated.
        pub network: Tried<Network>, default Tried::Absent, says "defaults";
        /// The NPU.
        pub npu: Tried<Npu>, default Tried::Absent, says "defaults";
        /// Memory outside the NPUs ([memory](../models/memory.md)). Without it loads and stores are
        /// errors.
        pub remote_memory: Tried<Remote>, default Tried::Absent;
        /// Algorithms of collectives: `<kind>: ring`, a list with one for each dimension, or a
        /// mapping ([below](#keys)).
        pub collectives: Tried<Collectives>, default Tried::Absent, says "`auto`";
        /// A communication library and its parameters. It then runs the collectives
        /// ([libraries](../models/libraries.md)).
        pub library: Tried<Library>, default Tried::Absent,
            says "none: the algorithms of `collectives`";
        /// How collectives are cut into chunks and ordered.
        pub scheduler: Tried<Scheduler>, default Tried::Absent, says "defaults";
        /// Sizes that collectives run over, `[8, 16]`; their product is the number of NPUs.
        pub logical: Tried<Vec<u32>> as sizes, default Tried::Absent,
            says "the physical dimensions";
    }
}

/// `extends` is resolved before the keys are read, so only files can have it.
mod parents {
    use declared::findings::{At, Findings};
    use declared::{Shown, Tried};

    pub(super) fn kind() -> String {
        "name or path, or a list of them".into()
    }

    pub(super) fn example() -> String {
        "a name or path in a platform file".into()
    }

    pub(super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Tried<String>> {
        findings.refuse(at, "only a platform file can extend others", example());
        Some(Tried::Broken)
    }

    pub(super) fn show(_: &Tried<String>) -> Option<Shown> {
        None
    }

    pub(super) fn json(_: &Tried<String>) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// A list of 1 to 32 sizes.
mod sizes {
    use declared::findings::{At, Findings};
    use declared::tree::Value;
    use declared::{Setting, Shown, Tried};

    pub(super) fn kind() -> String {
        "list of counts".into()
    }

    pub(super) fn example() -> String {
        "a list of 1 to 32 sizes, such as [8, 16]".into()
    }

    pub(super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Tried<Vec<u32>>> {
        if !matches!(&at.tree.value, Value::List(items) if (1..=32).contains(&items.len())) {
            findings.refuse(at, format!("{} is not allowed", at.tree.show()), example());
            return Some(Tried::Broken);
        }
        Tried::read(at, findings)
    }

    pub(super) fn show(sizes: &Tried<Vec<u32>>) -> Option<Shown> {
        sizes.show()
    }

    pub(super) fn json(sizes: &Tried<Vec<u32>>) -> serde_json::Value {
        sizes.json()
    }
}
