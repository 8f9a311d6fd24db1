//! Dispatch and combine of experts: their shape, the copies of a token, and the times of kernels that
//! take both directions alike.
//!
//! *Dispatch* sends each token to the ranks of its experts; *combine* sends the results back and
//! adds them. Copies of a token:
//!
//! ```text
//! one for each expert       low-latency kernels of DeepEP
//! one for each rank         everything else: ranks * (1 - C(experts - own, top_k) / C(experts, top_k))
//! one for each other node   normal kernels of DeepEP over the network; ranks of a node pass it on
//! ```
//!
//! `balanced` routers reach `min(top_k, ranks)` ranks. Copies to the own rank take no link.
//!
//! Source: deepseek-ai/DeepEP, csrc/kernels/internode.cu and intranode.cu; NVIDIA/TensorRT-LLM,
//! cpp/tensorrt_llm/kernels (moeAlltoAllKernels, fusedMoeCommKernels).

use crate::values::{part, seconds, word};
use crate::{Chip, Estimate, Format, Refused};
use serde::{Deserialize, Serialize};
use units::{Ratio, Span};

/// DeepEP's normal kernels in one direction.
pub(crate) struct Normal {
    pub(crate) launch: Span,
    pub(crate) width: Span,
    pub(crate) barrier: Span,
    pub(crate) token: Span,
    /// Time that each copy of a token adds in a channel.
    pub(crate) row: Span,
    /// Time that 1,000 elements of a token add in a channel.
    pub(crate) reduce: Span,
    pub(crate) copy: Ratio,
    pub(crate) link: Ratio,
    pub(crate) nic: Ratio,
    pub(crate) forward: Span,
    pub(crate) pass: Ratio,
}

/// All-to-alls of TensorRT-LLM within NVLink in one direction.
pub(crate) struct Direct {
    pub(crate) launch: Span,
    pub(crate) rank: Span,
    /// Time that each token adds, in its format.
    pub(crate) token: f64,
    pub(crate) link: Ratio,
    pub(crate) memory: Ratio,
    /// Time of the kernel before it, if there is one.
    pub(crate) prepare: Option<f64>,
}

/// A library of all-to-alls of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// DeepEP's low-latency kernels.
    DeepepLl,
    /// DeepEP's normal kernels.
    DeepepNormal,
    /// TensorRT-LLM, one-sided.
    Trtllm,
    /// TensorRT-LLM, two-sided.
    TrtllmTwoSided,
}

/// How routers spread the experts of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Any experts.
    Random,
    /// Over the largest possible number of ranks.
    Balanced,
}

/// The part of a call that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// All of it.
    Whole,
    /// The kernel before the copies.
    Prepare,
    /// The copies alone.
    Copy,
}

/// A dispatch or a combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Tokens of each rank.
    pub tokens: u64,
    /// Elements of a token.
    pub hidden: u64,
    /// Experts of the layer.
    pub experts: u64,
    /// Experts of each token.
    pub top_k: u64,
    /// Ranks that share the experts.
    pub ep: u64,
    /// Multiprocessors of DeepEP's normal kernels.
    pub sms: u64,
    /// Most nodes of a token; 0 without a limit.
    pub groups: u64,
    /// Format in which tokens are sent.
    pub format: Format,
    /// Library.
    pub backend: Backend,
    /// How routers spread the experts of a token.
    pub routing: Spread,
    /// The part that is timed.
    pub stage: Stage,
}

/// Copies of a token on average, and where they go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// All that its ranks receive.
    pub all: f64,
    /// Those that take links in a node.
    pub link: f64,
    /// Those that take the network.
    pub network: f64,
    /// Nodes that it reaches.
    pub nodes: f64,
}

/// Bandwidths and counts that a call has to itself.
pub(crate) struct Ground {
    pub(crate) nodes: f64,
    pub(crate) doublings: f64,
    pub(crate) copies: Copies,
    /// Bytes of a token as it is sent.
    pub(crate) row: f64,
    /// Bytes a second of the network, where there are several nodes.
    network: f64,
    link: f64,
}

const MOST_TOP_K: u64 = 256;
const MOST_EXPERTS: u64 = 1 << 20;
/// Ranks of a node that DeepEP's normal kernels reach over NVLink.
const MOST_PEERS: u64 = 8;
/// Bytes in front of each token of DeepEP's low-latency dispatch.
const HEAD: f64 = 16.0;

