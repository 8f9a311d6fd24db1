//! Keys of platform files, each declared once: name, type, unit, default, meaning, old names.
//!
//! `section!` declares a struct whose fields are the keys of a mapping. Its reader, its printed
//! form, its JSON, how parameters change by name, and its rows in the documentation follow.
//! `keys!` declares the keys of a mapping that a reader takes apart itself. Not here: the sections
//! (`library`, `config::native`).
//!
//! ```ignore
//! section! {
//!     /// Reduction in a node's switch.
//!     #[derive(Clone, Debug, PartialEq)]
//!     pub struct Nvls {
//!         /// What it adds to a call.
//!         pub latency: Span, required;
//!         /// Fewest members in a node that use it.
//!         pub min_ranks: u32 as from_two, default 2, was ["least"];
//!     }
//! }
//! ```
//!
//! A key is `required`, has a `default` value, or is `like` an earlier key where it is left out.
//! `as module` reads, shows and describes it by functions of that module.

mod key;
mod reference;
mod renames;
mod shown;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use key::{Absent, Key};
pub use reference::Listed;
pub(crate) use reference::{listed, table};
pub(crate) use renames::{rename, renamed_path};
pub(crate) use shown::{Shown, entry};
pub(crate) use values::{Setting, words};

use super::findings::{At, Findings};
use super::tree::Value;

/// The value of a key, unless it is nothing.
pub(crate) fn given<'a>(at: &At<'a>, key: &str) -> Option<At<'a>> {
    at.get(key).filter(|at| at.tree.value != Value::Null)
}

/// The first key of a path, and the rest: `node.step_latency[0]` is `node` and `step_latency[0]`.
pub(crate) fn first(path: &str) -> (&str, &str) {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    (first, rest.strip_prefix('.').unwrap_or(rest))
}

impl Findings {
    /// The mapping at `at`, each key of which must be declared in `keys`.
    pub(crate) fn declared(&mut self, at: &At<'_>, keys: &[Key]) -> Option<()> {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        self.mapping(at, &names)
    }
}

