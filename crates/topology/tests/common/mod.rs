//! Fabrics and searches that tests of generators share.

#![allow(missing_docs)]

use std::collections::VecDeque;
use topology::GraphFabric;
use topology::generate::{Part, Values, Wire, generate, generator};
use units::{Bandwidth, Span};

/// A generator and its values.
pub type Of<'a> = (&'static str, &'a [(&'static str, &'a [u32])]);

/// A fabric; values in the order of the generator's keys, links of kind k at k + 1 bytes a second.
pub fn make(name: &str, values: &[(&'static str, &[u32])]) -> GraphFabric {
    draw(name, &read(values))
}

/// [`make`] of values that may be fabrics.
pub fn draw(name: &str, values: &Values) -> GraphFabric {
    with_latency(name, values, |_| 1)
}

/// [`draw`] with a latency for each kind of links.
pub fn with_latency(name: &str, values: &Values, latency: fn(u64) -> u64) -> GraphFabric {
    let generator = generator(name).unwrap();
    let count = generator.kinds(values).len() as u64;
    let wire = |k| Wire { bandwidth: Bandwidth(k + 1), latency: Span(latency(k)) };
    generate(generator, values.clone(), (0..count).map(wire).collect()).unwrap()
}

pub fn read(values: &[(&'static str, &[u32])]) -> Values {
    let mut read = Values::default();
    values.iter().for_each(|(key, list)| read.set(key, list.to_vec()));
    read
}

/// The values of nodes `inner` in a network `outer`.
pub fn nested(inner: Of, outer: Of, nics: u32, rails: u32) -> Values {
    let mut values = read(&[("nics", &[nics]), ("rails", &[rails])]);
    for (key, (generator, of)) in [("inner", inner), ("outer", outer)] {
        values.set_part(key, Part { generator, values: read(of) });
    }
    values
}

/// Links from `src` to every node, by a search of its own.
pub fn distances(fabric: &GraphFabric, src: u32) -> Vec<u32> {
    let mut out = vec![Vec::new(); fabric.nodes.len()];
    fabric.links.iter().for_each(|l| out[l.from as usize].push(l.to));
    let mut far = vec![u32::MAX; fabric.nodes.len()];
    far[src as usize] = 0;
    let mut queue = VecDeque::from([src]);
    while let Some(node) = queue.pop_front() {
        for &next in &out[node as usize] {
            if far[next as usize] == u32::MAX {
                far[next as usize] = far[node as usize] + 1;
                queue.push_back(next);
            }
        }
    }
    far
}
