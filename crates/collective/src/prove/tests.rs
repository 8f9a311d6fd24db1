//! The checker on every plan, and the checker on plans that are wrong.

use super::*;
use crate::{Algorithm, Hierarchy, Phase, PlanError, Script, Step, To, phases};
use graph::CollectiveKind;
use proptest::prelude::*;

const DIRECT: Algorithm = Algorithm::Direct { window: None };

fn request(kind: CollectiveKind, algorithm: Algorithm, n: u32, bytes: u64) -> PlanRequest {
    PlanRequest { kind, algorithm, n, bytes, root: 0, chunk: 0 }
}

fn proof(request: &PlanRequest) -> Result<Proof, String> {
    let plan = request.plan().map_err(|e| e.to_string())?;
    prove(&plan, request).map_err(|e| format!("{request:?}: {e}"))
}

fn kinds() -> impl Strategy<Value = CollectiveKind> {
    prop::sample::select(&CollectiveKind::ALL[..])
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Ring),
        Just(Algorithm::BidirectionalRing),
        Just(Algorithm::HalvingDoubling),
        Just(Algorithm::DoubleBinaryTree),
        Just(DIRECT),
        Just(Algorithm::InNetwork),
        (1u32..6).prop_map(|w| Algorithm::Direct { window: Some(w) }),
    ]
}

