//! `npu.launch`: one time for every piece of work, or a mapping.
//!
//! ```yaml
//! launch: 80 us
//! launch: {kernel: 80 us, per_member: 5 us, send: 120 us, receive: 40 us}
//! ```

use crate::config::declared::{Setting, Shown};
use crate::config::findings::{At, Findings};
use crate::platform::Launch;
use units::Span;

/// A single time is that of kernels, collectives and sends.
pub(super) fn read(at: Option<At<'_>>, findings: &mut Findings) -> Launch {
    let Some(at) = at else { return Launch::default() };
    if at.is_map() {
        return Launch::read(&at, findings).unwrap_or_default();
    }
    let kernel = findings.quantity(&at).unwrap_or(Span::ZERO);
    Launch { kernel, send: kernel, ..Launch::default() }
}

/// What `read` reads back; nothing where launches take no time.
pub(super) fn show(launch: Launch) -> Option<Shown> {
    let single = Launch { kernel: launch.kernel, send: launch.kernel, ..Launch::default() };
    match launch {
        _ if launch == Launch::default() => None,
        _ if launch == single => launch.kernel.show(),
        _ => launch.show(),
    }
}
