//! Why a network of flits is refused, in names of its nodes and keys.

use graph::Problem;
use net_flit::{Refusal, Table};
use net_settings::flit::{Flit, FlitRouting};
use platform::{Platform, routes_file};
use topology::{Fabric, LinkGraph};

/// The table of routes in a file that a platform names.
///
/// # Errors
/// Faults of the file.
pub(crate) fn table(file: &str, platform: &Platform, links: &LinkGraph) -> Result<Table, Problem> {
    let entries = routes_file::read(file, &platform.fabric, links)
        .map_err(|problems| together(problems, &platform.name))?;
    let mut table = Table::new(links.nodes(), links.npus());
    entries.iter().for_each(|entry| table.set(entry.at, entry.to, entry.link));
    Ok(table)
}

/// The first of several problems of a table, how many more there are, and what names its file.
fn together(problems: Vec<Problem>, platform: &str) -> Problem {
    let more = problems.len().saturating_sub(1);
    let first = problems.into_iter().next();
    let mut first = first.unwrap_or_else(|| Problem::new("", "network.flit.routing", "no table"));
    if more > 0 {
        first.message.push_str(&format!(" (and {more} more like it)"));
    }
    first.message.push_str(&format!("; network.flit.routing of {platform} names this file"));
    first
}

/// Remedies against a circle of channels.
fn remedies(keys: &Flit, fabric: &Fabric) -> String {
    let mut all = Vec::new();
    if keys.classes.is_some() {
        all.push("more network.flit.classes");
    }
    match (&keys.routing, fabric) {
        (FlitRouting::Table(_), _) => all.push("routes without a cycle"),
        (_, Fabric::Graph(graph)) if graph.recipe.is_some() => {
            all.push("network.flit.routing: dimension_order, up_down or adaptive");
        }
        _ => all.push("network.flit.routing: up_down"),
    }
    all.push("or network.flit.deadlock: allow");
    all.join(", ")
}

/// Why the network cannot carry packets, in names of its nodes.
pub(crate) fn problem(platform: &Platform, links: &LinkGraph, refusal: Refusal) -> Problem {
    let keys = platform.network.flit.clone().unwrap_or_default();
    let name = |node: u32| platform.fabric.node_name(node);
    // A wrong table is a fault of its file.
    let place = |at: Option<u32>| match (&keys.routing, at) {
        (FlitRouting::Table(file), Some(at)) => (file.clone(), format!("routes.{}", name(at))),
        (FlitRouting::Table(file), None) => (file.clone(), "routes".to_string()),
        _ => (platform.name.clone(), "network.flit.routing".to_string()),
    };
    match refusal {
        Refusal::Circle(hops) => {
            let hop = |hop: &net_flit::Hop| {
                let link = links.link(hop.link);
                let class =
                    if hop.class > 0 { format!(" class {}", hop.class) } else { String::new() };
                format!("{}{class}", crate::names::link(&platform.fabric, link.from, link.to))
            };
            let circle: Vec<String> = hops.iter().map(hop).collect();
            let text = format!(
                "flits could lock up: links wait for each other in a cycle: {}",
                circle.join(", ")
            );
            let (file, place) = place(None);
            Problem::new(file, place, text).help(remedies(&keys, &platform.fabric))
        }
        Refusal::NoWay { at, to } => {
            let (file, place) = place(Some(at));
            let (way, allowed) = match keys.routing {
                FlitRouting::Table(_) => {
                    ("route", "a route from every node on the way to every NPU")
                }
                _ => ("way up and then down", "links both ways, or routing: topology"),
            };
            let text = format!("no {way} from {} to {}", name(at), name(to));
            Problem::new(file, place, text).help(allowed)
        }
        Refusal::Setting(refused) => {
            // Settings of one word are keys.
            let key = Some(refused.name).filter(|name| !name.contains(' '));
            let place = key.map_or("network.flit".into(), |key| format!("network.flit.{key}"));
            Problem::new(platform.name.clone(), place, refused.to_string())
        }
        Refusal::Loop { to, nodes } => {
            let (file, place) = place(nodes.first().copied());
            let round: Vec<String> = nodes.iter().map(|&node| name(node)).collect();
            let text =
                format!("routes to {} go round and never arrive: {}", name(to), round.join(", "));
            Problem::new(file, place, text).help("a route that reaches the NPU")
        }
    }
}
