//! Generated fabrics.

use super::testing::*;
use super::*;

#[test]
fn a_generator_makes_a_fabric_with_coordinates() {
    let text =
        "topology: {generator: fat_tree, radix: 4}\nlinks: {bandwidth: 50 GB/s, latency: 1 us}\n";
    let platform = read(text).unwrap();
    assert_eq!((platform.fabric.npus(), platform.fabric.sizes()), (16, vec![2, 2, 4]));
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
    let smaller = read(&format!("{text}npus: 8\n")).unwrap();
    assert_eq!(smaller.fabric.sizes(), [2, 2, 2]);
    assert_eq!(read(&to_yaml(&smaller)).unwrap(), smaller);
    let json = to_json(&platform);
    assert_eq!(json["fabric"]["switches"], 20);
    assert_eq!(json["fabric"]["cables"][2]["cables"], 16);
}

#[test]
fn faults_of_a_generator_are_all_named() {
    let problems = |text: &str| -> Vec<String> {
        read(text).unwrap_err().iter().map(|p| format!("{}: {}", p.place, p.message)).collect()
    };
    let links = "links: {bandwidth: 50 GB/s, latency: 1 us}";
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 5, pods: 7}}\n{links}")),
        [
            "line 1, topology.radix: a fat tree of switches with 5 ports",
            "line 1, topology.pods: 7 pods, but core switches have 5 ports"
        ]
    );
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 0, pods: x}}\n{links}")).len(),
        2
    );
    let unknown = problems(&format!("topology: {{generator: fat_tree, radx: 4}}\n{links}"));
    assert!(unknown[0].contains("did you mean \"radix\""), "{unknown:?}");
    assert!(problems(&format!("topology: {{generator: fattree}}\n{links}"))[0].contains("fattree"));
    let three = "links: [{bandwidth: 50 GB/s, latency: 1 us}]";
    assert_eq!(
        problems(&format!("topology: {{generator: fat_tree, radix: 4}}\n{three}")),
        ["line 2, links: 1 entries for 3 kinds of links"]
    );
}
