//! Ranks as the points of a mesh: the workload of a parallelised model, said in a few lines
//! whatever its size.
//!
//! Here: which program a point runs. Not here: programs and groups bound to ranks (`bind.rs`), what
//! the programs do (`python/armillary/workload`). `rank = sum(coordinate * stride)`, the first axis
//! having stride 1.

use crate::Problem;

/// Ranks a mesh may have; rank numbers and group tables then fit in 32 bits.
const MOST_RANKS: u64 = 1 << 24;

/// One axis: a kind of parallelism and its degree.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name, `tp`.
    pub name: String,
    /// Points along it.
    pub size: u32,
}

/// A family of groups: one for each set of ranks that differ only along some axes.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// The name that programs use for theirs.
    pub name: String,
    /// Names of the axes, the one along which positions run fastest first.
    pub axes: Vec<String>,
}

/// Axes, group families and the axes that decide which program a rank runs.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mesh {
    /// Axes, the first one fastest.
    pub axes: Vec<Axis>,
    /// Group families.
    pub groups: Vec<Family>,
    /// Program `i` is that of point `i` of these axes, the first one fastest.
    pub by: Vec<String>,
}

/// An axis in the numbering of ranks.
#[derive(Clone, Copy)]
pub(crate) struct Along {
    pub stride: u32,
    pub size: u32,
}

impl Mesh {
    /// Number of ranks.
    ///
    /// # Errors
    /// An axis without points or with the name of another, or more than 2^24 ranks.
    pub fn ranks(&self) -> Result<u32, Problem> {
        let names: Vec<String> = self.axes.iter().map(|axis| axis.name.clone()).collect();
        if let Some(twice) = repeated(&names) {
            return Err(Problem::new("", "axes", format!("axis {twice:?} appears twice"))
                .help("names that differ"));
        }
        let mut ranks = 1u64;
        for axis in &self.axes {
            ranks = ranks.saturating_mul(u64::from(axis.size));
            if axis.size == 0 || ranks > MOST_RANKS {
                let sizes: Vec<String> =
                    self.axes.iter().map(|a| format!("{}={}", a.name, a.size)).collect();
                let message = format!("the mesh {} has no ranks or too many", sizes.join(" "));
                return Err(Problem::new("", "axes", message)
                    .help("sizes of at least 1, with a product of at most 16,777,216"));
            }
        }
        Ok(ranks as u32)
    }

    /// The first rank of each program.
    ///
    /// # Errors
    /// An axis that is not there, or no mesh at all.
    pub fn representatives(&self) -> Result<Vec<u32>, Problem> {
        self.ranks()?;
        Ok(points(&self.along("by", &self.by)?))
    }

    /// Points of the axes `by`; 0 for a mesh that does not hold together.
    pub fn points(&self) -> usize {
        self.along("by", &self.by)
            .map_or(0, |by| by.iter().map(|axis| axis.size as usize).product())
    }

    /// The point of the axes `by` that a rank lies at, which is the index of its program.
    pub fn point(&self, rank: u32) -> usize {
        self.along("by", &self.by).map_or(0, |by| position(&by, rank) as usize)
    }

    pub(crate) fn along(&self, place: &str, names: &[String]) -> Result<Vec<Along>, Problem> {
        if let Some(twice) = repeated(names) {
            return Err(Problem::new("", place, format!("axis {twice:?} is named twice"))
                .help("each axis once"));
        }
        let find = |name: &String| {
            let at = self.axes.iter().position(|a| a.name == *name).ok_or_else(|| {
                let known: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
                Problem::new("", place, format!("unknown axis {name:?}")).help(known.join(", "))
            })?;
            Ok(Along {
                stride: self.axes[..at].iter().map(|a| a.size).product(),
                size: self.axes[at].size,
            })
        };
        names.iter().map(find).collect()
    }
}

fn repeated(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)).map(|(_, name)| name)
}

/// The index of a rank along `axes`, the first one fastest.
pub(crate) fn position(axes: &[Along], rank: u32) -> u32 {
    axes.iter().rev().fold(0, |index, a| index * a.size + rank / a.stride % a.size)
}

/// The ranks of all points of `axes` in order, the other coordinates being 0.
pub(crate) fn points(axes: &[Along]) -> Vec<u32> {
    axes.iter().fold(vec![0], |points, a| {
        (0..a.size).flat_map(|i| points.iter().map(move |p| p + i * a.stride)).collect()
    })
}
