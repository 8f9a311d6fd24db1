//! ASTRA-sim's semantics (version 518bd513, analytical front ends), as data and small strategies
//! behind the same executor.
//!
//! Here: how it splits a collective (chunks, phases, queues), its algorithms (`plans.rs`), and its
//! arithmetic. What it does and where it differs from us: `docs/guides/astra-sim.md` and
//! `COMPARE.md`. Not here: its input files (`platform::config::astra_sim`).

mod plans;

use crate::lowered::{
    Directed, Geometry, Lane, Lowered, Lowering, PhaseSpec, ReadyPlan, Request, buffer, custom,
    regular,
};
use crate::shape::Shape;
use collective::Plan;
use graph::{CollectiveKind, Node, Problem};
use network::LinkCost;
use platform::{Algorithm, AstraSimParameters, Choice, Hierarchy, Platform};
use units::{Bytes, GIGA, Span, TERA};

/// Endpoint delay inside a communicator group, ns: ASTRA-sim treats such a ring as a local
/// dimension.
const LOCAL_ENDPOINT_DELAY: u64 = 10;

/// Lowers as ASTRA-sim does.
pub struct AstraSimLowering<'a> {
    platform: &'a Platform,
    parameters: &'a AstraSimParameters,
    /// Sizes of the dimensions collectives run over.
    sizes: Vec<u32>,
}

