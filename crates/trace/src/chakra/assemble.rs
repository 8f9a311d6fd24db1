//! Traces of all ranks into one workload: equal files decoded once, equal programs stored once,
//! names bound to groups.

use super::compact;
use super::find::{Found, find, holes, may_be_trace, split};
use super::groups::Declared;
use super::notes::Notes;
use super::pattern::{self, Match, Patterns};
use super::problems::Problems;
use super::source::{Content, Outcome, decode_content, io_problem};
use super::{Decoded, ReadOptions, SlotName};
use graph::{Group, Members, Problem, Program, RankBinding, Workload};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::counted;

/// Reads the workload behind `path` (see [`find`]) for `npus` ranks; `None` takes the number that
/// there are traces.
///
/// `groups` are the communicator groups of a group file, by name; a trace may declare more. The
/// name of everybody is "", "0" or none. One trace named by itself runs on every rank, if it sends
/// no messages.
///
/// # Errors
/// Every problem found, not only the first.
pub fn read(
    path: &Path,
    npus: Option<u32>,
    groups: &[(String, Vec<u32>)],
    options: &ReadOptions,
) -> Result<Workload, Vec<Problem>> {
    let origin = path.display().to_string();
    if let Some(file) = compact::find(path) {
        return compact::read(&file, npus, options).map(|workload| Workload { origin, ..workload });
    }
    let mut assembler = Assembler::new(options, pattern::MOST);
    match find(path).map_err(|problem| vec![problem])? {
        Found::Files(files) => assembler.files(path, &files, npus),
        Found::Single(file) => assembler.single(&file, npus.unwrap_or(1)),
        Found::Archive(archive) => assembler.archive(&archive, npus),
    }
    let workload = assembler.finish(groups)?;
    Ok(Workload { origin, ..workload })
}

/// Content that ranks with equal files share.
struct Template {
    program: u32,
    slots: Vec<SlotName>,
    declared: Vec<Declared>,
    notes: Arc<Notes>,
    first_rank: u32,
    file: String,
    ranks: u64,
}

/// Puts a workload together, trace by trace.
pub(crate) struct Assembler<'o> {
    options: &'o ReadOptions,
    programs: Vec<Arc<Program>>,
    by_hash: FxHashMap<u64, Vec<u32>>,
    templates: Vec<Template>,
    by_content: FxHashMap<(usize, u128), u32>,
    patterns: Patterns<'o>,
    /// The template of each rank.
    ranks: Vec<u32>,
    scratch: Vec<u8>,
    problems: Problems,
    notes: Notes,
}