impl Shape {
    /// Copies of a token, with nodes of `node` ranks.
    pub fn copies(&self, node: u64) -> Copies {
        let inside = self.ep.min(node);
        let nodes = self.ep / inside;
        let (ranks_f, nodes_f, inside_f) = (self.ep as f64, nodes as f64, inside as f64);
        let reached = if self.groups == 0 { nodes } else { self.groups.min(nodes) };
        let own = (self.experts / nodes * reached) as f64;
        let (ranks, visits) = match self.routing {
            Spread::Random => (
                distinct((reached * inside) as f64, own, self.top_k),
                distinct(reached as f64, own, self.top_k),
            ),
            Spread::Balanced => {
                (self.top_k.min(reached * inside) as f64, self.top_k.min(reached) as f64)
            }
        };
        let away = 1.0 - 1.0 / nodes_f;
        match self.backend {
            Backend::DeepepLl => {
                let all = self.top_k as f64;
                let link = all * (1.0 / nodes_f - 1.0 / ranks_f);
                Copies { all, link, network: all * away, nodes: visits }
            }
            _ => {
                let link = ranks * (1.0 - 1.0 / inside_f);
                Copies { all: ranks, link, network: visits * away, nodes: visits }
            }
        }
    }

    /// Bandwidths and counts of the call, or why there is no time of it.
    pub(crate) fn ground(&self, chip: &Chip) -> Result<Ground, Refused> {
        self.counted()?;
        let node = chip.node as u64;
        let inside = self.ep.min(node.max(1));
        if !self.ep.is_multiple_of(inside) {
            return Err(Refused::new(format!(
                "ep {} are not whole nodes of {node}: take a multiple of {node}, or at most {node}",
                self.ep
            )));
        }
        let nodes = self.ep / inside;
        self.library(chip, inside, nodes)?;
        if self.groups > nodes {
            return Err(Refused::new(format!(
                "groups {} are more than {nodes} nodes",
                self.groups
            )));
        }
        let reached = if self.groups == 0 { nodes } else { self.groups };
        if self.experts / nodes * reached < self.top_k {
            return Err(Refused::new("the nodes of a token have fewer experts than top_k"));
        }
        if self.ep > 1 && chip.link <= 0.0 {
            return Err(Refused::new("the platform states no bandwidth of links in a node"));
        }
        let network = match chip.network {
            _ if nodes == 1 => f64::INFINITY,
            Some(network) if network > 0.0 => network,
            _ => {
                return Err(Refused::new(format!(
                    "ep {} needs a network between {nodes} nodes of {node}, which the platform \
                     does not state: take one with these nodes, such as dgx-h100-16n",
                    self.ep
                )));
            }
        };
        let head = if self.backend == Backend::DeepepLl && self.format != Format::Bf16 {
            HEAD
        } else {
            0.0
        };
        Ok(Ground {
            nodes: nodes as f64,
            doublings: doublings(nodes),
            copies: self.copies(inside),
            row: self.hidden as f64 * self.format.bytes() + head,
            network,
            link: chip.link,
        })
    }

    fn counted(&self) -> Result<(), Refused> {
        let refused = |text: String| Err(Refused::new(text));
        let counts = [self.tokens, self.hidden, self.experts, self.top_k, self.ep];
        if counts.contains(&0) {
            return refused("tokens, hidden, experts, top_k and ep are at least 1".into());
        }
        if self.top_k > self.experts.min(MOST_TOP_K) {
            return refused(format!("top_k is at most {MOST_TOP_K} and the number of experts"));
        }
        if self.experts > MOST_EXPERTS || !self.experts.is_multiple_of(self.ep) {
            return refused(format!(
                "{} experts do not divide by ep {}: experts are a multiple of ep, at most \
                 {MOST_EXPERTS}",
                self.experts, self.ep
            ));
        }
        Ok(())
    }

    /// Whether the library has such a call.
    fn library(&self, chip: &Chip, inside: u64, nodes: u64) -> Result<(), Refused> {
        let name = word(self.backend);
        let refused = |text: String| Err(Refused::new(format!("{name}: {text}")));
        let deepep = matches!(self.backend, Backend::DeepepLl | Backend::DeepepNormal);
        let multiple = if deepep { 128 } else { 16 };
        if !self.hidden.is_multiple_of(multiple) {
            return refused(format!("hidden is a multiple of {multiple}, the reach of a scale"));
        }
        if !deepep && nodes > 1 {
            return refused(format!(
                "ranks are in one NVLink domain of {}; over a network take deepep_ll or \
                 deepep_normal",
                chip.node
            ));
        }
        if self.stage != Stage::Whole && self.backend != Backend::TrtllmTwoSided {
            return refused("stages are those of trtllm_two_sided; take stage=whole".into());
        }
        if self.backend != Backend::DeepepNormal {
            if self.groups > 0 {
                return refused("groups change nothing; leave them out".into());
            }
            return Ok(());
        }
        if inside > MOST_PEERS {
            return refused(format!(
                "{inside} ranks in one NVLink domain are more than {MOST_PEERS}: take deepep_ll or \
                 trtllm"
            ));
        }
        if self.sms < 2 || !self.sms.is_multiple_of(2) || self.sms as f64 > chip.multiprocessors {
            return refused(format!(
                "sms is even, from 2 to the {} multiprocessors of the GPU",
                chip.multiprocessors
            ));
        }
        Ok(())
    }

