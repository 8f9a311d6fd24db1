//! A workload in one directory: `workload.json` with the rank map and the groups, and one Chakra
//! file a *program*, not a rank.
//!
//! A program's file is the trace of the first rank that runs it, with the group names of its slots.
//! The rank map is a mesh ([`graph::Mesh`], in which they are the names of families) or a list of
//! runs of ranks. So 100,000 ranks take a few kilobytes besides their programs. Here: both ways.
//! Not here: one trace a rank (`write.rs`), which ASTRA-sim reads.

use super::problems::Problems;
use super::source::{Content, decode_content, io_problem};
use super::write::write_program;
use super::{ReadOptions, notes::Notes};
use graph::{
    Declaration, Footprint, Group, Members, Mesh, NamedProgram, Problem, Program, RankBinding,
    Workload,
};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::counted;

const FORMAT: &str = "armillary.workload/1";
const NAME: &str = "workload.json";
/// Names of groups in the programs of a listed workload: `slot0`, `slot1`, ...
const SLOT: &str = "slot";
/// Ranks a workload may have.
const MOST_RANKS: u64 = 1 << 24;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: String,
    name: String,
    programs: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mesh: Option<Mesh>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    list: Option<Listing>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    summary: Option<Box<serde_json::value::RawValue>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    file: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<Footprint>,
}

