//! The types that a key's value can have.

use crate::findings::{At, Findings};
use crate::tree::Value;
use crate::{Key, Shown};
use serde_json::Value as Json;
use units::{Bandwidth, Bytes, Flops, Frequency, Ratio, Span};

/// A type of value: how it is read, printed, written as JSON and changed by name.
pub trait Setting: Sized {
    /// The end of its key in JSON, where it has a unit.
    const UNIT: &'static str = "";
    /// Whether it is a list of mappings.
    const LIST: bool = false;
    /// The key that a plain value stands for, instead of a mapping.
    const SHORT: Option<&'static str> = None;

    /// The keys of its mapping.
    fn keys() -> &'static [Key] {
        &[]
    }

    /// Name of the kind of values in the documentation.
    fn kind() -> String;

    /// Allowed values, for a problem with a key that is missing.
    fn example() -> String;

    /// The value at `at`; nothing and at least one problem when it is wrong.
    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Self>;

    /// As a platform file writes it; nothing where the key is left out.
    fn show(&self) -> Option<Shown>;

    /// For the report: an integer whose unit is in the key.
    fn json(&self) -> Json;

    /// Sets the number at `path` within it: us, or a part. False when there is none.
    fn change(&mut self, path: &str, value: f64) -> bool {
        let _ = (path, value);
        false
    }
}

macro_rules! quantities {
    ($($ty:ty, $kind:literal, $unit:literal, $example:literal;)*) => {$(
        impl Setting for $ty {
            const UNIT: &'static str = $unit;

            fn kind() -> String {
                $kind.into()
            }

            fn example() -> String {
                $example.into()
            }

            fn read(at: &At<'_>, findings: &mut Findings) -> Option<$ty> {
                findings.quantity(at)
            }

            fn show(&self) -> Option<Shown> {
                Some(Shown::of(self))
            }

            fn json(&self) -> Json {
                self.0.into()
            }

            fn change(&mut self, path: &str, value: f64) -> bool {
                *self = Self((value.max(0.0) * 1e6).round() as u64);
                path.is_empty()
            }
        }
    )*};
}

quantities! {
    Span, "time", "_ps", "a time, such as \"8 us\"";
    Ratio, "ratio", "_ppm", "a ratio, such as 0.8 or 80 %";
    Bandwidth, "bandwidth", "_bytes_per_s", "a bandwidth, such as \"50 GB/s\"";
    Bytes, "size", "_bytes", "a size, such as \"1 MiB\"";
    Flops, "rate", "_flops", "a rate, such as \"989 TFLOPS\"";
    Frequency, "frequency", "_hz", "a frequency, such as \"940 MHz\"";
}

impl Setting for u32 {
    fn kind() -> String {
        "count".into()
    }

    fn example() -> String {
        "a whole number from 1".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<u32> {
        findings.whole(at, 1, u32::MAX)
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::of(self))
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl Setting for String {
    fn kind() -> String {
        "text".into()
    }

    fn example() -> String {
        "text".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<String> {
        findings.label(at)
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::quoted(self))
    }

    fn json(&self) -> Json {
        self.as_str().into()
    }
}

impl Setting for bool {
    fn kind() -> String {
        "`true`, `false`".into()
    }

    fn example() -> String {
        "true, false".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<bool> {
        findings.flag(at)
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::of(self))
    }

    fn json(&self) -> Json {
        (*self).into()
    }
}

impl<T: Setting> Setting for Option<T> {
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

    /// Nothing in a list is an entry that is left out.
    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Option<T>> {
        match at.tree.value {
            Value::Null => Some(None),
            _ => T::read(at, findings).map(Some),
        }
    }

    fn show(&self) -> Option<Shown> {
        self.as_ref().and_then(T::show)
    }

    fn json(&self) -> Json {
        self.as_ref().map_or(Json::Null, T::json)
    }

    fn change(&mut self, path: &str, value: f64) -> bool {
        self.as_mut().is_some_and(|inner| inner.change(path, value))
    }
}

impl<T: Setting, const N: usize> Setting for [T; N] {
    const UNIT: &'static str = T::UNIT;

    fn kind() -> String {
        format!("{N} {}s", T::kind())
    }

    fn example() -> String {
        format!("a list of {N} values, each {}", T::example())
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<[T; N]> {
        let items = at.items();
        if items.len() != N || !matches!(at.tree.value, Value::List(_)) {
            findings.refuse(at, format!("{} values instead of {N}", items.len()), Self::example());
            return None;
        }
        let values: Vec<T> = items.iter().filter_map(|item| T::read(item, findings)).collect();
        values.try_into().ok()
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::List(self.iter().filter_map(T::show).collect()))
    }

    fn json(&self) -> Json {
        self.iter().map(T::json).collect()
    }

    fn change(&mut self, path: &str, value: f64) -> bool {
        let index = path.strip_prefix('[').and_then(|path| path.split_once(']'));
        let Some((index, rest)) = index else { return false };
        let found = index.parse::<usize>().ok().and_then(|index| self.get_mut(index));
        found.is_some_and(|item| item.change(rest, value))
    }
}

impl<T: Setting> Setting for Vec<T> {
    const UNIT: &'static str = T::UNIT;
    const LIST: bool = true;
    const SHORT: Option<&'static str> = T::SHORT;

    fn keys() -> &'static [Key] {
        T::keys()
    }

    fn kind() -> String {
        let kind = T::kind();
        let plural = if kind.ends_with('`') { "" } else { "s" };
        format!("list of {kind}{plural}")
    }

    fn example() -> String {
        format!("a list, each {}", T::example())
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Vec<T>> {
        let items = at.items();
        let values: Vec<T> = items.iter().filter_map(|item| T::read(item, findings)).collect();
        (values.len() == items.len()).then_some(values)
    }

    fn show(&self) -> Option<Shown> {
        (!self.is_empty()).then(|| Shown::List(self.iter().filter_map(T::show).collect()))
    }

    fn json(&self) -> Json {
        self.iter().map(T::json).collect()
    }
}
