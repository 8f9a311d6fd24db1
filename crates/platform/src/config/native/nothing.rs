//! Keys that are given as nothing (`pods: null`): they count as left out, everywhere alike. Not
//! here: nothing in a list, which is an entry with the default.

use declared::Key;
use declared::tree::{Tree, Value};

/// Takes declared keys without a value out of the mappings of a tree.
pub(super) fn leave_out(tree: &mut Tree, keys: &[Key]) {
    match &mut tree.value {
        Value::List(items) => items.iter_mut().for_each(|item| leave_out(item, keys)),
        Value::Map(entries) => entries.retain_mut(|(name, value)| {
            let Some(key) = keys.iter().find(|key| key.name == name.name) else { return true };
            leave_out(value, (key.inner)());
            value.value != Value::Null
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use crate::config::native::from_yaml;

    const TEXT: &str = "topology: {generator: fat_tree, radix: 4}\n\
                        links: {bandwidth: 50 GB/s, latency: 500 ns}\n";

    #[test]
    fn a_key_without_a_value_is_left_out() {
        let read = |text: &str| from_yaml(text, "p.yml", &[]).map_err(|all| all[0].to_string());
        let plain = read(TEXT).expect("a platform");
        for more in [
            "npus: null\n",
            "collectives: {all_reduce: null, hierarchy: null, rings: null}\n",
            "npu: {peak: null, launch: null, compute: {speedup: null}}\n",
            "network: {packet: null, routing: null}\n",
        ] {
            assert_eq!(read(&format!("{TEXT}{more}")), Ok(plain.clone()), "{more}");
        }
        let pods = TEXT.replace("radix: 4", "radix: 4, pods: null, planes: null");
        assert_eq!(read(&pods), Ok(plain));
        let wrong =
            read(&format!("{TEXT}remote_memory: {{sharing: null}}\n")).expect_err("missing");
        assert!(wrong.contains("\"sharing\" is missing"), "{wrong}");
        let wrong = read(&format!("{TEXT}schedule: null\n")).expect_err("unknown");
        assert!(wrong.contains("unknown key \"schedule\""), "{wrong}");
    }
}
