//! The words `linux`, `rfc` and `ns3` of `tcp`, and keys with a word of their own.
//!
//! Not here: what the words stand for (`resolved.rs`).

use declared::words;

/// Whose TCP a connection has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Like {
    /// TCP of the standards.
    #[default]
    Rfc,
    /// TCP of Linux (`include/net/tcp.h`, `net/ipv4/tcp_cubic.c` and
    /// `Documentation/networking/ip-sysctl.rst` of Linux 6.6).
    Linux,
    /// TCP of ns-3.44.
    Ns3,
}

words!(Like: "rfc" = Like::Rfc, "linux" = Like::Linux, "ns3" = Like::Ns3);

/// Segments that an acknowledgement adds to the window, or `all` that it acknowledges.
pub(super) mod per_ack {
    use declared::findings::{At, Findings};
    use declared::tree::Value;
    use declared::{Setting, Shown};

    const ALL: &str = "all";

    pub(in super::super) fn kind() -> String {
        format!("count, or `{ALL}`")
    }

    pub(in super::super) fn example() -> String {
        format!("a whole number from 1, or {ALL}")
    }

    pub(in super::super) fn read(at: &At<'_>, findings: &mut Findings) -> Option<Option<u32>> {
        match &at.tree.value {
            Value::Text(text) if text == ALL => Some(Some(u32::MAX)),
            Value::Int(_) => findings.whole(at, 1, u32::MAX).map(Some),
            _ => {
                findings.refuse(at, format!("{} is not allowed", at.tree.show()), example());
                None
            }
        }
    }

    pub(in super::super) fn show(value: &Option<u32>) -> Option<Shown> {
        if *value == Some(u32::MAX) { Some(Shown::of(ALL)) } else { value.show() }
    }

    pub(in super::super) fn json(value: &Option<u32>) -> serde_json::Value {
        value.json()
    }
}
