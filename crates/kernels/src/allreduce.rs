//! All-reduces of inference engines among GPUs of one node.
//!
//! Engines have kernels of their own for small messages, and call a library (NCCL) for large ones.
//! One shot: each GPU reads the whole message of every other. Two shots: each reduces its part, and
//! reads the parts of the others. The fastest is taken, as engines choose by size:
//!
//! ```text
//! one shot = latency + n * member + (n - 1) * bytes / rate
//! two shots, library = latency + n * member + 2 * (n - 1) / n * bytes / rate
//! rate = link * part / (1 + crowding * (n - 2))
//! time = max(host, fastest + copy of the message) where the host launches one by one
//! ```
//!
//! Source: NVIDIA, TensorRT-LLM customAllReduceKernels.cu (one shot and two shots), and the fit to
//! measured all-reduces that docs/models/kernels.md describes.

use crate::values::{part, seconds, word};
use crate::{Chip, Estimate, Refused};
use declared::section;
use serde::{Deserialize, Serialize};
use units::{Ratio, Span};

section! {
    /// All-reduces of inference engines.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Parameters {
        /// TensorRT-LLM.
        pub trtllm: Option<Engine>, default None;
        /// vLLM.
        pub vllm: Option<Engine>, default None;
        /// SGLang to version 0.5.10.
        pub sglang: Option<Engine>, default None;
        /// SGLang from version 0.5.12: kernels that are compiled when it starts.
        pub sglang_jit: Option<Engine>, default None;
    }
}

section! {
    /// All-reduces of an engine.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Engine {
        /// Time between two calls that the host launches one by one.
        pub host: Option<Span>, default None;
        /// Part by which each GPU after the second slows links, where they share them.
        pub crowding: Option<Ratio>, default None, says "none";
        /// Each GPU reads all messages.
        pub one_shot: Algorithm, required;
        /// Each GPU reduces a part.
        pub two_shots: Algorithm, required;
        /// The library for large messages.
        pub library: Algorithm, required;
    }
}

section! {
    /// An algorithm.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Algorithm {
        /// Time of a call without bytes.
        pub latency: Span, required "4 us";
        /// Time that each GPU adds.
        pub member: Span, required "0.1 us";
        /// Part of the bandwidth of the links.
        pub rate: Ratio, required "0.6";
    }
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// TensorRT-LLM.
    Trtllm,
    /// vLLM.
    Vllm,
    /// SGLang to version 0.5.10.
    Sglang,
    /// SGLang from version 0.5.12.
    SglangJit,
}

/// How calls are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// In CUDA graphs.
    Graph,
    /// One by one by the host, on a copy of the message.
    Eager,
}

/// An all-reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// Bytes of the message of each GPU.
    pub bytes: u64,
    /// GPUs.
    pub members: u64,
    /// Engine.
    pub library: Library,
    /// How calls are launched.
    pub launch: Launch,
}

