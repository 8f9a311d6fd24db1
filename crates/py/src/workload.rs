//! `_core.Workload`: reading, building and writing what the ranks do.

use crate::amounts::{self, Amount};
use crate::errors;
use crate::platform::Platform;
use crate::program::Program;
use crate::signals::minded;
use graph::{
    Axis, Declaration, Family, Footprint, Group, LoopSettings, Members, Mesh, NamedProgram,
    Offloaded, Op, Problem, RankBinding, Reading,
};
use pyo3::prelude::*;
use sim::floor;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use units::Bytes;

type Named<T> = Vec<(String, T)>;

/// Program, ranks that run it, members of the group of the first of them, kind, how many, bytes.
type Volume = (u32, u64, Vec<u32>, &'static str, u64, u128);
type Amounts = (u64, u64, u64, u64);
type Footprints = Vec<(Amounts, Amounts, Amounts)>;

#[pyclass(frozen)]
pub struct Workload(pub graph::Workload);

#[pymethods]
impl Workload {
    #[staticmethod]
    #[pyo3(signature = (path, platform = None, groups = None, passes = 1, overlap = true, bucket = None))]
    fn load(
        py: Python<'_>,
        path: PathBuf,
        platform: Option<&Platform>,
        groups: Option<String>,
        passes: u32,
        overlap: bool,
        bucket: Option<u64>,
    ) -> PyResult<Workload> {
        let loop_settings = LoopSettings { passes, overlap, bucket: bucket.map(Bytes) };
        let npus = platform.map(|p| p.0.fabric.npus());
        let sizes = platform.map(|p| p.0.sizes());
        let options = platform.map(|p| p.0.read_options()).unwrap_or_default();
        let reading = Reading { groups: groups.clone(), loop_settings, model: None };
        let read = minded(py, None, move |_| {
            let groups = groups
                .map_or(Ok(Vec::new()), |file| platform::config::astra_sim::groups(&file, npus))?;
            trace::read(&path, sizes.as_deref(), &groups, loop_settings, &options)
        })?;
        let workload = read.map_err(|problems| errors::input(py, &problems))?;
        Ok(Workload(graph::Workload { reading, ..workload }))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn mesh(
        py: Python<'_>,
        name: String,
        axes: Named<u32>,
        groups: Named<Vec<String>>,
        by: Vec<String>,
        programs: Vec<Py<Program>>,
        footprints: Footprints,
        summary: Option<String>,
        warnings: Vec<String>,
    ) -> PyResult<Workload> {
        let axes = axes.into_iter().map(|(name, size)| Axis { name, size }).collect();
        let groups = groups.into_iter().map(|(name, axes)| Family { name, axes }).collect();
        let mesh = Mesh { axes, groups, by };
        let bound = build(py, &programs)
            .and_then(|programs| mesh.bind(&programs, read_footprints(footprints)));
        let mut workload = bound.map_err(|problem| errors::input(py, &[problem]))?;
        workload.declaration =
            Some(Box::new(Declaration { name, mesh: Some(mesh), summary, warnings }));
        Ok(Workload(workload))
    }

    #[staticmethod]
    #[allow(clippy::too_many_arguments)]
    fn listed(
        py: Python<'_>,
        name: String,
        programs: Vec<Py<Program>>,
        ranks: Vec<u32>,
        groups: Named<Vec<u32>>,
        footprints: Footprints,
        summary: Option<String>,
        warnings: Vec<String>,
    ) -> PyResult<Workload> {
        let bound = build(py, &programs).and_then(|programs| list(&programs, &ranks, groups));
        let mut workload = bound.map_err(|problem| errors::input(py, &[problem]))?;
        workload.footprints = read_footprints(footprints);
        workload.declaration = Some(Box::new(Declaration { name, mesh: None, summary, warnings }));
        Ok(Workload(workload))
    }

    /// Writes into the directory `path`, which is made; `chakra` is one trace a rank, else the
    /// compact form.
    fn write(&self, py: Python<'_>, path: PathBuf, chakra: bool) -> PyResult<()> {
        let form = if chakra { trace::chakra::write_ranks } else { trace::chakra::write_compact };
        let (workload, folder) = (self.0.clone(), path.clone());
        let wrote = minded(py, None, move |_| {
            fs::create_dir_all(&folder).and_then(|()| form(&workload, &folder))
        })?;
        wrote.map_err(|error| errors::input(py, &[unwritable(&path, &error)]))
    }

    /// Whether `path` is a text workload of ASTRA-sim 1.0.
    #[staticmethod]
    fn is_text(path: PathBuf) -> bool {
        path.is_file() && trace::text::is_text(&path).unwrap_or(false)
    }

    /// As a text workload: the file, how often its layers run, warnings.
    fn text(&self, py: Python<'_>, platform: &Platform) -> PyResult<(String, u32, Vec<String>)> {
        let (workload, platform) = (self.0.clone(), platform.0.clone());
        let made = minded(py, None, move |_| sim::text::text(&workload, &platform))?;
        let text = made.map_err(|problems| errors::input(py, &problems))?;
        Ok((text.layers.to_string(), text.passes, text.warnings))
    }

    /// The same workload, which says that it was made of `model` (JSON text).
    fn made_of(&self, model: String) -> Workload {
        let reading = Reading { model: Some(model), ..self.0.reading.clone() };
        Workload(graph::Workload { reading, ..self.0.clone() })
    }

    #[getter]
    fn ranks(&self) -> usize {
        self.0.ranks.len()
    }

    #[getter]
    fn programs(&self) -> usize {
        self.0.programs.len()
    }

    #[getter]
    fn operations(&self) -> u128 {
        self.0.operations()
    }

    /// Collectives and messages of each program, by members of their group and kind.
    fn volumes(&self) -> Vec<Volume> {
        let volume =
            |row: Row| (row.program, row.ranks, row.members, row.kind, row.count, row.bytes);
        rows(&self.0).into_iter().map(volume).collect()
    }

    /// The operations of each program, counted (`amounts.rs`).
    fn amounts(&self) -> Vec<Amount> {
        amounts::amounts(&self.0)
    }

    /// The longest chain of operations if a byte of the collectives of each of `volumes` takes the
    /// seconds in `rates`: picoseconds of its computations, and bytes of its collectives by volume.
    fn chain(&self, py: Python<'_>, platform: &Platform, rates: Vec<f64>) -> (u64, Vec<u128>) {
        py.detach(|| {
            let rows = rows(&self.0);
            let mut by_program = vec![floor::Rates::new(); self.0.programs.len()];
            for (index, row) in rows.iter().enumerate() {
                let rate = rates.get(index).copied().unwrap_or(0.0);
                row.slots.iter().for_each(|&slot| {
                    by_program[row.program as usize].insert((slot, row.kind), (index, rate));
                });
            }
            let chain = floor::longest(&self.0, &platform.0, &by_program, rows.len());
            (chain.fixed.0, chain.bytes)
        })
    }

    #[getter]
    fn name(&self) -> Option<&str> {
        self.0.declaration.as_ref().map(|declaration| declaration.name.as_str())
    }

    #[getter]
    fn summary(&self) -> Option<&str> {
        self.0.declaration.as_ref()?.summary.as_deref()
    }
}

/// Collectives or sends of one kind among the same ranks, of the first rank of a program.
struct Row {
    program: u32,
    /// Ranks that run the program.
    ranks: u64,
    members: Vec<u32>,
    kind: &'static str,
    count: u64,
    bytes: u128,
    /// The group's slots in the program; none for sends.
    slots: Vec<u32>,
}

/// Rows of each program, by members and kind.
fn rows(workload: &graph::Workload) -> Vec<Row> {
    let mut first: BTreeMap<u32, (u32, u64)> = BTreeMap::new();
    for (rank, binding) in workload.ranks.iter().enumerate() {
        first.entry(binding.program).or_insert((rank as u32, 0)).1 += 1;
    }
    let of = |(program, (rank, ranks)): (u32, (u32, u64))| {
        let row = move |((members, kind), tally): ((Vec<u32>, &'static str), Tally)| {
            let Tally { count, bytes, slots } = tally;
            Row { program, ranks, members, kind, count, bytes, slots }
        };
        tally(workload, rank).into_iter().map(row)
    };
    first.into_iter().flat_map(of).collect()
}

/// How many operations, their bytes, and the slots of their group.
#[derive(Default)]
struct Tally {
    count: u64,
    bytes: u128,
    slots: Vec<u32>,
}

/// Kind of an operation, and the group or rank it goes to.
type Exchanged = (Result<u32, u32>, &'static str);

/// By members and kind, how many collectives and sends `rank` has, and their bytes.
fn tally(workload: &graph::Workload, rank: u32) -> BTreeMap<(Vec<u32>, &'static str), Tally> {
    let world = workload.ranks.len() as u32;
    let mut by_slot: BTreeMap<Exchanged, (u64, u128)> = BTreeMap::new();
    let program = workload.program(rank);
    for node in program.nodes() {
        let (target, kind, bytes) = match node.op {
            Op::Collective { kind, bytes, slot, .. } => (Ok(slot), kind.name(), bytes),
            Op::Send { peer, bytes, .. } => {
                (Err(rank.wrapping_add_signed(program.offset(peer))), "send", bytes)
            }
            _ => continue,
        };
        let entry = by_slot.entry((target, kind)).or_default();
        *entry = (entry.0 + 1, entry.1 + u128::from(bytes.0));
    }
    let mut by_members: BTreeMap<(Vec<u32>, &'static str), Tally> = BTreeMap::new();
    for ((target, kind), (count, bytes)) in by_slot {
        let members = match target {
            Ok(slot) => {
                let members = &workload.groups[workload.group_of(rank, slot) as usize].members;
                (0..members.len(world)).map(|position| members.rank(position)).collect()
            }
            Err(peer) => vec![rank, peer],
        };
        let entry = by_members.entry((members, kind)).or_default();
        entry.count += count;
        entry.bytes += bytes;
        entry.slots.extend(target.ok());
    }
    by_members
}

fn unwritable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::new(path.display().to_string(), "", format!("can't be written: {error}"))
        .help("a directory that you can write to")
}

fn read_footprints(list: Footprints) -> Vec<Footprint> {
    let offloaded = |(weights, gradients, optimizer, tables)| Offloaded {
        weights,
        gradients,
        optimizer,
        tables,
    };
    let read = |((weights, gradients, optimizer, activations), outside, disk)| Footprint {
        weights,
        gradients,
        optimizer,
        activations,
        outside: offloaded(outside),
        disk: offloaded(disk),
    };
    list.into_iter().map(read).collect()
}

fn build(py: Python<'_>, programs: &[Py<Program>]) -> Result<Vec<NamedProgram>, Problem> {
    programs.iter().map(|program| program.borrow_mut(py).build()).collect()
}

/// Binds programs to listed ranks; a program's group names are those of `groups`.
fn list(
    programs: &[NamedProgram],
    ranks: &[u32],
    groups: Named<Vec<u32>>,
) -> Result<graph::Workload, Problem> {
    let world = ranks.len() as u32;
    let mut workload = graph::Workload {
        programs: programs.iter().map(|p| p.0.clone()).collect(),
        ..Default::default()
    };
    workload.groups.push(Group { name: "world".into(), members: Members::All });
    let mut number = BTreeMap::from([(String::new(), 0)]);
    for (name, members) in groups {
        if members.is_empty() || members.iter().any(|&rank| rank >= world) {
            let message = format!(
                "the members {members:?} of group {name:?} are not all among the {world} ranks"
            );
            return Err(Problem::new("", "groups", message)
                .help(format!("ranks from 0 to {}", world.saturating_sub(1))));
        }
        number.insert(name.clone(), workload.groups.len() as u32);
        workload.groups.push(Group { name, members: Members::from_list(members, world) });
    }
    // One row of slots a program: its groups have the same names on every rank.
    let mut rows = Vec::with_capacity(programs.len());
    for (_, names) in programs {
        rows.push(workload.slots.len() as u32);
        for name in names {
            let known = number.get(name).ok_or_else(|| {
                let names: Vec<&str> = number.keys().map(String::as_str).collect();
                Problem::new(
                    "",
                    "groups",
                    format!("a program uses group {name:?}, which does not exist"),
                )
                .help(names.join(", "))
            })?;
            workload.slots.push(*known);
        }
    }
    for &program in ranks {
        let &slots = rows.get(program as usize).ok_or_else(|| {
            Problem::new("", "ranks", format!("unknown program {program}"))
                .help(format!("0 to {}", rows.len().saturating_sub(1)))
        })?;
        workload.ranks.push(RankBinding { program, slots });
    }
    Ok(workload)
}
