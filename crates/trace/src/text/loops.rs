//! The training loops of ASTRA-sim 1.0 as operation graphs.
//!
//! Its state machine does one thing after another and looks at collectives where the loop says so.
//! Here "one after another" is a chain of compute nodes, a collective hangs on the computation
//! before it, and where the loop waits the next computation depends on the collective too. After
//! each collective the layer's update time passes on the host: the NPU goes on computing. Without
//! overlap each computation waits for the collectives before it and for their updates. Left out:
//! the single cycle that each change of state costs there. Not here: who takes part in a collective
//! (`layers.rs`, `build.rs`). docs/reference/text-workloads.md has each loop in words. Source: the
//! workload layer of ASTRA-sim 1.0, one function a loop; HOTI 2020, Fig. 3 for DLRM.

use super::buckets;
use super::layers::{KINDS, Layers, Parallelism, Pass, Recompute, Scope};
use graph::{CollectiveKind, Kernel, LoopSettings, Node, Op, ProgramBuilder};
use rustc_hash::FxHashMap;
use units::{Bytes, Span};

/// Collectives in the file that a loop has started.
pub(super) type Started = Vec<[bool; 3]>;

/// Result of a loop.
pub(super) struct Run {
    pub program: ProgramBuilder,
    pub started: Started,
    /// Whether ranks exchange anything in each pass.
    pub exchanged: [bool; 3],
}

/// The nodes of a loop. `slot` gives the group slot of a scope, `None` where it has a single
/// member: nothing is run then.
pub(super) fn run(
    layers: &Layers,
    loop_settings: LoopSettings,
    slot: &mut dyn FnMut(Scope) -> Option<u32>,
) -> Run {
    let count = layers.layers.len();
    let mut walk = Loop {
        layers,
        labels: labels(layers),
        loop_settings,
        buckets: buckets::buckets(layers, loop_settings.bucket),
        slot,
        program: ProgramBuilder::default(),
        after: Vec::new(),
        reduced: vec![Vec::new(); count],
        started: vec![[false; 3]; count],
        exchanged: [false; 3],
        again: vec![None; count],
    };
    if let Parallelism::Transformer { recompute: Some(recompute), .. } = &layers.parallelism {
        walk.mark(recompute);
    }
    for _ in 0..loop_settings.passes {
        walk.pass();
    }
    Run { program: walk.program, started: walk.started, exchanged: walk.exchanged }
}

/// Names of layers, those that repeat with a number, so that reports tell the layers apart. A name
/// of a text has no space, so none of them is that of another layer.
fn labels(layers: &Layers) -> Vec<String> {
    let mut seen: FxHashMap<&str, u32> = FxHashMap::default();
    let label = |layer: &super::Layer, count: u32| match count {
        1 => layer.name.clone(),
        _ => format!("{} ({count})", layer.name),
    };
    let mut labels = Vec::with_capacity(layers.layers.len());
    for layer in &layers.layers {
        let count = seen.entry(&layer.name).or_default();
        *count += 1;
        labels.push(label(layer, *count));
    }
    labels
}

/// The time as it is counted inside.
pub(super) fn span(ns: u64) -> Span {
    Span::from_ns(ns)
}

struct Loop<'a> {
    layers: &'a Layers,
    /// Name of each layer in reports.
    labels: Vec<String>,
    loop_settings: LoopSettings,
    /// The layers of each bucket of weight gradients, by the layer that completes it.
    buckets: Vec<Vec<usize>>,
    slot: &'a mut dyn FnMut(Scope) -> Option<u32>,
    program: ProgramBuilder,
    /// Operations that the next computation waits for.
    after: Vec<u64>,
    /// The ends of each layer's last weight gradient collectives.
    reduced: Vec<Vec<u64>>,
    started: Started,
    exchanged: [bool; 3],
    /// For each layer that starts a recomputation the first layer of it.
    again: Vec<Option<usize>>,
}

