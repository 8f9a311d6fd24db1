//! The number of NPUs of a platform.

use super::testing::*;

/// Only a library says that dimension 1 is a node; without one a single switch may be a cluster.
#[test]
fn a_node_made_larger_than_it_is_gives_a_warning() {
    let node = "efficiency: 0.8, step_latency: [1 us, 2 us, 4 us], ll_efficiency: [0.25, 0.9]";
    let library = format!("library: {{name: nccl, call_overhead: 10 us, node: {{{node}}}}}\n");
    let warnings = |npus: u32, library: &str| {
        let links = "links: {bandwidth: 450 GB/s, per: npu, latency: 300 ns}";
        read(&format!("topology: Switch(8)\nnpus: {npus}\n{links}\n{library}")).unwrap().warnings
    };
    let warning = |npus: u32, nodes: &str| {
        format!(
            "npus: {npus} makes Switch(8) a single node of Switch({npus}), all at the bandwidth \
             within a node. For several nodes use a preset with a network, or topology: \
             Switch(8)_Switch({nodes}) with its links and library.network"
        )
    };
    assert_eq!(warnings(64, &library), [warning(64, "8")]);
    assert_eq!(warnings(12, &library), [warning(12, "m")]);
    assert_eq!(warnings(8, &library), [""; 0]);
    assert_eq!(warnings(4, &library), [""; 0]);
    assert_eq!(warnings(64, ""), [""; 0]);
}

#[test]
fn npus_resize_the_outermost_dimension() {
    let text = |npus: &str| {
        format!(
            "topology: FC(8)_SW(16)\nnpus: {npus}\nlinks: {{bandwidth: 50 GB/s, per: link, latency: 500 ns}}\n"
        )
    };
    assert_eq!(read(&text("1024")).unwrap().fabric.sizes(), [8, 128]);
    assert_eq!(read(&text("8")).unwrap().fabric.sizes(), [8, 1]);
    let problem = read(&text("100")).unwrap_err().swap_remove(0);
    assert_eq!(
        (problem.place.as_str(), problem.help.as_str()),
        ("line 2, npus", "1 to 7, 96, 104 or another multiple of 8")
    );
    assert!(read(&text("0")).is_err());
    let graph = "graph:\n  npus: 3\n  links:\n    - {between: [npu0, npu1], bandwidth: 50 GB/s, latency: 1 us}\n    \
                 - {between: [npu1, npu2], bandwidth: 50 GB/s, latency: 1 us}\n";
    assert_eq!(read(graph).unwrap().fabric.npus(), 3);
    assert_eq!(read(&format!("{graph}npus: 2\n")).unwrap().fabric.npus(), 2);
    assert!(read(&format!("{graph}npus: 4\n")).is_err());
}

/// Sizes and warnings of two dimensions with a library whose nodes are racks of trays of 4.
fn racks(npus: u32, shape: &str) -> Result<(Vec<u32>, Vec<String>), String> {
    let steps = "step_latency: [1 us, 2 us, 4 us]";
    let hosts = format!("hosts: {{ranks: 4, efficiency: 0.6, {steps}}}");
    let node = format!("node: {{efficiency: 0.8, {steps}, ll_efficiency: [0.25, 0.9], {hosts}}}");
    let network = format!("network: {{efficiency: 0.9, {steps}, ll_efficiency: [0.25, 0.9]}}");
    let library = format!("library: {{name: nccl, call_overhead: 10 us, {node}, {network}}}");
    let link = "{bandwidth: 450 GB/s, per: npu, latency: 300 ns}";
    let text = format!("topology: {shape}\nnpus: {npus}\nlinks: [{link}, {link}]\n{library}\n");
    let read = read(&text).map_err(|problems| problems[0].help.clone())?;
    Ok((read.fabric.sizes(), read.warnings))
}

/// A rack has 18 trays of 4: jobs take any multiple of 4, in racks as full as equal parts allow.
#[test]
fn racks_of_trays_take_any_multiple_of_a_tray() {
    let shape = "Switch(72)_Switch(8)";
    for (npus, sizes) in [
        (72, [72, 1]),
        (576, [72, 8]),
        (64, [64, 1]),
        (4, [4, 1]),
        (2, [2, 1]),
        (128, [64, 2]),
        (256, [64, 4]),
        (1024, [64, 16]),
        (98_304, [64, 1536]),
        (100, [20, 5]),
        (76, [4, 19]),
    ] {
        let (found, warnings) = racks(npus, shape).unwrap();
        assert_eq!(found, sizes, "{npus}");
        assert_eq!(warnings.is_empty(), sizes[0] == 72, "{npus}: {warnings:?}");
    }
    let warning = "npus: 256 makes Switch(72)_Switch(8) a Switch(64)_Switch(4): 64 of the 72 NPUs \
                   of each node are used";
    assert_eq!(racks(256, shape).unwrap().1, [warning]);
    assert_eq!(racks(98, shape).unwrap_err(), "1 to 71, 96, 100 or another multiple of 4");
    assert_eq!(racks(128, "Switch(64)_Switch(8)").unwrap().0, [64, 2]);
}

/// Four of the eight GPUs of a node have the same links; a part of a ring does not.
#[test]
fn a_job_may_have_a_part_of_one_node() {
    let sizes = |shape: &str, per: &str, npus: u32| {
        let link = format!("{{bandwidth: 50 GB/s, per: {per}, latency: 500 ns}}");
        let text = format!("topology: {shape}\nnpus: {npus}\nlinks: [{link}, {link}]\n");
        read(&text).map(|read| read.fabric.sizes()).map_err(|problems| problems[0].help.clone())
    };
    assert_eq!(sizes("SW(8)_SW(16)", "npu", 4).unwrap(), [4, 1]);
    assert_eq!(sizes("FC(8)_SW(16)", "link", 3).unwrap(), [3, 1]);
    let allowed = "8 or another multiple of 8, or another topology (--set topology=...)";
    assert_eq!(sizes("FC(8)_SW(16)", "npu", 4).unwrap_err(), allowed);
    assert_eq!(sizes("R(8)_SW(16)", "link", 4).unwrap_err(), allowed);
    assert!(sizes("SW(8)_SW(16)", "npu", 12).is_err());
}
