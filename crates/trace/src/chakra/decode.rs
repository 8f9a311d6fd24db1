//! Nodes of any schema become nodes of a program: peers relative, groups as slots, durations in
//! picoseconds.

use super::attrs::{BadAttr, Key, Value};
use super::decoded::{Decoded, ReadOptions, SlotName};
use super::groups::{Declared, declared};
use super::notes::Notes;
use super::problems::Problems;
use super::schema::{Kind, Raw, Recorded, Schema};
use graph::{
    CollectiveKind, Gemm, Kernel, Lookup, MemoryChange, Node, Op, Problem, ProgramBuilder,
    ProgramError, Reach,
};
use indexmap::IndexMap;
use units::{Bytes, PS_PER_NS, PS_PER_US, Span};

/// Gathers the nodes of one trace.
pub(crate) struct Decoder<'o> {
    pub rank: u32,
    pub options: &'o ReadOptions,
    file: String,
    builder: ProgramBuilder,
    pub slots: Vec<SlotName>,
    pub declared: Vec<Declared>,
    pub rank_free: bool,
    pub notes: Notes,
    pub problems: Problems,
}

impl<'o> Decoder<'o> {
    /// For the trace of `rank` in `file`.
    pub fn new(file: &str, rank: u32, options: &'o ReadOptions) -> Decoder<'o> {
        Decoder {
            rank,
            options,
            file: file.to_string(),
            builder: ProgramBuilder::default(),
            slots: Vec::new(),
            declared: Vec::new(),
            rank_free: true,
            notes: Notes::default(),
            problems: Problems::default(),
        }
    }

    /// Adds a node and gives what it does; what is wrong with it goes to `problems`.
    #[inline]
    pub fn node(&mut self, schema: Schema, raw: &Raw, deps: &[u64]) -> Op {
        match self.lower(schema, raw).and_then(|node| Ok((node, held(raw)?))) {
            Ok((node, held)) => {
                self.builder.hold(self.builder.len(), held);
                match std::str::from_utf8(raw.name) {
                    Ok(name) => self.builder.push(node, name, deps.iter().copied()),
                    Err(_) => self.builder.push(
                        node,
                        &String::from_utf8_lossy(raw.name),
                        deps.iter().copied(),
                    ),
                }
                if let Some(layer) = raw.attrs.get(Key::Layer) {
                    self.layer(layer);
                }
                node.op
            }
            Err(bad) => {
                self.report(raw, &bad);
                // The node stays, so that what depends on it is not reported as dangling as well.
                let node = Node { id: raw.id, duration: Span::ZERO, op: Op::Invalid };
                self.builder.push(node, "", deps.iter().copied());
                node.op
            }
        }
    }

    /// Labels the last node: a name, or the number that other generators give layers.
    fn layer(&mut self, layer: Value) {
        match layer {
            Value::Text(name) => self.builder.label(&String::from_utf8_lossy(name)),
            Value::Unsigned(number) => self.builder.label(&format!("layer{number}")),
            _ => self.notes.count("an attribute `layer` without a valid name is not used"),
        }
    }

    /// Adds a problem at a place in the file.
    #[cold]
    pub fn problem(&mut self, place: &str, message: impl Into<String>, help: &str) {
        let place = format!("rank {}{}{place}", self.rank, if place.is_empty() { "" } else { " " });
        self.problems.push(Problem::new(&self.file, place, message).help(help));
    }

    #[cold]
    fn report(&mut self, raw: &Raw, bad: &BadAttr) {
        let byte = raw.offset.map_or_else(String::new, |byte| format!(" (byte {byte})"));
        self.problem(&format!("node {}{byte}", raw.id), bad.message.as_str(), bad.help);
    }

    /// Node in the program, without adding it; its groups, slots and notes are taken up.
    #[inline]
    pub fn lower(&mut self, schema: Schema, raw: &Raw) -> Result<Node, BadAttr> {
        let op = match raw.kind {
            Kind::Invalid => Op::Invalid,
            Kind::Metadata => self.metadata(raw)?,
            Kind::Load | Kind::Store => {
                let bytes = Bytes(raw.attrs.required(Key::TensorSize)?);
                let (reach, store) = (reach(raw)?, raw.kind == Kind::Store);
                let slot = match reach {
                    Reach::InSwitch if raw.attrs.get(Key::PgName).is_some() => {
                        Some(self.slot(raw)?)
                    }
                    _ => None,
                };
                Op::Memory { store, bytes, reach, tensor: tensor(raw)?, slot }
            }
            Kind::Compute => compute(raw)?,
            Kind::Host => self.host("a storage, batch or checkpoint node runs as time on the host"),
            Kind::Unknown(number) => {
                return Err(BadAttr {
                    message: format!("node type {number} is unknown"),
                    help: schema.kinds(),
                });
            }
            Kind::Send | Kind::Recv | Kind::Collective => self.communication(schema, raw)?,
        };
        Ok(Node { id: raw.id, duration: duration(raw)?, op })
    }

    fn host(&mut self, note: &str) -> Op {
        self.notes.count(note);
        Op::Compute { operations: None, bytes: None, cpu: true, kernel: Kernel::Other }
    }

    #[cold]
    fn metadata(&mut self, raw: &Raw) -> Result<Op, BadAttr> {
        match declared(raw.inputs) {
            Ok(groups) => self.declared.extend(groups),
            Err(message) => {
                return Err(BadAttr {
                    message: format!("the process groups it declares can't be read: {message}"),
                    help: r#"inputs.values such as "[{\"pg_name\": \"1\", \"ranks\": [0, 1]}]""#,
                });
            }
        }
        Ok(Op::Metadata)
    }

    #[inline]
    fn communication(&mut self, schema: Schema, raw: &Raw) -> Result<Op, BadAttr> {
        if raw.attrs.truth(Key::IsCpuOp)? {
            return Ok(self.host("a communication node marked is_cpu_op runs as time on the host"));
        }
        let lowered = match raw.kind {
            Kind::Collective => self.collective(schema, raw),
            kind => self.message(kind == Kind::Send, raw),
        };
        match lowered {
            Err(_) if self.options.replay => {
                self.notes.count(
                    "a communication node without usable attributes is replayed by its duration",
                );
                Ok(Op::Compute { operations: None, bytes: None, cpu: false, kernel: Kernel::Other })
            }
            other => other,
        }
    }

    #[inline]
    fn collective(&mut self, schema: Schema, raw: &Raw) -> Result<Op, BadAttr> {
        let kind = collective_kind(schema, raw)?;
        let bytes = match kind {
            CollectiveKind::Barrier => raw.attrs.unsigned(Key::CommSize)?.unwrap_or(0),
            _ => raw.attrs.required(Key::CommSize)?,
        };
        Ok(Op::Collective {
            kind,
            bytes: Bytes(bytes),
            slot: self.slot(raw)?,
            priority: raw.attrs.signed(Key::CommPriority)?,
            dims: raw.attrs.dims()?,
            root: raw.attrs.small(Key::CommRoot)?.unwrap_or(0),
        })
    }

    /// The slot of the node's group: slots are numbered in the order in which groups are first
    /// used.
    #[inline]
    fn slot(&mut self, raw: &Raw) -> Result<u32, BadAttr> {
        let text;
        let name: &[u8] = match raw.attrs.get(Key::PgName) {
            None | Some(Value::Unsigned(0)) => b"",
            Some(Value::Text(b"0")) => b"",
            Some(Value::Text(name)) => name,
            Some(Value::Unsigned(number)) => {
                text = number.to_string();
                text.as_bytes()
            }
            Some(other) => {
                return Err(BadAttr {
                    message: format!("attribute pg_name is {other}"),
                    help: "a group's name",
                });
            }
        };
        Ok(self.slot_named(name, raw.id))
    }

    /// The slot of the group `name`, a new one where node `id` is the first to use it.
    #[inline]
    pub fn slot_named(&mut self, name: &[u8], id: u64) -> u32 {
        // Few groups a rank: a scan beats a hash. The group of all ranks, the most frequent one, is
        // recognised by its length alone: comparing no bytes at all costs a fault in the processor
        // where vector loads are masked.
        let same = |slot: &SlotName| {
            slot.name.len() == name.len() && (name.is_empty() || slot.name.as_bytes() == name)
        };
        match self.slots.iter().position(same) {
            Some(slot) => slot as u32,
            None => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.slots.push(SlotName { name, first_node: id });
                self.slots.len() as u32 - 1
            }
        }
    }

