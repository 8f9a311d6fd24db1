//! Lists with a value for each dimension, or for each kind of link.

use topology::Fabric;

/// Fault of a list with this number of entries for the links of a fabric, and the allowed ones.
pub(crate) fn misfit(entries: usize, fabric: &Fabric) -> Option<(String, String)> {
    let kinds = fabric.kinds_of_links();
    if entries == kinds.len() {
        return None;
    }
    let message = match kinds.len() {
        0 => format!("{entries} entries where dimensions share cards or links are all alike"),
        count => format!("{entries} entries for {count} dimensions or kinds of links"),
    };
    let allowed = match &kinds[..] {
        [] | [_] => "one value".to_string(),
        kinds => format!("one value, or one for each of {}", kinds.join(", ")),
    };
    Some((message, allowed))
}
