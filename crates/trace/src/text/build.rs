//! Layers to a workload: the loop as one program, groups by rank arithmetic.
//!
//! With `n` NPUs innermost (the first dimension, or `model_parallel_NPU_group`), rank `r` is in the
//! inner group `r / n` of consecutive ranks and in the outer group `r % n` of the ranks `n` apart.
//! That is ASTRA-sim 1.0's choice of dimensions: the first ones up to a product of `n`, and the
//! rest; it splits a dimension where no product fits. A group of one NPU communicates nothing, nor
//! does its update time pass.

use super::layers::{Layers, Parallelism, Pass, Scope};
use super::loops;
use graph::{Axis, Declaration, Family, Mesh, Problem, Program, Workload};
use std::sync::Arc;

/// Layers times passes that are laid out.
pub const MOST_LAYERS: u64 = 1 << 20;
/// ns in all that the passes may compute and update: more than fifty days, far from where times end
/// inside.
pub const MOST_TIME: u64 = (1 << 62) / 1000;

impl Layers {
    /// The workload of `passes` passes on a machine whose dimensions have `sizes`, innermost first;
    /// without sizes on as few ranks as can run it: one, or one model-parallel group.
    ///
    /// # Errors
    /// A machine that doesn't fit, layers the first line names and there are not, too much to lay
    /// out. `file` stands for the text's name.
    pub fn workload(
        &self,
        passes: u32,
        sizes: Option<&[u32]>,
        file: &str,
    ) -> Result<Workload, Vec<Problem>> {
        let smallest = [self.model_group().unwrap_or(1)];
        let sizes = sizes.unwrap_or(&smallest);
        let npus =
            sizes.iter().try_fold(1u32, |product, size| product.checked_mul(*size)).unwrap_or(0);
        let machine =
            Machine { npus, inner: self.model_group().or(sizes.first().copied()).unwrap_or(1) };
        let faults = self.faults(passes, machine);
        if !faults.is_empty() {
            let problem = |(place, message, help): (&str, String, String)| {
                Problem::new(file, place, message).help(help)
            };
            return Err(faults.into_iter().map(problem).collect());
        }
        let mut slots: Vec<Scope> = Vec::new();
        let (program, started) =
            loops::run(self, passes, &mut |scope| machine.slot(scope, &mut slots));
        // Ids count up and dependencies point back, so only its size can be wrong.
        let program =
            program.build().map_err(|error| vec![Problem::new(file, "", error.to_string())])?;
        let mut workload = self
            .bind(machine, program, &slots)
            .map_err(|problem| vec![Problem { file: file.into(), ..problem }])?;
        if self.is_labelled() {
            workload.notes.push((
                "a local update time is that of each KB, taken as 1,024 bytes".into(),
                self.layers.len() as u64,
            ));
        }
        if let left_out @ 1.. = loops::left_out(self, &started) {
            workload.notes.push((
                "a collective of the text is not part of its training loop".into(),
                left_out,
            ));
        }
        Ok(workload)
    }

    fn model_group(&self) -> Option<u32> {
        match self.parallelism {
            Parallelism::Transformer { model_group, .. } => Some(model_group),
            _ => None,
        }
    }

    /// Place, message and what is allowed.
    fn faults(&self, passes: u32, machine: Machine) -> Vec<(&'static str, String, String)> {
        let mut faults: Vec<_> =
            self.header_faults().into_iter().map(|(m, help)| ("line 1", m, help)).collect();
        let layers = self.layers.len() as u64;
        if layers == 0 {
            faults.push(("line 2", "there are no layers".into(), format!("1 to {MOST_LAYERS}")));
        } else if !(1..=MOST_LAYERS / layers).contains(&u64::from(passes)) {
            let help =
                format!("1 to {}: {MOST_LAYERS} layers over all passes", MOST_LAYERS / layers);
            faults.push(("", format!("{passes} passes of {layers} layers"), help));
        }
        let Machine { npus, inner } = machine;
        if npus == 0 || inner == 0 || !npus.is_multiple_of(inner) {
            let message = format!(
                "model_parallel_NPU_group {inner} doesn't divide the platform's {npus} NPUs"
            );
            faults.push(("line 1", message, nearest_divisors(npus, inner)));
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
        let axis = |name: &str, size| Axis { name: name.into(), size };
        let family = |name: &str| Family { name: name.into(), axes: vec![name.into()] };
        let mesh = Mesh {
            axes: vec![axis(names[0], machine.inner), axis(names[1], machine.npus / machine.inner)],
            groups: names.map(family).to_vec(),
            by: Vec::new(),
        };
        let name = |scope: &Scope| match scope {
            Scope::Everybody => String::new(),
            Scope::Inner => names[0].to_string(),
            Scope::Outer => names[1].to_string(),
        };
        let mut workload =
            mesh.bind(&[(Arc::new(program), slots.iter().map(name).collect())], Vec::new())?;
        let name = self.parallelism.word().to_string();
        workload.declaration =
            Some(Box::new(Declaration { name, mesh: Some(mesh), ..Declaration::default() }));
        Ok(workload)
    }

    /// What inner and outer groups are called.
    fn group_names(&self) -> [&'static str; 2] {
        match self.parallelism {
            Parallelism::HybridCustomized => ["inner", "outer"],
            Parallelism::HybridModelData => ["data", "model"],
            _ => ["model", "data"],
        }
    }
}

/// How many NPUs there are, and how many of them an inner group has.
#[derive(Clone, Copy)]
struct Machine {
    npus: u32,
    inner: u32,
}

impl Machine {
    /// The slot of `scope`, given in the order of first use; `None` for a group of one.
    fn slot(self, scope: Scope, slots: &mut Vec<Scope>) -> Option<u32> {
        // Everybody by another name is everybody.
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
            Scope::Inner => self.inner,
            Scope::Outer => self.npus / self.inner,
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
