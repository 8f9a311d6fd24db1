//! Ratios of compute: parts by kind of kernel, factors.

use declared::findings::{At, Findings};
use declared::{Absent, Key, Setting, Shown};
use graph::Kernel;
use std::sync::LazyLock;
use units::Ratio;

/// A ratio for each kind of kernel.
type ByKernel = [Ratio; Kernel::ALL.len()];

/// Parts of a whole that kernels reach: one for all, or by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Parts {
    /// The whole.
    #[default]
    Whole,
    /// One part for all kinds.
    Same(Ratio),
    /// Efficiencies by kind; the others reach the whole, or the efficiency of the more general
    /// kind.
    ByKind(Vec<(Kernel, Ratio)>),
}

/// The kinds of kernels as keys.
static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let key = |kernel: Kernel| {
        let general = kernel.general().map(|general| format!("as `{}`", general.name()));
        let absent = general.map_or("1", |text| text.leak());
        Key::plain(kernel.name(), part::kind, Absent::Text(absent), meaning(kernel))
    };
    Kernel::ALL.into_iter().map(key).collect()
});

fn meaning(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::Other => "Kernels of no other kind.",
        Kernel::Gemm => "Matrix multiplications.",
        Kernel::Grouped => "Matrix multiplications of experts.",
        Kernel::Convolution => "Convolutions.",
        Kernel::Attention => "Attention.",
        Kernel::UnmaskedAttention => {
            "Attention against keys of other ranks under context parallelism."
        }
        Kernel::Elementwise => "Elementwise operations.",
        Kernel::Normalization => "Normalizations.",
        Kernel::Embedding => "Lookups in embedding tables.",
        Kernel::EmbeddingUpdate => "Updates of embedding tables, with the gradients of their rows.",
        Kernel::Optimizer => "The optimizer.",
    }
}

impl Parts {
    /// The whole for every kind.
    pub(super) fn whole() -> ByKernel {
        [Ratio::ONE; Kernel::ALL.len()]
    }

    /// The part of each kind.
    pub(super) fn all(&self) -> ByKernel {
        match self {
            Parts::Whole => Parts::whole(),
            Parts::Same(part) => [*part; Kernel::ALL.len()],
            Parts::ByKind(given) => {
                let mut all = Parts::whole();
                for kernel in Kernel::ALL {
                    let own = given.iter().find(|(other, _)| *other == kernel);
                    let general = kernel.general().map(|general| all[general as usize]);
                    if let Some(part) = own.map(|own| own.1).or(general) {
                        all[kernel as usize] = part;
                    }
                }
                all
            }
        }
    }

    /// Parts from which the same efficiencies are read back.
    pub(super) fn of(all: ByKernel) -> Parts {
        let usual =
            |kernel: Kernel| kernel.general().map_or(Ratio::ONE, |general| all[general as usize]);
        let given: Vec<(Kernel, Ratio)> =
            Kernel::ALL.into_iter().zip(all).filter(|(k, part)| *part != usual(*k)).collect();
        if given.is_empty() { Parts::Whole } else { Parts::ByKind(given) }
    }
}

impl Setting for Parts {
    fn keys() -> &'static [Key] {
        &KEYS
    }

    fn kind() -> String {
        "ratio, or ratios by kind".into()
    }

    fn example() -> String {
        part::example()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Parts> {
        if !at.is_map() {
            return part::read(at, findings).map(Parts::Same);
        }
        findings.declared(at, &KEYS)?;
        let before = findings.problems.len();
        let mut given = Vec::new();
        for kernel in Kernel::ALL {
            let found = at.get(kernel.name()).and_then(|at| part::read(&at, findings));
            given.extend(found.map(|part| (kernel, part)));
        }
        (findings.problems.len() == before).then_some(Parts::ByKind(given))
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Parts::Whole => None,
            Parts::Same(part) => part.show(),
            Parts::ByKind(given) => {
                let entry = |(kernel, part): &(Kernel, Ratio)| (kernel.name(), Shown::of(part));
                Some(Shown::Map(given.iter().map(entry).collect()))
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        let value = |(kernel, part): (Kernel, Ratio)| (kernel.name().to_string(), part.0.into());
        serde_json::Value::Object(Kernel::ALL.into_iter().zip(self.all()).map(value).collect())
    }
}

/// A part of a whole, above 0.
mod part {
    use declared::findings::{At, Findings};
    use units::Ratio;

    pub(in super::super) fn kind() -> String {
        "ratio".into()
    }

    pub(in super::super) fn example() -> String {
        "a number above 0 up to 1, or a percentage up to 100 %".into()
    }

    pub(super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Ratio> {
        let part = findings.quantity::<Ratio>(at)?;
        if part > Ratio::ONE {
            findings.refuse(at, format!("{part} is more than the whole"), example());
            return None;
        }
        Some(part)
    }
}

/// A part of a whole, above 0, that may be absent.
pub(super) mod given_part {
    use crate::config::native::kernels::part;
    use declared::findings::{At, Findings};
    use declared::{Setting, Shown};
    use units::Ratio;

    pub(in super::super) use crate::config::native::kernels::part::{example, kind};

    pub(in super::super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Option<Ratio>> {
        part::read(at, findings).map(Some)
    }

    pub(in super::super) fn show(part: &Option<Ratio>) -> Option<Shown> {
        part.show()
    }

    pub(in super::super) fn json(part: &Option<Ratio>) -> serde_json::Value {
        part.json()
    }
}

/// A part of a whole that may be 0, and is below the whole.
pub(super) mod below_whole {
    use declared::findings::{At, Findings};
    use declared::tree::Value;
    use declared::{Setting, Shown};
    use units::Ratio;

    pub(in super::super) fn kind() -> String {
        "ratio".into()
    }

    pub(in super::super) fn example() -> String {
        "a number from 0 to below 1, or a percentage below 100 %".into()
    }

    pub(in super::super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Ratio> {
        let zero = match &at.tree.value {
            Value::Int(0) => true,
            Value::Float(x) => *x == 0.0,
            Value::Text(text) => text.trim_end_matches([' ', '%']).parse() == Ok(0.0),
            _ => false,
        };
        let part = if zero { Ratio(0) } else { findings.quantity(at)? };
        if part >= Ratio::ONE {
            findings.refuse(at, format!("{part} leaves kernels no speed"), example());
            return None;
        }
        Some(part)
    }

    pub(in super::super) fn show(part: &Ratio) -> Option<Shown> {
        part.show()
    }

    pub(in super::super) fn json(part: &Ratio) -> serde_json::Value {
        part.json()
    }
}

/// A factor up to a million.
pub(super) mod factor {
    use declared::findings::{At, Findings};
    use declared::{Setting, Shown};
    use units::Ratio;

    /// Largest factor on compute.
    const MOST: Ratio = Ratio(1_000_000 * Ratio::ONE.0);

    pub(in super::super) fn kind() -> String {
        Ratio::kind()
    }

    pub(in super::super) fn example() -> String {
        "a factor from 0.000001 to 1000000".into()
    }

    pub(in super::super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Ratio> {
        let factor = findings.quantity::<Ratio>(at)?;
        if factor > MOST {
            findings.refuse(at, format!("{factor} is too large"), example());
            return None;
        }
        Some(factor)
    }

    pub(in super::super) fn show(factor: &Ratio) -> Option<Shown> {
        factor.show()
    }

    pub(in super::super) fn json(factor: &Ratio) -> serde_json::Value {
        factor.json()
    }
}