/// Declares a struct and the keys of its mapping; see the module.
macro_rules! section {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[doc = $doc:literal])+ $fvis:vis $field:ident : $ty:ty $(as $with:ident)?,
          $how:ident $($arg:expr)? $(, was [$($old:literal),+])?;)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])+ $fvis $field: $ty,)*
        }

        impl $crate::config::declared::Setting for $name {
            const KEYS: &'static [$crate::config::declared::Key] = &[$(
                $crate::config::declared::Key {
                    name: stringify!($field),
                    old: &[$($($old),+)?],
                    kind: $crate::config::declared::section!(@kind [$ty] $($with)?),
                    absent: $crate::config::declared::section!(@how $how [$ty] [$($with)?] $($arg)?),
                    doc: concat!($($doc, "\n"),+),
                    inner: <$ty as $crate::config::declared::Setting>::KEYS,
                    convert: None,
                },
            )*];

            fn kind() -> String {
                "mapping".into()
            }

            fn example() -> String {
                let names: Vec<&str> = Self::KEYS.iter().map(|key| key.name).collect();
                format!("a mapping with {}", names.join(", "))
            }

            fn read(
                at: &$crate::config::findings::At<'_>,
                findings: &mut $crate::config::findings::Findings,
            ) -> Option<Self> {
                findings.declared(at, Self::KEYS)?;
                $(let $field: Option<$ty> =
                    match $crate::config::declared::given(at, stringify!($field)) {
                        Some(found) => $crate::config::declared::section!(
                            @read [$ty] [$($with)?] &found, findings
                        ),
                        None => $crate::config::declared::section!(
                            @absent $how [$ty] [$($arg)?] at, findings, stringify!($field)
                        ),
                    };)*
                Some($name { $($field: $field?),* })
            }

            fn show(&self) -> Option<$crate::config::declared::Shown> {
                let entries = [$((
                    stringify!($field),
                    $crate::config::declared::section!(@call show [$ty] [$($with)?] &self.$field),
                )),*];
                let shown = entries.into_iter().filter_map(|(key, shown)| Some((key, shown?)));
                Some($crate::config::declared::Shown::Map(shown.collect()))
            }

            fn json(&self) -> serde_json::Value {
                let mut out = serde_json::Map::new();
                $(out.insert(
                    format!(
                        "{}{}",
                        stringify!($field),
                        <$ty as $crate::config::declared::Setting>::UNIT
                    ),
                    $crate::config::declared::section!(@call json [$ty] [$($with)?] &self.$field),
                );)*
                out.into()
            }

            fn change(&mut self, path: &str, value: f64) -> bool {
                let (key, rest) = $crate::config::declared::first(path);
                $(if key == stringify!($field) {
                    return $crate::config::declared::Setting::change(&mut self.$field, rest, value);
                })*
                false
            }
        }
    };
    (@kind [$ty:ty]) => { <$ty as $crate::config::declared::Setting>::kind };
    (@kind [$ty:ty] $with:ident) => { $with::kind };
    (@how required [$ty:ty] [$($with:ident)?] $($example:expr)?) => {
        $crate::config::declared::Absent::Required
    };
    (@how like [$ty:ty] [$($with:ident)?] $other:expr) => {
        $crate::config::declared::Absent::Like(stringify!($other))
    };
    (@how default [$ty:ty] [$($with:ident)?] $value:expr) => {
        $crate::config::declared::Absent::Value(|| {
            let value: $ty = $value;
            let shown =
                $crate::config::declared::section!(@call show [$ty] [$($with)?] &value);
            shown.map_or("none".to_string(), |shown| shown.flow())
        })
    };
    (@read [$ty:ty] [] $at:expr, $findings:expr) => {
        <$ty as $crate::config::declared::Setting>::read($at, $findings)
    };
    (@read [$ty:ty] [$with:ident] $at:expr, $findings:expr) => { $with::read($at, $findings) };
    (@absent required [$ty:ty] [] $at:expr, $findings:expr, $key:expr) => {{
        $findings.missing($at, $key, &<$ty as $crate::config::declared::Setting>::example());
        None
    }};
    (@absent required [$ty:ty] [$example:expr] $at:expr, $findings:expr, $key:expr) => {{
        $findings.missing($at, $key, $example);
        None
    }};
    (@absent like [$ty:ty] [$other:expr] $at:expr, $findings:expr, $key:expr) => {
        $other.clone()
    };
    (@absent default [$ty:ty] [$value:expr] $at:expr, $findings:expr, $key:expr) => {
        Some($value)
    };
    (@call $what:ident [$ty:ty] [] $value:expr) => {
        $crate::config::declared::Setting::$what($value)
    };
    (@call $what:ident [$ty:ty] [$with:ident] $value:expr) => { $with::$what($value) };
}
pub(crate) use section;

/// Declares the keys of a mapping that a reader takes apart itself: type, what goes without it,
/// meaning; `in KEYS` for the keys of its value.
macro_rules! keys {
    ($vis:vis $name:ident: $(
        $(#[doc = $doc:literal])+ $key:ident: $kind:literal, $absent:literal
        $(, was [$($old:literal),+] $(by $convert:expr)?)? $(, in $inner:expr)?;
    )*) => {
        $vis const $name: &[$crate::config::declared::Key] = &[$(
            $crate::config::declared::Key {
                name: stringify!($key),
                old: &[$($($old),+)?],
                kind: || $kind.to_string(),
                absent: $crate::config::declared::Absent::Text($absent),
                doc: concat!($($doc, "\n"),+),
                inner: $crate::config::declared::keys!(@inner $($inner)?),
                convert: $crate::config::declared::keys!(@convert $($($convert)?)?),
            },
        )*];
    };
    (@convert) => { None };
    (@convert $convert:expr) => { Some($convert) };
    (@inner) => { &[] };
    (@inner $inner:expr) => { $inner };
}
pub(crate) use keys;
