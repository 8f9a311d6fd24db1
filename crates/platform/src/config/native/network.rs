//! `network`: how the network carries messages, whatever the backend.

use crate::config::declared::keys;
use crate::config::findings::{At, Findings};
use topology::Routing;

keys! { pub(super) KEYS:
    /// Which of several equally near next hops a message takes
    /// ([topologies](../models/topologies.md#routes)).
    routing: "`lowest`, `d_mod_k`, `hash`, `hash(seed)`, `spray`", "`lowest`";
}

/// The settings, or nothing and at least one problem; the default when nothing is said.
pub(super) fn read(at: Option<At<'_>>, findings: &mut Findings) -> Option<Routing> {
    let Some(at) = at else { return Some(Routing::default()) };
    findings.declared(&at, KEYS)?;
    let Some(routing) = at.get("routing") else { return Some(Routing::default()) };
    let text = findings.text(&routing)?;
    match text.parse() {
        Ok(routing) => Some(routing),
        Err(allowed) => {
            findings.refuse(&routing, format!("\"{text}\" is not a routing policy"), allowed);
            None
        }
    }
}
