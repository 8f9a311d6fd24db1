//! Dispatch: each token goes to the ranks of its experts.
//!
//! ```text
//! low latency: launch + ranks * rank + experts * expert + (several nodes: network)
//!              + 4-norm(tokens of a multiprocessor * token, link, network) + copies / copy
//! normal:      launch + hidden * width + doublings of nodes * barrier
//!              + 4-norm(tokens of a channel * (token + copies * (row + bytes / copy)), link, network)
//! TensorRT-LLM: prepare + launch + ranks * rank + tokens * token + 4-norm(link, memory)
//! ```
//!
//! Low-latency kernels give each multiprocessor some experts, and tokens in turn. They run on no
//! more multiprocessors than there are experts.
//!
//! Source: deepseek-ai/DeepEP, csrc/kernels/internode_ll.cu; `exchange.rs`.

use crate::exchange::{self, Backend, Shape, direct, doublings, norm, normal};
use crate::values::{part, seconds};
use crate::{Chip, Estimate, Format, Refused};
use declared::section;
use units::{Ratio, Span};

section! {
    /// Dispatch of tokens to experts.
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
    /// DeepEP's low-latency dispatch.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct LowLatency {
        /// Time of a call without tokens.
        pub launch: Span, required "4 us";
        /// Time that each rank adds.
        pub rank: Span, required "0.2 us";
        /// Time that each expert adds.
        pub expert: Span, required "20 ns";
        /// Time that a network between the ranks adds.
        pub network: Span, required "8 us";
        /// Time of a token in a multiprocessor: conversion and sending.
        pub token: Span, required "2 us";
        /// Bytes of received copies that a multiprocessor moves in a clock.
        pub copy: Ratio, required "6.5";
        /// Part of the bandwidth of the links in a node.
        pub link: Ratio, required "0.75";
        /// Part of the bandwidth of the network.
        pub nic: Ratio, required "0.9";
    }
}

section! {
    /// DeepEP's normal dispatch: a channel is two multiprocessors, one sends and one receives.
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
        /// Time that each copy of a token adds in a channel.
        pub row: Span, required "20 ns";
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
    /// TensorRT-LLM's one-sided dispatch within NVLink.
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
    /// TensorRT-LLM's two-sided dispatch within NVLink.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct TwoSided {
        /// Time of a call without tokens.
        pub launch: Span, required "11 us";
        /// Time that each rank adds.
        pub rank: Span, required "0.1 us";
        /// Time that each token adds.
        pub token: Span, required "20 ns";
        /// Kernel that finds the places of the tokens first.
        pub prepare: Option<Prepare>, default None;
        /// Part of the bandwidth of the links.
        pub link: Ratio, required "0.75";
        /// Part of the memory bandwidth.
        pub memory: Ratio, required "0.2";
    }
}

section! {
    /// The kernel before an all-to-all, which finds the places of the tokens.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Prepare {
        /// Time of a call without tokens.
        pub launch: Span, required "11 us";
        /// Time that each doubling of the ranks adds.
        pub doubling: Span, required "0.7 us";
        /// Time that each token adds.
        pub token: Span, required "7 ns";
    }
}

impl From<Normal> for exchange::Normal {
    fn from(own: Normal) -> Self {
        let Normal { launch, width, barrier, token, row, copy, link, nic, forward, pass } = own;
        let reduce = Span::ZERO;
        Self { launch, width, barrier, token, row, reduce, copy, link, nic, forward, pass }
    }
}

/// Time of a dispatch.
pub fn estimate(chip: &Chip, own: &Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    let lacking = |name: &str| Refused::lacking(&format!("dispatch.{name}"));
    match shape.backend {
        Backend::DeepepLl | Backend::DeepepNormal => {
            let blocks = Shape { format: Format::Fp8Block, ..*shape };
            let shape = match shape.format {
                Format::Bf16 => shape,
                Format::Fp8 | Format::Fp8Block => &blocks,
                _ => return Err(shape.no_format("fp8 or bf16")),
            };
            if shape.backend == Backend::DeepepLl {
                let own = own.deepep_ll.ok_or_else(|| lacking("deepep_ll"))?;
                return low_latency(chip, &own, shape);
            }
            let own = own.deepep_normal.ok_or_else(|| lacking("deepep_normal"))?;
            normal(chip, &own.into(), shape)
        }
        Backend::Trtllm | Backend::TrtllmTwoSided => {
            if !matches!(shape.format, Format::Bf16 | Format::Fp8 | Format::Nvfp4) {
                return Err(shape.no_format("bf16, fp8 or nvfp4"));
            }
            let own = if shape.backend == Backend::Trtllm {
                let Direct { launch, rank, token, link, memory } =
                    own.trtllm.ok_or_else(|| lacking("trtllm"))?;
                let token = seconds(token);
                exchange::Direct { launch, rank, token, link, memory, prepare: None }
            } else {
                let TwoSided { launch, rank, token, prepare, link, memory } =
                    own.trtllm_two_sided.ok_or_else(|| lacking("trtllm_two_sided"))?;
                let prepare = prepare.map(|before| {
                    seconds(before.launch)
                        + doublings(shape.ep) * seconds(before.doubling)
                        + shape.tokens as f64 * seconds(before.token)
                });
                exchange::Direct { launch, rank, token: seconds(token), link, memory, prepare }
            };
            direct(chip, &own, shape)
        }
    }
}

/// Multiprocessors of DeepEP's low-latency kernels: each has the same number of experts.
pub(crate) fn low_latency_multiprocessors(chip: &Chip, experts: u64) -> f64 {
    let experts = experts as f64;
    (experts / (experts / chip.multiprocessors).ceil()).ceil()
}

fn low_latency(chip: &Chip, own: &LowLatency, shape: &Shape) -> Result<Estimate, Refused> {
    let ground = shape.ground(chip)?;
    let tokens = shape.tokens as f64;
    let multiprocessors = low_latency_multiprocessors(chip, shape.experts);
    let launch = seconds(own.launch)
        + shape.ep as f64 * seconds(own.rank)
        + shape.experts as f64 * seconds(own.expert)
        + if ground.nodes > 1.0 { seconds(own.network) } else { 0.0 };
    let send = (tokens / multiprocessors).ceil() * seconds(own.token);
    let (link, network) = (ground.links(tokens, own.link), ground.network(tokens, own.nic));
    let copied = tokens * ground.row * ground.copies.all;
    let receive = copied / (multiprocessors * chip.clock * part(own.copy));
    Ok(Estimate {
        seconds: launch + norm([send, link, network]) + receive,
        operations: 0.0,
        bytes: ground.memory(tokens),
        parts: vec![
            ("launch", launch),
            ("send", send),
            ("link", link),
            ("network", network),
            ("receive", receive),
        ],
    })
}
