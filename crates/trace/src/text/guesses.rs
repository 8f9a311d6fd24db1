//! Which layers and training loops the names of nodes suggest.
//!
//! Here: guesses. Not here: whether one is right (`recover.rs`).

use super::layers::{
    Blocks, Layer, LayerParallelism, Layers, Parallelism, Part, Pass, Recompute, Scope, Update,
};
use super::steps::{Step, What};
use graph::Program;

/// Roles that the names of the nodes suggest.
#[derive(Default)]
pub(super) struct Found {
    layers: Vec<Layer>,
    /// For each layer and pass who takes part in its collective.
    scopes: Vec<[Option<Scope>; 3]>,
    /// For each layer and pass how long its update takes; a text has one time for all three.
    updates: Vec<[Option<u64>; 3]>,
    recompute: Recompute,
    /// The first layer whose first forward computation waits for more than the one before.
    joins: Option<usize>,
    /// How often they run.
    pub passes: u32,
}

impl Found {
    /// Possible roles of the nodes. The first pass forward shows the layers, but where the last
    /// layer starts a recomputation the way back begins with forward computations too; then the
    /// number of weight gradients and the names distinguish them.
    pub fn all(steps: &[Step], program: &Program) -> Vec<Found> {
        let Some(first) = steps.first() else { return Vec::new() };
        let is_compute = |step: &&Step| matches!(step.what, What::Compute(_));
        let sweep = steps.iter().take_while(|step| step.pass == Pass::Forward).filter(is_compute);
        let names: Vec<&str> = sweep.map(|step| step.layer).collect();
        if names.is_empty() {
            return vec![Found::micro(first.layer, steps)];
        }
        let gradients = steps
            .iter()
            .filter(is_compute)
            .filter(|step| step.pass == Pass::WeightGradient)
            .count();
        let all = names.len();
        let fits = |&count: &usize| {
            let again = all - count;
            let from = (count - 1).checked_sub(again);
            gradients.is_multiple_of(count)
                && from.is_some_and(|from| names[count..] == names[from..count - 1])
        };
        let fewer = (all.div_ceil(2)..all).rev().filter(fits);
        let counts = std::iter::once(all).chain(fewer);
        let forwards =
            steps.iter().filter(is_compute).filter(|step| step.pass == Pass::Forward).count();
        // Each layer has a weight gradient a pass; where some have none, a forward computation.
        let guesses = |count: usize| {
            let by = [gradients, forwards].map(|nodes| (nodes / count).max(1));
            by.into_iter()
                .take(if by[0] == by[1] { 1 } else { 2 })
                .map(move |passes| (count, passes))
        };
        counts
            .flat_map(guesses)
            .map(|(count, passes)| Found::new(steps, program, count, passes))
            .collect()
    }

    /// With `count` layers.
    fn new(steps: &[Step], program: &Program, count: usize, passes: usize) -> Found {
        // Passes are alike.
        let steps = &steps[..steps.len() / passes];
        let is_forward = |i: &usize| {
            steps[*i].pass == Pass::Forward && matches!(steps[*i].what, What::Compute(_))
        };
        let mut found =
            Found { passes: u32::try_from(passes).unwrap_or(u32::MAX), ..Found::default() };
        let sweep =
            (0..steps.len()).take_while(|&i| steps[i].pass == Pass::Forward).filter(is_forward);
        found.joins = sweep.take(count).position(|i| program.deps(i).len() > 1);
        let next = (0..steps.len()).filter(is_forward).nth(count).unwrap_or(steps.len());
        let backward =
            steps.iter().position(|step| step.pass != Pass::Forward).unwrap_or(steps.len());
        let (forward, rest) = steps.split_at(next.min(backward));
        found.forward(forward);
        found.backward(rest);
        found
    }

    fn add(&mut self, name: &str) {
        let (name, none) = (name.to_string(), Part::default());
        self.layers.push(Layer {
            name,
            reserved: -1,
            forward: none,
            input_gradient: none,
            weight_gradient: none,
            update: Update::Whole(0),
            own: None,
        });
        self.scopes.push([None; 3]);
        self.updates.push([None; 3]);
    }

    fn forward(&mut self, steps: &[Step]) {
        for step in steps {
            if matches!(step.what, What::Compute(_)) {
                self.add(step.layer);
            }
            if let Some(last) = self.layers.len().checked_sub(1) {
                self.set(last, step);
            }
        }
    }

    /// Nothing but collectives, all of one layer.
    fn micro(name: &str, steps: &[Step]) -> Found {
        let collectives =
            steps.iter().filter(|step| matches!(step.what, What::Collective(..))).count();
        let mut found = Found {
            passes: u32::try_from(collectives.max(1)).unwrap_or(u32::MAX),
            ..Found::default()
        };
        found.add(name);
        steps.iter().take(2).for_each(|step| found.set(0, step));
        found
    }

