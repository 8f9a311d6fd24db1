//! Algorithms of collectives.

use super::testing::*;

#[test]
fn an_algorithm_must_suit_its_dimension() {
    let text = |shape: &str, collectives: &str| {
        format!(
            "topology: {shape}\nlinks: {{bandwidth: 1 GB/s, per: npu, latency: 1 ns}}\ncollectives: {{{collectives}}}\n"
        )
    };
    let power = "(allowed: a power of two (1, 2, 4, 8, ...), or ring or direct for any number)";
    let expected = format!(
        "p.yml: line 3, collectives.all_reduce: halving-doubling all_reduce cannot run on 6 NPUs, dimension 2 {power}"
    );
    assert_eq!(messages(read(&text("R(4)_SW(6)", "all_reduce: halving_doubling"))), [expected]);
    assert!(read(&text("R(4)_SW(8)", "all_reduce: halving_doubling")).is_ok());
    // A dimension of one NPU runs nothing.
    assert!(read(&text("R(4)_SW(1)", "all_reduce: [ring, double_binary_tree]")).is_ok());
    // On the last dimension of the multi-rail all-reduce runs a whole all-reduce.
    assert!(read(&text("R(4)_SW(6)", "all_reduce: [ring, double_binary_tree]")).is_ok());
    assert!(
        read(&text("R(4)_SW(6)", "hierarchy: baseline, all_reduce: double_binary_tree")).is_ok()
    );
}
