//! SimAI's dialect of the text: its first line, its words, and who communicates.
//!
//! SimAI reads the Transformer loops of ASTRA-sim 1.0 with more keys in the first line and more
//! words for collectives. AICB writes such files. With `t` ranks of `model_parallel_NPU_group` and
//! `e` of `ep`, rank `r` has the model position `r % t` and the expert position `r / t % e`. A
//! collective of activations is that of the `t` ranks that differ by the model position, one of
//! weights that of all ranks with the same model position. `_EP` means the `e` ranks that differ by
//! the expert position, `_DP_EP` those that share both positions. Sizes are whole buffers: that of
//! an ALLGATHER is its output, and each rank contributes a part of it. `ga` and `vpp` change
//! nothing without a pipeline: AICB has written the layers `ga` times. BROADCAST has a size and
//! moves nothing in SimAI.
//!
//! Not here: other words and numbers (`parse.rs`), the loop (`loops.rs`). Source: SimAI,
//! `astra-sim/workload/Workload.cc` (keys, words, loop) and `astra-sim/system/MockNcclGroup.cc`
//! (groups, parts of buffers); AICB, `workload_generator/SimAI_training_workload_generator.py`
//! (repeated layers, sizes).

use super::dialect::{AGAIN, FORM, Reach, SimAi};
use super::labels::MODEL_GROUP;
use super::layers::{Layers, Parallelism, Pass, Scope};
use super::parse::{Header, Parser, short};
use graph::CollectiveKind::{AllGather, Broadcast};

impl Parser<'_> {
    /// The first line of SimAI's dialect: keys with a number each, in any order.
    pub(super) fn simai(&mut self, header: &mut Header) -> Option<SimAi> {
        let mut found = SimAi { again: header.word == AGAIN, ..SimAi::default() };
        let mut seen: Vec<&str> = Vec::new();
        while let Some((&key, rest)) = header.rest.split_first() {
            let name = key.trim_end_matches(':');
            if seen.contains(&name) {
                let message = format!("{} appears twice", short(name));
                return self.refuse(header.place(), message, "each key once");
            }
            seen.push(name);
            header.rest = rest;
            match key {
                MODEL_GROUP
                | "ep:"
                | "pp:"
                | "vpp:"
                | "ga:"
                | "all_gpus:"
                | "pp_comm:"
                | "pp_comm"
                | "checkpoints:"
                | "checkpoint_initiates:" => {
                    let number = self.number(header, key)?;
                    self.key_of_simai(header, name, number, &mut found)?;
                }
                _ => {
                    let message = format!("\"{}\" is not a key of SimAI's first line", short(key));
                    return self.refuse(header.place(), message, FORM);
                }
            }
        }
        if found.model == 0 {
            return self.refuse(header.place(), format!("{MODEL_GROUP} is missing"), FORM);
        }
        Some(found)
    }

    fn key_of_simai(
        &mut self,
        header: &Header,
        name: &str,
        number: u32,
        found: &mut SimAi,
    ) -> Option<()> {
        let place = header.place();
        match (name, number) {
            ("checkpoints" | "checkpoint_initiates", 0) => {}
            ("checkpoints" | "checkpoint_initiates", _) => {
                let message = format!("{name} is {number}, but SimAI repeats no forward pass");
                return self.refuse(place, message, "0");
            }
            ("pp_comm", 0) => found.pipeline_bytes = Some(0),
            ("pp" | "pp_comm", 2..) => {
                let message = format!("{name} is {number}: the text has no pipeline");
                let help = "pp: 1 and pp_comm: 0; SimAI's loop runs one stage, and a formula adds the pipeline to its report";
                return self.refuse(place, message, help);
            }
            (_, 0) => return self.refuse(place, format!("{name} is 0"), "1 or more"),
            ("ep", _) => found.experts = Some(number),
            ("pp", _) => found.pipeline = Some(number),
            ("vpp", _) => found.stage = Some(number),
            ("ga", _) => found.repeats = Some(number),
            ("all_gpus", _) => found.ranks = Some(number),
            ("pp_comm", _) => return self.refuse(place, format!("pp_comm is {number}"), "0"),
            _ => found.model = number,
        }
        Some(())
    }

    /// The dialect of a text with these layers: words that only SimAI has make it SimAI's.
    pub(super) fn dialect(&mut self, layers: Layers, line: usize) -> Option<Layers> {
        let parts =
            || layers.layers.iter().flat_map(|layer| Pass::ALL.map(|pass| layer.part(pass)));
        let experts = parts().find(|part| part.reach != Reach::Own);
        let word = experts.or_else(|| parts().find(|part| part.collective == Some(Broadcast)));
        let Some(word) = word.map(|part| part.word()) else { return Some(layers) };
        let place = format!("line {line}");
        let parallelism = match &layers.parallelism {
            Parallelism::SimAi(simai) => Parallelism::SimAi(simai.clone()),
            Parallelism::Transformer { blocks, recompute }
                if blocks.below == 1
                    && recompute.as_ref().is_none_or(|r| *r == Default::default()) =>
            {
                let again = recompute.is_some();
                Parallelism::SimAi(SimAi { again, model: blocks.inner, ..SimAi::default() })
            }
            other => {
                let message = format!("{word} is a word of SimAI, and {} is not", other.word());
                return self.refuse(place, message, format!("{AGAIN} {FORM}"));
            }
        };
        let Parallelism::SimAi(SimAi { experts: None, .. }) = parallelism else {
            return Some(Layers { parallelism, ..layers });
        };
        if experts.is_some() {
            let message = format!("the first line does not say ep, which {word} needs");
            return self.refuse(place, message, FORM);
        }
        Some(Layers { parallelism, ..layers })
    }
}

impl Layers {
    /// The same with the sizes of ASTRA-sim 1.0: of an all-gather a rank's contribution. `count`
    /// gives the members of a group.
    pub(super) fn contributions(&self, count: impl Fn(Scope) -> u32) -> Option<Layers> {
        let Parallelism::SimAi(_) = self.parallelism else { return None };
        let mut layers = self.clone();
        for index in 0..layers.layers.len() {
            for pass in Pass::ALL {
                let Some(scope) = self.scope(index, pass) else { continue };
                let layer = &mut layers.layers[index];
                let part = match pass {
                    Pass::Forward => &mut layer.forward,
                    Pass::InputGradient => &mut layer.input_gradient,
                    Pass::WeightGradient => &mut layer.weight_gradient,
                };
                if part.collective == Some(AllGather) {
                    part.bytes = part.bytes.div_ceil(count(scope).max(1).into());
                }
            }
        }
        Some(layers)
    }
}