    #[inline]
    fn message(&mut self, send: bool, raw: &Raw) -> Result<Op, BadAttr> {
        self.rank_free = false;
        let (own_key, peer_key) =
            if send { (Key::CommSrc, Key::CommDst) } else { (Key::CommDst, Key::CommSrc) };
        let own = raw.attrs.small(own_key)?.unwrap_or(self.rank);
        if own != self.rank {
            return Err(BadAttr {
                message: format!(
                    "attribute {} is {own} in the trace of rank {}",
                    own_key.name(),
                    self.rank
                ),
                help: "the rank whose trace this is, or no such attribute",
            });
        }
        raw.attrs.required(peer_key)?;
        let other = raw.attrs.small(peer_key)?.unwrap_or(self.rank);
        let bytes = Bytes(raw.attrs.required(Key::CommSize)?);
        raw.attrs.required(Key::CommTag)?;
        let tag = raw.attrs.small(Key::CommTag)?.unwrap_or(0);
        if other == self.rank {
            let verb = if send { "sends to" } else { "receives from" };
            return Err(BadAttr {
                message: format!("rank {other} {verb} itself"),
                help: "another rank",
            });
        }
        let offset = i64::from(other) - i64::from(self.rank);
        let offset = i32::try_from(offset).map_err(|_| BadAttr {
            message: format!("attribute {} is {other}", peer_key.name()),
            help: "a rank of the platform",
        })?;
        let peer = offset.into();
        Ok(if send { Op::Send { peer, bytes, tag } } else { Op::Recv { peer, bytes, tag } })
    }