proptest! {
    #[test]
    fn every_plan_is_proved(kind in kinds(), algorithm in algorithms(), n in 1u32..=40, bytes in 0u64..5000,
                            root in 0u32..40, chunk in 0u32..4) {
        let request = PlanRequest { kind, algorithm, n, bytes, root: root % n, chunk };
        match request.plan() {
            Ok(plan) => { prove(&plan, &request).map_err(TestCaseError::fail)?; }
            Err(PlanError::NotPowerOfTwo { .. }) => prop_assert!(!n.is_power_of_two()),
            Err(PlanError::Unsupported { .. }) => {
                let some = [Algorithm::DoubleBinaryTree, Algorithm::InNetwork, Algorithm::BidirectionalRing];
                prop_assert!(some.contains(&algorithm));
            }
            Err(e) => return Err(TestCaseError::fail(e.to_string())),
        }
    }

    #[test]
    fn halving_doubling_is_proved_on_every_power_of_two(kind in kinds(), power in 0u32..=6, bytes in 0u64..5000) {
        proof(&request(kind, Algorithm::HalvingDoubling, 1 << power, bytes)).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn several_dimensions_keep_the_promise(
        kind in kinds(), sizes in prop::collection::vec(1u32..=5, 1..=3), unit in 0u64..50, root in 0u32..125, chunk in 0u32..2,
        choices in prop::collection::vec(algorithms(), 3),
        hierarchy in prop::sample::select(vec![Hierarchy::Baseline, Hierarchy::Enhanced, Hierarchy::Hierarchical,
                                               Hierarchy::HierarchicalOptimal]),
        order in Just(vec![0usize, 1, 2]).prop_shuffle()) {
        let n: u32 = sizes.iter().product();
        let fits = |a: Algorithm, s: u32| match a {
            Algorithm::HalvingDoubling if !s.is_power_of_two() => Algorithm::Ring,
            Algorithm::DoubleBinaryTree if kind != CollectiveKind::Barrier && kind != CollectiveKind::Broadcast => DIRECT,
            Algorithm::InNetwork if kind != CollectiveKind::Barrier => DIRECT,
            Algorithm::BidirectionalRing if crate::is_rooted(kind) => Algorithm::Ring,
            other => other,
        };
        let choices: Vec<_> = choices.iter().zip(&sizes).map(|(&a, &s)| fits(a, s)).collect();
        let grid = Grid { kind, sizes: &sizes, unit, algorithms: &choices, root: root % n, chunk };
        // The dimensions in any order, as a scheduler may choose them.
        let dims: Vec<(u32, u32)> =
            order.into_iter().filter(|&at| at < sizes.len()).map(|at| (at as u32, sizes[at])).collect();
        prove_phases(&grid, &phases(kind, grid.bytes(), &dims, hierarchy)).map_err(TestCaseError::fail)?;
    }
}

/// `(kind, algorithm, n, bytes an NPU sends at most, rounds)` for m = 840 bytes, from the formulas
/// of the sources named in the algorithms' headers, worked out by hand.
#[test]
fn volumes_and_rounds_of_the_literature() {
    use CollectiveKind::*;
    let (ring, hd, tree) =
        (Algorithm::Ring, Algorithm::HalvingDoubling, Algorithm::DoubleBinaryTree);
    let both = Algorithm::BidirectionalRing;
    let table: [(CollectiveKind, Algorithm, u32, u128, u32); 38] = [
        (AllReduce, ring, 7, 2 * 6 * 120, 12), // Patarasuk and Yuan: 2 (n-1)/n m bytes, 2 (n-1) rounds
        (ReduceScatter, ring, 7, 6 * 120, 6),  // Thakur 4.2
        (AllGather, ring, 7, 6 * 840, 6),      // Thakur 4.1: (n-1)/n of the result
        (AllToAll, ring, 7, 21 * 120, 21),     // n (n-1) / 2 hops of one block
        (Broadcast, ring, 7, 840, 6),          // pipelined chain
        (Reduce, ring, 7, 840, 6),
        (Gather, ring, 7, 6 * 840, 6), // the link into the root carries everybody else's block
        (Scatter, ring, 7, 6 * 120, 6),
        (Barrier, ring, 7, 0, 6),
        (AllReduce, both, 7, 2 * 6 * 120, 6), // as much as one way round, half of it each way
        (AllReduce, both, 10, 2 * 9 * 84, 10),
        (ReduceScatter, both, 7, 6 * 120, 3),
        (ReduceScatter, both, 10, 9 * 84, 5),
        (AllGather, both, 7, 6 * 840, 3),
        (AllGather, both, 10, 9 * 840, 5),
        (AllToAll, both, 7, 2 * (1 + 2 + 3) * 120, 3), // every block the shorter way
        (AllToAll, both, 10, 5 * 5 * 84, 5), // 5 x 5 blocks go each way between two halves, by 2 links
        (Barrier, both, 7, 0, 3),
        (AllReduce, DIRECT, 7, 2 * 6 * 120, 2), // HOTI 2020, Table II: one step each way
        (ReduceScatter, DIRECT, 7, 6 * 120, 1),
        (AllGather, DIRECT, 7, 6 * 840, 1),
        (AllToAll, DIRECT, 7, 6 * 120, 1),
        (Broadcast, DIRECT, 7, 6 * 840, 1),
        (Reduce, DIRECT, 7, 840, 1),
        (Gather, DIRECT, 7, 840, 1),
        (Scatter, DIRECT, 7, 6 * 120, 1),
        (AllReduce, hd, 8, 2 * 7 * 105, 6), // Rabenseifner: 2 (n-1)/n m bytes, 2 log2 n rounds
        (ReduceScatter, hd, 8, 7 * 105, 3),
        (AllGather, hd, 8, 7 * 840, 3),
        (AllToAll, hd, 8, 7 * 105, 7),  // pairwise exchange
        (Broadcast, hd, 8, 3 * 840, 3), // binomial: log2 n rounds, the root sends in each
        (Reduce, hd, 8, 840, 3),
        (Gather, hd, 8, 4 * 840, 3), // half of all blocks over the root's last edge
        (Scatter, hd, 8, (4 + 2 + 1) * 105, 3),
        (Barrier, hd, 7, 0, 3),           // dissemination
        (AllReduce, tree, 8, 3 * 840, 6), // up once and down twice; depth floor(log2 7) + 1
        (Broadcast, tree, 8, 2 * 840, 3),
        (Reduce, tree, 8, 840, 3),
    ];
    for (kind, algorithm, n, busiest, rounds) in table {
        let found = proof(&request(kind, algorithm, n, 840)).unwrap();
        assert_eq!(
            (found.busiest, found.rounds),
            (busiest, rounds),
            "{} by {algorithm} on {n}",
            kind.name()
        );
    }
}

#[test]
fn fragments_round_up() {
    let found = proof(&request(CollectiveKind::AllReduce, Algorithm::Ring, 8, 1001)).unwrap();
    assert_eq!(found.bytes, 8 * 14 * 126);
}

/// Sanders, Speck, Träff 2009: no position (for odd numbers, at most one) has children in both
/// trees, and over two chunks of an all-reduce no position sends more than four.
#[test]
fn two_trees_share_the_load() {
    for n in 2..=100 {
        let script = |kind, chunk, p| {
            let r = PlanRequest { chunk, ..request(kind, Algorithm::DoubleBinaryTree, n, 1) };
            r.plan().unwrap().script(p).clone()
        };
        let sends =
            |kind, chunk, p| script(kind, chunk, p).steps.iter().filter(|s| s.to.is_some()).count();
        assert!((0..n).all(|p| sends(CollectiveKind::AllReduce, 0, p)
            + sends(CollectiveKind::AllReduce, 1, p)
            <= 4));
        let spreads = |p| {
            sends(CollectiveKind::Broadcast, 0, p) > 0 && sends(CollectiveKind::Broadcast, 1, p) > 0
        };
        assert!((1..n).all(|p| !spreads(p)), "{n}");
        let reduces =
            |chunk, p| script(CollectiveKind::AllReduce, chunk, p).charges.iter().any(|&c| c > 0);
        let both = (0..n).filter(|&p| reduces(0, p) && reduces(1, p)).count();
        assert!(both <= n as usize % 2, "{both} of {n}");
    }
}

/// Messages in a row: the closed forms of the headers, for every number of positions.
#[test]
fn rounds_follow_the_closed_forms() {
    use CollectiveKind::*;
    for n in (2..=20u32).chain([24, 31, 32, 33, 40]) {
        let rounds = |kind, algorithm| proof(&request(kind, algorithm, n, 64)).unwrap().rounds;
        let depth = (n - 1).ilog2() + 1;
        let hops = (0..n).map(u32::count_ones).max().unwrap();
        assert_eq!(rounds(AllReduce, Algorithm::Ring), 2 * (n - 1));
        assert_eq!(rounds(AllToAll, Algorithm::Ring), n * (n - 1) / 2);
        assert_eq!(rounds(AllReduce, DIRECT), 2);
        assert_eq!(rounds(AllReduce, Algorithm::Direct { window: Some(1) }), 2 * (n - 1));
        assert_eq!(rounds(AllReduce, Algorithm::DoubleBinaryTree), 2 * depth);
        assert_eq!(rounds(Broadcast, Algorithm::DoubleBinaryTree), depth);
        assert_eq!(rounds(Broadcast, Algorithm::HalvingDoubling), hops);
        assert_eq!(rounds(Gather, Algorithm::HalvingDoubling), hops);
        assert_eq!(rounds(Barrier, Algorithm::HalvingDoubling), n.next_power_of_two().ilog2());
        if n.is_power_of_two() {
            assert_eq!(rounds(AllReduce, Algorithm::HalvingDoubling), 2 * n.ilog2());
            assert_eq!(rounds(AllToAll, Algorithm::HalvingDoubling), n - 1);
        }
    }
}

proptest! {
    /// No plan sends less than must be sent (Chan et al. 2007, table 1; Patarasuk and Yuan 2009),
    /// whoever says so.
    #[test]
    fn volumes_respect_the_lower_bounds(kind in kinds(), algorithm in algorithms(), n in 2u32..=32, bytes in 0u64..5000) {
        let request = request(kind, algorithm, n, bytes);
        // A switch that reduces sends less than positions among themselves have to.
        prop_assume!(algorithm != Algorithm::InNetwork);
        prop_assume!(request.check().is_ok());
        let found = proof(&request).map_err(TestCaseError::fail)?;
        let (n, m) = (u128::from(n), u128::from(bytes));
        let pairs_over_n = match kind {
            CollectiveKind::AllReduce => 2 * n * (n - 1) * m,
            CollectiveKind::AllGather => n * n * (n - 1) * m,
            CollectiveKind::Barrier => 0,
            CollectiveKind::Scatter => (n - 1) * m,
            _ => n * (n - 1) * m,
        };
        prop_assert!(found.bytes * n >= pairs_over_n, "{} bytes", found.bytes);
    }
}

/// For few positions every order there is, not a sample.
#[test]
fn every_order_of_small_groups() {
    let algorithms = [
        Algorithm::Ring,
        Algorithm::BidirectionalRing,
        DIRECT,
        Algorithm::HalvingDoubling,
        Algorithm::DoubleBinaryTree,
    ];
    let mut states = 0;
    for (kind, algorithm) in
        CollectiveKind::ALL.into_iter().flat_map(|k| algorithms.map(|a| (k, a)))
    {
        for n in 2..=3 {
            let request = PlanRequest { root: 1, ..request(kind, algorithm, n, 12) };
            let Ok(plan) = request.plan() else { continue };
            let start = (0..n).map(|p| inputs(&request, p)).collect();
            let run = Run::new(&plan, &request, start);
            states += run.every_order(1 << 18, |held| promise_kept(&request, held)).unwrap();
        }
    }
    assert!(states > 10_000, "{states} states are too few to be all");
}

/// A plan in which each position has its own script, to be spoilt.
fn unshared(request: &PlanRequest) -> Plan {
    let plan = request.plan().unwrap();
    let scripts: Vec<Script> = (0..plan.n).map(|p| plan.script(p).clone()).collect();
    Plan { n: plan.n, scripts, roles: (0..plan.n).collect() }
}

fn spoilt(request: &PlanRequest, spoil: impl FnOnce(&mut Plan)) -> String {
    let mut plan = unshared(request);
    prove(&plan, request).expect("sound before");
    spoil(&mut plan);
    prove(&plan, request).expect_err("a spoilt plan must be refused")
}

#[test]
fn a_dropped_step_is_a_deadlock_or_a_broken_promise() {
    let ring = request(CollectiveKind::AllReduce, Algorithm::Ring, 5, 100);
    let drop = |plan: &mut Plan| {
        plan.scripts[2].steps.remove(7);
    };
    assert!(
        spoilt(&ring, drop).contains("sends to receive 7 of position 2, which has no such receive")
    );
    let mute = |plan: &mut Plan| plan.scripts[2].steps[7].to = None;
    assert!(spoilt(&ring, mute).contains("position 3 used 7 of 8 receptions"));
    let all = |plan: &mut Plan| plan.scripts.iter_mut().for_each(|s| s.steps.truncate(7));
    assert!(spoilt(&ring, all).contains("promised") || spoilt(&ring, all).contains("receptions"));
}

#[test]
fn a_wrong_destination_slot_size_or_charge_is_refused() {
    let ring = request(CollectiveKind::AllReduce, Algorithm::Ring, 5, 100);
    assert!(
        spoilt(&ring, |p| p.scripts[1].steps[3].to = Some(To::Shift(2)))
            .contains("waits for another")
    );
    assert!(
        spoilt(&ring, |p| p.scripts[1].steps[3].to = Some(To::Shift(0)))
            .contains("sends to position 1")
    );
    assert!(spoilt(&ring, |p| p.scripts[1].steps[3].slot = 2).contains("second message"));
    assert!(spoilt(&ring, |p| p.scripts[1].steps[3].slot = 99).contains("no such receive"));
    assert!(spoilt(&ring, |p| p.scripts[1].steps[3].bytes = 21).contains("21 bytes for 1 blocks"));
    assert!(spoilt(&ring, |p| p.scripts[1].charges[3] = 0).contains("charged"));
    assert!(spoilt(&ring, |p| p.scripts[1].charges[4] = 20).contains("charged"));
    assert!(
        spoilt(&ring, |p| p.scripts[1].steps[3].after_usable = 4).contains("stops before step")
    );
}

/// Doing the first step twice sends what was already reduced.
#[test]
fn a_duplicated_reduction_is_refused() {
    let direct = request(CollectiveKind::ReduceScatter, DIRECT, 4, 64);
    let twice = |plan: &mut Plan| {
        // Position 1 gets one more receive from position 0, which sends its first message there
        // again.
        plan.scripts[1].steps.push(Step::receive(To::At(0), 0));
        plan.scripts[1].charges.push(16);
        let again = Step { slot: 3, from: None, ..plan.scripts[0].steps[0] };
        plan.scripts[0].steps.push(again);
    };
    assert!(spoilt(&direct, twice).contains("reduced twice"));
}

/// Firing one reception early is harmless in a friendly order; some order must show it.
#[test]
fn firing_too_early_is_found_by_some_order() {
    let early = |plan: &mut Plan, step: usize| {
        plan.scripts.iter_mut().for_each(|s| s.steps[step].after_usable -= 1)
    };
    for (algorithm, n, step) in
        [(Algorithm::Ring, 6, 5), (Algorithm::HalvingDoubling, 8, 3), (DIRECT, 6, 5)]
    {
        let all_reduce = request(CollectiveKind::AllReduce, algorithm, n, 480);
        spoilt(&all_reduce, |plan| early(plan, step));
    }
    let tree = request(CollectiveKind::AllReduce, Algorithm::DoubleBinaryTree, 8, 480);
    spoilt(&tree, |plan| plan.scripts[4].steps[2].after_usable = 1);
}

proptest! {
    /// Whatever single thing is spoilt in whatever plan that sends anything, the checker refuses
    /// it.
    #[test]
    fn spoilt_plans_are_refused(kind in kinds(), algorithm in algorithms(), power in 1u32..=4, root in 0u32..16,
                                chunk in 0u32..2, victim in 0u32..1000, step in 0usize..1000, how in 0u32..5) {
        let n = 1 << power;
        let request = PlanRequest { kind, algorithm, n, bytes: 960, root: root % n, chunk };
        prop_assume!(request.check().is_ok());
        let mut plan = unshared(&request);
        let senders: Vec<u32> = (0..n).filter(|&p| plan.script(p).steps.iter().any(|s| s.to.is_some())).collect();
        let script = &mut plan.scripts[senders[victim as usize % senders.len()] as usize];
        let sends: Vec<usize> = (0..script.steps.len()).filter(|&k| script.steps[k].to.is_some()).collect();
        let step = sends[step % sends.len()];
        match how {
            0 => { script.steps.remove(step); }
            1 => script.steps[step].slot = script.steps[step].slot.wrapping_add(1),
            2 => script.steps[step].bytes += 1,
            3 => script.steps[step].after_usable = u32::MAX,
            _ => script.steps[step].to = None,
        }
        prop_assert!(prove(&plan, &request).is_err());
    }
}

/// A phase left out, put last, on the wrong dimension or of the wrong size breaks the whole.
#[test]
fn spoilt_phases_are_refused() {
    let (sizes, algorithms) = ([2, 3, 4], [DIRECT, Algorithm::Ring, Algorithm::HalvingDoubling]);
    for kind in CollectiveKind::ALL {
        let grid =
            Grid { kind, sizes: &sizes, unit: 5, algorithms: &algorithms, root: 17, chunk: 0 };
        let sound = phases(kind, grid.bytes(), &[(0, 2), (1, 3), (2, 4)], Hierarchy::Enhanced);
        assert_eq!(prove_phases(&grid, &sound), Ok(()));
        let refused = |what: &str, spoil: &dyn Fn(&mut Vec<Phase>)| {
            let mut list = sound.clone();
            spoil(&mut list);
            assert!(prove_phases(&grid, &list).is_err(), "{} {what}", kind.name());
        };
        refused("without its first phase", &|list| *list = list[1..].to_vec());
        refused("without its last phase", &|list| list.truncate(list.len() - 1));
        refused("with a dimension done twice", &|list| list[1].dim = list[0].dim);
        refused("on a dimension that is not there", &|list| list[1].dim = Some(3));
        if kind != CollectiveKind::Barrier {
            refused("with wrong bytes", &|list| list[1].bytes += 1);
        }
    }
}

#[test]
fn errors_name_what_is_allowed() {
    let error = |kind, algorithm, n, root| {
        PlanRequest { root, ..request(kind, algorithm, n, 8) }.plan().unwrap_err().to_string()
    };
    let hd = error(CollectiveKind::AllReduce, Algorithm::HalvingDoubling, 6, 0);
    assert!(
        hd.starts_with("halving-doubling all_reduce cannot run on 6 NPUs; allowed: a power of two"),
        "{hd}"
    );
    let tree = error(CollectiveKind::AllGather, Algorithm::DoubleBinaryTree, 6, 0);
    assert!(
        tree.contains("double binary tree cannot run all_gather; allowed: all_reduce"),
        "{tree}"
    );
    assert!(
        error(CollectiveKind::Reduce, Algorithm::Ring, 6, 6)
            .contains("root 6 is outside the group of 6 NPUs")
    );
    assert!(error(CollectiveKind::AllReduce, Algorithm::Ring, 0, 0).contains("0 NPUs"));
    assert!(
        error(CollectiveKind::Reduce, Algorithm::Direct { window: Some(0) }, 6, 0)
            .contains("window of 0")
    );
    assert!(
        error(CollectiveKind::AllToAll, Algorithm::Ring, 1 << 20, 0).contains("steps, more than")
    );
}

#[test]
fn large_plans_stay_small() {
    let steps =
        |r: PlanRequest| r.plan().unwrap().scripts.iter().map(|s| s.steps.len()).sum::<usize>();
    assert_eq!(steps(request(CollectiveKind::AllReduce, Algorithm::Ring, 4096, 1 << 30)), 2 * 4095);
    let tree = request(CollectiveKind::AllReduce, Algorithm::DoubleBinaryTree, 100_003, 1 << 30)
        .plan()
        .unwrap();
    assert!(tree.scripts.len() < 200, "{} roles", tree.scripts.len());
    let huge = request(CollectiveKind::AllGather, Algorithm::HalvingDoubling, 1 << 16, u64::MAX)
        .plan()
        .unwrap();
    assert_eq!(huge.scripts[0].steps.last().map(|s| s.bytes), Some(u64::MAX));
}
