//! A network of either backend: dimensions of more than one NPU, innermost first.

use super::dim::Dim;
use super::{analytical, garnet};
use crate::config::file::{self, Load};
use declared::findings::Findings;

/// A network file.
pub(super) struct Network {
    /// Dimensions of more than one NPU.
    pub dims: Vec<Dim>,
    /// Whether each dimension of the file is among them.
    pub kept: Vec<bool>,
    /// Keys of `network.flit`.
    pub flits: Vec<String>,
}

/// Whether a text has the keys of a network file of version 1.0.
pub(super) fn is_first(text: &str) -> bool {
    text.contains("num-npus")
        || text.contains("\"units-count\"")
        || text.contains("\"topology-name\"")
}

/// The network of `findings.file`, or nothing and at least one problem.
pub(super) fn read(load: &Load<'_>, findings: &mut Findings) -> Option<Network> {
    let text = file::text("network file", load, findings)?;
    let is_garnet = !text.trim_start().starts_with('{');
    let (dims, flits) = if is_garnet {
        garnet::read(load, findings)?
    } else {
        (analytical::read(load, findings)?, Vec::new())
    };
    let kept: Vec<bool> = dims.iter().map(|dim| dim.size > 1).collect();
    let dims: Vec<Dim> = dims.into_iter().filter(|dim| dim.size > 1).collect();
    if dims.is_empty() {
        findings.add("", "the network has one NPU", "two NPUs or more");
        return None;
    }
    Some(Network { dims, kept, flits })
}