    /// The first pass backwards: each input or weight gradient is that of the next layer of its
    /// name.
    fn backward(&mut self, steps: &[Step]) {
        // The layers not yet reached by each pass, and how many were computed forward once more.
        let (mut below, mut again) = ([self.layers.len(); 3], None);
        for step in steps {
            let is_compute = matches!(step.what, What::Compute(_));
            if step.pass == Pass::Forward {
                // A recomputation, that ends where input gradients go on.
                again = Some(again.unwrap_or(0) + usize::from(is_compute));
                continue;
            }
            let below = &mut below[step.pass as usize];
            if is_compute {
                let named =
                    self.layers[..*below].iter().rposition(|layer| layer.name == step.layer);
                // No layer of that name is left, so the loop has ended.
                let Some(named) = named else { return };
                *below = named;
            }
            let layer = *below;
            if layer == self.layers.len() {
                continue;
            }
            self.set(layer, step);
            if let (Some(count), true) =
                (again.take_if(|_| is_compute), step.pass == Pass::InputGradient)
                && let Some(from) = layer.checked_sub(count)
            {
                self.recompute.checkpoints.push(from as u32);
                self.recompute.starts.push(layer as u32);
            }
        }
    }

    fn set(&mut self, index: usize, step: &Step) {
        let layer = &mut self.layers[index];
        let part = match step.pass {
            Pass::Forward => &mut layer.forward,
            Pass::InputGradient => &mut layer.input_gradient,
            Pass::WeightGradient => &mut layer.weight_gradient,
        };
        match step.what {
            What::Compute(ns) => part.compute = ns,
            What::Update(ns) => self.updates[index][step.pass as usize] = Some(ns),
            What::Collective(kind, bytes, scope) => {
                (part.collective, part.bytes) = (Some(kind), bytes);
                self.scopes[index][step.pass as usize] = Some(scope);
            }
        }
    }

    /// Texts that may be the workload, and the size of the inner groups for each; the commonest
    /// first.
    pub fn candidates(&self, npus: u32, blocks: Option<Blocks>) -> Vec<(Layers, u32)> {
        let mut all = vec![(self.layers(Parallelism::Data), 1)];
        if let Some(blocks) = blocks.filter(|blocks| blocks.below > 1) {
            all.push((self.transformer(blocks), npus));
            return all;
        }
        let sizes = blocks.map_or(vec![npus, 1], |blocks| vec![blocks.inner]);
        for &inner in &sizes {
            all.push((self.transformer(Blocks { below: 1, inner }), inner));
        }
        for &below in &sizes {
            all.push((self.transformer(Blocks { below, inner: npus / below }), below));
        }
        all.push((self.layers(Parallelism::Model), 1));
        for size in sizes {
            all.push((self.layers(Parallelism::HybridDataModel), size));
            all.push((self.layers(Parallelism::HybridModelData), size));
            all.push((self.customized(), size));
        }
        all.extend(
            [false, true].into_iter().filter_map(|enhanced| Some((self.dlrm(enhanced)?, 1))),
        );
        all.push((self.layers(Parallelism::DistributedInference), 1));
        all.push((self.layers(Parallelism::Micro), 1));
        all
    }

    fn transformer(&self, blocks: Blocks) -> Layers {
        let recompute = (!self.recompute.starts.is_empty()).then(|| self.recompute.clone());
        self.layers(Parallelism::Transformer { blocks, recompute })
    }

    fn layers(&self, parallelism: Parallelism) -> Layers {
        let with_update = |(layer, updates): (&Layer, &[Option<u64>; 3])| {
            let update = updates.iter().flatten().next().copied().unwrap_or(0);
            Layer { update: Update::Whole(update), ..layer.clone() }
        };
        Layers {
            parallelism,
            layers: self.layers.iter().zip(&self.updates).map(with_update).collect(),
        }
    }

    fn customized(&self) -> Layers {
        let mut layers = self.layers(Parallelism::HybridCustomized);
        for (layer, scopes) in layers.layers.iter_mut().zip(&self.scopes) {
            let activations = scopes[0].or(scopes[1]);
            layer.own = Some(match (activations, scopes[2]) {
                (Some(Scope::Everybody), _) => LayerParallelism::Model,
                (Some(Scope::Inner), _) | (None, Some(Scope::Outer)) => {
                    LayerParallelism::HybridDataModel
                }
                (Some(Scope::Outer), _) | (None, Some(Scope::Inner)) => {
                    LayerParallelism::HybridModelData
                }
                // Groups of experts are never recognized.
                (None, Some(Scope::Everybody | Scope::Experts | Scope::ExpertData) | None)
                | (Some(Scope::Experts | Scope::ExpertData), _) => LayerParallelism::Data,
            });
        }
        layers
    }

    /// The embedding's gradients are exchanged after the input gradient of the layer above the
    /// bottom MLP, where `backward` put them.
    fn dlrm(&self, enhanced: bool) -> Option<Layers> {
        let above = self.layers.iter().rposition(|layer| layer.input_gradient.collective.is_some());
        let top = above.or(self.joins)?;
        let parallelism = Parallelism::Dlrm { last_bottom: top.checked_sub(1)? as u32, enhanced };
        if above.is_none() {
            return Some(self.layers(parallelism));
        }
        let mut moved = Found {
            layers: self.layers.clone(),
            updates: self.updates.clone(),
            ..Found::default()
        };
        let (compute, pass) =
            (moved.layers[top].input_gradient.compute, Pass::InputGradient as usize);
        let exchange = std::mem::replace(
            &mut moved.layers[top].input_gradient,
            Part { compute, ..Part::default() },
        );
        moved.layers[0].input_gradient = Part { compute: 0, ..exchange };
        moved.updates[0][pass] = moved.updates[top][pass].take();
        Some(moved.layers(parallelism))
    }
}