    /// The finished trace, or everything that is wrong with it.
    pub fn finish(mut self) -> Result<Decoded, Vec<Problem>> {
        if self.options.replay {
            let dropped = self.builder.drop_dangling();
            if dropped > 0 {
                self.notes
                    .add("a dependency on a node that the recording left out is dropped", dropped);
            }
        }
        let builder = std::mem::take(&mut self.builder);
        match builder.build_or_explain() {
            Ok(program) if self.problems.is_empty() => {
                return Ok(Decoded {
                    program,
                    slots: self.slots,
                    declared: self.declared,
                    notes: self.notes,
                    rank_free: self.rank_free,
                });
            }
            Ok(_) => {}
            Err(faults) => self.faults(&faults),
        }
        Err(self.problems.into_list())
    }

    /// One problem for each missing node, however many depend on it.
    fn faults(&mut self, faults: &[ProgramError]) {
        let mut missing: IndexMap<u64, (u64, u64)> = IndexMap::new();
        for fault in faults {
            match fault {
                ProgramError::DanglingDependency { node, dep } => {
                    missing.entry(*dep).or_insert((*node, 0)).1 += 1
                }
                ProgramError::DuplicateId(id) => {
                    self.problem(
                        &format!("node {id}"),
                        fault.to_string(),
                        "one definition for each id",
                    );
                }
                ProgramError::TooLarge => self.problem("", fault.to_string(), "a smaller trace"),
            }
        }
        for (dep, (node, count)) in missing {
            let others = if count > 1 {
                format!(", nor can {} other nodes", count - 1)
            } else {
                String::new()
            };
            let message = format!(
                "it depends on node {dep}, which is not in the trace, so it can never run{others}"
            );
            self.problem(&format!("node {node}"), message, "ids of nodes in this trace");
        }
    }
}

fn collective_kind(schema: Schema, raw: &Raw) -> Result<CollectiveKind, BadAttr> {
    if let Some(Value::Text(name)) = raw.attrs.get(Key::CommType)
        && let Some(kind) = named_collective(name)
    {
        return Ok(kind);
    }
    let number = raw.attrs.required(Key::CommType)?;
    schema.collective(number).ok_or_else(|| BadAttr {
        message: format!("attribute comm_type is {number}"),
        help: schema.collectives(),
    })
}

/// `ALL_REDUCE`, `all_reduce`, `REDUCE_SCATTER_BLOCK`, ...: the enumeration's names, which JSON may
/// carry.
fn named_collective(name: &[u8]) -> Option<CollectiveKind> {
    let name = std::str::from_utf8(name).ok()?.to_ascii_lowercase();
    let name = if name == "reduce_scatter_block" { "reduce_scatter" } else { &name };
    CollectiveKind::ALL.into_iter().find(|kind| kind.name() == name)
}

#[inline]
fn compute(raw: &Raw) -> Result<Op, BadAttr> {
    let cpu = raw.attrs.truth(Key::IsCpuOp)?;
    let kernel = match raw.attrs.get(Key::Kernel) {
        None => Kernel::Other,
        Some(value) => match kernel(value)? {
            Work::Counted(kernel) => kernel,
            Work::Gemm(gemm) if !cpu => return Ok(Op::Gemm(gemm)),
            Work::Grouped(gemm) if !cpu => return Ok(Op::Grouped(gemm)),
            Work::Lookup { rows, update } if !cpu => {
                let operations = raw.attrs.unsigned(Key::NumOps)?.unwrap_or(0);
                let bytes = Bytes(raw.attrs.unsigned(Key::TensorSize)?.unwrap_or(0));
                return Ok(Op::Lookup(Lookup { operations, bytes, rows, update }));
            }
            Work::Lookup { update: true, .. } => Kernel::EmbeddingUpdate,
            Work::Lookup { .. } => Kernel::Embedding,
            Work::Gemm(_) => Kernel::Gemm,
            Work::Grouped(_) => Kernel::Grouped,
        },
    };
    Ok(Op::Compute {
        operations: raw.attrs.unsigned(Key::NumOps)?,
        bytes: raw.attrs.unsigned(Key::TensorSize)?.map(Bytes),
        cpu,
        kernel,
    })
}

