use super::*;
use graph::{CollectiveKind, Kernel, Op, Program};
use graph::{RankBinding, Workload, check};
use proptest::prelude::*;
use std::sync::Arc;
use units::Bytes;

/// A ring all-reduce as msccl-tools writes it: reduce-scatter with rrc, all-gather with r.
pub(super) fn ring(n: u32) -> String {
    let mut xml = format!(
        r#"<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="{n}" ngpus="{n}" coll="allreduce" inplace="1">"#
    );
    for rank in 0..n {
        let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
        xml += &format!(r#"<gpu id="{rank}" i_chunks="{n}" o_chunks="0" s_chunks="0">"#);
        xml += &format!(r#"<tb id="0" send="{next}" recv="{previous}" chan="0">"#);
        for round in 0..2 * (n - 1) {
            let chunk = (rank + 2 * n - round) % n;
            let before = (chunk + n - 1) % n;
            let kind = if round < n - 1 { "rrc" } else { "r" };
            for (s, kind, at) in [(2 * round, "s", chunk), (2 * round + 1, kind, before)] {
                xml += &format!(
                    r#"<step s="{s}" type="{kind}" srcbuf="i" srcoff="{at}" dstbuf="i" dstoff="{at}" cnt="1" depid="-1" deps="-1" hasdep="0"/>"#
                );
            }
        }
        xml += "</tb></gpu>";
    }
    xml + "</algo>"
}

fn workload(programs: Vec<Program>) -> Workload {
    let ranks =
        (0..programs.len() as u32).map(|program| RankBinding { program, slots: 0 }).collect();
    Workload {
        programs: programs.into_iter().map(Arc::new).collect(),
        ranks,
        ..Workload::default()
    }
}

proptest! {
    /// Every rank of a ring all-reduce sends 2(n-1)/n of the buffer, and every message has its
    /// receive.
    #[test]
    fn a_ring_sends_what_the_bound_says(n in 2u32..9, chunk in 1u64..10_000) {
        let algorithm = parse(ring(n).as_bytes(), "ring.xml").unwrap();
        prop_assert_eq!(algorithm.kind, Some(CollectiveKind::AllReduce));
        let programs = algorithm.programs(Bytes(chunk * u64::from(n)));
        for program in &programs {
            let sent: u64 = program.nodes().iter().map(|node| match node.op {
                Op::Send { bytes, .. } => bytes.0,
                _ => 0,
            }).sum();
            prop_assert_eq!(sent, 2 * u64::from(n - 1) * chunk);
        }
        prop_assert_eq!(check(&workload(programs), n), vec![]);
    }

    #[test]
    fn broken_xml_never_panics(at in any::<prop::sample::Index>(), byte: u8, noise: Vec<u8>) {
        let mut xml = ring(3).into_bytes();
        let at = at.index(xml.len());
        xml[at] = byte;
        if let Ok(algorithm) = parse(&xml, "x") {
            algorithm.programs(Bytes(u64::MAX));
        }
        let _ = parse(&noise, "x");
    }
}

#[test]
fn waits_and_fused_steps_become_dependencies() {
    let xml = r#"<algo name="x" nchunksperloop="4" ngpus="2" coll="custom">
        <gpu id="0" i_chunks="4" o_chunks="4" s_chunks="0">
          <tb id="0" send="1" recv="1" chan="3">
            <step s="0" type="rrcs" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="1" deps="0" hasdep="0"/>
          </tb>
          <tb id="1" send="-1" recv="-1" chan="0">
            <step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
          </tb>
        </gpu>
        <gpu id="1" i_chunks="4" o_chunks="4" s_chunks="0"/></algo>"#;
    let algorithm = parse(xml.as_bytes(), "x.xml").unwrap();
    assert_eq!(algorithm.kind, None);
    let program = &algorithm.programs(Bytes(1001))[0];
    let ops: Vec<Op> = program.nodes().iter().map(|&node| program.by_offset(node).op).collect();
    // 2 of 4 chunks of 1001 bytes are 500.5, and 1 is 250.25.
    assert_eq!(ops[0], Op::Recv { peer: 1.into(), bytes: Bytes(501), tag: 3 });
    assert_eq!(
        ops[1],
        Op::Compute {
            operations: None,
            bytes: Some(Bytes(1503)),
            cpu: false,
            kernel: Kernel::Other
        }
    );
    assert_eq!(ops[2], Op::Send { peer: 1.into(), bytes: Bytes(501), tag: 3 });
    assert_eq!(
        ops[3],
        Op::Compute {
            operations: None,
            bytes: Some(Bytes(502)),
            cpu: false,
            kernel: Kernel::Other
        }
    );
    assert_eq!((program.deps(0), program.deps(1), program.deps(2)), (&[3][..], &[0][..], &[1][..]));
}

#[test]
fn faults_name_line_element_value_and_what_is_allowed() {
    let fault = |from: &str, to: &str| {
        let problems = parse(ring(3).replacen(from, to, 1).as_bytes(), "r.xml").unwrap_err();
        problems.iter().map(|p| p.to_string()).collect::<Vec<_>>().join("\n")
    };
    assert!(
        fault("type=\"rrc\"", "type=\"zap\"")
            .contains("r.xml: line 1 <step>: step type \"zap\" is unknown")
    );
    assert!(fault("ngpus=\"3\"", "ngpus=\"4\"").contains("ngpus is 4, but there are 3 <gpu>"));
    assert!(fault("send=\"1\"", "send=\"9\"").contains("send of rank 0 is 9"));
    assert!(fault("send=\"1\"", "send=\"0\"").contains("another rank of 0 to 2"));
    assert!(fault("recv=\"2\"", "recv=\"-1\"").contains("in a <tb> whose recv is -1"));
    assert!(
        fault("depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"99\"").contains("waits for step 99")
    );
    assert!(fault("cnt=\"1\"", "cnt=\"-1\"").contains("invalid attribute cnt: \"-1\""));
    let beyond = fault("cnt=\"1\"", "cnt=\"1000\"");
    assert!(
        beyond.contains("r.xml: line 1 <step>: ")
            && beyond.contains(" and cnt 1000 reach chunk 100"),
        "{beyond}"
    );
    assert!(beyond.contains("of the input buffer (allowed: up to its 3 chunks"), "{beyond}");
    assert!(fault("gpu id=\"1\"", "gpu id=\"0\"").contains("expected id 1, found 0"));
    assert!(fault("nchunksperloop=\"3\"", "nchunksperloop=\"0\"").contains("1 or more"));
    assert!(parse(b"<html/>", "x").unwrap_err()[0].message.contains("not an MSCCL algorithm"));
    assert!(parse(b"\xff", "x").is_err());
}

/// The XML that ASTRA-sim's custom collective example was converted from travels inside its
/// trace.
#[test]
fn the_published_ring_matches_its_conversion() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/traces/astra-sim+astra-sim/examples/system/custom_collectives")
        .join("custom_ring_allreduce_8npus_1MB");
    let Ok(bytes) = std::fs::read(directory.join("custom_allreduce.0.et")) else {
        println!("skipped: {} is absent", directory.display());
        return;
    };
    let start = bytes.windows(5).position(|w| w == b"<algo").unwrap();
    let end = bytes.windows(7).position(|w| w == b"</algo>").unwrap() + 7;
    let algorithm = parse(&bytes[start..end], "ring.xml").unwrap();
    let ours = algorithm.programs(Bytes(1 << 20));
    let theirs = crate::custom::read(&directory, Some(8), &Default::default()).unwrap();
    let traffic = |program: &Program| {
        let messages = program.nodes().iter().filter_map(|node| match node.op {
            Op::Send { peer, bytes, .. } => Some((true, program.offset(peer), bytes)),
            Op::Recv { peer, bytes, .. } => Some((false, program.offset(peer), bytes)),
            _ => None,
        });
        let mut messages: Vec<_> = messages.collect();
        messages.sort_by_key(|m| (m.0, m.1, m.2.0));
        messages
    };
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(traffic(ours), traffic(theirs));
    }
    assert_eq!(check(&workload(ours), 8), []);
}
