//! Networks and simulators for the tests.
#![allow(dead_code)] // each test file uses some of it

use net_external::{Command, External, Topology};
use network::LinkCost;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;
use topology::{Dim, Fabric, LinkGraph};
use units::{Bandwidth, Span};

/// A stack of blocks with links of 10 GB/s and 500 ns.
pub fn topology(name: &str) -> Topology {
    let (bandwidth, latency) = (Bandwidth(10_000_000_000), Span(500_000));
    let shape: topology::Topology = name.parse().expect("a shape");
    let dim = |&(block, size): &(topology::Block, u32)| Dim {
        block,
        size,
        bandwidth,
        latency,
        parallel: 1,
    };
    let dims: Vec<Dim> = shape.dims.iter().map(dim).collect();
    let costs = dims.iter().map(|_| LinkCost::Exact { bandwidth, latency }).collect();
    let links = LinkGraph::new(&Fabric::Stacked(dims)).expect("a sound network");
    Topology { links, costs, by_link: false }
}

/// What `command` simulates.
pub fn backend(command: &str, name: &str, seconds: f64) -> External {
    let command = Command::parse(command).expect("a command");
    let settings = "platform=test\n".to_string();
    External::new(command, topology(name), settings, Duration::from_secs_f64(seconds))
}

fn adapters() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../adapters")
}

/// A program in C, compiled.
fn compiled(source: &Path, name: &str) -> String {
    let program =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let built = std::process::Command::new("cc")
        .args(["-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(adapters().join("c"))
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    assert!(built.expect("a C compiler").success());
    program.display().to_string()
}

/// `adapters/c/queues.c`, compiled once.
pub fn example_in_c() -> String {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| compiled(&adapters().join("c/queues.c"), "queues")).clone()
}

/// A simulator in C, by shared memory, which reads up to the first `ADVANCE` and then runs `then`.
pub fn after_advance_in_c(name: &str, then: &str) -> String {
    let text = format!(
        "#include \"armillary.h\"\nint main(void) {{\n struct armillary_record in;\n\
         if (!armillary_read(&in)) return 1;\n\
         for (uint64_t left = in.y; left > 0; left--) getchar();\n\
         armillary_hello(ARMILLARY_ROUTES_NONE, \"by memory\");\n\
         if (!armillary_memory) return 9;\n\
         while (armillary_read(&in) && in.kind != ARMILLARY_ADVANCE) {{}}\n{then}\nreturn 0; }}\n"
    );
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.c"));
    std::fs::write(&source, text).expect("it can be written");
    compiled(&source, name)
}

/// `adapters/python/queues.py`.
pub fn example_in_python() -> String {
    format!("python3 {}", adapters().join("python/queues.py").display())
}

/// `adapters/ns3`, built once. It needs ns-3.
pub fn example_in_ns3() -> String {
    static BUILT: OnceLock<String> = OnceLock::new();
    let build = || {
        let built = std::process::Command::new("make")
            .args(["--silent", "-C"])
            .arg(adapters().join("ns3"))
            .status();
        assert!(built.expect("make").success());
        let program = adapters().join("../target/adapters/armillary-ns3");
        program.canonicalize().expect("the adapter").display().to_string()
    };
    BUILT.get_or_init(build).clone()
}
