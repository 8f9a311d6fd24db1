//! Rates are max-min fair: checked on every one of 10,000 random problems by the definition, and on
//! textbook cases by hand.

use crate::common::Random;
use net_flow::fair::{Solver, Use};

/// Links by capacity, and flows: limit, links with the demand for each unit of level.
struct Problem {
    links: Vec<u128>,
    flows: Vec<(Option<u64>, Vec<Use>)>,
}

fn solve(solver: &mut Solver, problem: &Problem) -> Vec<u64> {
    solver.clear();
    problem.links.iter().for_each(|&capacity| {
        solver.link(capacity);
    });
    problem.flows.iter().for_each(|(limit, uses)| {
        solver.flow(*limit, uses.iter().copied());
    });
    solver.solve().iter().map(|level| level.value).collect()
}

fn random(random: &mut Random) -> Problem {
    let links: Vec<u128> =
        (0..1 + random.below(12)).map(|_| u128::from(1 + random.below(1 << 40))).collect();
    let flow = |random: &mut Random| {
        let mut uses = Vec::new();
        for link in 0..links.len() as u32 {
            if random.below(3) == 0 {
                uses.push(Use { link, demand: u128::from(1 + random.below(4)) });
            }
        }
        if uses.is_empty() {
            uses.push(Use { link: 0, demand: 1 });
        }
        ((random.below(4) == 0).then(|| 1 + random.below(1 << 38)), uses)
    };
    let flows = (0..1 + random.below(24)).map(|_| flow(random)).collect();
    Problem { links, flows }
}

/// No link carries more than it can. Every flow is at its limit, or goes over a link that is full
/// but for rounding and on which no flow has a higher level. So a flow can only grow if one that is
/// not larger shrinks.
fn check(problem: &Problem, levels: &[u64]) {
    let carried = |link: u32| -> (u128, u128) {
        let users = problem.flows.iter().zip(levels);
        users.fold((0, 0), |(load, demand), ((_, uses), &level)| {
            let on = uses.iter().find(|one| one.link == link).map_or(0, |one| one.demand);
            (load + on * u128::from(level), demand + on)
        })
    };
    let full: Vec<bool> = (0u32..)
        .zip(&problem.links)
        .map(|(link, &capacity)| {
            let (load, demand) = carried(link);
            assert!(load <= capacity, "link {link} carries {load} of {capacity}");
            capacity - load < demand
        })
        .collect();
    let highest = |link: u32| {
        let on = |(_, uses): &&(Option<u64>, Vec<Use>)| uses.iter().any(|one| one.link == link);
        let users = problem.flows.iter().zip(levels).filter(|(flow, _)| on(flow));
        users.map(|(_, &level)| level).max().unwrap_or(0)
    };
    for ((limit, uses), &level) in problem.flows.iter().zip(levels) {
        assert!(limit.is_none_or(|limit| level <= limit));
        let stops = |one: &Use| full[one.link as usize] && highest(one.link) == level;
        assert!(*limit == Some(level) || uses.iter().any(stops), "a flow at {level} can grow");
    }
}

#[test]
fn random_problems_are_max_min_fair() {
    let (mut source, mut solver) = (Random(7), Solver::default());
    for _ in 0..10_000 {
        let problem = random(&mut source);
        check(&problem, &solve(&mut solver, &problem));
    }
}

/// The order in which links and flows are added changes nothing.
#[test]
fn the_order_of_flows_does_not_matter() {
    let (mut source, mut solver) = (Random(11), Solver::default());
    for _ in 0..1_000 {
        let mut problem = random(&mut source);
        let before = solve(&mut solver, &problem);
        problem.flows.reverse();
        let count = problem.links.len() as u32;
        problem.links.reverse();
        for (_, uses) in &mut problem.flows {
            uses.iter_mut().for_each(|one| one.link = count - 1 - one.link);
        }
        let mut after = solve(&mut solver, &problem);
        after.reverse();
        assert_eq!(before, after);
    }
}

/// Bertsekas and Gallager, Data Networks, figure 6.12: one long flow over links of capacity 1, and
/// short ones; the link with three flows gives each a third, and the rest of the next link goes to
/// the other flow there.
#[test]
fn a_flow_takes_what_others_cannot() {
    let one = |link| Use { link, demand: 1 };
    let problem = Problem {
        links: vec![300, 300],
        flows: vec![
            (None, vec![one(0)]),
            (None, vec![one(0)]),
            (None, vec![one(0), one(1)]),
            (None, vec![one(1)]),
        ],
    };
    assert_eq!(solve(&mut Solver::default(), &problem), [100, 100, 100, 200]);
}

#[test]
fn a_limit_leaves_the_rest_to_others() {
    let one = |link| Use { link, demand: 1 };
    let problem = Problem {
        links: vec![300],
        flows: vec![(Some(40), vec![one(0)]), (None, vec![one(0)]), (None, vec![one(0)])],
    };
    assert_eq!(solve(&mut Solver::default(), &problem), [40, 130, 130]);
}
