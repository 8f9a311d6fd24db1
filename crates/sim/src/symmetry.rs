//! Symmetry classes: which ranks must behave alike, so that one of each class stands for all.
//!
//! Ranks are alike when they run the same program, but for the ranks that it names, and step by step
//! talk to ranks that are alike over paths that take the same time. The coarsest such partition is found by colour refinement
//! (Weisfeiler and Leman 1968): start with a colour for each kind of program and shape of groups, then
//! split colours whose members see different colours at some port, until nothing splits. A run over
//! one rank of each colour is then the run over all (the quotient of a fibration: Boldi and Vigna,
//! Discrete Math. 243, 2002). Where transfers of different NPUs can meet, ranks must also not share
//! links: every transfer takes one link from NPU to NPU (`links.rs`), or links are found alike as well
//! (`classes.rs`). Not here: how a folded run delivers a
//! message (`executor`).

mod classes;
mod fingerprints;
mod links;
mod neighbours;
mod private_links;
mod programs;
mod rotations;

pub use private_links::private_links;

use collective::To;
use device::memory::Sharing;
use executor::{ANNOUNCEMENT, Folding, Settings, SlotClass};
use fingerprints::{Hash, ScriptView, find_root, join, scripts, uses_memory};
use graph::{Op, Workload};
use lowering::{Geometry, Lowered, Lowering, PhaseSpec, Request, Shape, Shapes};
use neighbours::Neighbours;
use network::{Alike, Backend, LinkClasses};
use platform::Platform;
use programs::{Message, Programs};
use rustc_hash::{FxHashMap, FxHashSet};
use std::rc::Rc;
use topology::{Fabric, LinkGraph, Routing, Symmetry};

/// The classes, and why there are more than one.
pub struct Classes {
    /// Folding that the executor needs.
    pub folding: Folding,
    /// Which links are alike, where the backend needs to know.
    pub links: Option<Box<dyn LinkClasses>>,
    /// One sentence; empty when all ranks are alike.
    pub reason: String,
}

/// Finds the classes.
pub fn find(
    workload: &Workload,
    platform: &Platform,
    settings: &Settings,
    lowering: &dyn Lowering,
    network: &dyn Backend,
) -> Classes {
    let ranks = workload.ranks.len() as u32;
    let none = |reason: String| Classes { folding: Folding::none(ranks), links: None, reason };
    if ranks <= 1 {
        return none(String::new());
    }
    if settings.remote_memory.is_some_and(|sharing| sharing != Sharing::PerNpu)
        && uses_memory(workload)
    {
        return none("ranks share remote memory and take turns".into());
    }
    let in_turns = network.alike() != Alike::Classes && platform.network.routing == Routing::Spray;
    if in_turns && platform.fabric.npus_choose() {
        return none("messages of an NPU take turns over its links".into());
    }
    let mut finder = Finder::new(workload, platform, settings, lowering, network);
    let looked = finder.look_at_collectives().and_then(|()| finder.check_links());
    let reason = match looked.and_then(|()| finder.refine()) {
        Ok(reason) => reason,
        Err(reason) => return none(reason),
    };
    if finder.count == ranks {
        return none(reason);
    }
    let folding = finder.folding();
    match finder.link_classes(&folding) {
        Ok(links) => Classes { folding, links, reason },
        Err(reason) => none(reason),
    }
}

/// The phases of calls on one slot that see the same as long as the colours on their lines are
/// equal, or one phase.
struct Ports {
    slot: u32,
    shape: u32,
    geometry: Geometry,
    /// Every position sees the same as long as the colours on its line are equal.
    homogeneous: bool,
    /// Those whose peers differ, at least one; the same ranks enter them.
    phases: Vec<Peers>,
}

/// A phase and the peers that it names.
struct Peers {
    phase: PhaseSpec,
    /// Sights by plan and script: the script without the peers that it names, and the distinct
    /// peers with the bytes sent to them.
    scripts: Vec<Vec<ScriptView>>,
}

