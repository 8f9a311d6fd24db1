//! Layers to a workload: the loop as one program, groups by rank arithmetic.
//!
//! With `n` NPUs innermost (the first dimension, or `model_parallel_NPU_group`), rank `r` is in the
//! inner group `r / n` of consecutive ranks and in the outer group `r % n` of the ranks `n` apart.
//! That is ASTRA-sim 1.0's choice of dimensions: the first ones up to a product of `n`, and the
//! rest; it splits a dimension where no product fits. With `m` NPUs of an outer group below the
//! inner ones (`inner_data_parallel_NPU_group`), inner groups have ranks `m` apart, and outer
//! groups all ranks at the same position among them. In SimAI's dialect an outer group is dealt to
//! experts once more (`simai.rs`). A group of one NPU communicates nothing, nor
//! does its update time pass.

use super::buckets;
use super::dialect::SimAi;
use super::layers::{Blocks, Layers, Parallelism, Pass, Scope};
use super::loops;
use graph::{Axis, Declaration, Family, LoopSettings, Mesh, Problem, Program, Workload};
use std::sync::Arc;

/// Layers times passes that are laid out.
pub const MOST_LAYERS: u64 = 1 << 20;
/// ns in all that the passes may compute and update: more than fifty days, far from where times end
/// inside.
pub const MOST_TIME: u64 = (1 << 62) / 1000;

impl Layers {
    /// The workload of a loop, or of a number of passes, on a machine whose dimensions have
    /// `sizes`, innermost first; without sizes on as few ranks as can run it: one, or one
    /// model-parallel group.
    ///
    /// # Errors
    /// A machine that doesn't fit, layers the first line names and there are not, too much to lay
    /// out. `file` stands for the text's name.
    pub fn workload(
        &self,
        loop_settings: impl Into<LoopSettings>,
        sizes: Option<&[u32]>,
        file: &str,
    ) -> Result<Workload, Vec<Problem>> {
        let loop_settings = loop_settings.into();
        let stated = self.blocks();
        let smallest = [self.ranks().unwrap_or_else(|| {
            stated
                .map_or(1, |blocks| blocks.below.saturating_mul(blocks.inner))
                .saturating_mul(self.experts())
        })];
        let sizes = sizes.unwrap_or(&smallest);
        let npus =
            sizes.iter().try_fold(1u32, |product, size| product.checked_mul(*size)).unwrap_or(0);
        let first = Blocks { below: 1, inner: sizes.first().copied().unwrap_or(1) };
        let machine = Machine { npus, blocks: stated.unwrap_or(first), experts: self.experts() };
        let faults = self.faults(loop_settings, machine);
        if !faults.is_empty() {
            let problem = |(place, message, help): (&str, String, String)| {
                Problem::new(file, place, message).help(help)
            };
            return Err(faults.into_iter().map(problem).collect());
        }
        let mut slots: Vec<Scope> = Vec::new();
        let converted = self.contributions(|scope| machine.count(scope));
        let layers = converted.as_ref().unwrap_or(self);
        let run = loops::run(layers, loop_settings, &mut |scope| machine.slot(scope, &mut slots));
        // Ids count up and dependencies point back, so only its size can be wrong.
        let program =
            run.program.build().map_err(|error| vec![Problem::new(file, "", error.to_string())])?;
        let mut workload = self
            .bind(machine, program, &slots)
            .map_err(|problem| vec![Problem { file: file.into(), ..problem }])?;
        if self.is_labelled() {
            workload.notes.push((
                "a local update time is that of each KB, taken as 1,024 bytes".into(),
                self.layers.len() as u64,
            ));
        }
        workload.notes.extend(self.idle(loop_settings, run.exchanged).map(|note| (note, 1)));
        if let left_out @ 1.. = loops::left_out(self, &run.started) {
            workload.notes.push((
                "a collective of the text is not part of its training loop".into(),
                left_out,
            ));
        }
        Ok(workload)
    }

    /// The blocks that the first line states.
    fn blocks(&self) -> Option<Blocks> {
        match self.parallelism {
            Parallelism::Transformer { blocks, .. } => Some(blocks),
            Parallelism::SimAi(SimAi { model, .. }) => Some(Blocks { below: 1, inner: model }),
            _ => None,
        }
    }

    /// Ranks that exchange tokens of experts.
    fn experts(&self) -> u32 {
        match self.parallelism {
            Parallelism::SimAi(SimAi { experts, .. }) => experts.unwrap_or(1),
            _ => 1,
        }
    }

    /// The ranks that the first line states.
    fn ranks(&self) -> Option<u32> {
        match self.parallelism {
            Parallelism::SimAi(SimAi { ranks, .. }) => ranks,
            _ => None,
        }
    }

