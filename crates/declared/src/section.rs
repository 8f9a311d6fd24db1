//! The macro `section!`, and the functions that its sections call.

use crate::findings::{At, Findings};
use crate::tree::{Tree, Value};
use crate::{Absent, Key, Setting, Shown};

/// The value of a key of a section, unless it is nothing. A plain value is that of the key that it
/// is `short` for.
pub fn given<'a>(at: &At<'a>, key: &str, short: Option<&str>) -> Option<At<'a>> {
    let plain = !at.is_map() && short == Some(key);
    let found = if plain { Some(at.clone()) } else { at.get(key) };
    found.filter(|at| at.tree.value != Value::Null)
}

/// The first key of a path, and the rest: `node.step_latency[0]` is `node` and `step_latency[0]`.
pub fn first(path: &str) -> (&str, &str) {
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (first, rest) = path.split_at(end);
    (first, rest.strip_prefix('.').unwrap_or(rest))
}

/// A section without any key given.
///
/// # Panics
/// If a key of it is required.
pub fn absent<T: Setting>() -> T {
    let empty = Tree::made(Value::Map(Vec::new()));
    T::read(&At::root(&empty), &mut Findings::default()).expect("no key is required")
}

/// An entry of a mapping that is left out when it has the default: `short` forms, see [`Shown`].
pub fn shortened(keys: &[Key], short: Option<&str>, entries: Vec<(&'static str, Shown)>) -> Shown {
    let flow = |name: &str| entries.iter().find(|(key, _)| *key == name).map(|e| e.1.flow());
    let usual = |(name, shown): &(&'static str, Shown)| {
        let absent = keys.iter().find(|key| key.name == *name).map(|key| key.absent);
        match absent {
            Some(Absent::Value(default)) => default() == shown.flow(),
            Some(Absent::Like(other)) => flow(other) == Some(shown.flow()),
            _ => false,
        }
    };
    let place = entries.iter().position(|(key, _)| short == Some(*key));
    let others = |at: usize| entries.iter().enumerate().all(|(i, e)| i == at || usual(e));
    match place.filter(|&at| others(at)) {
        Some(at) => entries[at].1.clone(),
        None => Shown::Map(entries),
    }
}

impl Findings {
    /// The mapping at `at`, whose keys must all be declared in `keys`.
    pub fn declared(&mut self, at: &At<'_>, keys: &[Key]) -> Option<()> {
        let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
        self.mapping(at, &names)
    }
}

/// Declares a struct and the keys of its mapping; see the module.
#[macro_export]
macro_rules! section {
    ($(#[$meta:meta])* $vis:vis struct $name:ident $(short $short:ident)? $(by $tag:ident)? {
        $($(#[doc = $doc:literal])+ $fvis:vis $field:ident : $ty:ty $(as $with:ident)?,
          $how:ident $($arg:expr)? $(, says $says:literal)? $(, needed [$($needed:expr),+])?
          $(, with [$($model:expr),+])? $(, was [$($old:literal),+] $(by $convert:ident)?)?;)*
    }) => {
        $(#[$meta])*
        $vis struct $name {
            $($(#[doc = $doc])+ $fvis $field: $ty,)*
        }

        /// The names of its keys.
        #[allow(non_upper_case_globals, dead_code)]
        impl $name {
            $(
                /// Name of the key.
                pub const $field: &'static str = stringify!($field);
            )*
        }

        #[allow(unused_mut, unused_variables)]
        impl $crate::Setting for $name {
            const SHORT: Option<&'static str> =
                $crate::section!(@short $($short)?);

            fn keys() -> &'static [$crate::Key] {
                const KEYS: &[$crate::Key] = &[$(
                    $crate::Key {
                        name: stringify!($field),
                        old: &[$($($old),+)?],
                        kind: $crate::section!(@kind [$ty] $($with)?),
                        absent: $crate::section!(
                            @how $how [$ty] [$($with)?] [$($says)?] $($arg)?
                        ),
                        example: $crate::section!(
                            @example $how [$ty] [$($with)?] $($arg)?
                        ),
                        needed: || vec![
                            $($($crate::Words::word($needed)),+)?
                        ],
                        with: || vec![$($($crate::Words::word($model)),+)?],
                        doc: concat!($($doc, "\n"),+),
                        inner: <$ty as $crate::Setting>::keys,
                        list: <$ty as $crate::Setting>::LIST,
                        short: <$ty as $crate::Setting>::SHORT,
                        shown: |at| {
                            let found = &mut $crate::findings::Findings::default();
                            let value: $ty =
                                $crate::section!(@read [$ty] [$($with)?] at, found)?;
                            $crate::section!(@call show [$ty] [$($with)?] &value)
                                .map(|shown| shown.flow())
                        },
                        convert: $crate::section!(@convert $($($convert)?)?),
                    },
                )*];
                KEYS
            }

            fn kind() -> String {
                let short = Self::keys().iter().find(|key| Some(key.name) == Self::SHORT);
                short.map_or("mapping".into(), |key| format!("{}, or mapping", (key.kind)()))
            }

            fn example() -> String {
                let names: Vec<&str> = Self::keys().iter().map(|key| key.name).collect();
                format!("a mapping with {}", names.join(", "))
            }

            fn read(
                at: &$crate::findings::At<'_>,
                findings: &mut $crate::findings::Findings,
            ) -> Option<Self> {
                if at.is_map() || Self::SHORT.is_none() {
                    findings.declared(at, Self::keys())?;
                }
                $(let $field: Option<$ty> = match $crate::given(
                    at, stringify!($field), Self::SHORT
                ) {
                    Some(found) => $crate::section!(
                        @read [$ty] [$($with)?] &found, findings
                    ),
                    None => $crate::section!(
                        @absent $how [$ty] [$($with)?] [$($arg)?] at, findings, stringify!($field)
                    ),
                };)*
                $(if let Some(model) = $tag {
                    let (tag, word) = (stringify!($tag), $crate::Words::word(model));
                    let misfit = $crate::Misfit::Refuse;
                    $crate::suited(at, Self::keys(), tag, word, misfit, findings);
                })?
                Some($name { $($field: $field?),* })
            }

            fn show(&self) -> Option<$crate::Shown> {
                let mut entries: Vec<(&'static str, $crate::Shown)> = Vec::new();
                $(if let Some(shown) =
                    $crate::section!(@call show [$ty] [$($with)?] &self.$field)
                {
                    entries.push((stringify!($field), shown));
                })*
                Some($crate::shortened(Self::keys(), Self::SHORT, entries))
            }

            fn json(&self) -> $crate::serde_json::Value {
                let mut out = $crate::serde_json::Map::new();
                $(out.insert(
                    format!(
                        "{}{}",
                        stringify!($field),
                        <$ty as $crate::Setting>::UNIT
                    ),
                    $crate::section!(@call json [$ty] [$($with)?] &self.$field),
                );)*
                out.into()
            }

            fn change(&mut self, path: &str, value: f64) -> bool {
                let (key, rest) = $crate::first(path);
                $(if key == stringify!($field) {
                    return $crate::Setting::change(&mut self.$field, rest, value);
                })*
                false
            }
        }
    };
    (@short) => { None };
    (@short $short:ident) => { Some(stringify!($short)) };
    (@convert) => { None };
    (@convert $convert:ident) => { Some($convert) };
    (@kind [$ty:ty]) => { <$ty as $crate::Setting>::kind };
    (@kind [$ty:ty] $with:ident) => { $with::kind };
    (@example required [$ty:ty] [$($with:ident)?] $example:expr) => { || $example.to_string() };
    (@example $how:ident [$ty:ty] [] $($arg:expr)?) => {
        <$ty as $crate::Setting>::example
    };
    (@example $how:ident [$ty:ty] [$with:ident] $($arg:expr)?) => { $with::example };
    (@how required [$ty:ty] [$($with:ident)?] [] $($example:expr)?) => {
        $crate::Absent::Required
    };
    (@how like [$ty:ty] [$($with:ident)?] [] $other:expr) => {
        $crate::Absent::Like(stringify!($other))
    };
    (@how default [$ty:ty] [$($with:ident)?] [] $value:expr) => {
        $crate::Absent::Value(|| {
            let value: $ty = $value;
            let shown =
                $crate::section!(@call show [$ty] [$($with)?] &value);
            shown.map_or("none".to_string(), |shown| shown.flow())
        })
    };
    (@how $how:ident [$ty:ty] [$($with:ident)?] [$says:literal] $($arg:expr)?) => {
        $crate::Absent::Text($says)
    };
    (@read [$ty:ty] [] $at:expr, $findings:expr) => {
        <$ty as $crate::Setting>::read($at, $findings)
    };
    (@read [$ty:ty] [$with:ident] $at:expr, $findings:expr) => { $with::read($at, $findings) };
    (@absent required [$ty:ty] [$($with:ident)?] [$($example:expr)?]
        $at:expr, $findings:expr, $key:expr) => {{
        let example = $crate::section!(
            @example required [$ty] [$($with)?] $($example)?
        );
        $findings.missing($at, $key, &example());
        None
    }};
    (@absent like [$ty:ty] [$($with:ident)?] [$other:expr]
        $at:expr, $findings:expr, $key:expr) => {
        $other.clone()
    };
    (@absent default [$ty:ty] [$($with:ident)?] [$value:expr]
        $at:expr, $findings:expr, $key:expr) => {
        Some($value)
    };
    (@call $what:ident [$ty:ty] [] $value:expr) => {
        $crate::Setting::$what($value)
    };
    (@call $what:ident [$ty:ty] [$with:ident] $value:expr) => { $with::$what($value) };
}
