//! `_core.Script`: a sequence of operations that a program plays again and again, with other names
//! and after other nodes.
//!
//! A workload's layers do the same in each micro-batch: a script is read once, and played without
//! Python. What its steps mean is in `armillary/workload/script.py`.

use super::Program;
use crate::kinds;
use graph::{CollectiveKind, Gemm, Op};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use units::Bytes;

enum Step {
    /// A kernel, after everything before.
    Kernel(String, Op),
    /// A collective; `true` for one that the next kernel waits for.
    Collective(String, CollectiveKind, u64, String, bool),
    /// A message to the next rank of the ring and one from the rank before.
    Exchange(String, u64),
    /// The next kernel waits for what was started under the name.
    Wait(String),
}

/// Steps, in order.
#[pyclass]
#[derive(Default)]
pub struct Script {
    steps: Vec<Step>,
}

#[pymethods]
impl Script {
    #[new]
    fn new() -> Script {
        Script::default()
    }

    #[allow(clippy::too_many_arguments)]
    fn gemm(
        &mut self,
        name: String,
        m: u32,
        n: u32,
        k: u32,
        batch: u32,
        width: u8,
        grouped: bool,
    ) -> PyResult<()> {
        let op = kinds::gemm(&name, Gemm { batch, m, n, k, width }, grouped)?;
        self.steps.push(Step::Kernel(name, op));
        Ok(())
    }

    fn compute(&mut self, name: String, kernel: &str, operations: u64, bytes: u64) -> PyResult<()> {
        let kernel = kinds::kernel(kernel)?;
        let op = Op::Compute {
            operations: Some(operations),
            bytes: Some(Bytes(bytes)),
            cpu: false,
            kernel,
        };
        self.steps.push(Step::Kernel(name, op));
        Ok(())
    }

    fn collective(
        &mut self,
        name: String,
        kind: &str,
        bytes: u64,
        group: String,
        waited: bool,
    ) -> PyResult<()> {
        self.steps.push(Step::Collective(name, kinds::collective(kind)?, bytes, group, waited));
        Ok(())
    }

    fn exchange(&mut self, name: String, bytes: u64) {
        self.steps.push(Step::Exchange(name, bytes));
    }

    fn wait(&mut self, name: String) {
        self.steps.push(Step::Wait(name));
    }
}

/// Where a script is played.
pub struct Place<'a, 'py> {
    /// Prefix of the names of nodes.
    pub prefix: &'a str,
    /// Suffix of the names of groups.
    pub suffix: &'a str,
    /// Operations that the next kernel waits for.
    pub after: Vec<u64>,
    /// Nodes to be waited for, by name.
    pub started: &'a Bound<'py, PyDict>,
    /// Ranks to the next of the ring and to the one before.
    pub ring: (i32, i32),
    /// Tag of the next exchange.
    pub tag: u32,
    /// The name of the node being made.
    pub name: String,
}

impl Place<'_, '_> {
    fn named(&mut self, parts: [&str; 2]) -> &str {
        self.name.clear();
        self.name.push_str(self.prefix);
        parts.iter().for_each(|part| self.name.push_str(part));
        &self.name
    }
}

impl Script {
    /// Adds the steps to `program` at `place`, which moves on.
    pub fn play(&self, program: &mut Program, place: &mut Place) -> PyResult<()> {
        for step in &self.steps {
            match step {
                Step::Kernel(name, op) => {
                    place.named([name, ""]);
                    let id = program.push(&place.name, &place.after, 0, *op)?;
                    place.after.clear();
                    place.after.push(id);
                }
                Step::Collective(name, kind, bytes, group, waited) => {
                    let id = call(program, place, name, *kind, *bytes, group)?;
                    if *waited {
                        place.after.push(id);
                    } else {
                        place.started.set_item(name, id)?;
                    }
                }
                Step::Exchange(name, bytes) => {
                    let id = exchange(program, place, name, Bytes(*bytes))?;
                    place.started.set_item(name, id)?;
                }
                Step::Wait(name) => {
                    let found = place
                        .started
                        .get_item(name)?
                        .ok_or_else(|| PyKeyError::new_err(name.clone()))?;
                    place.after.push(found.extract()?);
                    place.started.del_item(name)?;
                }
            }
        }
        Ok(())
    }
}

fn call(
    program: &mut Program,
    place: &mut Place,
    name: &str,
    kind: CollectiveKind,
    bytes: u64,
    group: &str,
) -> PyResult<u64> {
    place.named([name, ""]);
    let full: Cow<str> = if place.suffix.is_empty() {
        group.into()
    } else {
        format!("{group}{}", place.suffix).into()
    };
    let slot = program.slot(&full);
    program.count(&full, kind.name(), bytes);
    let op =
        Op::Collective { kind, bytes: Bytes(bytes), slot, priority: 0, dims: u32::MAX, root: 0 };
    program.push(&place.name, &place.after, 0, op)
}

/// Both messages of an exchange; the one to wait for.
fn exchange(program: &mut Program, place: &mut Place, name: &str, bytes: Bytes) -> PyResult<u64> {
    let (tag, (ahead, behind)) = (place.tag, place.ring);
    place.tag += 1;
    program.count("", "send", bytes.0);
    place.named([name, ".send"]);
    program.push(&place.name, &place.after, 0, Op::Send { peer: ahead.into(), bytes, tag })?;
    place.named([name, ".receive"]);
    program.push(&place.name, &place.after, 0, Op::Recv { peer: behind.into(), bytes, tag })
}