/// The links of a graph on which messages spread over cards.
fn spread(platform: &Platform) -> Option<LinkGraph> {
    if matches!(platform.fabric, Fabric::Stacked(_)) {
        return None;
    }
    let graph = LinkGraph::new(&platform.fabric).ok()?.with_routing(platform.network.routing);
    graph.spreads().then_some(graph)
}

struct Finder<'a> {
    workload: &'a Workload,
    platform: &'a Platform,
    settings: &'a Settings,
    lowering: &'a dyn Lowering,
    network: &'a dyn Backend,
    /// Phases that see the same on lines of one colour are kept together, although their peers
    /// differ.
    merge: bool,
    /// NPUs that look alike may leave by links that do not.
    routed: bool,
    /// The links, where messages spread over several cards of an NPU.
    cards: Option<LinkGraph>,
    shapes: Shapes<'a>,
    /// Ports of each first colour.
    ports: Vec<Rc<Vec<Ports>>>,
    /// First colour of each rank.
    first: Vec<u32>,
    colours: Vec<u32>,
    count: u32,
    programs: Programs,
    /// Lines of the whole machine, by (stride, size, slot): the colour of a line of one colour plus
    /// one, else 0; by rank.
    lines: FxHashMap<(u32, u32, u32), Vec<u32>>,
    /// Groups whose members are all of one colour, and the paths between them alike, by (group,
    /// slot, ports).
    alike: FxHashMap<(u32, usize, usize), bool>,
    groups: FxHashMap<(u32, u32), u32>,
    neighbours: Neighbours,
}