/// Time of an all-reduce.
pub fn estimate(chip: &Chip, own: Parameters, shape: &Shape) -> Result<Estimate, Refused> {
    let refused = |text: &str| Err(Refused::new(text));
    let members = shape.members as f64;
    if shape.bytes == 0 || shape.members < 2 {
        return refused("an all-reduce takes at least 1 byte and 2 members");
    }
    if members > chip.node {
        return refused("members of an all-reduce of an engine are in one node");
    }
    let found = match shape.library {
        Library::Trtllm => own.trtllm,
        Library::Vllm => own.vllm,
        Library::Sglang => own.sglang,
        Library::SglangJit => own.sglang_jit,
    };
    let lacking = || Refused::lacking(&format!("allreduce.{}", word(shape.library)));
    let engine = found.ok_or_else(lacking)?;
    let bytes = shape.bytes as f64;
    let link = chip.link / (1.0 + engine.crowding.map_or(0.0, part) * (members - 2.0));
    let time = |algorithm: Algorithm, bytes: f64| {
        seconds(algorithm.latency)
            + members * seconds(algorithm.member)
            + bytes / (link * part(algorithm.rate))
    };
    let halves = 2.0 * (members - 1.0) / members * bytes;
    let one_shot = time(engine.one_shot, (members - 1.0) * bytes);
    let two_shots = time(engine.two_shots, halves);
    let library = time(engine.library, halves);
    let device = one_shot.min(two_shots).min(library);
    let mut parts = vec![("one_shot", one_shot), ("two_shots", two_shots), ("library", library)];
    let seconds = match (shape.launch, engine.host) {
        (Launch::Graph, _) => device,
        (Launch::Eager, None) => return refused("the host's time of this engine is not known"),
        (Launch::Eager, Some(host)) => {
            let copy = COPY_LAUNCH + 2.0 * bytes / (chip.memory * COPY_PART);
            parts.extend([("host", seconds(host)), ("copy", copy)]);
            seconds(host).max(device + copy)
        }
    };
    Ok(Estimate { seconds, operations: (members - 1.0) * bytes / 2.0, bytes: 2.0 * bytes, parts })
}

/// Launch of the copy that calls without graphs make, and its part of the memory bandwidth.
const COPY_LAUNCH: f64 = 2e-6;
const COPY_PART: f64 = 0.85;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rates, Sheet};
    use proptest::prelude::*;
    use units::{Bandwidth, Bytes, Flops, Frequency};

    const LINK: f64 = 450e9;

    fn chip() -> Chip {
        let sheet = Sheet {
            multiprocessors: 132,
            clock: Frequency(1_830_000_000),
            l2_cache: Bytes(50_000_000),
            peak_int8: None,
        };
        let usual = Flops(989_000_000_000_000);
        let rates = Rates { usual, fp4: None, fp8: None, fp32: None };
        Chip::new(sheet, rates, Bandwidth(3_350_000_000_000), Bandwidth(LINK as u64), 8)
    }

    fn own(latencies: [u64; 3], host: Option<u64>) -> Parameters {
        let all = |latency| Algorithm {
            latency: Span(latency),
            member: Span::ZERO,
            rate: Ratio(1_000_000),
        };
        let [one, two, library] = latencies.map(all);
        let host = host.map(Span);
        let engine = Engine { host, crowding: None, one_shot: one, two_shots: two, library };
        Parameters { trtllm: None, vllm: Some(engine), sglang: None, sglang_jit: None }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn messages_take_what_links_allow(bytes in 1..1u64 << 32, members in 2..9u64) {
            let shape = Shape { bytes, members, library: Library::Vllm, launch: Launch::Graph };
            let own = own([1_000_000, 3_000_000, 20_000_000], Some(20_000_000));
            let time = |shape: &Shape| estimate(&chip(), own, shape).unwrap().seconds;
            let least = 2.0 * (members - 1) as f64 / members as f64 * bytes as f64 / LINK;
            prop_assert!(time(&shape) >= least.min((members - 1) as f64 * bytes as f64 / LINK));
            let longer = Shape { bytes: 2 * bytes, ..shape };
            prop_assert!(time(&longer) >= time(&shape));
            let eager = Shape { launch: Launch::Eager, ..shape };
            prop_assert!(time(&eager) >= time(&shape).max(20e-6));
        }
    }

    #[test]
    fn what_has_no_time_is_refused() {
        let shape =
            Shape { bytes: 1024, members: 8, library: Library::Vllm, launch: Launch::Graph };
        let own = own([1, 1, 1], None);
        assert!(estimate(&chip(), own, &shape).is_ok());
        for wrong in [
            Shape { bytes: 0, ..shape },
            Shape { members: 1, ..shape },
            Shape { members: 9, ..shape },
            Shape { library: Library::Trtllm, ..shape },
            Shape { launch: Launch::Eager, ..shape },
        ] {
            assert!(estimate(&chip(), own, &wrong).is_err(), "{wrong:?}");
        }
    }
}
