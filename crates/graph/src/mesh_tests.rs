//! Groups along axes hold the ranks that differ only there; everything that does not hold together
//! is named.

use super::*;
use crate::{Axis, CollectiveKind, Family, Node, Op, ProgramBuilder};
use proptest::prelude::*;
use units::{Bytes, Span};

fn mesh(axes: &[(&str, u32)], groups: &[(&str, &[&str])], by: &[&str]) -> Mesh {
    let names = |list: &[&str]| list.iter().map(|s| s.to_string()).collect();
    Mesh {
        axes: axes
            .iter()
            .map(|(name, size)| Axis { name: name.to_string(), size: *size })
            .collect(),
        groups: groups
            .iter()
            .map(|(name, axes)| Family { name: name.to_string(), axes: names(axes) })
            .collect(),
        by: names(by),
    }
}

/// One all-reduce on each of `slots` groups.
fn program(slots: u32) -> Arc<Program> {
    let mut builder = ProgramBuilder::default();
    for slot in 0..slots {
        let kind = CollectiveKind::AllReduce;
        let op =
            Op::Collective { kind, bytes: Bytes(1), slot, priority: 0, dims: u32::MAX, root: 0 };
        builder.push(Node { id: u64::from(slot), duration: Span::ZERO, op }, "", []);
    }
    Arc::new(builder.build().unwrap())
}

fn ranks(workload: &Workload, rank: u32, slot: u32) -> Vec<u32> {
    let world = workload.ranks.len() as u32;
    let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
    (0..members.len(world)).map(|p| members.rank(p)).collect()
}

#[test]
fn megatron_order() {
    let mesh = mesh(
        &[("tp", 2), ("dp", 2), ("pp", 2)],
        &[("tp", &["tp"]), ("dp", &["dp"]), ("ends", &["pp", "tp"])],
        &["pp"],
    );
    let names = ["tp", "dp", "ends", ""].map(String::from).to_vec();
    let (first, last) = (program(4), program(4));
    let workload = mesh.bind(&[(first, names.clone()), (last, names)], Vec::new()).unwrap();
    assert_eq!(
        workload.ranks.iter().map(|r| r.program).collect::<Vec<_>>(),
        [0, 0, 0, 0, 1, 1, 1, 1]
    );
    assert_eq!(ranks(&workload, 5, 0), [4, 5]);
    assert_eq!(ranks(&workload, 5, 1), [5, 7]);
    assert_eq!(ranks(&workload, 5, 2), [0, 4, 1, 5]);
    assert_eq!(ranks(&workload, 5, 3), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(mesh.representatives().unwrap(), [0, 4]);
}

#[test]
fn shared_programs_are_stored_once() {
    let (outer, inner) = (program(0), program(0));
    let footprint = |weights| Footprint { weights, ..Footprint::default() };
    let list = [&outer, &inner, &inner, &outer].map(|p| (p.clone(), Vec::new()));
    let workload =
        mesh(&[("pp", 4)], &[], &["pp"]).bind(&list, [7, 5, 5, 7].map(footprint).to_vec()).unwrap();
    assert_eq!(workload.programs.len(), 2);
    assert_eq!(workload.ranks.iter().map(|r| r.program).collect::<Vec<_>>(), [0, 1, 1, 0]);
    assert_eq!(workload.footprints, [footprint(7), footprint(5)]);
}

#[test]
fn what_does_not_hold_together_is_named() {
    let wrong = [
        (mesh(&[("tp", 0)], &[], &[]), vec![], "tp=0"),
        (mesh(&[("tp", 1 << 13), ("dp", 1 << 13)], &[], &[]), vec![], "dp=8192"),
        (mesh(&[("tp", 2), ("tp", 2)], &[], &[]), vec![], "\"tp\" appears twice"),
        (mesh(&[("tp", 2)], &[], &["tp", "tp"]), vec![], "\"tp\" is named twice"),
        (
            mesh(&[("tp", 2)], &[("g", &["tp", "tp"])], &[]),
            vec!["g".to_string()],
            "\"tp\" is named twice",
        ),
        (mesh(&[("tp", 2)], &[], &["pp"]), vec![], "unknown axis \"pp\""),
        (
            mesh(&[("tp", 2)], &[("tp", &["dp"])], &[]),
            vec!["tp".to_string()],
            "unknown axis \"dp\"",
        ),
        (mesh(&[("tp", 2)], &[], &[]), vec!["tp".to_string()], "not declared"),
        (mesh(&[("tp", 2)], &[], &["tp"]), vec![], "1 programs for 2 points"),
    ];
    for (mesh, names, text) in wrong {
        let problem = mesh.bind(&[(program(names.len() as u32), names)], Vec::new()).unwrap_err();
        assert!(problem.message.contains(text), "{problem:?} lacks {text}");
    }
}

proptest! {
    /// Each rank is in its group once, and a family covers all ranks.
    #[test]
    fn families_partition_the_ranks(sizes in proptest::array::uniform4(1u32..5), chosen in proptest::sample::subsequence(vec!["a", "b", "c", "d"], 0..4).prop_shuffle()) {
        let axes: Vec<(&str, u32)> = ["a", "b", "c", "d"].into_iter().zip(sizes).collect();
        let mesh = mesh(&axes, &[("g", &chosen)], &[]);
        let workload = mesh.bind(&[(program(1), vec!["g".into()])], Vec::new()).unwrap();
        let world = workload.ranks.len() as u32;
        let size: u32 = axes.iter().filter(|(name, _)| chosen.contains(name)).map(|(_, size)| size).product();
        for rank in 0..world {
            let group = &workload.groups[workload.group_of(rank, 0) as usize];
            prop_assert_eq!(group.members.len(world), size);
            prop_assert!(group.members.position(rank, world).is_some(), "{:?} lacks {}", group, rank);
        }
        prop_assert_eq!(workload.groups.len() as u32, world / size);
    }
}