impl<'o> Assembler<'o> {
    /// For traces read with `options`, up to `patterns` of them kept to read others against.
    pub fn new(options: &'o ReadOptions, patterns: usize) -> Assembler<'o> {
        Assembler {
            options,
            programs: Vec::new(),
            by_hash: FxHashMap::default(),
            templates: Vec::new(),
            by_content: FxHashMap::default(),
            patterns: Patterns::new(patterns),
            ranks: Vec::new(),
            scratch: Vec::new(),
            problems: Problems::default(),
            notes: Notes::default(),
        }
    }

    /// How many of `have` traces run on `npus` ranks; a difference is a problem.
    fn count(&mut self, name: &str, have: usize, npus: Option<u32>) -> usize {
        let want = npus.map_or(have, |n| n as usize);
        let allowed = format!("{want}, one for each NPU; --npus {have} resizes the platform");
        if have < want {
            let last = want - 1;
            let missing =
                if have == last { format!("rank {last}") } else { format!("ranks {have}-{last}") };
            let (are, traces) = (if have == 1 { "is" } else { "are" }, counted(have, "trace"));
            let message = format!("no trace for {missing}: there {are} {traces}");
            self.problems.push(Problem::new(name, "", message).help(allowed));
        } else if have > want {
            let (traces, npus) = (counted(have, "trace"), counted(want, "NPU"));
            let message = format!("there are {traces} for a platform of {npus}");
            self.problems.push(Problem::new(name, "", message).help(allowed));
        }
        have.min(want)
    }

    fn files(&mut self, path: &Path, files: &[PathBuf], npus: Option<u32>) {
        let count = self.count(&path.display().to_string(), files.len(), npus);
        for (rank, file) in files[..count].iter().enumerate() {
            self.file(rank as u32, file, count > 1);
            if self.problems.is_full() {
                return;
            }
        }
    }

    fn file(&mut self, rank: u32, file: &Path, many: bool) {
        let name = file.display().to_string();
        match Content::open(file, std::mem::take(&mut self.scratch)) {
            Ok(content) => self.content(rank, &name, content, many),
            Err(error) => self.problems.push(io_problem(&name, &error)),
        }
    }

    fn single(&mut self, file: &Path, npus: u32) {
        self.file(0, file, false);
        if npus < 2 || !self.problems.is_empty() {
            return;
        }
        if self.by_content.is_empty() {
            let message =
                "one trace can't run on several ranks: it names its peers by rank, or is too large";
            let help = "a trace for each rank, or one without sends and receives";
            self.problems.push(Problem::new(file.display().to_string(), "", message).help(help));
            return;
        }
        self.notes.add("a rank runs the only trace given", u64::from(npus));
        self.templates[0].ranks = u64::from(npus);
        self.ranks = vec![0; npus as usize];
    }

    /// Decodes one trace, of several if `many`, unless an equal one was.
    pub fn content(&mut self, rank: u32, name: &str, content: Content, many: bool) {
        let key = content
            .rest
            .is_none()
            .then(|| (content.head.len(), xxhash_rust::xxh3::xxh3_128(&content.head)));
        if let Some(&template) = key.and_then(|key| self.by_content.get(&key)) {
            self.templates[template as usize].ranks += 1;
            self.ranks.push(template);
            self.scratch = content.head;
            return;
        }
        let matched = key.and_then(|_| self.patterns.read(&content.head, rank, self.options));
        if let Some(found) = matched {
            self.scratch = content.head;
            return self.template(found, key, rank, name);
        }
        let Outcome { decoded, bytes, marks } =
            decode_content(content, name, rank, self.options, many);
        self.scratch = bytes;
        match decoded {
            Err(problems) => self.problems.extend(problems),
            Ok(Decoded { program, slots, declared, notes, rank_free }) => {
                let (program, notes) = (self.intern(program), Arc::new(notes));
                let found = Match { program, notes, rank_free, slots, declared };
                if let Some(marks) = marks {
                    let bytes = std::mem::take(&mut self.scratch);
                    self.scratch = self.patterns.keep(bytes, marks, rank, &found, self.options);
                }
                self.template(found, key, rank, name);
            }
        }
    }

    /// Adds the template of a rank whose content no other had.
    fn template(&mut self, found: Match, key: Option<(usize, u128)>, first_rank: u32, file: &str) {
        let Match { program, notes, rank_free, slots, declared } = found;
        let (index, file) = (self.templates.len() as u32, file.to_string());
        if let (Some(key), true) = (key, rank_free) {
            self.by_content.insert(key, index);
        }
        self.ranks.push(index);
        self.templates.push(Template {
            program,
            slots,
            declared,
            notes,
            first_rank,
            file,
            ranks: 1,
        });
    }

    /// The index of a program equal to `program`.
    fn intern(&mut self, program: Program) -> u32 {
        let candidates = self.by_hash.entry(FxBuildHasher.hash_one(&program)).or_default();
        if let Some(&same) = candidates.iter().find(|&&i| *self.programs[i as usize] == program) {
            return same;
        }
        let index = self.programs.len() as u32;
        candidates.push(index);
        self.programs.push(Arc::new(program));
        index
    }

    fn archive(&mut self, archive: &Path, npus: Option<u32>) {
        let name = archive.display().to_string();
        let members = match member_ranks(archive) {
            Ok(members) => members,
            Err(problem) => return self.problems.push(problem),
        };
        let numbered = members.len() > 1;
        if let Some(problem) =
            holes(&name, members.values().copied().collect::<BTreeSet<_>>().into_iter())
        {
            return self.problems.push(problem);
        }
        let count = match (numbered, npus) {
            (true, npus) => self.count(&name, members.len(), npus),
            (false, _) => 1,
        };
        let mut by_rank: BTreeMap<u32, u32> = BTreeMap::new();
        let outcome = each_member(archive, |path, entry, size| {
            let Some(&rank) = members.get(path) else { return Ok(()) };
            if rank as usize >= count {
                return Ok(());
            }
            let scratch = std::mem::take(&mut self.scratch);
            let content = Content::from_reader(Box::new(entry), size, scratch)?;
            let before = self.ranks.len();
            self.content(rank, &format!("{name}!{path}"), content, numbered);
            if let Some(&template) = self.ranks.get(before) {
                by_rank.insert(rank, template);
            }
            Ok(())
        });
        if let Err(error) = outcome {
            self.problems.push(io_problem(&name, &error));
        }
        self.ranks = by_rank.into_values().collect();
        if let (false, Some(npus)) = (numbered, npus) {
            self.spread(&name, npus);
        }
    }

    /// Lets the one trace of an archive run on every rank.
    fn spread(&mut self, name: &str, npus: u32) {
        if npus > 1 && self.problems.is_empty() && self.by_content.is_empty() {
            let message = "the one trace in this archive names its peers by rank, so it can't run on several ranks";
            self.problems.push(Problem::new(name, "", message).help("a trace for each rank"));
        } else if npus > 1 && self.problems.is_empty() {
            self.notes.add("a rank runs the only trace given", u64::from(npus));
            self.templates[0].ranks = u64::from(npus);
            self.ranks = vec![0; npus as usize];
        }
    }

    /// Binds the names; `groups` are those of a group file.
    pub fn finish(mut self, groups: &[(String, Vec<u32>)]) -> Result<Workload, Vec<Problem>> {
        let mut table = GroupTable::new(groups, self.ranks.len() as u32);
        let mut slots = Vec::new();
        let mut slot_tables: FxHashMap<Vec<u32>, u32> = FxHashMap::default();
        let mut bindings = Vec::with_capacity(self.templates.len());
        for template in &self.templates {
            self.notes.absorb(&template.notes, template.ranks);
            let row = table.resolve(template, &mut self.problems);
            let start = *slot_tables.entry(row).or_insert_with_key(|row| {
                let start = slots.len() as u32;
                slots.extend_from_slice(row);
                start
            });
            bindings.push(RankBinding { program: template.program, slots: start });
        }
        if !self.problems.is_empty() {
            return Err(self.problems.into_list());
        }
        let ranks = self.ranks.iter().map(|&template| bindings[template as usize]).collect();
        let notes = self.notes.into_sorted();
        Ok(Workload {
            programs: self.programs,
            ranks,
            slots,
            groups: table.groups,
            notes,
            ..Workload::default()
        })
    }
}

/// The groups of a workload while names are bound to them. Group 0 is everybody.
struct GroupTable<'a> {
    groups: Vec<Group>,
    given: FxHashMap<&'a str, u32>,
    declared: FxHashMap<Declared, u32>,
    world: u32,
}

