//! Settings of the optimizers. Their arithmetic is in `row.rs`.

/// How a gradient changes a row. The formulas are those of `torch.optim` where it has them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// `w -= lr g`
    Sgd,
    /// `s += g^2; w -= lr g / (sqrt(s) + eps)`, with `s` for each element (Duchi et al. 2011)
    AdaGrad {
        /// Added to the root.
        eps: f32,
    },
    /// The same with one `s` for each row, which grows by the mean of the row's `g^2` (Gupta et al.
    /// 2014; Neo, section 4.1.2)
    RowWiseAdaGrad {
        /// Added to the root.
        eps: f32,
    },
    /// Means of `g` and `g^2` that forget, only in rows of the batch (Kingma and Ba 2015)
    Adam {
        /// How much the mean of `g` keeps.
        beta1: f32,
        /// How much the mean of `g^2` keeps.
        beta2: f32,
        /// Added to the root.
        eps: f32,
    },
    /// Adam's step, scaled to the length of the row (You et al. 2020; a row is a layer here)
    Lamb {
        /// How much the mean of `g` keeps.
        beta1: f32,
        /// How much the mean of `g^2` keeps.
        beta2: f32,
        /// Added to the root.
        eps: f32,
    },
}

impl Rule {
    /// Numbers of each row's state, part by part, for rows of `dim` elements.
    pub fn state(&self, dim: usize) -> Vec<usize> {
        match self {
            Self::Sgd => Vec::new(),
            Self::AdaGrad { .. } => vec![dim],
            Self::RowWiseAdaGrad { .. } => vec![1],
            Self::Adam { .. } | Self::Lamb { .. } => vec![dim, dim],
        }
    }
}

/// Sums over all columns that an update needs of whole rows. A table that has some of the columns
/// takes those of the others from outside, in rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Squares of the gradient, by which its length is clipped.
    Clip,
    /// Sums that the rule needs: squares of the gradient for row-wise AdaGrad, those of Adam's step
    /// and of the weights for LAMB.
    Rule,
}

/// Sums over all columns of a row, as far as the rounds have come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowSums {
    /// The row.
    pub row: u64,
    /// Those of `Round::Clip`.
    pub clip: f32,
    /// Those of `Round::Rule`.
    pub rule: [f32; 2],
}

/// A rule, and what is done to every gradient before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizer {
    /// How a gradient changes a row.
    pub rule: Rule,
    /// The learning rate.
    pub learning_rate: f32,
    /// Weight decay: `weight_decay * w` is added to `g`, or `lr * weight_decay * w` taken from `w`
    /// if `decoupled`. Only rows of the batch decay.
    pub weight_decay: f32,
    /// Whether weight decay goes around the rule.
    pub decoupled: bool,
    /// Largest absolute value of an element of a row's gradient; infinite if unlimited.
    pub clip_value: f32,
    /// Largest length of a row's gradient; infinite if unlimited.
    pub clip_norm: f32,
}

impl Optimizer {
    /// Whether gradients meet the rule as they are, and weights change by it alone.
    pub fn is_plain(&self) -> bool {
        self.clip_value.min(self.clip_norm) == f32::INFINITY && self.weight_decay == 0.0
    }

    /// The rounds that a table with some columns of rows needs, in their order.
    pub fn rounds(&self) -> Vec<Round> {
        let mut rounds = Vec::new();
        if self.clip_norm < f32::INFINITY {
            rounds.push(Round::Clip);
        }
        if matches!(self.rule, Rule::RowWiseAdaGrad { .. } | Rule::Lamb { .. }) {
            rounds.push(Round::Rule);
        }
        rounds
    }
}
