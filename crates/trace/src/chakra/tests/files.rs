//! From files to ranks: paths, archives, shared programs, groups.

use super::*;

fn collective_program(bytes: u64) -> Program {
    let mut builder = ProgramBuilder::default();
    let op = Op::Collective {
        kind: CollectiveKind::AllReduce,
        bytes: Bytes(bytes),
        slot: 0,
        priority: 0,
        dims: u32::MAX,
        root: 0,
    };
    builder.push(Node { id: 1, duration: Span::ZERO, op }, "ar", []);
    builder.build().unwrap()
}

fn file_of(program: Program, group: usize) -> Vec<u8> {
    let mut workload = workload(program);
    workload.slots = vec![group as u32];
    let mut bytes = Vec::new();
    write_protobuf(&workload, 0, &mut bytes).unwrap();
    bytes
}

#[test]
fn equal_files_share_a_program_and_every_path_form_finds_them() {
    let scratch = Scratch::new("forms");
    let bytes = file_of(collective_program(64), 0);
    (0..4).for_each(|rank| drop(scratch.write(&format!("t.{rank}.et"), &bytes)));
    let root = scratch.0.display().to_string();
    for form in [
        format!("{root}/t"),
        format!("{root}/t.%d.et"),
        format!("{root}/t.{{rank}}.et"),
        root.clone(),
    ] {
        let workload = read(Path::new(&form), None, &[], &ReadOptions::default()).unwrap();
        assert_eq!(
            (workload.ranks.len(), workload.programs.len(), workload.slots.len()),
            (4, 1, 1),
            "{form}"
        );
        assert_eq!(workload.origin, form);
        assert_eq!(workload.groups[workload.group_of(3, 0) as usize].members, Members::All);
    }
    let one = format!("{root}/t.0.et");
    let workload = read(Path::new(&one), Some(1000), &[], &ReadOptions::default()).unwrap();
    assert_eq!((workload.ranks.len(), workload.programs.len()), (1000, 1));
}

#[test]
fn missing_and_superfluous_ranks_are_named() {
    let scratch = Scratch::new("ranks");
    let bytes = file_of(collective_program(64), 0);
    let _ = [0, 1, 3].map(|rank| scratch.write(&format!("t.{rank}.et"), &bytes));
    let prefix = scratch.0.join("t");
    let read_n = |npus| read(&prefix, npus, &[], &ReadOptions::default());
    let problems = read_n(None).unwrap_err();
    assert!(problems[0].message.contains("no trace for rank 2"), "{problems:?}");
    scratch.write("t.2.et", &bytes);
    let problems = read_n(Some(6)).unwrap_err();
    assert!(problems[0].message.contains("ranks 4-5: there are 4 traces"), "{problems:?}");
    assert!(read_n(Some(2)).unwrap_err()[0].message.contains("4 traces for a platform of 2"));
    scratch.write("other.0.et", &bytes);
    let problems = read(&scratch.0, None, &[], &ReadOptions::default()).unwrap_err();
    assert!(problems[0].message.contains("other.*.et (1), t.*.et (4)"), "{problems:?}");
    assert!(read(&scratch.0.join("none"), None, &[], &ReadOptions::default()).is_err());
}

#[test]
fn groups_are_bound_by_name_and_unknown_ones_named() {
    let scratch = Scratch::new("groups");
    (0..4).for_each(|rank| {
        drop(scratch.write(&format!("t.{rank}.et"), &file_of(collective_program(64), 1)))
    });
    let prefix = scratch.0.join("t");
    let groups = [("1".to_string(), vec![3, 1, 0, 2]), ("7".to_string(), vec![0, 1, 2, 3])];
    let workload = read(&prefix, Some(4), &groups, &ReadOptions::default()).unwrap();
    assert_eq!(
        workload.groups[workload.group_of(2, 0) as usize].members,
        Members::List(vec![3, 1, 0, 2])
    );
    let problems = read(&prefix, Some(4), &groups[1..], &ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), 1, "one problem for ranks that share a trace: {problems:?}");
    let text = problems[0].to_string();
    assert!(
        text.contains("rank 0 node 1") && text.contains("pg_name \"1\"") && text.contains(", 7"),
        "{text}"
    );
}

#[test]
fn archives_and_gzip_read() {
    let scratch = Scratch::new("archive");
    let (small, large) = (file_of(collective_program(64), 0), file_of(collective_program(128), 0));
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    scratch.write("g.0.et.gz", &gzip(&small));
    scratch.write("g.1.et.gz", &gzip(&large));
    let from_gzip = read(&scratch.0.join("g"), Some(2), &[], &ReadOptions::default()).unwrap();
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in
        [("w/g.1.et", &large), ("w/g.0.et", &small), ("w/README", &b"text".to_vec())]
    {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    let tar = tar.into_inner().unwrap();
    for (name, bytes) in [("a.tar", tar.clone()), ("a.tgz", gzip(&tar))] {
        let workload =
            read(&scratch.write(name, &bytes), None, &[], &ReadOptions::default()).unwrap();
        for rank in 0..2 {
            assert_eq!(workload.program(rank), from_gzip.program(rank), "{name}");
        }
    }
    let broken = scratch.write("broken.0.et.gz", &gzip(&small)[..20]);
    assert!(read(&broken, None, &[], &ReadOptions::default()).is_err());
}

#[test]
fn a_trace_may_declare_its_groups() {
    let mut node = Vec::new();
    put_number(&mut node, 1, 1);
    put_number(&mut node, 3, 1);
    let mut io = Vec::new();
    put_bytes(&mut io, 1, br#"["[{\"pg_name\": \"1\", \"ranks\": [1, 0], \"group_size\": 2}]"]"#);
    put_bytes(&mut node, 8, &io);
    let mut collective = Vec::new();
    put_number(&mut collective, 1, 2);
    put_number(&mut collective, 3, 7);
    for (name, field, value) in [("comm_type", 9, 0), ("comm_size", 9, 8), ("pg_name", 13, 1)] {
        let mut attr = Vec::new();
        put_bytes(&mut attr, 1, name.as_bytes());
        put_number(&mut attr, field, value);
        put_bytes(&mut collective, 10, &attr);
    }
    let mut file = vec![0];
    for message in [node, collective] {
        put_varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    let scratch = Scratch::new("declared");
    (0..3).for_each(|rank| drop(scratch.write(&format!("t.{rank}.et"), &file)));
    let workload = read(&scratch.0, None, &[], &ReadOptions::default()).unwrap();
    assert_eq!(workload.groups.len(), 2);
    assert_eq!(
        workload.groups[workload.group_of(0, 0) as usize].members,
        Members::List(vec![1, 0])
    );
}
