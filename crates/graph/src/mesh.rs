//! Ranks as the points of a mesh: the workload of a parallelised model, said in a few lines
//! whatever its size.
//!
//! Here: which program a point runs, and the groups along the axes. Not here: what the programs do
//! (`python/armillary/workload`). `rank = sum(coordinate * stride)`, the first axis having stride
//! 1.

use crate::{Footprint, Group, Members, Problem, Program, RankBinding, Workload};
use rustc_hash::FxHashMap;
use std::sync::Arc;

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

/// A program and the families behind its slots; "" stands for everybody.
pub type NamedProgram = (Arc<Program>, Vec<String>);

/// An axis in the numbering of ranks.
#[derive(Clone, Copy)]
struct Along {
    stride: u32,
    size: u32,
}

impl Mesh {
    /// Number of ranks.
    ///
    /// # Errors
    /// An axis without points or with the name of another, or more than 2^24 ranks.
    pub fn ranks(&self) -> Result<u32, Problem> {
        let names: Vec<String> = self.axes.iter().map(|axis| axis.name.clone()).collect();
        if let Some(twice) = repeated(&names) {
            return Err(Problem::new("", "axes", format!("axis {twice:?} is there twice"))
                .help("names that differ"));
        }
        let mut ranks = 1u64;
        for axis in &self.axes {
            ranks = ranks.saturating_mul(u64::from(axis.size));
            if axis.size == 0 || ranks > MOST_RANKS {
                let sizes: Vec<String> =
                    self.axes.iter().map(|a| format!("{}={}", a.name, a.size)).collect();
                let message = format!("the mesh {} has no rank or too many", sizes.join(" "));
                return Err(Problem::new("", "axes", message)
                    .help("sizes from 1, of product 1 to 16,777,216"));
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

    /// Binds one program a point of the axes `by` to the ranks. Groups are named `family.0`,
    /// `family.1`, ... by their first rank.
    ///
    /// # Errors
    /// A mesh that does not hold together, a number of programs that is not that of the points, a
    /// group family nobody declared.
    pub fn bind(
        &self,
        programs: &[NamedProgram],
        footprints: Vec<Footprint>,
    ) -> Result<Workload, Problem> {
        let ranks = self.ranks()?;
        let by = self.along("by", &self.by)?;
        let expected = by.iter().map(|a| a.size).product::<u32>();
        if programs.len() != expected as usize {
            let message =
                format!("{} programs for {expected} points along {:?}", programs.len(), self.by);
            return Err(Problem::new("", "programs", message).help(format!("{expected}")));
        }
        let mut groups = Groups::new(self, ranks);
        let mut workload = Workload { footprints, ..Workload::default() };
        workload.programs = distinct(programs);
        let number: FxHashMap<_, _> =
            workload.programs.iter().enumerate().map(|(i, p)| (Arc::as_ptr(p), i as u32)).collect();
        if !workload.footprints.is_empty() {
            let of = |p: &Arc<Program>| {
                programs.iter().position(|(q, _)| Arc::ptr_eq(p, q)).expect("one of them")
            };
            workload.footprints =
                workload.programs.iter().map(|p| workload.footprints[of(p)]).collect();
        }
        for rank in 0..ranks {
            let (program, names) = &programs[position(&by, rank) as usize];
            let slots = workload.slots.len() as u32;
            for name in names {
                workload.slots.push(groups.of(name, rank)?);
            }
            workload.ranks.push(RankBinding { program: number[&Arc::as_ptr(program)], slots });
        }
        workload.groups = groups.list;
        Ok(workload)
    }

    fn along(&self, place: &str, names: &[String]) -> Result<Vec<Along>, Problem> {
        if let Some(twice) = repeated(names) {
            return Err(Problem::new("", place, format!("axis {twice:?} is named twice"))
                .help("each axis once"));
        }
        let find = |name: &String| {
            let at = self.axes.iter().position(|a| a.name == *name).ok_or_else(|| {
                let known: Vec<&str> = self.axes.iter().map(|a| a.name.as_str()).collect();
                Problem::new("", place, format!("there is no axis {name:?}")).help(known.join(", "))
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

/// Each program once, in the order of first appearance.
fn distinct(programs: &[NamedProgram]) -> Vec<Arc<Program>> {
    let mut list: Vec<Arc<Program>> = Vec::new();
    for (program, _) in programs {
        if !list.iter().any(|p| Arc::ptr_eq(p, program)) {
            list.push(program.clone());
        }
    }
    list
}

/// The index of a rank along `axes`, the first one fastest.
fn position(axes: &[Along], rank: u32) -> u32 {
    axes.iter().rev().fold(0, |index, a| index * a.size + rank / a.stride % a.size)
}

/// The ranks of all points of `axes` in order, the other coordinates being 0.
fn points(axes: &[Along]) -> Vec<u32> {
    axes.iter().fold(vec![0], |points, a| {
        (0..a.size).flat_map(|i| points.iter().map(move |p| p + i * a.stride)).collect()
    })
}

/// The groups that are used.
struct Groups<'m> {
    mesh: &'m Mesh,
    ranks: u32,
    list: Vec<Group>,
    /// By family: its axes, and for each rank that comes first in its group that group.
    known: FxHashMap<String, (Vec<Along>, Vec<u32>)>,
    everybody: Option<u32>,
}

impl<'m> Groups<'m> {
    fn new(mesh: &'m Mesh, ranks: u32) -> Groups<'m> {
        Groups { mesh, ranks, list: Vec::new(), known: FxHashMap::default(), everybody: None }
    }

    /// The group of `rank` in a family, the whole family being made at its first use.
    fn of(&mut self, name: &str, rank: u32) -> Result<u32, Problem> {
        if name.is_empty() {
            return Ok(self.everybody());
        }
        if !self.known.contains_key(name) {
            let family = self.family(name)?;
            self.known.insert(name.to_string(), family);
        }
        let (axes, first) = &self.known[name];
        let base = axes.iter().fold(rank, |base, a| base - rank / a.stride % a.size * a.stride);
        Ok(first[base as usize])
    }

    fn everybody(&mut self) -> u32 {
        *self.everybody.get_or_insert_with(|| {
            self.list.push(Group { name: "world".into(), members: Members::All });
            self.list.len() as u32 - 1
        })
    }

    fn family(&mut self, name: &str) -> Result<(Vec<Along>, Vec<u32>), Problem> {
        let family = self.mesh.groups.iter().find(|f| f.name == name).ok_or_else(|| {
            let known: Vec<&str> = self.mesh.groups.iter().map(|f| f.name.as_str()).collect();
            Problem::new(
                "",
                "groups",
                format!("a program uses group {name:?}, which is not declared"),
            )
            .help(known.join(", "))
        })?;
        let axes = self.mesh.along(&format!("groups.{name}"), &family.axes)?;
        let mut first = vec![u32::MAX; self.ranks as usize];
        let bases =
            (0..self.ranks).filter(|rank| axes.iter().all(|a| rank / a.stride % a.size == 0));
        for (number, base) in bases.enumerate() {
            first[base as usize] = self.list.len() as u32;
            self.list.push(Group {
                name: format!("{name}.{number}"),
                members: members(&axes, base, self.ranks),
            });
        }
        Ok((axes, first))
    }
}

/// The ranks along `axes` from `base` on.
fn members(axes: &[Along], base: u32, world: u32) -> Members {
    let long: Vec<Along> = axes.iter().copied().filter(|a| a.size > 1).collect();
    let even = long.windows(2).all(|w| w[1].stride == w[0].stride * w[0].size);
    match long.first() {
        Some(first) if even => {
            let count = long.iter().map(|a| a.size).product();
            if count == world {
                Members::All
            } else {
                Members::Strided { first: base, count, step: first.stride }
            }
        }
        None if world == 1 => Members::All,
        None => Members::Strided { first: base, count: 1, step: 1 },
        _ => Members::List(points(&long).into_iter().map(|p| base + p).collect()),
    }
}

#[cfg(test)]
#[path = "mesh_tests.rs"]
mod tests;