/// Content of attributes `memory_allocates` and `memory_frees`.
#[inline]
pub(crate) fn held(raw: &Raw) -> Result<MemoryChange, BadAttr> {
    let bytes = |key| Ok(Bytes(raw.attrs.unsigned(key)?.unwrap_or(0)));
    Ok(MemoryChange { allocates: bytes(Key::MemoryAllocates)?, frees: bytes(Key::MemoryFrees)? })
}

/// Content of attribute `memory_reach`: outside the NPU where it is absent.
fn reach(raw: &Raw) -> Result<Reach, BadAttr> {
    let Some(value) = raw.attrs.get(Key::MemoryReach) else { return Ok(Reach::Remote) };
    let text = if let Value::Text(text) = value { std::str::from_utf8(text).ok() } else { None };
    text.and_then(Reach::from_name).ok_or_else(|| BadAttr {
        message: format!("attribute memory_reach is {value}"),
        help: "local, remote, in_switch, host or disk",
    })
}

/// Value of the attribute `memory_tensor`: 0 where it is absent.
fn tensor(raw: &Raw) -> Result<u32, BadAttr> {
    let number = raw.attrs.unsigned(Key::MemoryTensor)?.unwrap_or(0);
    u32::try_from(number).map_err(|_| BadAttr {
        message: format!("attribute memory_tensor is {number}"),
        help: "a number up to 4294967295; accesses to one tensor have the same number",
    })
}

/// Content of attribute `kernel`: a kind, the shape of a matrix multiplication, whose operations
/// and bytes follow from it, or the rows of embedding tables.
enum Work {
    Counted(Kernel),
    Gemm(Gemm),
    Grouped(Gemm),
    Lookup { rows: u64, update: bool },
}

/// `attention`, `gemm(batch,m,n,k,width)`, `grouped(batch,m,n,k,width)`, `embedding(rows)`, or
/// `embedding_update(rows)`.
#[cold]
fn kernel(value: Value) -> Result<Work, BadAttr> {
    let text = if let Value::Text(text) = value { std::str::from_utf8(text).ok() } else { None };
    let shape = |text: &str, prefix: &str| {
        let numbers = text.strip_prefix(prefix)?.strip_suffix(')')?.split(',');
        let numbers: Option<Vec<u32>> = numbers.map(|n| n.parse().ok()).collect();
        let [batch, m, n, k, width] = numbers?.try_into().ok()?;
        Some(Gemm { batch, m, n, k, width: u8::try_from(width).ok()? })
    };
    let lookup = |text: &str, prefix: &str, update| {
        let rows = text.strip_prefix(prefix)?.strip_suffix(')')?.parse().ok()?;
        Some(Work::Lookup { rows, update })
    };
    let kind = |text| Kernel::from_name(text).map(Work::Counted);
    text.and_then(|text| kind(text)
            .or_else(|| shape(text, "gemm(").map(Work::Gemm))
            .or_else(|| shape(text, "grouped(").map(Work::Grouped))
            .or_else(|| lookup(text, "embedding(", false))
            .or_else(|| lookup(text, "embedding_update(", true))).ok_or_else(|| BadAttr {
        message: format!("attribute kernel is {value}"),
        help: "other, gemm, grouped, convolution, attention, unmasked_attention, elementwise, normalization, embedding, embedding_update, optimizer, gemm(batch,m,n,k,width), grouped(batch,m,n,k,width), embedding(rows) or embedding_update(rows)",
    })
}

#[inline]
fn duration(raw: &Raw) -> Result<Span, BadAttr> {
    if let Some(picos) = raw.attrs.unsigned(Key::DurationPicos)? {
        return Ok(Span(picos));
    }
    let picos = match raw.duration {
        Recorded::Micros(micros) => micros.checked_mul(PS_PER_US),
        Recorded::Nanos(nanos) => nanos.checked_mul(PS_PER_NS),
        // The picosecond is far below what a profiler can tell, so the nearest one will do.
        Recorded::FractionalMicros(micros) => {
            let picos = (micros * PS_PER_US as f64).round();
            (0.0..1.8e19).contains(&picos).then_some(picos as u64)
        }
    };
    picos.map(Span).ok_or_else(|| BadAttr {
        message: format!("the duration is {}", shown(raw.duration)),
        help: "0 to 18,446,744,073,709 microseconds",
    })
}

fn shown(duration: Recorded) -> String {
    match duration {
        Recorded::Micros(v) => format!("{v} us"),
        Recorded::Nanos(v) => format!("{v} ns"),
        Recorded::FractionalMicros(v) => format!("{v} us"),
    }
}