impl<'a> GroupTable<'a> {
    fn new(given: &'a [(String, Vec<u32>)], world: u32) -> GroupTable<'a> {
        let mut table = GroupTable {
            groups: vec![Group { name: "world".into(), members: Members::All }],
            given: FxHashMap::default(),
            declared: FxHashMap::default(),
            world,
        };
        for (name, ranks) in given {
            let index = table.groups.len() as u32;
            table.groups.push(Group {
                name: name.clone(),
                members: Members::from_list(ranks.clone(), world),
            });
            table.given.insert(name, index);
            table.declared.insert(Declared { name: name.clone(), ranks: ranks.clone() }, index);
        }
        table
    }

    fn resolve(&mut self, template: &Template, problems: &mut Problems) -> Vec<u32> {
        let mut row = Vec::with_capacity(template.slots.len());
        for slot in &template.slots {
            match self.group(&slot.name, &template.declared) {
                Some(group) => row.push(group),
                None => problems.push(self.unknown(slot, template)),
            }
        }
        row
    }

    /// Declarations of the rank itself come before the group file, which comes before the names of
    /// all ranks.
    fn group(&mut self, name: &str, declared: &[Declared]) -> Option<u32> {
        let own =
            declared.iter().rev().find(|d| d.name == name || (name.is_empty() && d.name == "0"));
        if let Some(own) = own {
            if own.ranks.is_empty() {
                return Some(0);
            }
            let (groups, world) = (&mut self.groups, self.world);
            return Some(*self.declared.entry(own.clone()).or_insert_with(|| {
                let members = Members::from_list(own.ranks.clone(), world);
                groups.push(Group { name: own.name.clone(), members });
                groups.len() as u32 - 1
            }));
        }
        self.given.get(name).copied().or(name.is_empty().then_some(0))
    }

    fn unknown(&self, slot: &SlotName, template: &Template) -> Problem {
        let mut known: Vec<&str> = template.declared.iter().map(|d| d.name.as_str()).collect();
        known.extend(self.groups[1..].iter().map(|g| g.name.as_str()));
        known.sort_unstable();
        known.dedup();
        let more = known.len().saturating_sub(12);
        known.truncate(12);
        let mut help = match known.is_empty() {
            true => "no group is defined: give a communicator group file, or leave pg_name out"
                .to_string(),
            false => format!("\"\" or \"0\" for everybody, {}", known.join(", ")),
        };
        if more > 0 {
            help.push_str(&format!(" and {more} more"));
        }
        let place = format!("rank {} node {}", template.first_rank, slot.first_node);
        Problem::new(
            &template.file,
            place,
            format!("pg_name \"{}\" is not the name of a communicator group", slot.name),
        )
        .help(help)
    }
}

/// Calls `visit` with the path, content and size of every regular file of an archive.
fn each_member(
    archive: &Path,
    mut visit: impl FnMut(&str, &mut dyn std::io::Read, u64) -> std::io::Result<()>,
) -> std::io::Result<()> {
    // Unpacking gzip is `Content`'s, so that both kinds of archive take one way.
    let Content { head, rest } = Content::open(archive, Vec::new())?;
    let rest = rest.unwrap_or_else(|| Box::new(std::io::empty()));
    let mut tar = tar::Archive::new(std::io::Read::chain(std::io::Cursor::new(head), rest));
    for entry in tar.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let size = entry.size();
            visit(&path, &mut entry, size)?;
        }
    }
    Ok(())
}

