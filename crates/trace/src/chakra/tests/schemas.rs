//! Every schema of a Chakra trace reads.

use super::*;

#[test]
fn nodes_without_attributes_can_be_replayed() {
    let options = ReadOptions { replay: true };
    let decoded = decode(&trace(7, &[]), "t.et", 0, &options).unwrap();
    assert!(matches!(decoded.program.nodes()[1].op, Op::Compute { cpu: false, .. }));
}

/// Field numbers of the "eg" schema, from its definition of 2022.
#[test]
fn the_plain_schemas_read() {
    let message = |fields: &[(u32, u64)]| {
        let mut out = Vec::new();
        fields.iter().take(1).for_each(|&(n, v)| put_number(&mut out, n, v));
        put_bytes(&mut out, 2, b"n");
        fields.iter().skip(1).for_each(|&(n, v)| put_number(&mut out, n, v));
        let mut framed = Vec::new();
        put_varint(&mut framed, out.len() as u64);
        framed.extend(out);
        framed
    };
    for (compute, collective, send) in [(3, 6, 4), (4, 7, 5)] {
        let mut file = message(&[(1, 1), (3, compute), (7, 1500)]);
        // comm_type 2 is all-to-all, communicator 4, dimensions 0 and 2 of 3.
        file.extend(message(&[
            (1, 2),
            (3, collective),
            (4, 1),
            (13, 2),
            (14, 1),
            (14, 0),
            (14, 1),
            (15, 4),
            (18, 64),
        ]));
        file.extend(message(&[
            (1, 3),
            (3, send),
            (4, 2),
            (4, 1),
            (16, 5),
            (17, 6),
            (18, 32),
            (19, 9),
        ]));
        let decoded = decode(&file, "t.eg", 5, &ReadOptions::default()).unwrap();
        let nodes = decoded.program.nodes();
        assert_eq!(nodes[0].duration, Span(1_500_000), "nanoseconds");
        let Op::Collective { kind, bytes, dims, .. } = nodes[1].op else {
            panic!("{:?}", nodes[1])
        };
        assert_eq!((kind, bytes, dims), (CollectiveKind::AllToAll, Bytes(64), 0b101));
        assert_eq!(decoded.slots[0].name, "4");
        assert_eq!(
            decoded.program.by_offset(nodes[2]).op,
            Op::Send { peer: 1.into(), bytes: Bytes(32), tag: 9 }
        );
        assert_eq!(decoded.program.deps(2), [1, 0]);
    }
}

/// Field numbers of the schema with attribute types, from its definition of 2023.
#[test]
fn the_tagged_schema_reads() {
    let attr = |name: &str, field: u32, value: u64| {
        let mut out = Vec::new();
        put_bytes(&mut out, 1, name.as_bytes());
        put_number(&mut out, 2, 2);
        put_number(&mut out, field, value);
        out
    };
    let mut metadata = Vec::new();
    put_bytes(&mut metadata, 1, &attr("pid", 6, 1));
    let mut compute = Vec::new();
    put_number(&mut compute, 1, 0);
    put_bytes(&mut compute, 2, b"c");
    put_number(&mut compute, 3, 4);
    put_bytes(&mut compute, 11, &attr("runtime", 6, 12));
    put_bytes(&mut compute, 11, &attr("is_cpu_op", 4, 1));
    let mut collective = Vec::new();
    put_number(&mut collective, 1, 1);
    put_bytes(&mut collective, 2, b"a2a");
    put_number(&mut collective, 3, 7);
    put_number(&mut collective, 4, 0);
    put_bytes(&mut collective, 11, &attr("comm_type", 7, 1));
    put_bytes(&mut collective, 11, &attr("comm_size", 6, 100));
    let mut file = Vec::new();
    for message in [metadata, compute, collective] {
        put_varint(&mut file, message.len() as u64);
        file.extend(message);
    }
    let decoded = decode(&file, "t.et", 0, &ReadOptions::default()).unwrap();
    let nodes = decoded.program.nodes();
    assert_eq!(nodes[0].duration, Span(12_000_000), "microseconds");
    assert!(matches!(nodes[0].op, Op::Compute { cpu: true, .. }));
    let Op::Collective { kind, bytes, .. } = nodes[1].op else { panic!("{:?}", nodes[1]) };
    assert_eq!((kind, bytes), (CollectiveKind::AllToAll, Bytes(100)));
    assert_eq!(decoded.program.deps(1), [0]);
}

#[test]
fn the_feeder_s_json_reads_with_fractions_of_a_microsecond() {
    let json = br#"{"workload_graph": [
        {"Id": 3, "Name": "a", "NodeType": 4, "runtime": 1.25, "data_deps": [], "is_cpu_op": false},
        {"Id": 5, "Name": "b", "NodeType": 7, "ctrlDeps": [3], "data_deps": [3], "comm_type": 2, "comm_size": 8,
         "color": "red"}], "ngpus": 8}"#;
    let decoded = decode(json, "t.json", 0, &ReadOptions::default()).unwrap();
    assert_eq!(decoded.program.nodes()[0].duration, Span(1_250_000));
    assert_eq!(decoded.program.deps(1), [0]);
    assert!(matches!(
        decoded.program.nodes()[1].op,
        Op::Collective { kind: CollectiveKind::AllGather, .. }
    ));
    assert_eq!(
        decoded.notes.into_sorted(),
        [("trace attribute `color` is not used".to_string(), 1)]
    );
}
