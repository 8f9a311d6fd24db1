//! A value for the whole network, or one for each dimension or kind of link.

use crate::findings::{At, Findings};
use crate::tree::Value;
use crate::{Key, Setting, Shown};
use serde_json::Value as Json;

/// Text of a file for an entry that has the default.
const NOTHING: &str = "null";

/// A value that links may differ in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ByDim<T> {
    /// The same everywhere.
    All(T),
    /// One for each dimension of a stack, or each kind of link of a fabric, innermost first. There
    /// is at least one.
    Each(Vec<T>),
}

impl<T> ByDim<T> {
    /// The value of the innermost dimension: that of all where there is one.
    pub fn first(&self) -> &T {
        self.at(0)
    }

    /// The value of a dimension. What lies beyond the list has its last value.
    pub fn at(&self, place: usize) -> &T {
        match self {
            ByDim::All(value) => value,
            ByDim::Each(values) => &values[place.min(values.len() - 1)],
        }
    }

    /// Entries of the list; `None` where one value is for all.
    pub fn entries(&self) -> Option<usize> {
        match self {
            ByDim::All(_) => None,
            ByDim::Each(values) => Some(values.len()),
        }
    }

    /// All values that there are.
    pub fn values(&self) -> &[T] {
        match self {
            ByDim::All(value) => std::slice::from_ref(value),
            ByDim::Each(values) => values,
        }
    }
}

impl<T: Clone> ByDim<T> {
    /// The value of a dimension, for all.
    #[must_use]
    pub fn only(&self, place: usize) -> ByDim<T> {
        ByDim::All(self.at(place).clone())
    }
}

impl<T: Default> Default for ByDim<T> {
    fn default() -> ByDim<T> {
        ByDim::All(T::default())
    }
}

impl<T: Setting> Setting for ByDim<T> {
    const UNIT: &'static str = T::UNIT;
    const SHORT: Option<&'static str> = T::SHORT;

    fn keys() -> &'static [Key] {
        T::keys()
    }

    fn kind() -> String {
        format!("{}; or a list of them", T::kind())
    }

    fn example() -> String {
        format!("{}; or a list of them", T::example())
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<ByDim<T>> {
        let Value::List(list) = &at.tree.value else {
            return T::read(at, findings).map(ByDim::All);
        };
        if list.is_empty() {
            findings.refuse(at, "a list without entries", Self::example());
            return None;
        }
        let read: Vec<Option<T>> = at.items().iter().map(|at| T::read(at, findings)).collect();
        read.into_iter().collect::<Option<_>>().map(ByDim::Each)
    }

    fn show(&self) -> Option<Shown> {
        let entry = |value: &T| value.show().unwrap_or_else(|| Shown::of(NOTHING));
        match self {
            ByDim::All(value) => value.show(),
            ByDim::Each(values) => Some(Shown::List(values.iter().map(entry).collect())),
        }
    }

    fn json(&self) -> Json {
        match self {
            ByDim::All(value) => value.json(),
            ByDim::Each(values) => values.iter().map(T::json).collect(),
        }
    }

    fn change(&mut self, path: &str, value: f64) -> bool {
        match self {
            ByDim::All(inner) => inner.change(path, value),
            ByDim::Each(values) => {
                let index = path.strip_prefix('[').and_then(|path| path.split_once(']'));
                let Some((index, rest)) = index else { return false };
                let found = index.parse::<usize>().ok().and_then(|index| values.get_mut(index));
                found.is_some_and(|inner| inner.change(rest.trim_start_matches('.'), value))
            }
        }
    }
}