/// The rank map as a list.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    groups: Vec<NamedGroup>,
    /// Ranks in order: how many run which program with which groups (indices into `groups`, one a
    /// slot).
    ranks: Vec<Run>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedGroup {
    name: String,
    ranks: Ranks,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Ranks {
    List(Vec<u32>),
    Even { first: u32, count: u32, step: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    program: u32,
    groups: Vec<u32>,
    count: u32,
}

/// The file behind `path`, if it names a workload of this form: the directory or its
/// `workload.json`.
pub(crate) fn find(path: &Path) -> Option<PathBuf> {
    let inside = path.join(NAME);
    let itself = || (path.file_name()? == NAME && path.is_file()).then(|| path.to_path_buf());
    if inside.is_file() { Some(inside) } else { itself() }
}

/// Reads the workload of `file` for `npus` ranks, if the number is given.
///
/// # Errors
/// Everything wrong with the file or one of its programs.
pub(crate) fn read(
    file: &Path,
    npus: Option<u32>,
    options: &ReadOptions,
) -> Result<Workload, Vec<Problem>> {
    let name = file.display().to_string();
    let head = head(file, &name).map_err(|problem| vec![problem])?;
    let firsts = head.firsts().map_err(|problem| vec![named(&name, problem)])?;
    if firsts.len() != head.programs.len() {
        let message = format!(
            "there are {} programs, but the rank map names {}",
            head.programs.len(),
            firsts.len()
        );
        return Err(vec![Problem::new(&name, "programs", message).help(firsts.len().to_string())]);
    }
    let folder = file.parent().unwrap_or(Path::new(""));
    let (mut problems, mut decoded) = (Problems::default(), Vec::<Shared>::new());
    for (i, (entry, &rank)) in head.programs.iter().zip(&firsts).enumerate() {
        // A file named again is the same program, peers and all.
        let known = head.programs[..i].iter().position(|other| other.file == entry.file);
        match known.map_or_else(
            || program(folder, &name, &entry.file, rank, options),
            |k| Ok(decoded[k].clone()),
        ) {
            Ok(program) => decoded.push(program),
            Err(list) => {
                problems.extend(list);
                if problems.is_full() || known.is_some() {
                    break;
                }
                decoded.push(Shared::default());
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems.into_list());
    }
    head.bind(decoded, npus).map_err(|problem| vec![named(&name, problem)])
}

fn named(file: &str, problem: Problem) -> Problem {
    Problem { file: file.to_string(), ..problem }
}

fn head(file: &Path, name: &str) -> Result<Head, Problem> {
    let text = files::read(file, files::MOST_TRACE).map_err(|error| io_problem(name, &error))?;
    let head: Head = serde_json::from_slice(&text).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        Problem::new(name, place, format!("not a workload: {error}"))
            .help(format!("{FORMAT}, see docs/guides/workloads.md"))
    })?;
    if head.format != FORMAT {
        return Err(Problem::new(
            name,
            "format",
            format!("{:?} is not a known format", head.format),
        )
        .help(FORMAT));
    }
    Ok(head)
}

/// A program that was read, and the names behind its slots.
#[derive(Clone, Default)]
struct Shared {
    program: Arc<Program>,
    slots: Vec<String>,
    notes: Arc<Notes>,
}

fn program(
    folder: &Path,
    name: &str,
    file: &str,
    rank: u32,
    options: &ReadOptions,
) -> Result<Shared, Vec<Problem>> {
    if file.is_empty() || file.contains(['/', '\\']) {
        let message = format!("{file:?} is not a file in the same directory");
        return Err(vec![
            Problem::new(name, "programs", message).help("a file name without a path"),
        ]);
    }
    let path = folder.join(file);
    let shown = path.display().to_string();
    let content =
        Content::open(&path, Vec::new()).map_err(|error| vec![io_problem(&shown, &error)])?;
    let decoded = decode_content(content, &shown, rank, options, false).decoded?;
    let slots = decoded.slots.into_iter().map(|slot| slot.name).collect();
    Ok(Shared { program: Arc::new(decoded.program), slots, notes: Arc::new(decoded.notes) })
}

impl Head {
    /// The first rank of each program.
    fn firsts(&self) -> Result<Vec<u32>, Problem> {
        match (&self.mesh, &self.list) {
            (Some(mesh), None) => mesh.representatives(),
            (None, Some(list)) => list.firsts(self.programs.len()),
            _ => {
                Err(Problem::new("", "", "exactly one rank map must be given").help("mesh or list"))
            }
        }
    }

    fn bind(self, shared: Vec<Shared>, npus: Option<u32>) -> Result<Workload, Problem> {
        let footprints: Option<Vec<Footprint>> =
            self.programs.iter().map(|entry| entry.memory).collect();
        let mut notes = Notes::default();
        let programs: Vec<NamedProgram> =
            shared.iter().map(|s| (s.program.clone(), s.slots.clone())).collect();
        let mut workload = match (&self.mesh, self.list) {
            (Some(mesh), _) => mesh.bind(&programs, footprints.unwrap_or_default())?,
            (None, Some(list)) => list.bind(programs, footprints.unwrap_or_default())?,
            (None, None) => unreachable!("firsts has refused it"),
        };
        let have = workload.ranks.len();
        if let Some(npus) = npus.filter(|&n| n as usize != have) {
            let (ranks, all) = (counted(have, "rank"), counted(npus as usize, "NPU"));
            let message = format!("the workload has {ranks}, but the platform has {all}");
            return Err(Problem::new("", "", message)
                .help(format!("{npus}, one for each NPU; --npus {have} resizes the platform")));
        }
        let mut uses = vec![0u64; workload.programs.len()];
        workload.ranks.iter().for_each(|rank| uses[rank.program as usize] += 1);
        for (program, &count) in workload.programs.iter().zip(&uses) {
            let of = shared.iter().find(|s| Arc::ptr_eq(&s.program, program));
            of.iter().for_each(|s| notes.absorb(&s.notes, count));
        }
        workload.notes = notes.into_sorted();
        let summary = self.summary.map(|text| text.get().to_string());
        workload.declaration = Some(Box::new(Declaration {
            name: self.name,
            mesh: self.mesh,
            summary,
            warnings: self.warnings,
        }));
        Ok(workload)
    }
}

impl Listing {
    fn firsts(&self, programs: usize) -> Result<Vec<u32>, Problem> {
        let (mut firsts, mut rank) = (vec![None; programs], 0u64);
        for (i, run) in self.ranks.iter().enumerate() {
            let place = format!("list.ranks[{i}]");
            let Some(first) = firsts.get_mut(run.program as usize) else {
                let message = format!("unknown program {}", run.program);
                return Err(Problem::new("", place, message)
                    .help(format!("0 to {}", programs.saturating_sub(1))));
            };
            first.get_or_insert(rank as u32);
            rank += u64::from(run.count);
            if run.count == 0 || rank > MOST_RANKS {
                return Err(Problem::new("", place, format!("{} ranks", run.count))
                    .help("1 to 16,777,216 in all"));
            }
        }
        let unused = firsts.iter().position(Option::is_none);
        if let Some(unused) = unused {
            return Err(Problem::new("", "programs", format!("no rank runs program {unused}")));
        }
        Ok(firsts.into_iter().flatten().collect())
    }

    fn bind(
        self,
        programs: Vec<NamedProgram>,
        footprints: Vec<Footprint>,
    ) -> Result<Workload, Problem> {
        let world = self.ranks.iter().map(|run| run.count).sum();
        let mut workload = Workload { footprints, ..Workload::default() };
        for group in self.groups {
            workload.groups.push(group.read(world)?);
        }
        for (i, run) in self.ranks.iter().enumerate() {
            let binding = RankBinding { program: run.program, slots: workload.slots.len() as u32 };
            for name in &programs[run.program as usize].1 {
                let group = run
                    .group(name)
                    .filter(|&g| (g as usize) < workload.groups.len())
                    .ok_or_else(|| {
                        let message = format!(
                            "groups {:?} include none for pg_name {name:?} of program {}",
                            run.groups, run.program
                        );
                        let help = format!(
                            "slotN means entry N, a number from 0 to {}",
                            workload.groups.len().saturating_sub(1)
                        );
                        Problem::new("", format!("list.ranks[{i}]"), message).help(help)
                    })?;
                workload.slots.push(group);
            }
            workload.ranks.extend(std::iter::repeat_n(binding, run.count as usize));
        }
        workload.programs = programs.into_iter().map(|(program, _)| program).collect();
        Ok(workload)
    }
}

impl Run {
    /// The group that a program calls `name`: entry N for `slotN`.
    fn group(&self, name: &str) -> Option<u32> {
        let slot: usize = name.strip_prefix(SLOT)?.parse().ok()?;
        self.groups.get(slot).copied()
    }
}

impl NamedGroup {
    fn read(self, world: u32) -> Result<Group, Problem> {
        let place = format!("list.groups {:?}", self.name);
        let members = match self.ranks {
            Ranks::List(list) => Members::from_list(list, world),
            Ranks::Even { first: 0, count, step: 1 } if count == world => Members::All,
            Ranks::Even { first, count, step } => Members::Strided { first, count, step },
        };
        let last = match &members {
            Members::All => Some(0),
            Members::Strided { first, count, step } if *count > 0 && *step > 0 => count
                .checked_sub(1)
                .and_then(|n| n.checked_mul(*step))
                .and_then(|d| d.checked_add(*first)),
            Members::Strided { .. } => None,
            Members::List(list) => list.iter().max().copied(),
        };
        if last.is_none_or(|last| last >= world) {
            let help = format!("ranks from 0 to {}", world.saturating_sub(1));
            return Err(
                Problem::new("", place, "no rank, or a rank that is out of range").help(help)
            );
        }
        Ok(Group { name: self.name, members })
    }

    fn of(group: &Group, world: u32) -> NamedGroup {
        let ranks = match &group.members {
            Members::All => Ranks::Even { first: 0, count: world, step: 1 },
            &Members::Strided { first, count, step } => Ranks::Even { first, count, step },
            Members::List(list) => Ranks::List(list.clone()),
        };
        NamedGroup { name: group.name.clone(), ranks }
    }
}

/// Writes a workload into the directory `folder`, which must exist: `workload.json` last, so that
/// there is none without its programs.
///
/// # Errors
/// What the file system reports, and `InvalidData` for a peer below rank 0.
pub fn write(workload: &Workload, folder: &Path) -> io::Result<()> {
    let plain = Declaration::default();
    let declaration = workload.declaration.as_deref().unwrap_or(&plain);
    let (files, list) = match &declaration.mesh {
        Some(mesh) => (write_points(workload, mesh, folder)?, None),
        None => (write_listed(workload, folder)?, Some(listing(workload))),
    };
    let summary = declaration.summary.as_deref().map(serde_json::from_str).transpose()?;
    let head = Head {
        format: FORMAT.into(),
        name: declaration.name.clone(),
        programs: files,
        mesh: declaration.mesh.clone(),
        list,
        summary,
        warnings: declaration.warnings.clone(),
    };
    let mut text = serde_json::to_vec_pretty(&head)?;
    text.push(b'\n');
    fs::write(folder.join(NAME), text)
}

/// The programs of a mesh, one entry a point, each written once.
fn write_points(workload: &Workload, mesh: &Mesh, folder: &Path) -> io::Result<Vec<Entry>> {
    let firsts = mesh
        .representatives()
        .map_err(|problem| io::Error::new(io::ErrorKind::InvalidData, problem.message))?;
    let mut written = vec![false; workload.programs.len()];
    let mut entries = Vec::with_capacity(firsts.len());
    for rank in firsts {
        let number = workload.ranks[rank as usize].program as usize;
        if !std::mem::replace(&mut written[number], true) {
            // Families are named before the dot (`Mesh::bind`).
            let family = |slot| {
                let group = &workload.groups[workload.group_of(rank, slot) as usize];
                let family = group.name.rsplit_once('.').map_or("", |(family, _)| family);
                family.to_string()
            };
            let names: Vec<String> = (0..workload.program(rank).slots()).map(family).collect();
            write_file(workload, number, &names, rank, folder)?;
        }
        entries.push(entry(workload, number));
    }
    Ok(entries)
}

fn write_listed(workload: &Workload, folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::with_capacity(workload.programs.len());
    for number in 0..workload.programs.len() {
        let rank =
            workload.ranks.iter().position(|rank| rank.program as usize == number).unwrap_or(0)
                as u32;
        // Names only keep the slots apart: the list says which groups they are.
        let names: Vec<String> =
            (0..workload.programs[number].slots()).map(|slot| format!("{SLOT}{slot}")).collect();
        write_file(workload, number, &names, rank, folder)?;
        entries.push(entry(workload, number));
    }
    Ok(entries)
}

fn entry(workload: &Workload, number: usize) -> Entry {
    Entry { file: file_name(number), memory: workload.footprints.get(number).copied() }
}

fn file_name(number: usize) -> String {
    format!("program.{number}.et")
}

fn write_file(
    workload: &Workload,
    number: usize,
    names: &[String],
    rank: u32,
    folder: &Path,
) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(folder.join(file_name(number)))?);
    write_program(&workload.programs[number], names, rank, &mut out)?;
    out.flush()
}

fn listing(workload: &Workload) -> Listing {
    let world = workload.ranks.len() as u32;
    let mut ranks: Vec<Run> = Vec::new();
    for rank in 0..world {
        let program = workload.ranks[rank as usize].program;
        let slots = workload.program(rank).slots();
        let groups: Vec<u32> = (0..slots).map(|slot| workload.group_of(rank, slot)).collect();
        match ranks.last_mut() {
            Some(run) if run.program == program && run.groups == groups => run.count += 1,
            _ => ranks.push(Run { program, groups, count: 1 }),
        }
    }
    Listing {
        groups: workload.groups.iter().map(|group| NamedGroup::of(group, world)).collect(),
        ranks,
    }
}

#[cfg(test)]
#[path = "compact_tests.rs"]
mod tests;
