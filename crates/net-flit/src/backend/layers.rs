//! Classes of whole routes, so that the channels of no class depend on one another in a circle.
//!
//! All routes begin in class 0. While a class has a circle, the routes that make its least used
//! dependency go to the next class (Domke, Hoefler and Nagel, "Deadlock-Free Oblivious Routing for
//! Arbitrary Topologies", IPDPS 2011).

use super::circle::circle;
use std::collections::HashMap;

/// Most classes.
pub(super) const MOST: u16 = 16;
/// Most routes: all are held.
pub(super) const ROUTES: u32 = 1 << 24;

/// The class of each of these routes over the links, and the number of classes; nothing where they
/// are more than `most`, or the routes are too many.
pub(super) fn assign(
    (routes, links): (u32, u32),
    route: impl Fn(u32) -> Vec<u32>,
    most: u16,
) -> Option<(Vec<u8>, u16)> {
    if routes > ROUTES {
        return None;
    }
    let dependencies =
        |number: u32| route(number).windows(2).map(|two| (two[0], two[1])).collect::<Vec<_>>();
    let mut classes = vec![0u8; routes as usize];
    let mut left: Vec<u32> = (0..routes).collect();
    for class in 0..most.min(MOST) {
        left.iter().for_each(|&number| classes[number as usize] = class as u8);
        left = break_circles(links, left, &dependencies);
        if left.is_empty() {
            return Some((classes, class + 1));
        }
    }
    None
}

/// Takes routes away until the others have no circle; returns those.
fn break_circles(
    links: u32,
    routes: Vec<u32>,
    dependencies: &impl Fn(u32) -> Vec<(u32, u32)>,
) -> Vec<u32> {
    // The routes of each dependency, and the dependencies of each link.
    let mut users: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
    let mut after: Vec<Vec<u32>> = vec![Vec::new(); links as usize];
    for number in routes {
        for (link, next) in dependencies(number) {
            let routes = users.entry((link, next)).or_default();
            if routes.is_empty() {
                after[link as usize].push(next);
            }
            routes.push(number);
        }
    }
    let mut gone = Vec::new();
    while let Some(found) = circle(&after) {
        let around = (0..found.len()).map(|at| (found[at], found[(at + 1) % found.len()]));
        let Some(least) = around.min_by_key(|edge| (users[edge].len(), *edge)) else { break };
        for number in users[&least].clone() {
            for edge in dependencies(number) {
                if let Some(routes) = users.get_mut(&edge) {
                    routes.retain(|&route| route != number);
                    if routes.is_empty() {
                        after[edge.0 as usize].retain(|&next| next != edge.1);
                    }
                }
            }
            gone.push(number);
        }
    }
    gone.sort_unstable();
    gone
}
