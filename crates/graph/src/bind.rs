//! A mesh with a program for each of its points, as a workload: the rank map and the groups.

use crate::mesh::{Along, Mesh, points, position};
use crate::workload::{Footprint, Group, Members, RankBinding, Workload};
use crate::{Problem, Program};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A program and the families behind its slots; "" stands for everybody.
pub type NamedProgram = (Arc<Program>, Vec<String>);

impl Mesh {
    /// Binds one program a point of the axes `by` to the ranks. Groups are named `family.0`,
    /// `family.1`, ... by their first rank.
    ///
    /// # Errors
    /// A mesh that does not hold together, a number of programs that is not that of the points, a
    /// group family without a declaration.
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

/// The groups that are used.
struct Groups<'m> {
    mesh: &'m Mesh,
    ranks: u32,
    list: Vec<Group>,
    /// Axes of each family, and for each rank that comes first in its group that group.
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
