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

#[test]
fn fabrics_of_fabrics_read_back_and_grow() {
    let text = "topology:
  generator: nested
  inner: {generator: cube_mesh}
  outer: {generator: leaf_spine, npus_per_leaf: 4, leaves: 2, spines: 2}
  nics: 4
links:
- {bandwidth: 25 GB/s, latency: 200 ns}
- {bandwidth: 16 GB/s, latency: 300 ns}
- {bandwidth: 100 Gb/s, latency: 1 us}
- {bandwidth: 100 Gb/s, latency: 1 us}
";
    let platform = read(text).unwrap();
    assert_eq!((platform.fabric.npus(), platform.fabric.sizes()), (16, vec![8, 1, 2]));
    assert_eq!(read(&to_yaml(&platform)).unwrap(), platform);
    let larger = read(&format!("{text}npus: 64\n")).unwrap();
    assert_eq!((larger.fabric.npus(), larger.fabric.sizes()), (64, vec![8, 1, 8]));
    let json = to_json(&platform);
    assert_eq!(json["fabric"]["parameters"]["inner"]["generator"], "cube_mesh");
    let wrong = read(&text.replace("spines: 2", "spine: 2")).unwrap_err();
    assert_eq!(wrong[0].place, "line 4, topology.outer.spine");
    let none = read(&text.replace("  inner: {generator: cube_mesh}\n", "")).unwrap_err();
    assert!(none[0].message.contains("\"inner\" is missing"), "{none:?}");
    let odd = read(&format!("{text}npus: 20\n")).unwrap_err();
    assert!(odd[0].message.contains("cannot give 20 NPUs"), "{odd:?}");
}
