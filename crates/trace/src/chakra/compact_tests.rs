//! Written files read back the same; files that do not hold together are named with the place.

use super::*;
use graph::{Axis, CollectiveKind, Family, Node, Op, ProgramBuilder};
use units::{Bytes, Span};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path =
            std::env::temp_dir().join(format!("armillary-compact-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// An all-reduce on each slot in the given order, then a message to the rank `peer` further on.
fn program(slots: &[u32], peer: i32) -> Arc<Program> {
    let mut builder = ProgramBuilder::default();
    let collective = |&slot| {
        let kind = CollectiveKind::AllReduce;
        Op::Collective { kind, bytes: Bytes(8), slot, priority: 0, dims: u32::MAX, root: 0 }
    };
    let message = Op::Send { peer: peer.into(), bytes: Bytes(3), tag: 1 };
    for (id, op) in slots.iter().map(collective).chain([message]).enumerate() {
        builder.push(
            Node { id: id as u64, duration: Span(7), op },
            "n",
            id.checked_sub(1).map(|d| d as u64),
        );
    }
    Arc::new(builder.build().unwrap())
}

fn mesh() -> Mesh {
    let axis = |(name, size): (&str, u32)| Axis { name: name.into(), size };
    let family = |name: &str| Family { name: name.into(), axes: vec![name.into()] };
    Mesh {
        axes: [("tp", 2), ("dp", 3), ("pp", 4)].map(axis).to_vec(),
        groups: ["tp", "dp"].map(family).to_vec(),
        by: vec!["pp".into()],
    }
}

/// Operations of ranks and their partners, whatever the numbers of programs, slots and groups are.
fn meaning(workload: &Workload) -> Vec<Vec<String>> {
    let world = workload.ranks.len() as u32;
    let node = |rank: u32, node: &Node| match node.op {
        Op::Collective { slot, kind, bytes, .. } => {
            let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
            let ranks: Vec<u32> = (0..members.len(world)).map(|p| members.rank(p)).collect();
            format!("{kind:?} {bytes} {ranks:?}")
        }
        other => format!("{other:?}"),
    };
    (0..world)
        .map(|rank| workload.program(rank).nodes().iter().map(|n| node(rank, n)).collect())
        .collect()
}

fn round_trip(workload: &Workload, name: &str) -> Workload {
    let folder = Folder::new(name);
    write(workload, &folder.0).unwrap();
    let back = read(&find(&folder.0).unwrap(), None, &ReadOptions::default()).unwrap();
    assert_eq!(meaning(&back), meaning(workload));
    back
}

#[test]
fn a_mesh_comes_back() {
    let names = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    let (ends, middle) = (program(&[0, 1], 6), program(&[1, 0, 2], 6));
    let last = program(&[0], -6);
    let first = (ends, names(&["dp", "tp"]));
    let inner = (middle, names(&["tp", "dp", ""]));
    let footprint = |weights| Footprint { weights, ..Footprint::default() };
    let programs = [first, inner.clone(), inner, (last, names(&["tp"]))];
    let mut workload = mesh().bind(&programs, [4, 3, 3, 5].map(footprint).to_vec()).unwrap();
    let declaration = Declaration {
        name: "m".into(),
        mesh: Some(mesh()),
        summary: Some(r#"{"parameters":7}"#.into()),
        warnings: vec!["w".into()],
    };
    workload.declaration = Some(Box::new(declaration));
    let back = round_trip(&workload, "mesh");
    assert_eq!(back.declaration, workload.declaration);
    assert_eq!(back.footprints, [4, 3, 5].map(footprint));
    assert_eq!(back.programs.len(), 3);
}

#[test]
fn a_list_comes_back() {
    let groups = vec![
        Group { name: "a".into(), members: Members::List(vec![2, 0]) },
        Group { name: "world".into(), members: Members::All },
        Group { name: "b".into(), members: Members::Strided { first: 1, count: 2, step: 2 } },
    ];
    let binding = |program, slots| RankBinding { program, slots };
    let workload = Workload {
        programs: vec![program(&[1, 0], 1), program(&[0], -3)],
        ranks: vec![binding(0, 0), binding(0, 2), binding(0, 0), binding(1, 1)],
        slots: vec![1, 0, 2, 1],
        groups,
        ..Workload::default()
    };
    let back = round_trip(&workload, "list");
    assert!(back.footprints.is_empty());
}

/// Replacements in a sound file, and the message for each.
const WRONG: [(&str, &str, &str); 9] = [
    ("workload/1", "workload/2", "not a known format"),
    ("\"size\": 3", "\"size\": -3", "not a workload"),
    ("\"size\": 3", "\"size\": 0", "no ranks"),
    ("\"by\"", "\"buy\"", "unknown field `buy`"),
    ("program.0.et", "../program.0.et", "not a file in the same directory"),
    ("program.0.et", "program.9.et", "can't be read"),
    ("\"pp\"\n", "\"tp\"\n", "there are 4 programs, but the rank map names 2"),
    (
        "\"name\": \"dp\",\n        \"axes\"",
        "\"name\": \"x\",\n        \"axes\"",
        "group \"dp\", which is not declared",
    ),
    ("\"mesh\"", "\"list\"", "not a workload"),
];

#[test]
fn wrong_files_are_named() {
    let names = vec!["tp".to_string(), "dp".to_string()];
    let programs = [1, 1, 1, -1].map(|peer| (program(&[0, 1], 6 * peer), names.clone()));
    let mut workload = mesh().bind(&programs, Vec::new()).unwrap();
    workload.declaration =
        Some(Box::new(Declaration { mesh: Some(mesh()), ..Declaration::default() }));
    let folder = Folder::new("wrong");
    write(&workload, &folder.0).unwrap();
    let file = folder.0.join(NAME);
    let sound = fs::read_to_string(&file).unwrap();
    for (from, to, said) in WRONG {
        assert!(sound.contains(from), "{sound} lacks {from}");
        fs::write(&file, sound.replace(from, to)).unwrap();
        let problems = read(&file, None, &ReadOptions::default()).unwrap_err();
        assert!(
            problems.iter().any(|p| p.message.contains(said) && p.file.contains("compact")),
            "{said}: {problems:?}"
        );
    }
    fs::write(&file, sound).unwrap();
    let problems = read(&file, Some(23), &ReadOptions::default()).unwrap_err();
    assert!(problems[0].message.contains("24 ranks, but the platform has 23 NPUs"), "{problems:?}");
}
