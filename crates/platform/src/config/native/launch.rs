//! `npu.launch`: a time for every piece of work, or a mapping; reading and showing.
//!
//! ```yaml
//! launch: 80 us
//! launch: {kernel: 80 us, member: 5 us, send: 120 us, receive: 40 us}
//! ```

use crate::config::findings::{At, Findings};
use crate::platform::Launch;
use serde_json::{Value, json};
use std::fmt::Write;
use units::Span;

/// A time alone goes for kernels, collectives and sends; `send` is as long as `kernel` where only
/// that is given.
pub(super) fn read(at: Option<At<'_>>, findings: &mut Findings) -> Launch {
    let Some(at) = at else { return Launch::default() };
    if !at.is_map() {
        let kernel = findings.quantity(&at).unwrap_or(Span::ZERO);
        return Launch { kernel, send: kernel, ..Launch::default() };
    }
    if findings.mapping(&at, &["kernel", "member", "send", "receive"]).is_none() {
        return Launch::default();
    }
    let mut time =
        |key, default| at.get(key).and_then(|at| findings.quantity(&at)).unwrap_or(default);
    let kernel = time("kernel", Span::ZERO);
    let (member, receive) = (time("member", Span::ZERO), time("receive", Span::ZERO));
    Launch { kernel, member, send: time("send", kernel), receive }
}

/// Writes what `read` reads back; nothing where launches take no time.
pub(super) fn show(launch: Launch, out: &mut String) {
    let Launch { kernel, member, send, receive } = launch;
    if launch == Launch::default() {
        return;
    }
    let _ = if launch == (Launch { kernel, send: kernel, ..Launch::default() }) {
        writeln!(out, "  launch: {kernel}")
    } else {
        writeln!(
            out,
            "  launch: {{kernel: {kernel}, member: {member}, send: {send}, receive: {receive}}}"
        )
    };
}

/// Picoseconds of each.
pub(super) fn json(launch: Launch) -> Value {
    let Launch { kernel, member, send, receive } = launch;
    json!({ "kernel_ps": kernel.0, "member_ps": member.0, "send_ps": send.0, "receive_ps": receive.0 })
}