impl<'a> Finder<'a> {
    fn new(
        workload: &'a Workload,
        platform: &'a Platform,
        settings: &'a Settings,
        lowering: &'a dyn Lowering,
        network: &'a dyn Backend,
    ) -> Finder<'a> {
        let splits = network.alike() == Alike::Classes
            && platform.fabric.splitting(platform.network.routing) == Routing::Spray;
        Finder {
            workload,
            platform,
            settings,
            lowering,
            network,
            merge: network.alike() != Alike::OneLink,
            routed: !splits && platform.fabric.parts_npus(platform.network.routing),
            cards: spread(platform),
            shapes: Shapes::new(&settings.sizes, settings.aligned_groups),
            ports: Vec::new(),
            first: Vec::new(),
            colours: Vec::new(),
            count: 0,
            programs: Programs::of(workload, settings),
            lines: FxHashMap::default(),
            alike: FxHashMap::default(),
            groups: FxHashMap::default(),
            neighbours: Neighbours::of(workload, settings),
        }
    }

    /// Gives every rank its first colour (program and shapes of its groups) and collects the ports
    /// of each.
    fn look_at_collectives(&mut self) -> Result<(), String> {
        let mut known: FxHashMap<(u32, Vec<u32>), u32> = FxHashMap::default();
        let mut last: Option<(graph::RankBinding, u32)> = None;
        for rank in 0..self.workload.ranks.len() as u32 {
            let binding = self.workload.ranks[rank as usize];
            if let Some((same, colour)) = last
                && same == binding
            {
                self.first.push(colour);
                continue;
            }
            let slots = self.workload.programs[binding.program as usize].slots();
            let shapes: Vec<u32> = (0..slots)
                .map(|s| self.shapes.index(self.workload, self.workload.group_of(rank, s)))
                .collect();
            let next = known.len() as u32;
            let program = self.programs.alike[binding.program as usize];
            let colour = *known.entry((program, shapes.clone())).or_insert(next);
            if colour == next {
                let ports = self.collect(binding.program, &shapes)?;
                self.ports.push(Rc::new(ports));
            }
            self.first.push(colour);
            last = Some((binding, colour));
        }
        self.colours = self.first.clone();
        self.count = known.len() as u32;
        Ok(())
    }

    fn collect(&self, program: u32, shapes: &[u32]) -> Result<Vec<Ports>, String> {
        let mut seen: FxHashMap<(u32, Request), ()> = FxHashMap::default();
        let mut ports: Vec<Ports> = Vec::new();
        for node in self.workload.programs[program as usize].nodes() {
            let Op::Collective { kind, slot, .. } = node.op else { continue };
            let shape = shapes[slot as usize];
            let Some(request) = self.settings.request(node, shape) else { continue };
            if seen.insert((slot, request), ()).is_some() {
                continue;
            }
            let lowered = self.lowering.lower(&request, self.shapes.get(shape));
            let Lowered { shapes: chunks, .. } = lowered.map_err(|p| p.message)?;
            for phase in chunks.into_iter().flatten() {
                if phase.custom.is_some() {
                    return Err(format!("{} runs an algorithm from a file", kind.name()));
                }
                self.add(&mut ports, slot, shape, phase);
            }
        }
        Ok(ports)
    }

    /// Adds a phase unless one with the same peers is there.
    fn add(&self, ports: &mut Vec<Ports>, slot: u32, shape: u32, phase: PhaseSpec) {
        let scripts: Vec<Vec<_>> = phase.plans.iter().map(|d| scripts(&d.forward)).collect();
        // Exchanges on a ring leave by one way or the other, and wait for different ones of the
        // NPU's own.
        let exchange = |s: &collective::Step| matches!(s.to, Some(To::Xor(_)));
        let steps =
            || phase.plans.iter().flat_map(|d| &d.forward.plan.scripts).flat_map(|s| &s.steps);
        let ring = match phase.geometry {
            Geometry::Line { stride, size } => {
                self.platform.fabric.line(stride, size).is_some_and(|l| l.1 != Symmetry::Full)
            }
            Geometry::Group => false,
        };
        let homogeneous = phase.regular
            && !self.routed
            && !(self.settings.canonical && ring && steps().any(exchange));
        let (geometry, merge) = (phase.geometry, self.merge);
        let alike = |p: &Ports| {
            p.slot == slot && p.geometry == geometry && p.phases[0].phase.only == phase.only
        };
        let found = ports.iter_mut().find(|p| {
            alike(p)
                && (homogeneous && p.homogeneous && merge
                    || p.phases.iter().any(|peers| peers.scripts == scripts))
        });
        match found {
            Some(there) if there.phases.iter().any(|peers| peers.scripts == scripts) => {}
            Some(there) => there.phases.push(Peers { phase, scripts }),
            None => ports.push(Ports {
                slot,
                shape,
                geometry,
                homogeneous,
                phases: vec![Peers { phase, scripts }],
            }),
        }
    }

    /// Splits colours until nothing splits; returns why they split.
    fn refine(&mut self) -> Result<String, String> {
        let mut reason = self.first_reason();
        loop {
            self.lines.clear();
            self.alike.clear();
            self.groups.clear();
            self.neighbours.look(&self.colours);
            let mut next: FxHashMap<(u32, u64, u64), u32> = FxHashMap::default();
            let mut colours = Vec::with_capacity(self.colours.len());
            for rank in 0..self.colours.len() as u32 {
                let (a, b) = self.view(rank);
                let fresh = next.len() as u32;
                colours.push(*next.entry((self.colours[rank as usize], a, b)).or_insert(fresh));
            }
            let count = next.len() as u32;
            if count == self.count {
                return Ok(reason);
            }
            if reason.is_empty() {
                reason = self.split_reason(&colours);
            }
            (self.colours, self.count) = (colours, count);
        }
    }

    fn first_reason(&self) -> String {
        let Some(other) = self.first.iter().position(|&c| c != self.first[0]) else {
            return String::new();
        };
        let program = |rank: usize| self.programs.alike[self.workload.ranks[rank].program as usize];
        let differs = program(other) != program(0);
        let what =
            if differs { "run different programs" } else { "have groups of different shapes" };
        format!("ranks 0 and {other} {what}")
    }

    /// Names the first rank that parted from rank of its colour, and at which group or message.
    fn split_reason(&mut self, colours: &[u32]) -> String {
        let mut leader: FxHashMap<u32, u32> = FxHashMap::default();
        for rank in 0..colours.len() as u32 {
            let first = *leader.entry(self.colours[rank as usize]).or_insert(rank);
            if colours[first as usize] == colours[rank as usize] {
                continue;
            }
            let ports = self.ports[self.first[rank as usize] as usize].clone();
            for port in ports.iter() {
                if self.port_view(first, port, 0) != self.port_view(rank, port, 0) {
                    let group = |r| self.workload.group_of(r, port.slot) as usize;
                    let name = |r| &self.workload.groups[group(r)].name;
                    return format!(
                        "ranks {first} and {rank} see different neighbours in groups {:?} and {:?}",
                        name(first),
                        name(rank)
                    );
                }
            }
            if self.neighbours.view(self.workload, first)
                != self.neighbours.view(self.workload, rank)
            {
                return format!(
                    "ranks {first} and {rank} share a node of the pool with other ranks"
                );
            }
            return format!("ranks {first} and {rank} exchange messages with different ranks");
        }
        String::new()
    }

    /// View of a rank, in two independent hashes.
    fn view(&mut self, rank: u32) -> (u64, u64) {
        let mut hash = Hash::default();
        let ports = self.ports[self.first[rank as usize] as usize].clone();
        for (index, port) in ports.iter().enumerate() {
            let (a, b) = self.port_view(rank, port, index);
            hash.add(a);
            hash.add(b);
        }
        let program = self.workload.ranks[rank as usize].program as usize;
        for &Message { peer, bytes, .. } in &self.programs.messages[program] {
            let other = rank.wrapping_add_signed(peer);
            hash.add(self.programs.port(self.workload.ranks.get(other as usize), -peer));
            hash.add(u64::from(self.colours.get(other as usize).copied().unwrap_or(u32::MAX)));
            hash.add(self.departure(rank, other));
            hash.add(self.path(rank, other, bytes));
            hash.add(self.path(other, rank, bytes));
        }
        let (a, b) = self.neighbours.view(self.workload, rank);
        hash.add(a);
        hash.add(b);
        hash.value()
    }

    /// By which of its links a rank sends to another: which of its messages wait for each other
    /// hangs on it.
    fn departure(&self, src: u32, dst: u32) -> u64 {
        let there = (dst as usize) < self.colours.len();
        if let Some(graph) = self.cards.as_ref().filter(|_| there) {
            return graph.departures(src, dst);
        }
        let form = self.network.closed_form().filter(|_| there);
        u64::from(form.map_or(u32::MAX, |form| form.departure(src, dst)))
    }

    /// How long a message takes, and over how many links of each dimension: the report counts
    /// bytes by dimension.
    fn path(&self, src: u32, dst: u32, bytes: u64) -> u64 {
        if dst as usize >= self.colours.len() || src as usize >= self.colours.len() {
            return u64::MAX;
        }
        let mut hash = Hash::default();
        hash.add(self.network.physical_minimum(src, dst, bytes).0);
        let (mut a, mut b) = (src, dst);
        for dim in self.platform.fabric.dims() {
            hash.add(dim.block.hops(dim.size, a % dim.size, b % dim.size).into());
            (a, b) = (a / dim.size, b / dim.size);
        }
        if let Fabric::Graph(graph) = &self.platform.fabric
            && graph.dims.len() > 1
        {
            let sizes: Vec<u32> = graph.dims.iter().map(|dim| dim.size).collect();
            let outermost = topology::outermost(&sizes, src, dst);
            hash.add(outermost.map_or(u64::MAX, |dim| dim as u64));
        }
        hash.value().0
    }

    fn port_view(&mut self, rank: u32, port: &Ports, index: usize) -> (u64, u64) {
        if let Some(colour) = self.line_of_one_colour(rank, port, index) {
            return (u64::from(colour), 1);
        }
        let mut hash = Hash::default();
        let enters = port.phases[0].phase.only.iter().all(|f| rank / f.stride % f.size == f.at);
        hash.add(u64::from(enters));
        if !enters {
            return hash.value();
        }
        let group = self.workload.group_of(rank, port.slot);
        let members = &self.workload.groups[group as usize].members;
        let world = self.settings.ranks;
        let (position, base, stride) = match port.geometry {
            Geometry::Line { stride, size } => {
                let position = rank / stride % size;
                (position, rank - position * stride, stride)
            }
            Geometry::Group => (self.position(rank, group), 0, 0),
        };
        let at = |p: u32| if stride > 0 { base + p * stride } else { members.rank(p) };
        for (directed, scripts) in
            port.phases.iter().flat_map(|p| p.phase.plans.iter().zip(&p.scripts))
        {
            let plan = &directed.forward.plan;
            let (content, peers) = &scripts[plan.role(position) as usize];
            hash.add(*content);
            for &(to, bytes) in peers {
                let peer = at(to.position(position, plan.n));
                let back = at(to.inverse(plan.n).position(position, plan.n));
                hash.add(self.departure(rank, peer));
                if self.settings.rendezvous {
                    // Announcements go the other way. They may wait for messages, or these for
                    // them.
                    hash.add(self.departure(rank, back));
                    hash.add(self.path(rank, back, ANNOUNCEMENT));
                    hash.add(self.path(peer, rank, ANNOUNCEMENT));
                }
                for (src, dst, other) in [(rank, peer, peer), (back, rank, back)] {
                    hash.add(u64::from(self.colours[other as usize]));
                    hash.add(u64::from(self.slot(other, group)));
                    hash.add(if other < world && other != rank {
                        self.path(src, dst, bytes)
                    } else {
                        0
                    });
                }
            }
            if !plan.is_uniform() {
                // Two messages of one sender leave one after the other, so their order
                // distinguishes ours from the others.
                for (slot, from) in (0..).zip(plan.script(position).receives()) {
                    let sender = from.position(position, plan.n);
                    hash.add(u64::from(directed.forward.sender_step(sender, position, slot)));
                }
            }
        }
        hash.value()
    }

    fn position(&mut self, rank: u32, group: u32) -> u32 {
        let members = &self.workload.groups[group as usize].members;
        if let graph::Members::List(list) = members {
            if !self.groups.contains_key(&(group, list[0])) {
                self.groups.extend(list.iter().enumerate().map(|(p, &r)| ((group, r), p as u32)));
            }
            return self.groups.get(&(group, rank)).copied().unwrap_or(0);
        }
        members.position(rank, self.settings.ranks).unwrap_or(0)
    }

    /// The slot in which `rank` has `group`.
    fn slot(&self, rank: u32, group: u32) -> u32 {
        self.workload.slot_of(rank, group).unwrap_or(u32::MAX)
    }

    /// The colour of the rank's line, when all of it has one colour and every position sees the
    /// same.
    fn line_of_one_colour(&mut self, rank: u32, port: &Ports, index: usize) -> Option<u32> {
        let colour = self.colours[rank as usize];
        let group = self.workload.group_of(rank, port.slot);
        match port.geometry {
            Geometry::Line { stride, size } if port.homogeneous => {
                if *self.shapes.get(port.shape) == Shape::World {
                    return self.world_line(stride, size, port.slot)[rank as usize].checked_sub(1);
                }
                let base = rank - rank / stride % size * stride;
                let first = self.first[rank as usize] as usize;
                let same = |k: u32| self.same(base + k * stride, colour, port.slot, group);
                let alike = self
                    .alike
                    .get(&(base, first, index))
                    .copied()
                    .unwrap_or_else(|| (0..size).all(same));
                self.alike.insert((base, first, index), alike);
                alike.then_some(colour)
            }
            _ => None,
        }
    }

    fn same(&self, rank: u32, colour: u32, slot: u32, group: u32) -> bool {
        self.colours[rank as usize] == colour && self.workload.group_of(rank, slot) == group
    }

    fn world_line(&mut self, stride: u32, size: u32, slot: u32) -> &[u32] {
        let key = (stride, size, slot);
        if !self.lines.contains_key(&key) {
            let mut found = vec![0; self.colours.len()];
            for base in (0..found.len() as u32).filter(|r| (r / stride).is_multiple_of(size)) {
                let (colour, group) = (self.colours[base as usize], self.slot_group(base, slot));
                let members = || (0..size).map(|k| base + k * stride);
                let same = |r: u32| {
                    self.colours[r as usize] == colour && self.slot_group(r, slot) == group
                };
                if group.is_some() && members().all(same) {
                    members().for_each(|r| found[r as usize] = colour + 1);
                }
            }
            self.lines.insert(key, found);
        }
        &self.lines[&key]
    }

    fn slot_group(&self, rank: u32, slot: u32) -> Option<u32> {
        (slot < self.workload.program(rank).slots()).then(|| self.workload.group_of(rank, slot))
    }

    /// The partition as the executor needs it.
    fn folding(&self) -> Folding {
        let mut representatives = vec![u32::MAX; self.count as usize];
        let mut multiplicity = vec![0u64; self.count as usize];
        for (rank, &colour) in self.colours.iter().enumerate().rev() {
            representatives[colour as usize] = rank as u32;
            multiplicity[colour as usize] += 1;
        }
        let (slots, components) = self.components(&representatives);
        Folding {
            representatives,
            class_of: Some(self.colours.clone()),
            multiplicity,
            slots,
            components,
        }
    }

    /// Joins the (class, slot) pairs that meet in a group; each component is one communicator of
    /// the folded run.
    fn components(&self, representatives: &[u32]) -> (Vec<Vec<SlotClass>>, Vec<u32>) {
        let slots: Vec<u32> =
            representatives.iter().map(|&r| self.workload.program(r).slots()).collect();
        let first: Vec<u32> = slots
            .iter()
            .scan(0, |at, &n| {
                let here = *at;
                *at += n;
                Some(here)
            })
            .collect();
        let mut parent: Vec<u32> = (0..slots.iter().sum()).collect();
        let mut done = FxHashSet::default();
        for (class, &rank) in representatives.iter().enumerate() {
            for slot in 0..slots[class] {
                let group = self.workload.group_of(rank, slot);
                if !done.insert(group) {
                    continue;
                }
                let members = &self.workload.groups[group as usize].members;
                let mut last = u32::MAX;
                for position in 0..members.len(self.settings.ranks) {
                    let other = members.rank(position);
                    let theirs = self.colours[other as usize];
                    if theirs == last
                        && theirs as usize == class
                        && self.workload.group_of(other, slot) == group
                    {
                        continue;
                    }
                    last = theirs;
                    if let Some(at) = self.workload.slot_of(other, group) {
                        join(&mut parent, first[class] + slot, first[theirs as usize] + at);
                    }
                }
            }
        }
        let mut known: FxHashMap<u32, u32> = FxHashMap::default();
        let mut sizes: Vec<u32> = Vec::new();
        let mut place = |pair: u32| {
            let root = find_root(&mut parent, pair);
            let component = *known.entry(root).or_insert_with(|| {
                sizes.push(0);
                sizes.len() as u32 - 1
            });
            sizes[component as usize] += 1;
            SlotClass { component, member: sizes[component as usize] - 1 }
        };
        let classes = slots
            .iter()
            .zip(&first)
            .map(|(&n, &at)| (0..n).map(|s| place(at + s)).collect())
            .collect();
        (classes, sizes)
    }
}
