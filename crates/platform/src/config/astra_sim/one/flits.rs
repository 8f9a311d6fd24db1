//! Flits, packets and virtual channels of Garnet's network files, as lines of `network.flit`.
//!
//! A flit's width is in bits, a packet's size in bytes. Garnet rounds packets up to whole flits.

use super::keys::without_effect;
use declared::findings::{At, Findings};

/// Bits of a byte.
const BYTE: u32 = 8;
/// Most bits of a flit.
const MOST_BITS: u32 = 1 << 23;
/// Most bytes of a packet, virtual channels and flits of a buffer.
const MOST: u32 = 1 << 20;
/// Sizes of packets: of links between packages, and within them.
const PACKETS: [&str; 2] = ["package-packet-size", "local-packet-size"];

/// One line for each key that the file gives. `local`: of each dimension of more than one NPU, whether
/// it is within packages.
pub(super) fn read(root: &At<'_>, local: &[bool], findings: &mut Findings) -> Vec<String> {
    without_effect(root, &["routing-algorithm"], "messages cross dimensions in order", findings);
    let flit = flit(root, findings);
    let packet = packets(root, local, flit, findings);
    let lines = [
        flit.map(|bytes| format!("flit: {bytes} B")),
        packet.map(|sizes| format!("packet: {sizes}")),
        given(root, "vcs-per-vnet", findings).map(|count| format!("virtual_channels: {count}")),
        given(root, "buffers-per-vc", findings).map(|flits| format!("buffer: {flits}")),
    ];
    lines.into_iter().flatten().collect()
}

/// A whole number from 1, if the file has the key.
fn given(root: &At<'_>, key: &str, findings: &mut Findings) -> Option<u32> {
    findings.whole(&root.get(key)?, 1, MOST)
}

/// Bytes of a flit.
fn flit(root: &At<'_>, findings: &mut Findings) -> Option<u32> {
    let at = root.get("flit-width")?;
    let bits = findings.whole(&at, 1, MOST_BITS)?;
    if bits.is_multiple_of(BYTE) {
        return Some(bits / BYTE);
    }
    findings.refuse(&at, format!("a flit of {bits} bits"), "a multiple of 8 bits".to_string());
    None
}

/// Bytes of packets: one size, or one for each dimension.
fn packets(
    root: &At<'_>,
    local: &[bool],
    flit: Option<u32>,
    findings: &mut Findings,
) -> Option<String> {
    let sizes = PACKETS.map(|key| given(root, key, findings));
    let [package, inner] = [sizes[0].or(sizes[1])?, sizes[1].or(sizes[0])?];
    let sizes = [package, inner].map(|size| whole(size, flit, findings));
    let mut each: Vec<u32> = local.iter().map(|&local| sizes[usize::from(local)]).collect();
    each.dedup();
    Some(match each[..] {
        [] | [_] => format!("{} B", each.first().copied().unwrap_or(sizes[0])),
        _ => {
            let shown = local.iter().map(|&local| format!("{} B", sizes[usize::from(local)]));
            format!("[{}]", shown.collect::<Vec<_>>().join(", "))
        }
    })
}

/// A packet, rounded up to whole flits.
fn whole(packet: u32, flit: Option<u32>, findings: &mut Findings) -> u32 {
    let Some(rounded) = flit.map(|flit| packet.next_multiple_of(flit)) else { return packet };
    if rounded != packet {
        let text = format!(
            "{}: packets of {packet} bytes become {rounded} bytes, whole flits",
            findings.file
        );
        if !findings.warnings.contains(&text) {
            findings.warnings.push(text);
        }
    }
    rounded
}
