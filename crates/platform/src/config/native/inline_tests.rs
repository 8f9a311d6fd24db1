//! Platforms from notation and lists.

use super::testing::*;
use super::*;

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

#[test]
fn inline_platforms_say_what_files_say() {
    let inline_platform = InlinePlatform {
        topology: "R(4)_FC(4)_SW(16)".into(),
        bandwidth: words(&["100 GB/s", "90 GB/s", "50 GB/s"]),
        latency: words(&["1 us"]),
        per: words(&["link", "npu", "link"]),
        set: vec![("scheduler.chunks".into(), "4".into())],
    };
    let platform = inline(&inline_platform).unwrap();
    let rates: Vec<u64> =
        platform.fabric.dims().iter().map(|d| d.bandwidth.0 / 1_000_000_000).collect();
    assert_eq!(
        (rates, platform.scheduler.chunks, platform.name.as_str()),
        (vec![100, 30, 50], 4, "R(4)_FC(4)_SW(16)")
    );
    let short =
        InlinePlatform { bandwidth: words(&["1 GB/s", "1 GB/s"]), ..inline_platform.clone() };
    assert_eq!(
        messages(inline(&short)),
        [
            "Platform(...): bandwidth: 2 values where another list has 3 (allowed: one value for all dimensions, or one for each)"
        ]
    );
    let none = InlinePlatform { latency: Vec::new(), ..inline_platform.clone() };
    assert_eq!(
        messages(inline(&none)),
        [
            "Platform(...): latency: 0 values where another list has 3 (allowed: one value for all dimensions, or one for each)"
        ]
    );
    let bare = InlinePlatform { bandwidth: words(&["50"]), ..inline_platform };
    assert_eq!(
        messages(inline(&bare))[0],
        format!("Platform(...): links[0].bandwidth: bandwidth \"50\" has no unit {BANDWIDTH}")
    );
}
