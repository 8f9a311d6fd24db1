//! `_core.Program`: an operation graph, node by node or by scripts.

mod script;

pub use script::Script;

use crate::{errors, kinds};
use graph::{Gemm, Lookup, MemoryChange, NamedProgram, Node, Op, Problem, ProgramBuilder, Reach};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use script::Place;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, Span};

/// One operation graph under construction.
#[pyclass(subclass)]
#[derive(Default)]
pub struct Program {
    builder: ProgramBuilder,
    /// Names of the groups behind the slots, in the order of first use.
    slots: Vec<String>,
    /// By group and kind: how many, and bytes.
    volumes: BTreeMap<(String, &'static str), (u64, u128)>,
    operations: u128,
    /// The layer of the nodes to come; none where empty.
    layer: String,
    built: Option<Arc<graph::Program>>,
}

impl Program {
    pub(crate) fn push(
        &mut self,
        name: &str,
        deps: &[u64],
        duration: u64,
        op: Op,
    ) -> PyResult<u64> {
        if self.built.is_some() {
            return Err(PyValueError::new_err(
                "the program is finished: a workload or another program has it",
            ));
        }
        let id = self.builder.len() as u64;
        if let Some(dep) = deps.iter().find(|&&dep| dep >= id) {
            return Err(PyValueError::new_err(format!(
                "node {id} depends on node {dep}, which was not added before it"
            )));
        }
        self.operations += op.work().map_or(0, |(operations, _)| operations);
        self.builder.push(Node { id, duration: Span(duration), op }, name, deps.iter().copied());
        self.builder.label(&self.layer);
        Ok(id)
    }

    pub(crate) fn count(&mut self, group: &str, kind: &'static str, bytes: u64) {
        let entry = self.volumes.entry((group.to_string(), kind)).or_default();
        *entry = (entry.0 + 1, entry.1 + u128::from(bytes));
    }

    pub(crate) fn slot(&mut self, group: &str) -> u32 {
        let at = self.slots.iter().position(|known| known == group).unwrap_or_else(|| {
            self.slots.push(group.to_string());
            self.slots.len() - 1
        });
        at as u32
    }

    /// The finished program; the builder can't grow any more.
    pub(crate) fn build(&mut self) -> Result<NamedProgram, Problem> {
        if self.built.is_none() {
            let built = std::mem::take(&mut self.builder).build();
            self.built = Some(Arc::new(
                built.map_err(|error| Problem::new("", "program", error.to_string()))?,
            ));
        }
        Ok((self.built.clone().expect("just built"), self.slots.clone()))
    }
}

#[pymethods]
impl Program {
    /// Nothing yet, or what `like` does with other peers: the one at an offset becomes the one at
    /// `peers[offset]`. Neither grows any more then.
    #[new]
    #[pyo3(signature = (like = None, peers = BTreeMap::new()))]
    fn new(
        py: Python<'_>,
        like: Option<PyRefMut<'_, Program>>,
        peers: BTreeMap<i32, i32>,
    ) -> PyResult<Program> {
        let Some(mut like) = like else {
            return match peers.is_empty() {
                true => Ok(Program::default()),
                false => Err(PyValueError::new_err("peers without a program that has them")),
            };
        };
        let (program, slots) = like.build().map_err(|problem| errors::input(py, &[problem]))?;
        let moved = |offset: &i32| *peers.get(offset).unwrap_or(offset);
        let moved: Vec<i32> = program.peers().iter().map(moved).collect();
        let found = program.with_peers(moved).ok_or_else(|| {
            PyValueError::new_err("two ranks that the program names would become the same rank")
        })?;
        Ok(Program {
            slots,
            volumes: like.volumes.clone(),
            operations: like.operations,
            built: Some(Arc::new(found)),
            ..Program::default()
        })
    }

    #[pyo3(signature = (name, deps, *, operations = None, bytes = None, kernel = "other", duration_ps = 0, host = false))]
    #[allow(clippy::too_many_arguments)]
    fn compute(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        operations: Option<u64>,
        bytes: Option<u64>,
        kernel: &str,
        duration_ps: u64,
        host: bool,
    ) -> PyResult<u64> {
        let op = Op::Compute {
            operations,
            bytes: bytes.map(Bytes),
            cpu: host,
            kernel: kinds::kernel(kernel)?,
        };
        self.push(name, &deps, duration_ps, op)
    }

    #[pyo3(signature = (name, deps, *, operations, bytes, rows, update = false))]
    #[allow(clippy::too_many_arguments)]
    fn lookup(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        operations: u64,
        bytes: u64,
        rows: u64,
        update: bool,
    ) -> PyResult<u64> {
        let op = Op::Lookup(Lookup { operations, bytes: Bytes(bytes), rows, update });
        self.push(name, &deps, 0, op)
    }

    #[pyo3(signature = (name, deps, *, m, n, k, batch = 1, width = 2, grouped = false))]
    #[allow(clippy::too_many_arguments)]
    fn gemm(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        m: u32,
        n: u32,
        k: u32,
        batch: u32,
        width: u8,
        grouped: bool,
    ) -> PyResult<u64> {
        let op = kinds::gemm(name, Gemm { batch, m, n, k, width }, grouped)?;
        self.push(name, &deps, 0, op)
    }

