//! The pass of a training step that an operation belongs to, by the words of its name.
//!
//! Lists of layers, texts, convolutional networks and recommendation models write the pass as a
//! word (`fc.weight_gradient.all_reduce`). Generated language models write
//! `<micro-batch>.<layer>.<operation>`: gradients end in `grad`, those of weights in `wgrad`, and
//! recomputation is called `again`.

use graph::Program;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Pass {
    Forward,
    /// Gradients of inputs, and of weights where one operation computes both.
    InputGradient,
    WeightGradient,
    Recompute,
    /// No pass, or a name that does not say it.
    Other,
}

impl Pass {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Pass::Forward => "forward",
            Pass::InputGradient => "input_gradient",
            Pass::WeightGradient => "weight_gradient",
            Pass::Recompute => "recompute",
            Pass::Other => "other",
        }
    }

    /// The pass of a node. Only a name that does not say its layer may begin with a micro-batch: such
    /// a node has a label, in files as well.
    pub(super) fn of_node(program: &Program, node: usize) -> Pass {
        Pass::of(program.name(node), program.label(node).is_some())
    }

    fn of(name: &str, labelled: bool) -> Pass {
        let written = [Pass::Forward, Pass::InputGradient, Pass::WeightGradient];
        let word = |word: &str| written.into_iter().find(|pass| pass.name() == word);
        let words = micro_batch(name).filter(|_| labelled).map(|(_, words)| Pass::of_words(words));
        name.split('.').rev().find_map(word).or(words).unwrap_or(Pass::Other)
    }

    /// The pass that follows from the words of a name after the micro-batch.
    pub(super) fn of_words(words: &str) -> Pass {
        let mut pass = Pass::Forward;
        for (place, word) in words.split('.').enumerate() {
            match word {
                "again" => return Pass::Recompute,
                "wgrad" | "accumulate" => pass = Pass::WeightGradient,
                "gradients" if place <= 1 => pass = Pass::WeightGradient,
                "regather" if place == 0 => pass = Pass::InputGradient,
                _ if word.ends_with("grad") || word.ends_with("_again") => {
                    pass = Pass::InputGradient;
                }
                _ => {}
            }
        }
        pass
    }
}

/// The micro-batch that a name begins with, and the words after it.
pub(super) fn micro_batch(name: &str) -> Option<(&str, &str)> {
    let (first, words) = name.split_once('.')?;
    let numbered = !first.is_empty() && first.bytes().all(|letter| letter.is_ascii_digit());
    numbered.then_some((first, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_passes() {
        let generated = [
            ("0.layer3.qkv", Pass::Forward),
            ("0.layer3.qkv.dgrad", Pass::InputGradient),
            ("0.layer3.up.wgrad", Pass::WeightGradient),
            ("0.layer3.again.up", Pass::Recompute),
            ("0.layer3.attention.reduce_grad", Pass::InputGradient),
            ("0.layer3.attention.gather_again", Pass::InputGradient),
            ("0.receive_grad.0", Pass::InputGradient),
            ("0.layer3.gradients.dp", Pass::WeightGradient),
            ("0.gather.layer3.parameters.dp", Pass::Forward),
            ("0.regather.layer3.parameters.dp", Pass::InputGradient),
            ("step.optimizer", Pass::Other),
            ("layer1.0.conv2.forward.normalization", Pass::Forward),
            ("fc.weight_gradient.all_reduce", Pass::WeightGradient),
            ("forward.input_gradient.update", Pass::InputGradient),
        ];
        for (name, pass) in generated {
            assert_eq!(Pass::of(name, true), pass, "{name}");
        }
    }

    #[test]
    fn names_of_others_tell_no_pass_by_chance() {
        for name in ["", "0.layer3.qkv.dgrad", "ncclKernel_AllReduce", "forward_all"] {
            assert_eq!(Pass::of(name, false), Pass::Other, "{name}");
        }
    }
}
