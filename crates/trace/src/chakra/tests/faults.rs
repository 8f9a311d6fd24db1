//! Faults are located, and all of them are listed.

use super::*;

fn fault(bytes: &[u8], rank: u32) -> String {
    let problems = decode(bytes, "t.et", rank, &ReadOptions::default()).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn every_fault_of_a_node_names_file_rank_node_value_and_what_is_allowed() {
    let send = |src, dst, size| {
        trace(
            5,
            &[
                ("comm_src", 7, src),
                ("comm_dst", 7, dst),
                ("comm_tag", 7, 1),
                ("comm_size", 9, size),
            ],
        )
    };
    let cases = [
        (send(3, 3, 8), "rank 3 sends to itself", "another rank"),
        (send(2, 1, 8), "comm_src is 2 in the trace of rank 3", "the rank whose trace"),
        (send(3, 1, -5), "comm_size is -5", "zero or more"),
        (trace(7, &[("comm_type", 9, 0)]), "comm_size is missing", "zero or more"),
        (trace(7, &[("comm_size", 9, 8)]), "comm_type is missing", "zero or more"),
        (trace(7, &[("comm_type", 9, 42), ("comm_size", 9, 8)]), "comm_type is 42", "0 all-reduce"),
        (trace(77, &[]), "node type 77 is unknown", "7 collective"),
        (trace(2, &[]), "tensor_size is missing", "zero or more"),
    ];
    for (bytes, message, help) in cases {
        let text = fault(&bytes, 3);
        assert!(text.starts_with("t.et: rank 3 node 8 (byte "), "{text}");
        assert!(text.contains(message) && text.contains(help), "{text}");
    }
}

#[test]
fn all_faults_are_listed() {
    let mut bytes = trace(77, &[]);
    bytes.extend_from_slice(&trace(78, &[])[1..]);
    let problems = decode(&bytes, "t.et", 0, &ReadOptions::default()).unwrap_err();
    let text: Vec<String> = problems.iter().map(|p| p.message.clone()).collect();
    assert_eq!(problems.len(), 4, "{text:?}");
    assert!(text[2].contains("node id 7 is defined twice"), "{text:?}");
}

#[test]
fn cut_empty_and_foreign_files_say_what_they_are() {
    let whole = trace(4, &[]);
    let text = fault(&whole[..whole.len() - 1], 0);
    assert!(
        text.contains("rank 0 byte 6") && text.contains("ends 1 bytes before the end"),
        "{text}"
    );
    assert!(fault(b"", 0).contains("the file is empty"));
    assert!(fault(b"\x7fELF\x02\x01\x01\0\0\0\0\0", 0).contains("not a Chakra trace"));
    assert!(fault(&[0; 100], 0).contains("a node is expected here"));
    assert!(fault(b"hello world", 0).contains("text, not a Chakra trace"));
    assert!(fault(b"{\"schedulingPolicy\": 1}", 0).contains("its keys are schedulingPolicy"));
    assert!(fault(b"{\"traceEvents\": []}", 0).contains("Kineto"));
    assert!(fault(b"{\"schema\": \"1.0.2\", \"nodes\": []}", 0).contains("PyTorch"));
    assert!(fault(b"{\"workload_graph\": [{\"Id\": 1", 0).contains("line 1"));
}
