use crate::{Node, Op, Program, ProgramBuilder, Workload};
use std::sync::Arc;
use units::{Bytes, Span};

/// Nodes of (id, name, layer, what they wait for).
fn program(nodes: &[(u64, &str, &str, &[u64])]) -> Program {
    builder(nodes).build().unwrap()
}

fn builder(nodes: &[(u64, &str, &str, &[u64])]) -> ProgramBuilder {
    let mut builder = ProgramBuilder::default();
    for &(id, name, layer, deps) in nodes {
        builder.push(
            Node { id, duration: Span::ZERO, op: Op::Metadata },
            name,
            deps.iter().copied(),
        );
        builder.label(layer);
    }
    builder
}

fn layers(program: &Program) -> Vec<&str> {
    (0..program.nodes().len()).map(|i| program.layer(i)).collect()
}

#[test]
fn a_layer_is_the_label_or_the_first_word() {
    let found =
        program(&[(0, "embed.lookup", "", &[]), (1, "0.qkv", "layer3", &[]), (2, "", "", &[])]);
    assert_eq!(layers(&found), ["embed", "layer3", ""]);
    assert_eq!([0, 1, 2].map(|i| found.label(i)), [None, Some("layer3"), None]);
}

#[test]
fn names_of_micro_batches_are_no_layers() {
    let named = |name| layers(&program(&[(0, name, "", &[])]))[0].to_string();
    assert_eq!(named("mb0.transformer.3.mha.o@0_COMP"), "transformer.3");
    assert_eq!(named("shadow_mb12.in_emb.y"), "in_emb");
    assert_eq!(named("transformer.11.ffn"), "transformer.11");
    assert_eq!(named("layer1.0.conv2"), "layer1.0");
    for whole in ["mb0", "mbx", "0", "transformer", "transformer.3x"] {
        assert_eq!(named(whole), whole.split('.').next().unwrap(), "{whole}");
    }
    assert_eq!(named("0.qkv"), "0");
    assert_eq!(named("mbx.y.2"), "mbx");
}

#[test]
fn a_label_that_the_name_says_is_none() {
    let said = program(&[(0, "conv1.forward", "conv1", &[]), (1, "fc", "fc", &[])]);
    assert_eq!(said, program(&[(0, "conv1.forward", "", &[]), (1, "fc", "", &[])]));
    assert_eq!(layers(&said), ["conv1", "fc"]);
}

#[test]
fn labels_follow_their_nodes_whatever_the_order() {
    let sorted =
        program(&[(1, "a", "x", &[]), (2, "b", "", &[]), (3, "c", "y", &[]), (4, "d", "x", &[])]);
    assert_eq!(layers(&sorted), ["x", "b", "y", "x"]);
    assert_eq!(
        sorted,
        program(&[(4, "d", "x", &[]), (3, "c", "y", &[]), (2, "b", "", &[]), (1, "a", "x", &[])])
    );
}

#[test]
fn labels_stay_when_dependencies_go() {
    let mut builder = builder(&[(0, "a", "x", &[]), (1, "b", "", &[9]), (2, "c", "y", &[0])]);
    assert_eq!(builder.drop_dangling(), 1);
    assert_eq!(layers(&builder.build().unwrap()), ["x", "b", "y"]);
}

#[test]
fn programs_that_differ_in_a_label_differ() {
    assert_ne!(program(&[(0, "a", "x", &[])]), program(&[(0, "a", "y", &[])]));
}

/// Sends to the ranks at `offsets`, built in the order of `ids`.
fn sends(offsets: &[i32], ids: &[u64]) -> Program {
    let mut builder = ProgramBuilder::default();
    for (&offset, &id) in offsets.iter().zip(ids) {
        let op = Op::Send { peer: offset.into(), bytes: Bytes(8), tag: 0 };
        builder.push(Node { id, duration: Span::ZERO, op }, "", []);
    }
    builder.build().unwrap()
}

fn offsets(program: &Program) -> Vec<i32> {
    let offset = |node: &Node| match node.op {
        Op::Send { peer, .. } => program.offset(peer),
        _ => 0,
    };
    program.nodes().iter().map(offset).collect()
}

#[test]
fn ports_are_in_the_order_of_first_use() {
    let program = sends(&[3, -2, 3, 5], &[0, 1, 2, 3]);
    assert_eq!(program.peers(), [3, -2, 5]);
    assert_eq!(offsets(&program), [3, -2, 3, 5]);
    let backwards = sends(&[5, 3, -2, 3], &[3, 2, 1, 0]);
    assert_eq!(backwards, program, "ids give the order of nodes");
    let again = program.nodes().iter().map(|&node| program.by_offset(node).op);
    let given =
        [3, -2, 3, 5].map(|offset: i32| Op::Send { peer: offset.into(), bytes: Bytes(8), tag: 0 });
    assert!(again.eq(given));
}

#[test]
fn a_program_with_other_peers_is_the_one_built_with_them() {
    let program = sends(&[3, -2, 3], &[0, 1, 2]);
    let other = program.with_peers(vec![7, 3]).unwrap();
    assert_eq!(other, sends(&[7, 3, 7], &[0, 1, 2]));
    assert_ne!(other, program);
    assert!(other.equals_but_for_peers(&program));
    assert_eq!(program.with_peers(vec![7, 7]), None, "two ranks may not become one");
    assert_eq!(program.with_peers(vec![7]), None);
}

#[test]
fn a_result_of_a_body_is_made_once() {
    let one = sends(&[3, -2], &[0, 1]);
    let programs = [one.clone(), one.with_peers(vec![1, 2]).unwrap(), sends(&[3, -2], &[0, 1])];
    let programs = programs.into_iter().map(Arc::new).collect();
    let workload = Workload { programs, ..Workload::default() };
    assert_eq!(workload.bodies().count(), 2);
    let mut made = 0;
    let numbers = workload.by_body(|_| {
        made += 1;
        made
    });
    assert_eq!(numbers, [1, 1, 2]);
}