impl Loop<'_> {
    fn mark(&mut self, recompute: &Recompute) {
        for (start, from) in recompute.ranges() {
            if let Some(again) = self.again.get_mut(start as usize) {
                *again = from.map(|from| from as usize);
            }
        }
    }

    fn pass(&mut self) {
        match self.layers.parallelism {
            Parallelism::Data => self.data(),
            Parallelism::Model
            | Parallelism::HybridDataModel
            | Parallelism::HybridModelData
            | Parallelism::HybridCustomized => self.hybrid(),
            Parallelism::Transformer { .. } | Parallelism::SimAi(_) => self.transformer(),
            Parallelism::Dlrm { last_bottom, enhanced } => {
                self.dlrm(last_bottom as usize, enhanced)
            }
            Parallelism::Micro => drop(self.collective(0, Pass::WeightGradient)),
            Parallelism::DistributedInference => self.forward_all(),
        }
    }

    fn backwards(&self) -> impl Iterator<Item = usize> + use<> {
        (0..self.layers.layers.len()).rev()
    }

    /// Weight gradients are reduced during everything that follows, until the layer's next forward
    /// pass.
    fn data(&mut self) {
        for layer in 0..self.layers.layers.len() {
            self.forward(layer);
        }
        for layer in self.backwards() {
            self.weight_gradient(layer);
            if layer > 0 {
                self.compute(layer, Pass::InputGradient, Vec::new());
            }
        }
    }

    /// Outputs are exchanged before the next layer; input gradients during the layer's own weight
    /// gradients.
    fn hybrid(&mut self) {
        self.forward_all();
        for layer in self.backwards() {
            self.compute(layer, Pass::InputGradient, Vec::new());
            let exchanged =
                if layer > 0 { self.collective(layer, Pass::InputGradient) } else { Vec::new() };
            self.weight_gradient(layer);
            self.wait(exchanged);
        }
    }

    /// As hybrid, but input gradients are exchanged before anything else is computed, even those of
    /// the first layer.
    fn transformer(&mut self) {
        self.forward_all();
        for layer in self.backwards() {
            for again in self.again[layer].map_or(0..0, |from| from..layer) {
                self.forward_blocking(again);
            }
            self.compute(layer, Pass::InputGradient, Vec::new());
            let exchanged = self.collective(layer, Pass::InputGradient);
            self.wait(exchanged);
            self.weight_gradient(layer);
        }
    }

    /// The embedding's all-to-all runs during the bottom MLP; its gradients' during the bottom
    /// MLP's back-propagation.
    fn dlrm(&mut self, last_bottom: usize, enhanced: bool) {
        let all_to_all = self.layers.layers[0].forward.collective == Some(CollectiveKind::AllToAll);
        let (mut embedded, mut returned) = (Vec::new(), Vec::new());
        for layer in 0..self.layers.layers.len() {
            self.forward(layer);
            if layer == 0 && all_to_all {
                embedded = self.collective(0, Pass::Forward);
            }
            if layer == last_bottom {
                self.wait(std::mem::take(&mut embedded));
            }
        }
        for layer in self.backwards() {
            self.weight_gradient(layer);
            if layer > 0 {
                self.compute(layer, Pass::InputGradient, Vec::new());
            }
            if layer == last_bottom + 1 {
                returned = self.collective(0, Pass::InputGradient);
            }
        }
        if !enhanced {
            self.wait(returned);
        }
    }

    fn forward_all(&mut self) {
        for layer in 0..self.layers.layers.len() {
            self.forward_blocking(layer);
        }
    }

    fn forward_blocking(&mut self, layer: usize) {
        self.forward(layer);
        let exchanged = self.collective(layer, Pass::Forward);
        self.wait(exchanged);
    }

    /// Computes the layer's outputs once its weights are up to date.
    fn forward(&mut self, layer: usize) {
        let reduced = std::mem::take(&mut self.reduced[layer]);
        self.compute(layer, Pass::Forward, reduced);
    }

    fn weight_gradient(&mut self, layer: usize) {
        self.compute(layer, Pass::WeightGradient, Vec::new());
        self.reduce(layer);
    }

    /// Exchanges the bucket that the layer completes, if it does. Then its layers are updated.
    fn reduce(&mut self, layer: usize) {
        let bucket = std::mem::take(&mut self.buckets[layer]);
        if !bucket.is_empty() {
            let bytes = buckets::bytes(self.layers, &bucket);
            let pieces = buckets::pieces(bytes, self.loop_settings.bucket);
            let summed = self.exchange(layer, Pass::WeightGradient, &pieces);
            for &each in &bucket {
                self.started[each][Pass::WeightGradient as usize] = true;
                self.reduced[each] = self.update(each, Pass::WeightGradient, &summed);
            }
            let done = bucket.iter().flat_map(|&each| self.reduced[each].clone()).collect();
            self.block(done);
        }
        self.buckets[layer] = bucket;
    }

    fn compute(&mut self, layer: usize, pass: Pass, reduced: Vec<u64>) {
        let time = self.layers.layers[layer].part(pass).compute;
        let op = Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other };
        let name = format!("{}.{}", self.layers.layers[layer].name, pass.name());
        self.wait(reduced);
        let deps = std::mem::take(&mut self.after);
        let id = self.push(layer, op, span(time), &name, deps);
        self.after = vec![id];
    }

    /// The next computation waits for `nodes`, too.
    fn wait(&mut self, nodes: Vec<u64>) {
        for node in nodes {
            if !self.after.contains(&node) {
                self.after.push(node);
            }
        }
    }

    /// Without overlap the next computation waits for `done`.
    fn block(&mut self, done: Vec<u64>) {
        if !self.loop_settings.overlap && !done.is_empty() {
            self.after.clear();
            self.wait(done);
        }
    }

    /// Starts the layer's collective, if it has one and there is somebody to run it with; the nodes
    /// at whose end it is over.
    fn collective(&mut self, layer: usize, pass: Pass) -> Vec<u64> {
        let bytes = self.layers.layers[layer].part(pass).bytes;
        let exchanged = self.exchange(layer, pass, &[bytes]);
        let done = self.update(layer, pass, &exchanged);
        self.block(done.clone());
        done
    }

    /// The layer's collective, in pieces of these bytes.
    fn exchange(&mut self, layer: usize, pass: Pass, pieces: &[u64]) -> Vec<u64> {
        let line = &self.layers.layers[layer];
        let Some((kind, scope)) = line.part(pass).collective.zip(self.layers.scope(layer, pass))
        else {
            return Vec::new();
        };
        self.started[layer][pass as usize] = true;
        let Some(slot) = (self.slot)(scope) else { return Vec::new() };
        self.exchanged[pass as usize] = true;
        let urgent = matches!(self.layers.parallelism, Parallelism::Dlrm { .. })
            && pass != Pass::WeightGradient;
        let priority = i32::from(urgent);
        let name = format!("{}.{}", line.name, pass.name());
        let computed = self.after.clone();
        let mut piece = |(i, &bytes): (usize, &u64)| {
            let part = if pieces.len() > 1 { format!(".{i}") } else { String::new() };
            let (bytes, dims) = (Bytes(bytes), u32::MAX);
            let op = Op::Collective { kind, bytes, slot, priority, dims, root: 0 };
            let name = format!("{name}{part}.{}", kind.name());
            self.push(layer, op, Span::ZERO, &name, computed.iter().copied())
        };
        pieces.iter().enumerate().map(&mut piece).collect()
    }

    /// The layer's update behind collectives; the nodes at whose end it is over.
    fn update(&mut self, layer: usize, pass: Pass, after: &[u64]) -> Vec<u64> {
        let line = &self.layers.layers[layer];
        // `faults` has bounded the sum of all updates.
        let time = line.update(pass) as u64;
        if time == 0 || after.is_empty() {
            return after.to_vec();
        }
        let op =
            Op::Compute { operations: None, bytes: None, cpu: true, kernel: Kernel::Optimizer };
        let name = format!("{}.{}.update", line.name, pass.name());
        vec![self.push(layer, op, span(time), &name, after.iter().copied())]
    }

    fn push(
        &mut self,
        layer: usize,
        op: Op,
        duration: Span,
        name: &str,
        deps: impl IntoIterator<Item = u64>,
    ) -> u64 {
        let id = self.program.len() as u64;
        self.program.push(Node { id, duration, op }, name, deps);
        self.program.label(&self.labels[layer]);
        id
    }
}

/// The collectives that the file names and `started` doesn't.
pub(super) fn left_out(layers: &Layers, started: &Started) -> u64 {
    let named = |layer: usize, pass: Pass| layers.layers[layer].part(pass).collective.is_some();
    let idle = |layer: usize, pass: &Pass| named(layer, *pass) && !started[layer][*pass as usize];
    (0..layers.layers.len())
        .map(|layer| Pass::ALL.iter().filter(|pass| idle(layer, pass)).count() as u64)
        .sum()
}

/// True for a kind that the text has a word for.
pub(super) fn has_word(kind: CollectiveKind) -> bool {
    KINDS.iter().any(|(_, known)| *known == Some(kind))
}