    #[pyo3(signature = (name, deps, kind, bytes, group = "", *, root = 0, priority = 0, duration_ps = 0))]
    #[allow(clippy::too_many_arguments)]
    fn collective(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        kind: &str,
        bytes: u64,
        group: &str,
        root: u32,
        priority: i32,
        duration_ps: u64,
    ) -> PyResult<u64> {
        let kind = kinds::collective(kind)?;
        let slot = self.slot(group);
        self.count(group, kind.name(), bytes);
        let op = Op::Collective { kind, bytes: Bytes(bytes), slot, priority, dims: u32::MAX, root };
        self.push(name, &deps, duration_ps, op)
    }

    #[pyo3(signature = (name, deps, peer, bytes, tag = 0, *, duration_ps = 0))]
    fn send(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        peer: i32,
        bytes: u64,
        tag: u32,
        duration_ps: u64,
    ) -> PyResult<u64> {
        self.count("", "send", bytes);
        self.push(
            name,
            &deps,
            duration_ps,
            Op::Send { peer: peer.into(), bytes: Bytes(bytes), tag },
        )
    }

    #[pyo3(signature = (name, deps, peer, bytes, tag = 0, *, duration_ps = 0))]
    fn recv(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        peer: i32,
        bytes: u64,
        tag: u32,
        duration_ps: u64,
    ) -> PyResult<u64> {
        self.push(
            name,
            &deps,
            duration_ps,
            Op::Recv { peer: peer.into(), bytes: Bytes(bytes), tag },
        )
    }

    #[pyo3(signature = (name, deps, bytes, *, store = false, reach = "remote", tensor = 0, group = None, duration_ps = 0))]
    #[allow(clippy::too_many_arguments)]
    fn memory(
        &mut self,
        name: &str,
        deps: Vec<u64>,
        bytes: u64,
        store: bool,
        reach: &str,
        tensor: u32,
        group: Option<&str>,
        duration_ps: u64,
    ) -> PyResult<u64> {
        let reach = Reach::from_name(reach).ok_or_else(|| {
            let names = Reach::ALL.map(Reach::name).join(", ");
            PyValueError::new_err(format!(
                "unknown reach {reach:?} of a memory access (allowed: {names})"
            ))
        })?;
        if group.is_some() && reach != Reach::InSwitch {
            return Err(PyValueError::new_err(format!(
                "a group for a memory access of reach {:?} (allowed: only in_switch has one)",
                reach.name()
            )));
        }
        let slot = group.map(|group| self.slot(group));
        let op = Op::Memory { store, bytes: Bytes(bytes), reach, tensor, slot };
        self.push(name, &deps, duration_ps, op)
    }

    /// Memory of the NPU that node `node` allocates at its start and frees at its end; several add
    /// up.
    #[pyo3(signature = (node, *, allocates = 0, frees = 0))]
    fn hold(&mut self, node: u64, allocates: u64, frees: u64) -> PyResult<()> {
        if self.built.is_some() || node >= self.builder.len() as u64 {
            return Err(PyValueError::new_err(format!(
                "unknown node that allocates or frees memory: {node}"
            )));
        }
        self.builder
            .hold(node as usize, MemoryChange { allocates: Bytes(allocates), frees: Bytes(frees) });
        Ok(())
    }

    /// Adds the steps of `script` after `after`; see `script.rs`.
    #[allow(clippy::too_many_arguments)]
    fn play(
        &mut self,
        script: &Script,
        prefix: &str,
        suffix: &str,
        after: Vec<u64>,
        started: &Bound<'_, PyDict>,
        ring: (i32, i32),
        tag: u32,
    ) -> PyResult<(Vec<u64>, u32)> {
        let mut place = Place { prefix, suffix, after, started, ring, tag, name: String::new() };
        script.play(self, &mut place)?;
        Ok((place.after, place.tag))
    }

    fn metadata(&mut self, name: &str, deps: Vec<u64>) -> PyResult<u64> {
        self.push(name, &deps, 0, Op::Metadata)
    }

    fn __len__(&self) -> usize {
        self.built.as_ref().map_or(self.builder.len(), |program| program.nodes().len())
    }

    /// The names of the groups that operations are for, in the order of their first use.
    #[getter]
    fn groups(&self) -> Vec<String> {
        self.slots.clone()
    }

    #[getter]
    fn operations(&self) -> u128 {
        self.operations
    }

    #[getter]
    fn get_label(&self) -> &str {
        &self.layer
    }

    #[setter]
    fn set_label(&mut self, layer: String) {
        self.layer = layer;
    }

    fn tallied(&self) -> Vec<(String, &'static str, u64, u128)> {
        let row = |((group, kind), (count, bytes)): (&(String, &'static str), &(u64, u128))| {
            (group.clone(), *kind, *count, *bytes)
        };
        self.volumes.iter().map(row).collect()
    }
}
