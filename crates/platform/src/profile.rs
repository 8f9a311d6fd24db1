//! Whose semantics a run follows, and the numbers of ASTRA-sim's files.
//!
//! The profile decides in few places: the lowering and the durations (crate `lowering`), the
//! settings of the executor, and the links of a backend with what is reported of native models
//! (crate `sim`).

/// The semantics of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Profile {
    /// Our own: sound wherever ASTRA-sim is not.
    #[default]
    Native,
    /// ASTRA-sim's, as its analytical front ends behave.
    AstraSim(Box<AstraSimParameters>),
}

impl Profile {
    /// Name of the profile in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Profile::Native => "native",
            Profile::AstraSim(_) => "astra_sim",
        }
    }

    /// Whether a run follows our own semantics.
    pub fn is_native(&self) -> bool {
        matches!(self, Profile::Native)
    }

    /// The numbers of ASTRA-sim's files, where a run follows its semantics.
    pub fn astra_sim(&self) -> Option<&AstraSimParameters> {
        match self {
            Profile::Native => None,
            Profile::AstraSim(parameters) => Some(parameters),
        }
    }
}

/// The LogGP memory bus of ASTRA-sim (`model-shared-bus`), as its file gives it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedBus {
    /// Latency L, ns.
    pub latency: f64,
    /// Overhead o, ns.
    pub overhead: f64,
    /// Gap g, ns.
    pub gap: f64,
    /// Gap per byte G, ns per byte.
    pub gap_per_byte: f64,
    /// `local-reduction-delay`.
    pub local_reduction_delay: i64,
}

/// The numbers of ASTRA-sim's files as they stand there, for the profile that repeats its
/// arithmetic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AstraSimParameters {
    /// The system file. Problems name it when it lacks an implementation that a workload needs.
    pub system_file: String,
    /// Link bandwidth of each dimension, GB/s of 2^30 bytes: `bytes/ns = bandwidth * 2^30 / 1e9`.
    pub bandwidth: Vec<f64>,
    /// Link latency of each dimension, ns.
    pub latency: Vec<f64>,
    /// `endpoint-delay` times `--injection-scale`, truncated, ns.
    pub endpoint_delay: u64,
    /// `local-mem-bw`, GB/s of 1e9 bytes; 0 when absent.
    pub local_memory_bandwidth: f64,
    /// `peak-perf`, TFLOP/s; 0 when absent.
    pub peak: f64,
    /// `roofline-enabled`.
    pub roofline: bool,
    /// `model-shared-bus`.
    pub shared_bus: Option<SharedBus>,
    /// `remote-mem-latency`, ns.
    pub remote_latency: u64,
    /// `remote-mem-bw`, bytes per ns.
    pub remote_bandwidth: u64,
    /// `trace-enabled`.
    pub trace_enabled: bool,
    /// `track-local-mem`: the name of the file to write.
    pub track_local_memory: Option<String>,
}
