//! Settings of a platform that a simulator in another process is sent.
//!
//! Lines `key=value`: the resolved keys of `network.packet` and `network.routing`, integers with
//! their unit in the key, as `armillary platform show --json` has them. Not here: links and routes,
//! which are messages of their own (`net_external`).

use declared::ByDim;
use platform::Platform;
use platform::config::native;
use serde_json::Value;
use std::fmt::Write;

/// Description of [`BackendKind::External`](crate::BackendKind), in a few words.
pub(crate) const ABOUT: &str = "a simulator in another process";

/// The lines for `platform`, in order of their keys.
pub(crate) fn settings(platform: &Platform) -> String {
    let mut resolved = platform.clone();
    let packet = resolved.network.packet.get_or_insert_default();
    packet.tcp = ByDim::All(Some(packet.protocol(0).tcp));
    let shown = native::to_json(&resolved);
    let mut lines = String::new();
    let _ = writeln!(lines, "platform={}", platform.name.replace(['\n', '\r'], " "));
    flatten("routing", &shown["network"]["routing"], &mut lines);
    flatten("packet", &shown["network"]["packet"], &mut lines);
    lines
}

/// Adds a line for each value in `value` that is not null.
fn flatten(key: &str, value: &Value, lines: &mut String) {
    match value {
        Value::Null => {}
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| flatten(&format!("{key}.{name}"), value, lines));
        }
        Value::String(text) => {
            let _ = writeln!(lines, "{key}={text}");
        }
        other => {
            let _ = writeln!(lines, "{key}={other}");
        }
    }
}