    /// Settings of a loop that change nothing; `exchanged` says in which passes ranks exchange
    /// anything.
    fn idle(
        &self,
        loop_settings: LoopSettings,
        exchanged: [bool; 3],
    ) -> impl Iterator<Item = String> + use<> {
        let single = self.parallelism == Parallelism::Micro;
        let blocking = self.parallelism == Parallelism::DistributedInference;
        let overlapped = exchanged.contains(&true) && !single && !blocking;
        let fused = exchanged[Pass::WeightGradient as usize] && !single;
        let idle = [
            ("bucket_mb", loop_settings.bucket.is_some() && !fused),
            ("overlap", !loop_settings.overlap && !overlapped),
        ];
        let note = |name| format!("{name} has no effect on this loop and number of ranks");
        idle.into_iter().filter(|(_, idle)| *idle).map(move |(name, _)| note(name))
    }

    /// Place, message and what is allowed.
    fn faults(
        &self,
        loop_settings: LoopSettings,
        machine: Machine,
    ) -> Vec<(&'static str, String, String)> {
        let mut faults: Vec<_> =
            self.header_faults().into_iter().map(|(m, help)| ("line 1", m, help)).collect();
        let (layers, passes) = (self.layers.len() as u64, loop_settings.passes);
        if layers == 0 {
            faults.push(("line 2", "there are no layers".into(), format!("1 to {MOST_LAYERS}")));
        } else if !(1..=MOST_LAYERS / layers).contains(&u64::from(passes)) {
            let help =
                format!("1 to {}: {MOST_LAYERS} layers over all passes", MOST_LAYERS / layers);
            faults.push(("", format!("{passes} passes of {layers} layers"), help));
        }
        let pieces = self.pieces(loop_settings).saturating_mul(passes.into());
        if pieces > MOST_LAYERS {
            let message = format!("the passes exchange {pieces} pieces of buckets");
            faults.push(("bucket_mb", message, format!("at most {MOST_LAYERS}: larger buckets")));
        }
        faults.extend(machine.fault().map(|(message, help)| ("line 1", message, help)));
        if let Some(ranks) = self.ranks().filter(|&ranks| ranks != machine.npus) {
            let message =
                format!("all_gpus is {ranks}, and the platform has {} NPUs", machine.npus);
            faults.push(("line 1", message, format!("a platform of {ranks} NPUs: --npus {ranks}")));
        }
        let total = self.time() * u128::from(passes);
        if total > u128::from(MOST_TIME) {
            faults.push((
                "",
                format!("the passes take {total} ns of compute and update"),
                format!("at most {MOST_TIME} ns"),
            ));
        }
        faults
    }

    /// The collectives that exchange weight gradients in a pass.
    fn pieces(&self, loop_settings: LoopSettings) -> u64 {
        let of = |bucket: &Vec<usize>| {
            buckets::count(buckets::bytes(self, bucket), loop_settings.bucket)
        };
        let buckets = buckets::buckets(self, loop_settings.bucket);
        buckets.iter().filter(|bucket| !bucket.is_empty()).map(of).fold(0, u64::saturating_add)
    }

    /// ns of a pass, each forward computation counted twice because it may be repeated.
    fn time(&self) -> u128 {
        let of = |layer: &super::Layer| {
            let passes = [Pass::Forward, Pass::Forward, Pass::InputGradient, Pass::WeightGradient];
            let time = |pass| u128::from(layer.part(pass).compute) + layer.update(pass);
            passes.map(time).iter().sum::<u128>()
        };
        self.layers.iter().map(of).sum()
    }

    /// The program on every rank of the machine, `slots` being the groups of its collectives.
    fn bind(
        &self,
        machine: Machine,
        program: Program,
        slots: &[Scope],
    ) -> Result<Workload, Problem> {
        let names = self.group_names();
        let mesh = machine.mesh(names);
        let name = |scope: &Scope| match scope {
            Scope::Everybody => String::new(),
            Scope::Inner => names[0].to_string(),
            Scope::Outer => names[1].to_string(),
            Scope::Experts => EXPERTS.to_string(),
            Scope::ExpertData => EXPERT_DATA.to_string(),
        };
        let mut workload =
            mesh.bind(&[(Arc::new(program), slots.iter().map(name).collect())], Vec::new())?;
        let name = self.parallelism.word().to_string();
        workload.declaration =
            Some(Box::new(Declaration { name, mesh: Some(mesh), ..Declaration::default() }));
        Ok(workload)
    }

