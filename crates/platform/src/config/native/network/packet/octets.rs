//! Sizes within packets, which may stand without a unit: `mtu: 1500`. For `as` in `section!`.

use crate::config::declared::{Setting, Shown};
use crate::config::findings::{At, Findings};
use crate::config::tree::Value;
use units::Bytes;

pub(super) fn kind() -> String {
    "size, or a number of bytes".into()
}

pub(super) fn example() -> String {
    "a number of bytes, such as 1500".into()
}

pub(super) fn read<T: From<Bytes>>(at: &At<'_>, findings: &mut Findings) -> Option<T> {
    let bytes = match at.tree.value {
        Value::Int(plain) => u64::try_from(plain).ok().map(Bytes),
        _ => None,
    };
    bytes.or_else(|| findings.quantity(at)).map(T::from)
}

pub(super) fn show<T: Copy + Into<Option<Bytes>>>(value: &T) -> Option<Shown> {
    let bytes: Option<Bytes> = (*value).into();
    bytes.map(|bytes| Shown::of(bytes.0))
}

pub(super) fn json<T: Copy + Into<Option<Bytes>>>(value: &T) -> serde_json::Value {
    Setting::json(&(*value).into())
}