/// The members of an archive by the rank whose trace they are.
fn member_ranks(archive: &Path) -> Result<BTreeMap<String, u32>, Problem> {
    let name = archive.display().to_string();
    let mut candidates = Vec::new();
    each_member(archive, |path, _, _| {
        if may_be_trace(path.rsplit('/').next().unwrap_or(path)) {
            candidates.push(path.to_string());
        }
        Ok(())
    })
    .map_err(|error| io_problem(&name, &error))?;
    let help = "members named PREFIX.<rank>.et, .et.gz, .json or .json.gz, all of one PREFIX";
    match candidates.len() {
        0 => return Err(Problem::new(&name, "", "the archive holds no trace").help(help)),
        // The only trace is rank 0's, whatever number its name holds.
        1 => return Ok(candidates.into_iter().map(|path| (path, 0)).collect()),
        _ => {}
    }
    let parts: Option<Vec<_>> = candidates.iter().map(|path| split(path, b"._-")).collect();
    match parts {
        Some(parts) if parts.iter().all(|p| (p.0, p.2) == (parts[0].0, parts[0].2)) => {
            let ranks = parts.iter().map(|p| p.1).collect::<Vec<_>>();
            Ok(candidates.into_iter().zip(ranks).collect())
        }
        // The first one may say better why nothing can run than the names do.
        _ => match first_fault(archive, &candidates[0]) {
            Some(problem) => Err(problem),
            None => {
                let shown = candidates.iter().take(4).cloned().collect::<Vec<_>>().join(", ");
                let message = format!(
                    "cannot tell to which rank each of {} members belongs: {shown}",
                    candidates.len()
                );
                Err(Problem::new(&name, "", message).help(help))
            }
        },
    }
}

fn first_fault(archive: &Path, member: &str) -> Option<Problem> {
    let name = archive.display().to_string();
    let mut fault = None;
    let read = each_member(archive, |path, entry, size| {
        if path == member {
            let content = Content::from_reader(Box::new(entry), size, Vec::new())?;
            let outcome = decode_content(
                content,
                &format!("{name}!{path}"),
                0,
                &ReadOptions::default(),
                false,
            );
            fault = outcome.decoded.err().and_then(|problems| problems.into_iter().next());
        }
        Ok(())
    });
    read.err().map(|error| io_problem(&name, &error)).or(fault)
}
