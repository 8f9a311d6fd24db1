//! Counts of what was read and not used, for the report.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Names counted apart; beyond them one count takes the rest.
const MOST_NAMES: usize = 1000;

/// Notes of tools about a node that no run depends on: operands, and where in a program the node is
/// from. Source: the output of Chakra's converters for PyTorch and text (mlcommons/chakra,
/// `src/converter`).
const DESCRIPTIONS: [&[u8]; 9] = [
    b"inputs",
    b"outputs",
    b"op_type",
    b"op_schema",
    b"rf_id",
    b"fw_parent",
    b"seq_id",
    b"scope",
    b"fw_tid",
];

/// Content of one file that has no meaning here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Notes {
    attributes: FxHashMap<Box<[u8]>, u64>,
    other: BTreeMap<String, u64>,
}

impl Notes {
    /// An attribute without a reader.
    #[inline]
    pub fn attribute(&mut self, name: &[u8]) {
        match self.attributes.get_mut(name) {
            Some(count) => *count += 1,
            None => self.new_attribute(name),
        }
    }

    #[cold]
    fn new_attribute(&mut self, name: &[u8]) {
        if self.attributes.len() < MOST_NAMES {
            self.attributes.insert(name.into(), 1);
        } else {
            self.count("trace attributes of further names are not used");
        }
    }

    /// A field no schema has.
    #[cold]
    pub fn field(&mut self, number: u32) {
        self.count(&format!("protobuf field {number} is in no known schema and is not used"));
    }

    /// Anything else.
    #[cold]
    pub fn count(&mut self, what: &str) {
        self.add(what, 1);
    }

    /// Anything else, several times.
    pub fn add(&mut self, what: &str, count: u64) {
        match self.other.get_mut(what) {
            Some(sum) => *sum += count,
            None => drop(self.other.insert(what.to_string(), count)),
        }
    }

    /// True when every name so far has a count of its own, so that the order of the names changes
    /// nothing.
    pub fn is_exact(&self) -> bool {
        self.attributes.len() < MOST_NAMES
    }

    /// Adds `times` times what `other` counted.
    pub fn absorb(&mut self, other: &Notes, times: u64) {
        for (name, count) in &other.attributes {
            *self.attributes.entry(name.clone()).or_default() += count * times;
        }
        for (what, count) in &other.other {
            self.add(what, count * times);
        }
    }

    /// The counts, sorted by what they count.
    pub fn into_sorted(self) -> Vec<(String, u64)> {
        let mut all = self.other;
        for (name, count) in self.attributes {
            if DESCRIPTIONS.contains(&&*name) {
                continue;
            }
            let text = format!("trace attribute `{}` is not used", String::from_utf8_lossy(&name));
            *all.entry(text).or_default() += count;
        }
        all.into_iter().collect()
    }
}
