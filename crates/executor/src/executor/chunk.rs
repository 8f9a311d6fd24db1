//! A chunk of a collective on a rank, and the queues and scripts of its phases: data.

use super::NONE;
use super::token::SLOT_BITS;
use collective::Follower;
use indexmap::IndexMap;
use lowering::Lowered;
use rustc_hash::FxBuildHasher;
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Span, Time};

/// Size of a rendezvous announcement (ASTRA-sim).
pub(super) const ANNOUNCEMENT: u64 = 8192;
/// Marks clearances among early arrivals.
pub(super) const SENDER: u32 = 1 << SLOT_BITS;

/// A map in the order of insertion.
pub(super) type FxIndexMap<K, V> = IndexMap<K, V, FxBuildHasher>;

/// A lowering, and the first flat script of each of its (shape, phase).
pub(super) type LaidOut = (Arc<Lowered>, Arc<[Vec<u32>]>);

/// In the place of a script: an algorithm from a file is running.
pub(super) const CUSTOM: u32 = u32::MAX - 1;

/// To the streams of a line whose phase one of them has begun.
pub(super) struct Invitation {
    /// Who has begun it.
    pub stream: u32,
    pub instance: u32,
    pub phase: u32,
    pub peers: Vec<u32>,
}

/// One queue of one dimension of one rank.
#[derive(Default)]
pub(super) struct Queue {
    /// Priority and stream, in order.
    pub waiting: VecDeque<(i64, u32)>,
    pub running: u32,
}

/// One chunk of one collective on one rank.
#[derive(Clone, Copy)]
pub(super) struct ChunkRun {
    pub rank: u32,
    pub instance: u32,
    pub chunk: u32,
    /// Own index among the members; `index - member` is where the chunk's row of streams starts.
    pub member: u32,
    /// Index into `Executor::slots`.
    pub slot: u32,
    pub phase: u32,
    /// The queue (index within the rank) of its phase, and whether chunks in it run backwards.
    pub queue: u32,
    pub backward: bool,
    /// Index into `Executor::scripts`; `NONE` while no phase is in progress.
    pub script: u32,
    pub position: u32,
    /// On a line, the rank of position 0.
    pub base: u32,
    /// Where it is in its script.
    pub follower: Follower,
    /// Messages that came before their receive was posted, and clearances before their step fired.
    pub early: u32,
    /// Bit p: a member of its line has begun phase p.
    pub begun: u64,
    pub entered: Time,
    pub started: Time,
}

impl ChunkRun {
    pub(super) fn new(instance: u32, chunk: u32) -> ChunkRun {
        ChunkRun {
            rank: NONE,
            instance,
            chunk,
            member: 0,
            slot: 0,
            phase: 0,
            queue: 0,
            backward: false,
            script: NONE,
            position: 0,
            base: 0,
            follower: Follower::default(),
            early: 0,
            begun: 0,
            entered: Time::ZERO,
            started: Time::ZERO,
        }
    }
}

/// A script laid out flat, with what its steps need to know of the phase.
#[derive(Clone, Copy)]
pub(super) struct FlatScript {
    /// Range in `Executor::steps`.
    pub first: u32,
    pub last: u32,
    /// First charge in `Executor::charges`.
    pub charges: u32,
    pub receives: u32,
    pub n: u32,
    /// Rank distance between positions; 0 in a group.
    pub stride: u32,
    pub delay: Span,
    /// Every position sees the same on any line.
    pub regular: bool,
    /// The closed form may be taken.
    pub lockstep: bool,
}

/// How many chunks were dealt to each (dimension, lane), and how many took turns between trees,
/// before a collective.
#[derive(Clone, Default)]
pub(super) struct Dealt(Vec<u32>);

/// Counters a dimension in [`Dealt`]: lanes All, First, Second, then trees.
pub(super) const COUNTERS: usize = 4;
pub(super) const TREES: usize = 3;

impl Dealt {
    pub(super) fn get(&self, dim: u32, counter: usize) -> u32 {
        self.0.get(dim as usize * COUNTERS + counter).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, dim: u32, counter: usize, count: u32) {
        let at = dim as usize * COUNTERS + counter;
        self.0.resize(self.0.len().max(at + 1), 0);
        self.0[at] = self.0[at].wrapping_add(count);
    }
}