impl<'a> AstraSimLowering<'a> {
    /// For a platform read from ASTRA-sim's files.
    pub fn new(
        platform: &'a Platform,
        parameters: &'a AstraSimParameters,
        sizes: Vec<u32>,
    ) -> AstraSimLowering<'a> {
        AstraSimLowering { platform, parameters, sizes }
    }

    /// Chunk size and number of chunks: full chunks only, the last one as large as the others.
    fn chunks(&self, kind: CollectiveKind, bytes: u64) -> Result<(u64, u32), Problem> {
        let splits = u64::from(self.platform.scheduler.chunks);
        let npus = u64::from(self.platform.fabric.npus());
        let chunk = bytes / splits;
        if chunk < npus && kind != CollectiveKind::AllGather {
            return Ok((npus, splits as u32));
        }
        if chunk == 0 {
            let text = format!(
                "an all-gather of {bytes} bytes cannot be split into {splits} chunks (ASTRA-sim would never end)"
            );
            return Err(Problem::new("", "", text)
                .help("a size of at least preferred-dataset-splits bytes"));
        }
        Ok((
            chunk,
            u32::try_from(bytes.div_ceil(chunk)).map_err(|_| too_many_chunks(bytes, chunk))?,
        ))
    }

    fn choice(&self, kind: CollectiveKind) -> Result<&Choice, Problem> {
        self.platform.collectives.choices[kind as usize].as_ref().ok_or_else(|| {
            let key = format!("{}-implementation", kind.name().replace('_', "-"));
            let text = format!("missing, but the workload calls {}", kind.name());
            Problem::new(&self.parameters.system_file, &key, text)
                .help(format!("{key}: a list of one algorithm for each dimension"))
        })
    }

    /// The reduction charge of `bytes`: three passes over local memory, each cut to whole
    /// nanoseconds.
    fn reduction(&self, bytes: u64) -> Span {
        let bandwidth = self.parameters.local_memory_bandwidth;
        if bandwidth == 0.0 {
            return Span::ZERO;
        }
        Span::from_ns(3 * (bytes as f64 / (bandwidth * GIGA) * GIGA) as u64)
    }

    fn directed(&self, plan: Plan) -> Directed {
        Directed::new(ReadyPlan::new(plan, |bytes| self.reduction(bytes)))
    }

    fn plans(
        &self,
        algorithm: Algorithm,
        kind: CollectiveKind,
        n: u32,
        bytes: u64,
        local: bool,
    ) -> Result<Vec<Directed>, Problem> {
        let power = |name: &str| {
            let text = format!("{name} cannot run {} over {n} NPUs", kind.name());
            if n.is_power_of_two() {
                Ok(())
            } else {
                Err(Problem::new("", "", text).help("a power of two, or another algorithm"))
            }
        };
        let unsupported = |name: &str, allowed: &str| {
            Problem::new("", "", format!("{name} does not support {}", kind.name()))
                .help(allowed.to_string())
        };
        let steps = match (algorithm, kind) {
            (Algorithm::Ring, CollectiveKind::AllToAll) => u64::from(n) * u64::from(n - 1) / 2,
            _ => 2 * u64::from(n),
        };
        if steps > collective::MAX_STEPS {
            let (name, most) = (kind.name(), collective::MAX_STEPS);
            let text =
                format!("{algorithm} {name} on {n} NPUs takes {steps} steps, more than {most}");
            return Err(
                Problem::new("", "", text).help("fewer NPUs per dimension, or another algorithm")
            );
        }
        let plan = match algorithm {
            Algorithm::Ring => plans::ring(kind, n, bytes),
            Algorithm::Direct { window } => plans::direct(kind, n, bytes, window, local),
            Algorithm::HalvingDoubling if kind == CollectiveKind::AllToAll => {
                return Err(unsupported("halvingDoubling", "ring or direct for all-to-all"));
            }
            Algorithm::HalvingDoubling => {
                power("halvingDoubling")?;
                plans::halving_doubling(kind, n, bytes)
            }
            Algorithm::DoubleBinaryTree if kind != CollectiveKind::AllReduce => {
                return Err(unsupported("doubleBinaryTree", "all-reduce only"));
            }
            Algorithm::InNetwork => {
                return Err(unsupported("in-network reduction", "native platform files"));
            }
            Algorithm::BidirectionalRing => {
                return Err(unsupported("bidirectional ring", "native platform files"));
            }
            Algorithm::DoubleBinaryTree => {
                power("doubleBinaryTree")?;
                let tree = |t| self.directed(plans::double_binary_tree(n, bytes, t));
                return Ok(vec![tree(0), tree(1)]);
            }
        };
        Ok(vec![self.directed(plan)])
    }

    /// Phases over the dimensions: (dimension, kind, lane, input bytes).
    fn phases(
        &self,
        request: &Request,
        chunk: u64,
        dims: &[u32],
    ) -> Vec<(u32, CollectiveKind, Lane, u64)> {
        let size = |d: u32| u64::from(self.sizes[d as usize]);
        let enhanced = self.platform.collectives.hierarchy == Hierarchy::Enhanced;
        let Some((&last, inner)) = dims.split_last() else { return Vec::new() };
        let mut bytes = chunk;
        let mut phases = Vec::new();
        match request.kind {
            CollectiveKind::AllReduce if enhanced => {
                for &d in inner {
                    phases.push((d, CollectiveKind::ReduceScatter, Lane::First, bytes));
                    bytes /= size(d);
                }
                phases.push((last, CollectiveKind::AllReduce, Lane::First, bytes));
                for &d in inner.iter().rev() {
                    phases.push((d, CollectiveKind::AllGather, Lane::Second, bytes));
                    bytes *= size(d);
                }
            }
            CollectiveKind::AllGather => {
                for &d in dims.iter().rev() {
                    phases.push((d, CollectiveKind::AllGather, Lane::All, bytes));
                    bytes *= size(d);
                }
            }
            kind => {
                for &d in dims {
                    phases.push((d, kind, Lane::All, bytes));
                    bytes /= if kind == CollectiveKind::ReduceScatter { size(d) } else { 1 };
                }
            }
        }
        phases
    }

    fn over_dimensions(
        &self,
        request: &Request,
        chunk: u64,
        choice: &Choice,
    ) -> Result<Vec<PhaseSpec>, Problem> {
        let takes_part =
            |d: u32| self.sizes[d as usize] > 1 && (d >= 32 || request.dims >> d & 1 == 1);
        let dims: Vec<u32> = (0..choice.per_dim.len() as u32).filter(|&d| takes_part(d)).collect();
        let stride = |d: u32| self.sizes[..d as usize].iter().product();
        let spec = |(dim, kind, lane, bytes): (u32, CollectiveKind, Lane, u64)| {
            let size = self.sizes[dim as usize];
            let geometry = Geometry::Line { stride: stride(dim), size };
            let algorithm = choice.per_dim[dim as usize];
            let plans = self.plans(algorithm, kind, size, bytes, false)?;
            Ok(PhaseSpec {
                dim,
                lane,
                geometry,
                regular: regular(&self.platform.fabric, geometry, &plans),
                plans,
                custom: None,
                only: Vec::new(),
                endpoint_delay: Span::from_ns(self.parameters.endpoint_delay),
                kind,
                bytes: buffer(kind, bytes, size),
                algorithm: algorithm.to_string().into(),
            })
        };
        self.phases(request, chunk, &dims).into_iter().map(spec).collect()
    }

    /// One phase over everybody (`one...`), or over a communicator group.
    fn flat(
        &self,
        kind: CollectiveKind,
        chunk: u64,
        algorithm: Algorithm,
        group: Option<u32>,
    ) -> Result<PhaseSpec, Problem> {
        let size = group.unwrap_or(self.platform.fabric.npus());
        let delay =
            if group.is_some() { LOCAL_ENDPOINT_DELAY } else { self.parameters.endpoint_delay };
        let geometry =
            if group.is_some() { Geometry::Group } else { Geometry::Line { stride: 1, size } };
        let plans = self.plans(algorithm, kind, size, chunk, group.is_some())?;
        Ok(PhaseSpec {
            dim: 0,
            lane: Lane::All,
            geometry,
            regular: regular(&self.platform.fabric, geometry, &plans),
            plans,
            custom: None,
            only: Vec::new(),
            endpoint_delay: Span::from_ns(delay),
            kind,
            bytes: buffer(kind, chunk, size),
            algorithm: algorithm.to_string().into(),
        })
    }
}

