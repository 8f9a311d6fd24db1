//! Classes of whole routes on a graph, so that the channels of no class depend on one another in a
//! circle.
//!
//! All routes begin in class 0. While a class has a circle, the routes that make its least used
//! dependency go to the next class (Domke, Hoefler and Nagel, "Deadlock-Free Oblivious Routing for
//! Arbitrary Topologies", IPDPS 2011).

use super::circle::circle;
use std::collections::HashMap;
use topology::LinkGraph;

/// Most classes.
const MOST: u16 = 16;
/// Most NPUs: the routes of all pairs are held.
const NPUS: u32 = 1024;

/// The class of each pair of NPUs, source by source, and the number of classes; nothing where they
/// are too many.
pub(super) fn assign(graph: &LinkGraph) -> Option<(Vec<u8>, u16)> {
    let npus = graph.npus();
    if npus > NPUS {
        return None;
    }
    let mut classes = vec![0u8; (npus * npus) as usize];
    let mut left: Vec<u32> = (0..npus * npus).filter(|pair| pair / npus != pair % npus).collect();
    for class in 0..MOST {
        left.iter().for_each(|&pair| classes[pair as usize] = class as u8);
        left = break_circles(graph, left);
        if left.is_empty() {
            return Some((classes, class + 1));
        }
    }
    None
}

/// Takes routes away until the others have no circle; returns those.
fn break_circles(graph: &LinkGraph, pairs: Vec<u32>) -> Vec<u32> {
    let npus = graph.npus();
    // The routes of each dependency, and the dependencies of each link.
    let mut users: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); graph.len() as usize];
    let dependencies = |pair: u32| {
        let links: Vec<u32> = graph.route(pair / npus, pair % npus).map(|hop| hop.link).collect();
        links.windows(2).map(|two| (two[0], two[1])).collect::<Vec<_>>()
    };
    for pair in pairs {
        for (link, next) in dependencies(pair) {
            let routes = users.entry((link, next)).or_default();
            if routes.is_empty() {
                after[link as usize].push(next);
            }
            routes.push(pair);
        }
    }
    let mut gone = Vec::new();
    while let Some(found) = circle(&after) {
        let around = (0..found.len()).map(|at| (found[at], found[(at + 1) % found.len()]));
        let Some(least) = around.min_by_key(|edge| (users[edge].len(), *edge)) else { break };
        for pair in users[&least].clone() {
            for edge in dependencies(pair) {
                if let Some(routes) = users.get_mut(&edge) {
                    routes.retain(|&route| route != pair);
                    if routes.is_empty() {
                        after[edge.0 as usize].retain(|&next| next != edge.1);
                    }
                }
            }
            gone.push(pair);
        }
    }
    gone.sort_unstable();
    gone
}
