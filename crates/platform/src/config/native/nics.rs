//! `nics`: network cards that several dimensions of a stack share.

use super::links::{Link, Links};
use declared::findings::{At, Findings};
use declared::section;
use topology::{Dim, GraphFabric, SharedStack};
use units::{Bandwidth, Span};

section! {
    /// A network card that every NPU has.
    #[derive(Clone, Debug, PartialEq)]
    pub(super) struct Nic {
        /// Name of the card, which `links[].nic` uses.
        pub name: String, required "a name";
        /// Bandwidth between an NPU and the card, one way.
        pub bandwidth: Bandwidth, required;
        /// Latency between them.
        pub latency: Span, default Span::ZERO;
    }
}

/// Most NPUs: every card has a table with a row for each card.
const MOST: u32 = 4096;

/// The stack as a graph with cards, or nothing and at least one problem.
pub(super) fn resolve(
    dims: Vec<Dim>,
    (links, links_at): (&Links, &At<'_>),
    (nics, at): (Vec<Nic>, &At<'_>),
    findings: &mut Findings,
) -> Option<GraphFabric> {
    let before = findings.problems.len();
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    let mut of = Vec::new();
    for (link, at) in links.entries(links_at, dims.len())? {
        let found = link.nic.as_ref().map(|name| names.iter().position(|known| known == name));
        if found == Some(None) {
            let place = at.get(Link::nic).unwrap_or(at);
            let message = format!("unknown card \"{}\"", link.nic.unwrap_or_default());
            findings.refuse(&place, message, names.join(", "));
        }
        of.push(found.flatten());
    }
    for (nic, place) in at.items().iter().enumerate() {
        let name = names[nic];
        if names[..nic].contains(&name) {
            findings.refuse(place, format!("two cards are called \"{name}\""), "each name once");
        } else if !of.contains(&Some(nic)) && findings.problems.len() == before {
            let message = format!("no dimension uses the card \"{name}\"");
            findings.refuse(place, message, format!("{}: {name} in links", Link::nic));
        }
    }
    let npus: u32 = dims.iter().map(|dim| dim.size).product();
    if npus > MOST {
        findings.refuse(at, format!("{npus} NPUs with cards"), format!("at most {MOST} NPUs"));
    }
    if findings.problems.len() > before {
        return None;
    }
    let nic =
        |nic: Nic| topology::Nic { name: nic.name, bandwidth: nic.bandwidth, latency: nic.latency };
    let stack = SharedStack { dims, nics: nics.into_iter().map(nic).collect(), of };
    match stack.graph() {
        Ok(graph) => Some(graph),
        Err(error) => {
            findings.refuse(at, error.to_string(), "a smaller network");
            None
        }
    }
}

/// Refuses `nic` in links of a network without `nics`.
pub(super) fn unused(links: &Links, at: &At<'_>, findings: &mut Findings) -> Option<()> {
    let places = at.items();
    let each = links.each();
    let mut named = each.iter().zip(&places).filter(|(link, _)| link.nic.is_some());
    let Some((_, place)) = named.next() else { return Some(()) };
    let place = place.get(Link::nic).unwrap_or_else(|| place.clone());
    let allowed = "nics: a list of cards with name and bandwidth, and blocks as topology";
    findings.refuse(&place, "there are no cards to share", allowed);
    None
}

/// The keys that read back to the cards of a stack.
pub(super) fn keys(stack: &SharedStack) -> Vec<Nic> {
    let nic = |nic: &topology::Nic| Nic {
        name: nic.name.clone(),
        bandwidth: nic.bandwidth,
        latency: nic.latency,
    };
    stack.nics.iter().map(nic).collect()
}
