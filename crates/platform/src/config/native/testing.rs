//! Shared parts of the tests of native files.

use super::*;

pub(super) const FULL: &str = r#"
name: dgx-h100-16n
source: a data sheet
topology: FullyConnected(8)_Switch(16)
links:
  - {bandwidth: 450 GB/s, per: npu, latency: 300 ns}
  - {bandwidth: 400 Gb/s, latency: 2 us}
npu: {name: H100, compute: roofline, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
remote_memory: {sharing: per_node, npus_per_node: 8, latency: 1 us, bandwidth: 100 GB/s}
collectives:
  hierarchy: hierarchical_optimal
  all_reduce: [direct, halving_doubling]
  all_to_all: direct(4)
  all_gather: {algorithm: ring, flat: true}
  reduce_scatter: {custom: rs.xml}
  broadcast: auto
scheduler: {policy: lifo, all_to_all_first: true, dimension_order: themis, chunks: 64, dispatch_below: 8, dispatch_chunks: 16, active_chunks: 2, queues_per_dim: 3, endpoint_delay: 5 ns, comm_streams: 2, rendezvous: true}
logical: [16, 8]
"#;

pub(super) fn read(text: &str) -> Result<Platform, Vec<Problem>> {
    from_yaml(text, "p.yml", &[])
}

pub(super) fn messages(result: Result<Platform, Vec<Problem>>) -> Vec<String> {
    result.unwrap_err().iter().map(ToString::to_string).collect()
}

/// `FULL` with one line replaced by another.
pub(super) fn changed(from: &str, to: &str) -> String {
    assert!(FULL.contains(from), "{from}");
    FULL.replace(from, to)
}

pub(super) const BANDWIDTH: &str = "(allowed: a number above zero with B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s, or bits: \
                         kb/s, Mb/s, Gb/s, Tb/s, such as \"50 GB/s\")";
pub(super) const NAMES: &str = "(allowed: ring, bidirectional_ring, direct, direct(W) with W messages in flight, halving_doubling, double_binary_tree, in_network)";

pub(super) fn set(key: &str, value: &str) -> Result<Platform, Vec<Problem>> {
    from_yaml(FULL, "p.yml", &[(key.to_string(), value.to_string())])
}

pub(super) fn systems() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems")
}

/// A folder of platform files.
pub(super) struct Folder(pub PathBuf);

impl Folder {
    pub(super) fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let folder = std::env::temp_dir().join(format!("armillary-{}-{name}", std::process::id()));
        for (file, text) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        Folder(folder)
    }

    pub(super) fn load(&self, file: &str) -> Result<Platform, Vec<String>> {
        self.load_with(file, &[])
    }

    pub(super) fn load_with(
        &self,
        file: &str,
        set: &[(String, String)],
    ) -> Result<Platform, Vec<String>> {
        let path = self.0.join(file).to_string_lossy().into_owned();
        let shown = |problem: &graph::Problem| {
            problem.to_string().replace(&format!("{}/", self.0.to_string_lossy()), "")
        };
        load_with(&path, std::slice::from_ref(&self.0), set)
            .map_err(|all| all.iter().map(shown).collect())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
