//! Combine: results of a token's experts go back to its rank and are added.
//!
//! ```text
//! low latency: launch + ranks * rank + experts * expert + (several nodes: network)
//!              + 4-norm(copies / copy, link, network) + memory
//! ```
//!
//! The others are as in `dispatch.rs`. Results are sent in 16 bits, by TensorRT-LLM's two-sided
//! kernels in 4 bits too.
//!
//! Source: deepseek-ai/DeepEP, csrc/kernels/internode_ll.cu; `exchange.rs`.

use crate::dispatch::low_latency_multiprocessors;
use crate::exchange::{self, Backend, Shape, direct, norm, normal};
use crate::values::{part, seconds};
use crate::{Chip, Estimate, Format, Refused};
use declared::section;
use units::{Ratio, Span};

section! {
    /// Combination of the results of experts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// DeepEP's low-latency kernels.
        pub deepep_ll: Option<LowLatency>, default None;
        /// DeepEP's normal kernels: a channel is two multiprocessors.
        pub deepep_normal: Option<Normal>, default None;
        /// TensorRT-LLM, one-sided, within NVLink.
        pub trtllm: Option<Direct>, default None;
        /// TensorRT-LLM, two-sided, within NVLink.
        pub trtllm_two_sided: Option<TwoSided>, default None;
    }
}

section! {
    /// DeepEP's low-latency combine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct LowLatency {
        /// Time of a call without tokens.
        pub launch: Span, required "7 us";
        /// Time that each rank adds.
        pub rank: Span, required "0.1 us";
        /// Time that each expert adds.
        pub expert: Span, required "10 ns";
        /// Time that a network between the ranks adds.
        pub network: Span, required "13 us";
        /// Bytes of results that a multiprocessor sends in a clock.
        pub copy: Ratio, required "19";
        /// Part of the bandwidth of the links in a node.
        pub link: Ratio, required "0.7";
        /// Part of the bandwidth of the network.
        pub nic: Ratio, required "0.95";
        /// Part of the memory bandwidth with which results are added.
        pub memory: Ratio, required "0.5";
    }
}

section! {
    /// DeepEP's normal combine: a channel is two multiprocessors, one sends and one receives.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Normal {
        /// Time of a call without tokens.
        pub launch: Span, required "25 us";
        /// Time that it adds for 1,000 elements of a token.
        pub width: Span, required "0.3 us";
        /// Time that each doubling of the nodes adds: barriers.
        pub barrier: Span, required "34 us";
        /// Time that each token takes in a channel.
        pub token: Span, required "0.2 us";
        /// Time that 1,000 elements of a token add in a channel.
        pub reduce: Span, required "90 ns";
        /// Bytes that a channel copies in a clock.
        pub copy: Ratio, required "29";
        /// Part of the bandwidth of the links in a node.
        pub link: Ratio, required "0.74";
        /// Part of the bandwidth of the network.
        pub nic: Ratio, required "0.96";
        /// Time that a token adds in a channel where there are several nodes.
        pub forward: Span, required "0.4 us";
        /// Bytes that a channel passes on between network and node in a clock.
        pub pass: Ratio, required "30";
    }
}

section! {
    /// TensorRT-LLM's one-sided combine within NVLink.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Direct {
        /// Time of a call without tokens.
        pub launch: Span, required "11 us";
        /// Time that each rank adds.
        pub rank: Span, required "0.1 us";
        /// Time that each token adds.
        pub token: Span, required "20 ns";
        /// Part of the bandwidth of the links.
        pub link: Ratio, required "0.75";
        /// Part of the memory bandwidth.
        pub memory: Ratio, required "0.2";
    }
}

section! {
    /// TensorRT-LLM's two-sided combine within NVLink.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct TwoSided {
        /// Time of a call without tokens.
        pub launch: Span, required "11 us";
        /// Time that each rank adds.
        pub rank: Span, required "0.1 us";
        /// Time that each token adds.
        pub token: Span, required "20 ns";
        /// Time that each token adds where results are sent in 4 bits.
        pub convert: Span, required "79 ns";
        /// Part of the bandwidth of the links.
        pub link: Ratio, required "0.75";
        /// Part of the memory bandwidth.
        pub memory: Ratio, required "0.2";
    }
}

impl From<Normal> for exchange::Normal {
    fn from(own: Normal) -> Self {
        let Normal { launch, width, barrier, token, reduce, copy, link, nic, forward, pass } = own;
        let row = Span::ZERO;
        Self { launch, width, barrier, token, row, reduce, copy, link, nic, forward, pass }
    }
}

/// Time of a combine.
pub fn estimate(chip: &Chip, own: &Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    let lacking = |name: &str| Refused::lacking(&format!("combine.{name}"));
    match (shape.backend, shape.format) {
        (_, Format::Bf16) | (Backend::TrtllmTwoSided, Format::Nvfp4) => {}
        (Backend::TrtllmTwoSided, _) => return Err(shape.no_format("bf16 or nvfp4")),
        _ => return Err(shape.no_format("bf16")),
    }
    match shape.backend {
        Backend::DeepepLl => {
            let own = own.deepep_ll.ok_or_else(|| lacking("deepep_ll"))?;
            low_latency(chip, &own, shape)
        }
        Backend::DeepepNormal => {
            let own = own.deepep_normal.ok_or_else(|| lacking("deepep_normal"))?;
            normal(chip, &own.into(), shape)
        }
        Backend::Trtllm => {
            let Direct { launch, rank, token, link, memory } =
                own.trtllm.ok_or_else(|| lacking("trtllm"))?;
            let token = seconds(token);
            let own = exchange::Direct { launch, rank, token, link, memory, prepare: None };
            direct(chip, &own, shape)
        }
        Backend::TrtllmTwoSided => {
            let TwoSided { launch, rank, token, convert, link, memory } =
                own.trtllm_two_sided.ok_or_else(|| lacking("trtllm_two_sided"))?;
            let narrow = if shape.format == Format::Nvfp4 { seconds(convert) } else { 0.0 };
            let token = seconds(token) + narrow;
            let own = exchange::Direct { launch, rank, token, link, memory, prepare: None };
            direct(chip, &own, shape)
        }
    }
}

fn low_latency(chip: &Chip, own: &LowLatency, shape: &Shape) -> Result<Estimate, Refused> {
    let ground = shape.ground(chip)?;
    let tokens = shape.tokens as f64;
    let multiprocessors = low_latency_multiprocessors(chip, shape.experts);
    let launch = seconds(own.launch)
        + shape.ep as f64 * seconds(own.rank)
        + shape.experts as f64 * seconds(own.expert)
        + if ground.nodes > 1.0 { seconds(own.network) } else { 0.0 };
    let copied = tokens * ground.row * ground.copies.all;
    let send = copied / (multiprocessors * chip.clock * part(own.copy));
    let (link, network) = (ground.links(tokens, own.link), ground.network(tokens, own.nic));
    let memory = ground.memory(tokens) / (chip.memory * part(own.memory).min(1.0));
    Ok(Estimate {
        seconds: launch + norm([send, link, network]) + memory,
        operations: 0.0,
        bytes: ground.memory(tokens),
        parts: vec![
            ("launch", launch),
            ("send", send),
            ("link", link),
            ("network", network),
            ("memory", memory),
        ],
    })
}