impl Lowering for AstraSimLowering<'_> {
    fn lower(&self, request: &Request, shape: &Shape) -> Result<Lowered, Problem> {
        let kind = request.kind;
        use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};
        if !matches!(kind, AllReduce | AllGather | ReduceScatter | AllToAll) {
            let text = format!("ASTRA-sim does not support {}", kind.name());
            return Err(Problem::new("", "", text)
                .help("all_reduce, all_gather, reduce_scatter, all_to_all, or `armillary run`"));
        }
        let group = if let Shape::List { count, .. } = *shape { Some(count) } else { None };
        if group == Some(1) {
            return Ok(Lowered::default());
        }
        if let Some(algorithm) = self.platform.collectives.custom_for(kind, request.node) {
            let members = group.unwrap_or(self.platform.fabric.npus());
            return custom(algorithm, request, shape, u64::from(members));
        }
        let choice = self.choice(kind)?;
        let (chunk, chunks) = self.chunks(kind, request.bytes)?;
        let single = || choice.per_dim.first().copied().unwrap_or(Algorithm::Ring);
        let phases = match group {
            Some(_) => {
                let algorithm = if choice.per_dim.len() == 1 { single() } else { Algorithm::Ring };
                vec![self.flat(kind, chunk, algorithm, group)?]
            }
            None if choice.flat => vec![self.flat(kind, chunk, single(), None)?],
            None => self.over_dimensions(request, chunk, choice)?,
        };
        Ok(Lowered { shapes: vec![phases], chunks, shape_of: Vec::new() })
    }
}

fn too_many_chunks(bytes: u64, chunk: u64) -> Problem {
    Problem::new(
        "",
        "",
        format!("{bytes} bytes in chunks of {chunk} bytes are more than 2^32 chunks"),
    )
}

/// Duration of every node that takes a set time: computes, broadcasts, and with `replay-only` all.
pub fn duration(node: &Node, parameters: &AstraSimParameters, replay_only: bool) -> Span {
    let recorded = if node.duration == Span::ZERO { Span::from_ns(1) } else { node.duration };
    match node.op.work() {
        Some((operations, bytes)) if parameters.roofline && !replay_only => {
            roofline(operations, bytes.0, parameters)
        }
        _ => recorded,
    }
}

/// Time of an access to memory outside the NPUs: one message over a link.
pub fn remote_access(bytes: Bytes, parameters: &AstraSimParameters) -> Span {
    let bandwidth = parameters.remote_bandwidth as f64;
    let latency = parameters.remote_latency as f64;
    LinkCost::Nanoseconds { bandwidth, latency }.transit(1, bytes.0)
}

/// `operations / min(memory bandwidth * intensity, peak)`, cut to whole nanoseconds.
fn roofline(operations: u128, bytes: u64, parameters: &AstraSimParameters) -> Span {
    if bytes == 0 {
        return Span::ZERO;
    }
    let intensity = operations as f64 / bytes as f64;
    let rate = (parameters.local_memory_bandwidth * GIGA * intensity).min(parameters.peak * TERA);
    if rate == 0.0 { Span::ZERO } else { Span::from_ns((operations as f64 / rate * GIGA) as u64) }
}
