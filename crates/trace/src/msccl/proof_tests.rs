use super::super::{parse, tests::ring};
use super::Proof;

fn proof(xml: &str) -> Proof {
    parse(xml.as_bytes(), "file.xml").unwrap().proof()
}

/// A file of two ranks; each step is kind, source and target, as in `s i0 o1`.
fn two(coll: &str, chunks: [u32; 3], place: u32, steps: [&[&str]; 2]) -> String {
    let [input, output, scratch] = chunks;
    let mut xml = format!(
        r#"<algo name="a" nchunksperloop="{}" ngpus="2" coll="{coll}" inplace="{place}">"#,
        input.max(output)
    );
    for (rank, steps) in steps.iter().enumerate() {
        let other = 1 - rank;
        xml += &format!(
            r#"<gpu id="{rank}" i_chunks="{input}" o_chunks="{output}" s_chunks="{scratch}">"#
        );
        xml += &format!(r#"<tb id="0" send="{other}" recv="{other}" chan="0">"#);
        for (s, step) in steps.iter().enumerate() {
            let words: Vec<&str> = step.split(' ').collect();
            let (from, to) = (words[1].split_at(1), words[2].split_at(1));
            xml += &format!(
                r#"<step s="{s}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}" cnt="1" depid="-1" deps="-1" hasdep="0"/>"#,
                words[0], from.0, from.1, to.0, to.1
            );
        }
        xml += "</tb></gpu>";
    }
    xml + "</algo>"
}

fn fails(xml: &str, with: &str) {
    match proof(xml) {
        Proof::Fails(text) => assert!(text.contains(with), "{text}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ring_reduces_everything() {
    for n in 2..9 {
        assert_eq!(proof(&ring(n)), Proof::Holds);
    }
}

#[test]
fn a_ring_with_a_step_of_another_kind_does_not() {
    // The first reduction only stores.
    fails(&ring(4).replacen("rrc", "r", 1), "without chunk");
    // The first copy of the second half reduces again.
    let doubled = ring(4).replacen(r#"type="r""#, r#"type="rrc""#, 1);
    fails(&doubled, "twice");
}

#[test]
fn an_algorithm_without_messages_computes_nothing() {
    let copies: &[&str] = &["cpy i0 o0", "cpy i1 o1"];
    let apart = two("allreduce", [2, 2, 0], 0, [copies, copies]);
    fails(&apart, "rank 0 ends with chunk 0 of its output without chunk 0 of rank 1");
    fails(&two("allgather", [1, 2, 0], 0, [&["cpy i0 o0"], &["cpy i0 o1"]]), "without");
    let nothing: &[&str] = &[];
    for coll in ["allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce"] {
        fails(&two(coll, [2, 2, 0], 1, [nothing, nothing]), "without");
    }
}

#[test]
fn buffers_are_apart_or_one() {
    // All-gather: from the input to the output, in place, and in place with one name.
    let apart = [&["cpy i0 o0", "s i0 o0", "r o1 o1"][..], &["cpy i0 o1", "s i0 o1", "r o0 o0"]];
    assert_eq!(proof(&two("allgather", [1, 2, 0], 0, apart)), Proof::Holds);
    let in_place = [&["s i0 o0", "r o1 o1"][..], &["s i0 o1", "r o0 o0"]];
    assert_eq!(proof(&two("allgather", [1, 2, 0], 1, in_place)), Proof::Holds);
    let one_name = [&["s o0 o0", "r o1 o1"][..], &["s o1 o1", "r o0 o0"]];
    assert_eq!(proof(&two("allgather", [0, 2, 0], 1, one_name)), Proof::Holds);
    // Reduce-scatter through scratch, and with the reduction in the step that receives.
    let scratch = [
        &["s i1 s0", "r i0 s0", "re s0 i0", "cpy i0 o0"][..],
        &["s i0 s0", "r i1 s0", "re s0 i1", "cpy i1 o0"],
    ];
    assert_eq!(proof(&two("reducescatter", [2, 1, 1], 0, scratch)), Proof::Holds);
    let received = [&["s i1 i1", "rrc i0 o0"][..], &["s i0 i0", "rrc i1 o0"]];
    assert_eq!(proof(&two("reducescatter", [2, 1, 0], 0, received)), Proof::Holds);
    let swapped = [&["s i1 i1", "rrc i1 o0"][..], &["s i0 i0", "rrc i0 o0"]];
    fails(&two("reducescatter", [2, 1, 0], 0, swapped), "without");
}

#[test]
fn other_collectives_have_their_own_promise() {
    let all_to_all =
        [&["cpy i0 o0", "s i1 o0", "r i0 o1"][..], &["cpy i1 o1", "s i0 o1", "r i1 o0"]];
    assert_eq!(proof(&two("alltoall", [2, 2, 0], 0, all_to_all)), Proof::Holds);
    let broadcast = [&["s i0 i0"][..], &["r i0 i0"]];
    assert_eq!(proof(&two("broadcast", [1, 0, 0], 1, broadcast)), Proof::Holds);
    let reduce = [&["s i0 i0"][..], &["rrc i0 i0"]];
    assert_eq!(proof(&two("reduce", [1, 0, 0], 1, reduce)), Proof::Holds);
    fails(
        &two("allreduce", [1, 0, 0], 1, reduce),
        "rank 0 ends with chunk 0 of its output without chunk 0 of rank 1",
    );
}

#[test]
fn what_cannot_be_decided_is_said() {
    let nothing: &[&str] = &[];
    let unknown = |xml: &str, with: &str| match proof(xml) {
        Proof::Unknown(text) => assert!(text.contains(with), "{text}"),
        other => panic!("{other:?}"),
    };
    unknown(&two("custom", [1, 1, 0], 0, [nothing, nothing]), "no known meaning");
    unknown(&two("allgather", [1, 3, 0], 0, [nothing, nothing]), "chunks of its ranks");
}