    /// That tokens are not sent in this format.
    pub(crate) fn no_format(&self, allowed: &str) -> Refused {
        let (name, format) = (word(self.backend), self.format.word());
        Refused::new(format!("{name} does not send {format} here: take format={allowed}"))
    }
}

impl Ground {
    /// Time of the links in a node, for `tokens` tokens.
    pub(crate) fn links(&self, tokens: f64, efficiency: Ratio) -> f64 {
        tokens * self.row * self.copies.link / (self.link * part(efficiency).min(1.0))
    }

    /// Time of the network.
    pub(crate) fn network(&self, tokens: f64, efficiency: Ratio) -> f64 {
        tokens * self.row * self.copies.network / (self.network * part(efficiency).min(1.0))
    }

    /// Bytes that memory reads and writes at least: tokens on one side, copies on the other.
    pub(crate) fn memory(&self, tokens: f64) -> f64 {
        tokens * self.row * (1.0 + self.copies.all)
    }
}

/// Time of normal kernels of DeepEP.
pub(crate) fn normal(chip: &Chip, own: &Normal, shape: &Shape) -> Result<Estimate, Refused> {
    let ground = shape.ground(chip)?;
    let tokens = shape.tokens as f64;
    let mine = tokens / (shape.sms as f64 / 2.0);
    let thousands = shape.hidden as f64 / 1000.0;
    let copy = chip.clock * part(own.copy);
    let mut channel = seconds(own.token)
        + ground.copies.all * (seconds(own.row) + ground.row / copy)
        + thousands * seconds(own.reduce);
    if ground.nodes > 1.0 {
        let pass = chip.clock * part(own.pass);
        channel += seconds(own.forward) + ground.copies.nodes * ground.row / pass;
    }
    let channels = mine * channel;
    let (link, network) = (ground.links(tokens, own.link), ground.network(tokens, own.nic));
    let launch = seconds(own.launch) + thousands * seconds(own.width);
    let barrier = ground.doublings * seconds(own.barrier);
    Ok(Estimate {
        seconds: launch + barrier + norm([channels, link, network]),
        operations: 0.0,
        bytes: ground.memory(tokens),
        parts: vec![
            ("launch", launch),
            ("barrier", barrier),
            ("channels", channels),
            ("link", link),
            ("network", network),
        ],
    })
}

/// Time of all-to-alls of TensorRT-LLM.
pub(crate) fn direct(chip: &Chip, own: &Direct, shape: &Shape) -> Result<Estimate, Refused> {
    let ground = shape.ground(chip)?;
    let tokens = shape.tokens as f64;
    let mut parts = Vec::new();
    let mut sum = 0.0;
    if let (Some(time), Stage::Whole | Stage::Prepare) = (own.prepare, shape.stage) {
        parts.push(("prepare", time));
        sum += time;
    }
    if shape.stage == Stage::Prepare {
        if parts.is_empty() {
            return Err(Refused::new("this direction has no kernel before it: take stage=whole"));
        }
        return Ok(Estimate { seconds: sum, operations: 0.0, bytes: 0.0, parts });
    }
    let launch = seconds(own.launch) + shape.ep as f64 * seconds(own.rank);
    let each = tokens * own.token;
    let link = ground.links(tokens, own.link);
    let memory = ground.memory(tokens) / (chip.memory * part(own.memory).min(1.0));
    parts.extend([("launch", launch), ("tokens", each), ("link", link), ("memory", memory)]);
    Ok(Estimate {
        seconds: sum + launch + each + norm([link, memory, 0.0]),
        operations: 0.0,
        bytes: ground.memory(tokens),
        parts,
    })
}

/// Ranks that hold a token's experts: `top_k` draws of `experts`, which are dealt evenly.
fn distinct(ranks: f64, experts: f64, top_k: u64) -> f64 {
    let each = experts / ranks;
    let mut none = 1.0;
    for drawn in 0..top_k {
        let drawn = drawn as f64;
        none *= (experts - each - drawn).max(0.0) / (experts - drawn).max(1.0);
    }
    ranks * (1.0 - none)
}

/// Doublings from 1 to `count`.
pub(crate) fn doublings(count: u64) -> f64 {
    f64::from(count.next_power_of_two().trailing_zeros())
}

/// The 4-norm: a maximum whose arguments disturb each other where they are alike.
pub(crate) fn norm(times: [f64; 3]) -> f64 {
    let fourths = times.map(|time| (time * time) * (time * time));
    fourths.iter().sum::<f64>().sqrt().sqrt()
}
