//! SimAI's dialect: bytes and groups by hand and on drawn first lines, and what is refused.

use super::*;
use graph::{CollectiveKind, Op};
use proptest::prelude::*;

const HEAD: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0";
/// A layer with every reach: forward of experts, input gradient of activations, weights of both.
const BODY: &str = "2\na -1 10 ALLTOALL_EP 4096 20 ALLGATHER 1000 30 ALLGATHER_DP_EP 1000 4\nb -1 5 REDUCESCATTER 64 6 NONE 0 7 ALLREDUCE 96 0\n";

fn read(text: &str) -> Result<Layers, Vec<Problem>> {
    parse(text.as_bytes(), "t.txt")
}

fn layers(text: &str) -> Layers {
    read(text).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn laid_out(layers: &Layers, sizes: Option<&[u32]>) -> Workload {
    layers.workload(1, sizes, "t.txt").unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Name, bytes and members of each collective as `rank` sees them.
fn collectives(workload: &Workload, rank: u32) -> Vec<(String, u64, Vec<u32>)> {
    let program = workload.program(rank);
    let npus = workload.ranks.len() as u32;
    let of = |(i, node): (usize, &graph::Node)| {
        let Op::Collective { bytes, slot, .. } = node.op else { return None };
        let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
        let members = (0..members.len(npus)).map(|position| members.rank(position)).collect();
        Some((program.name(i).to_string(), bytes.0, members))
    };
    program.nodes().iter().enumerate().filter_map(of).collect()
}

fn messages(text: &str) -> String {
    read(text).expect_err(text).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Eight ranks: model position r % 2, expert position r / 2 % 2, and two ranks for each pair.
#[test]
fn groups_and_bytes_by_hand() {
    let workload = laid_out(&layers(&format!("{HEAD}\n{BODY}")), None);
    assert_eq!(workload.ranks.len(), 8);
    let expected = |experts: [u32; 2], model: [u32; 2], copies: [u32; 2], data: [u32; 4]| {
        vec![
            ("a.forward.all_to_all".to_string(), 4096, experts.to_vec()),
            ("b.forward.reduce_scatter".to_string(), 64, model.to_vec()),
            ("b.weight_gradient.all_reduce".to_string(), 96, data.to_vec()),
            ("a.input_gradient.all_gather".to_string(), 500, model.to_vec()),
            ("a.weight_gradient.all_gather".to_string(), 500, copies.to_vec()),
        ]
    };
    assert_eq!(collectives(&workload, 0), expected([0, 2], [0, 1], [0, 4], [0, 2, 4, 6]));
    assert_eq!(collectives(&workload, 5), expected([5, 7], [4, 5], [1, 5], [1, 3, 5, 7]));
}

/// The loop is that of HYBRID_TRANSFORMER, whatever the dialect.
#[test]
fn the_loop_is_the_same() {
    let body = "2\na -1 10 ALLREDUCE 8 20 ALLREDUCE 16 30 ALLREDUCE 24 4\nb -1 5 NONE 0 6 ALLTOALL 8 7 REDUCESCATTER 96 0\n";
    let word = "HYBRID_TRANSFORMER model_parallel_NPU_group: 2";
    let theirs = laid_out(&layers(&format!("{word}\n{body}")), Some(&[8]));
    let ours = laid_out(&layers(&format!("{word} ep: 1 pp: 1 all_gpus: 8\n{body}")), None);
    let nodes = |workload: &Workload| {
        let program = workload.program(0);
        let node = |i: usize| (program.name(i).to_string(), program.deps(i).to_vec());
        (0..program.nodes().len()).map(node).collect::<Vec<_>>()
    };
    assert_eq!(nodes(&theirs), nodes(&ours));
    assert_eq!(collectives(&theirs, 3), collectives(&ours, 3));
}

/// AICB's files before it wrote `ep` are known by BROADCAST, which moves nothing.
#[test]
fn a_broadcast_makes_it_simai_and_moves_nothing() {
    let head = "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0";
    let line = "norm -1 0 BROADCAST 16384 1 NONE 0 1 ALLGATHER 4000 100\n";
    let text = format!("{head}\n1\n{line}");
    let read = layers(&text);
    assert_eq!(layers(&read.to_string()), read);
    let workload = laid_out(&read, Some(&[8]));
    let found = collectives(&workload, 1);
    assert_eq!(found, [("norm.weight_gradient.all_gather".to_string(), 1000, vec![1, 3, 5, 7])]);
    let note = "a collective of the text is not part of its training loop";
    assert_eq!(workload.notes, [(note.to_string(), 1)]);
    // Without it the text is ASTRA-sim's, whose size of an all-gather is a contribution.
    let plain = laid_out(&layers(&text.replace("BROADCAST", "ALLREDUCE")), Some(&[8]));
    assert_eq!(collectives(&plain, 1)[1].1, 4000);
}

#[test]
fn what_simai_does_not_define_is_refused() {
    let with = |from: &str, to: &str| messages(&format!("{HEAD}\n{BODY}").replace(from, to));
    let cases = [
        ("pp: 1 ", "pp: 12 ", "pp is 12: the text has no pipeline"),
        ("pp_comm: 0", "pp_comm: 251658240", "pp_comm is 251658240: the text has no pipeline"),
        ("pp_comm: 0", "pp_comm: 1", "pp_comm is 1"),
        ("ep: 2", "ep: 0", "ep is 0"),
        ("ga: 1", "ga: 0", "ga is 0"),
        ("ga: 1", "ga: many", "expected ga:, found \"many\""),
        ("ga: 1", "ga: 1 ga: 1", "ga appears twice"),
        ("vpp: 8", "expert_parallel_npu_group: 8", "is not a key of SimAI's first line"),
        ("model_parallel_NPU_group: 2 ", "", "model_parallel_NPU_group: is missing"),
        ("checkpoints: 0", "checkpoints: 2 1 2", "checkpoints is 2, but SimAI repeats no forward"),
        ("ep: 2 ", "", "the first line does not say ep, which ALLTOALL_EP needs"),
        (" pp_comm: 0", " pp_comm:", "pp_comm: is missing"),
        ("ALLTOALL_EP", "ALLTOALL_TP", "the value is \"ALLTOALL_TP\""),
        ("ALLTOALL_EP", "ALLREDUCEALLTOALL_EP", "the value is \"ALLREDUCEALLTOALL_EP\""),
        (HEAD, "DATA", "ALLTOALL_EP is a word of SimAI, and DATA is not"),
        (HEAD, "HYBRID_TRANSFORMER model_parallel_NPU_group: 2", "does not say ep"),
        (
            HEAD,
            "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 inner_data_parallel_NPU_group: 2",
            "ALLTOALL_EP is a word of SimAI, and HYBRID_TRANSFORMER is not",
        ),
    ];
    for (from, to, said) in cases {
        let found = with(from, to);
        assert!(found.contains(said), "{to}: {found}");
    }
}

#[test]
fn a_platform_must_have_the_ranks() {
    let read = layers(&format!("{HEAD}\n{BODY}"));
    let said = |sizes: &[u32]| {
        let problems = read.workload(1, Some(sizes), "t.txt").expect_err("another machine");
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert!(said(&[16]).contains("all_gpus is 8, and the platform has 16 NPUs"));
    let six = said(&[6]);
    assert!(six.contains("model_parallel_NPU_group 2 times ep 2 doesn't divide the platform's 6"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Members of each group by arithmetic on positions, bytes by the size of the group.
    #[test]
    fn drawn_first_lines(model in 1u32..5, experts in 1u32..5, copies in 1u32..4, bytes in 1u64..1 << 40, order in 0usize..6, again in any::<bool>()) {
        let npus = model * experts * copies;
        let mut keys = [format!("model_parallel_NPU_group: {model}"), format!("ep: {experts}"), format!("all_gpus: {npus}"), "pp: 1".into(), "ga: 3".into(), "vpp: 2".into()];
        keys.rotate_left(order);
        let word = if again { "HYBRID_TRANSFORMER_FWD_IN_BCKWD" } else { "HYBRID_TRANSFORMER" };
        let words = ["ALLREDUCE", "ALLGATHER", "REDUCESCATTER", "ALLTOALL"];
        let lines: Vec<String> = words.iter().map(|w| format!("l -1 1 {w} {bytes} 1 {w}_EP {bytes} 1 {w}_DP_EP {bytes} 0\nm -1 1 NONE 0 1 NONE 0 1 {w} {bytes} 0")).collect();
        let text = format!("{word} {}\n8\n{}\n", keys.join(" "), lines.join("\n"));
        let read = layers(&text);
        prop_assert_eq!(&layers(&read.to_string()), &read);
        let workload = laid_out(&read, None);
        prop_assert_eq!(workload.ranks.len() as u32, npus);
        prop_assert_eq!(graph::check(&workload, npus), []);
        let (model_of, expert_of) = (|r: u32| r % model, |r: u32| r / model % experts);
        for rank in 0..npus {
            let same = |like: &dyn Fn(u32) -> bool| (0..npus).filter(|r| like(*r)).collect::<Vec<_>>();
            let block = model * experts;
            let groups = [
                ("l.forward", same(&|r| r / model == rank / model)),
                ("l.input_gradient", same(&|r| model_of(r) == model_of(rank) && r / block == rank / block)),
                ("l.weight_gradient", same(&|r| model_of(r) == model_of(rank) && expert_of(r) == expert_of(rank))),
                ("m.weight_gradient", same(&|r| model_of(r) == model_of(rank))),
            ];
            let found = collectives(&workload, rank);
            let mut count = 0;
            for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter, CollectiveKind::AllToAll] {
                for (pass, members) in &groups {
                    if members.len() < 2 {
                        continue;
                    }
                    let size = if kind == CollectiveKind::AllGather { bytes.div_ceil(members.len() as u64) } else { bytes };
                    let name = format!("{pass}.{}", kind.name());
                    count += 1;
                    prop_assert!(found.contains(&(name.clone(), size, members.clone())), "{} {:?} {:?}", name, members, found);
                }
            }
            prop_assert_eq!(found.len(), count);
        }
    }

    #[test]
    fn noise_behind_a_key_is_refused_and_never_panics(noise in "[a-z0-9_: ]{0,40}") {
        let _ = read(&format!("HYBRID_TRANSFORMER ep: {noise}\n{BODY}"));
    }
}
