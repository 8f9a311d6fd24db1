//! The conformance suite of network backends on the network of a platform.
//!
//! Not here: what is checked (`network::conformance`).

use crate::BackendKind;
use graph::Problem;
use network::{Transfer, conformance};
use platform::Platform;
use units::{Span, Time};

/// Sizes of messages: nothing, one byte, one packet, several packets.
const SIZES: [u64; 5] = [0, 1, 1000, 20_000, 300_000];
/// Most NPUs that send.
const SENDERS: u32 = 8;

/// Finding of the suite about one kind of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Traffic that was sent.
    pub traffic: &'static str,
    /// Messages.
    pub messages: usize,
    /// The first rule that the backend broke.
    pub violation: Option<String>,
}

/// Runs the suite with several kinds of traffic.
///
/// # Errors
/// A network that the backend cannot carry, or that has one NPU.
pub fn check(platform: &Platform, backend: &BackendKind) -> Result<Vec<Finding>, Problem> {
    backend.make(platform)?;
    let npus = platform.fabric.npus();
    if npus < 2 {
        let text = "a network of one NPU carries nothing";
        return Err(Problem::new(&platform.name, "topology", text).help("2 NPUs or more"));
    }
    let make = || backend.make(platform).expect("it was made before");
    // Nothing is known about how fast a simulator must be.
    let bound = |_: &_, _: &Transfer| Span(u64::MAX);
    let found = |(traffic, transfers): (&'static str, Vec<(Time, Transfer)>)| Finding {
        traffic,
        messages: transfers.len(),
        violation: conformance::check(make, &transfers, bound).err(),
    };
    Ok(traffics(npus).into_iter().map(found).collect())
}

fn traffics(npus: u32) -> [(&'static str, Vec<(Time, Transfer)>); 5] {
    let few = npus.min(SENDERS);
    let sizes = SIZES.into_iter().map(|bytes| (0, (0, npus - 1), bytes));
    let shift = (0..few).map(|src| (0, (src, (src + 1) % few), 100_000));
    let incast = (1..few).map(|src| (0, (src, 0), 100_000));
    let spread = (1..few).map(|dst| (0, (0, dst), 100_000));
    let mixed = (0..24u64).map(|at| {
        let src = (at * 5 % u64::from(few)) as u32;
        let dst = (src + 1 + (at / 3 % u64::from(few - 1)) as u32) % few;
        (at / 3 * 2_000_000, (src, dst), SIZES[at as usize % SIZES.len()])
    });
    [
        ("one pair, five sizes at once", timed(sizes)),
        ("each NPU to the next", timed(shift)),
        ("all NPUs to one", timed(incast)),
        ("one NPU to all", timed(spread)),
        ("three messages every 2 us", timed(mixed)),
    ]
}

/// Transfers of (start in ps, (source, destination), bytes).
fn timed(sent: impl Iterator<Item = (u64, (u32, u32), u64)>) -> Vec<(Time, Transfer)> {
    let transfer = |(token, (at, (src, dst), bytes)): (usize, (u64, (u32, u32), u64))| {
        let token = token as u64;
        (Time(at), Transfer { src, dst, bytes, paced: bytes, token, weight: 1 })
    };
    sent.enumerate().map(transfer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::config::native;

    #[test]
    fn built_in_backends_break_no_rule() {
        let text = "topology: Ring(2)_Switch(3)\nlinks: {bandwidth: 10 GB/s, latency: 1 us}\n";
        let platform = native::from_yaml(text, "p.yml", &[]).expect("a platform");
        keep_all_rules(&platform);
    }

    fn keep_all_rules(platform: &Platform) {
        for backend in BackendKind::ALL {
            for found in check(platform, &backend).expect("two NPUs or more") {
                assert_eq!(found.violation, None, "{backend}: {}", found.traffic);
            }
        }
    }

    /// Four NPUs with two cards, each at a switch of its own: alike, and of other bandwidth or
    /// latency; the last NPU has one card.
    #[test]
    fn messages_over_several_cards_break_no_rule() {
        for (bandwidth, latency) in [(10, 500), (4, 500), (10, 900), (30, 200)] {
            let mut text = "graph:\n  npus: 4\n  switches: 3\n  links:\n".to_string();
            let mut link = |a: &str, b: &str, bandwidth: u32, latency: u32| {
                let cost = format!("bandwidth: {bandwidth} GB/s, latency: {latency} ns");
                text += &format!("  - {{between: [{a}, {b}], {cost}}}\n");
            };
            for npu in 0..4 {
                link(&format!("npu{npu}"), "switch0", 10, 500);
                if npu < 3 {
                    link(&format!("npu{npu}"), "switch1", bandwidth, latency);
                }
            }
            link("switch0", "switch2", 40, 300);
            link("switch1", "switch2", 40, 300);
            keep_all_rules(&native::from_yaml(&text, "p.yml", &[]).expect("a platform"));
        }
    }
}
