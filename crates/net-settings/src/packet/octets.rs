//! Sizes within packets, which may stand without a unit: `mtu: 1500`.

use declared::findings::{At, Findings};
use declared::tree::Value;
use declared::{Setting, Shown};
use units::Bytes;

/// A size within a packet, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Octets(pub u64);

impl Setting for Octets {
    const UNIT: &'static str = Bytes::UNIT;

    fn kind() -> String {
        "size, or a number of bytes".into()
    }

    fn example() -> String {
        "a number of bytes, such as 1500".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Octets> {
        let plain = match at.tree.value {
            Value::Int(plain) => u64::try_from(plain).ok(),
            _ => None,
        };
        plain.or_else(|| findings.quantity(at).map(|Bytes(bytes)| bytes)).map(Octets)
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::of(self.0))
    }

    fn json(&self) -> serde_json::Value {
        self.0.into()
    }

    fn change(&mut self, path: &str, value: f64) -> bool {
        let mut bytes = Bytes(self.0);
        let changed = bytes.change(path, value);
        self.0 = bytes.0;
        changed
    }
}