    /// Names of inner and outer groups.
    fn group_names(&self) -> [&'static str; 2] {
        match self.parallelism {
            Parallelism::HybridCustomized => ["inner", "outer"],
            Parallelism::HybridModelData => ["data", "model"],
            _ => ["model", "data"],
        }
    }
}

/// How many NPUs there are, and how they are dealt to groups.
#[derive(Clone, Copy)]
struct Machine {
    npus: u32,
    blocks: Blocks,
    /// Ranks of an outer group that exchange tokens of experts; 1 but for SimAI's dialect.
    experts: u32,
}

const EXPERTS: &str = "experts";
const EXPERT_DATA: &str = "expert data";

impl Machine {
    /// Why the groups don't divide the NPUs, and what would.
    fn fault(self) -> Option<(String, String)> {
        let Machine { npus, blocks: Blocks { below, inner }, experts } = self;
        let count = below.checked_mul(inner).and_then(|count| count.checked_mul(experts));
        let count = count.filter(|&count| count > 0);
        if npus > 0 && count.is_some_and(|count| npus.is_multiple_of(count)) {
            return None;
        }
        if experts > 1 {
            let message = format!(
                "model_parallel_NPU_group {inner} times ep {experts} doesn't divide the platform's \
                 {npus} NPUs"
            );
            return Some((message, format!("two numbers whose product divides {npus}")));
        }
        if below > 1 {
            let message = format!(
                "blocks of {inner} x {below} NPUs (model_parallel_NPU_group, \
                 inner_data_parallel_NPU_group) don't divide the platform's {npus} NPUs"
            );
            return Some((message, format!("two numbers whose product divides {npus}")));
        }
        let message =
            format!("model_parallel_NPU_group {inner} doesn't divide the platform's {npus} NPUs");
        Some((message, nearest_divisors(npus, inner)))
    }

    /// The ranks as a mesh, with the groups called `names`.
    fn mesh(self, names: [&str; 2]) -> Mesh {
        let Blocks { below, inner } = self.blocks;
        let axis = |name: &str, size| Axis { name: name.into(), size };
        let outer = axis(names[1], self.npus / below / inner / self.experts);
        let family = |name: &str, axes: Vec<String>| Family { name: name.into(), axes };
        let mut axes = vec![axis(names[0], inner), outer];
        let mut outer_axes = vec![names[1].to_string()];
        if below > 1 {
            let first = format!("inner {}", names[1]);
            axes.insert(0, axis(&first, below));
            outer_axes.insert(0, first);
        }
        let mut groups = vec![family(names[0], vec![names[0].into()])];
        if self.experts > 1 {
            axes.insert(axes.len() - 1, axis(EXPERTS, self.experts));
            outer_axes.insert(0, EXPERTS.into());
            groups.push(family(EXPERTS, vec![EXPERTS.into()]));
            groups.push(family(EXPERT_DATA, vec![names[1].into()]));
        }
        groups.insert(1, family(names[1], outer_axes));
        Mesh { axes, groups, by: Vec::new() }
    }

    /// The slot of `scope`, given in the order of first use; `None` for a group of one.
    fn slot(self, scope: Scope, slots: &mut Vec<Scope>) -> Option<u32> {
        // Everybody by another name is everybody, and all ranks with the same model position are.
        let scope = match scope {
            Scope::Experts | Scope::ExpertData if self.count(scope) == self.count(Scope::Outer) => {
                Scope::Outer
            }
            _ => scope,
        };
        let scope = if self.count(scope) == self.npus { Scope::Everybody } else { scope };
        if self.count(scope) < 2 {
            return None;
        }
        let known = slots.iter().position(|known| *known == scope);
        Some(known.unwrap_or_else(|| {
            slots.push(scope);
            slots.len() - 1
        }) as u32)
    }

    fn count(self, scope: Scope) -> u32 {
        match scope {
            Scope::Everybody => self.npus,
            Scope::Inner => self.blocks.inner,
            Scope::Outer => self.npus / self.blocks.inner,
            Scope::Experts => self.experts,
            Scope::ExpertData => self.npus / self.blocks.inner / self.experts,
        }
    }
}

/// The divisors of `npus` around `wanted`.
fn nearest_divisors(npus: u32, wanted: u32) -> String {
    let divides = |n: &u32| npus.is_multiple_of(*n);
    let below = (1..=wanted.min(npus)).rev().find(divides);
    let above = (wanted.max(1)..=npus).find(divides);
    match (below, above) {
        (Some(below), Some(above)) => format!("{below} or {above} on {npus} NPUs"),
        (Some(one), None) | (None, Some(one)) => format!("{one} on {npus} NPUs"),
        (None, None) => "a platform with NPUs".into(),
    }
}
