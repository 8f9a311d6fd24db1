//! A part of a file that may be broken while others are checked further.

use crate::findings::{At, Findings};
use crate::{Key, Setting, Shown};

/// Result of reading a key. Sections made of these are always read, so that the faults of all parts
/// are found.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Tried<T> {
    /// The key is not there.
    #[default]
    Absent,
    /// The value is wrong; problems say why.
    Broken,
    /// Value of the key.
    Read(T),
}

impl<T> Tried<T> {
    /// The value; `None` when the key is absent or broken.
    pub fn value(self) -> Option<T> {
        match self {
            Tried::Read(value) => Some(value),
            Tried::Absent | Tried::Broken => None,
        }
    }

    /// The value or its default; `None` when it is broken.
    pub fn or(self, default: impl FnOnce() -> T) -> Option<T> {
        match self {
            Tried::Absent => Some(default()),
            Tried::Broken => None,
            Tried::Read(value) => Some(value),
        }
    }

    /// Whether the key is there, right or wrong.
    pub fn is_given(&self) -> bool {
        !matches!(self, Tried::Absent)
    }
}

impl<T> From<Option<T>> for Tried<T> {
    fn from(value: Option<T>) -> Tried<T> {
        value.map_or(Tried::Absent, Tried::Read)
    }
}

impl<T: Setting> Setting for Tried<T> {
    const UNIT: &'static str = T::UNIT;
    const LIST: bool = T::LIST;
    const SHORT: Option<&'static str> = T::SHORT;

    fn keys() -> &'static [Key] {
        T::keys()
    }

    fn kind() -> String {
        T::kind()
    }

    fn example() -> String {
        T::example()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Tried<T>> {
        Some(T::read(at, findings).map_or(Tried::Broken, Tried::Read))
    }

    fn show(&self) -> Option<Shown> {
        match self {
            Tried::Read(value) => value.show(),
            Tried::Absent | Tried::Broken => None,
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Tried::Read(value) => value.json(),
            Tried::Absent | Tried::Broken => serde_json::Value::Null,
        }
    }
}
