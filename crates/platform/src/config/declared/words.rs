//! One of a few words: the values of an enum.

/// An enum whose values have words in platform files.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// The word of each value.
    const WORDS: &'static [(&'static str, Self)];

    /// Word of the value in files.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|word| word.1 == self).map_or("", |word| word.0)
    }
}

/// Declares the words of an enum: `words!(Name: "nccl" = Name::Nccl, ...)`, or takes them from a
/// list that another crate has: `words!(Dataflow = Dataflow::WORDS)`.
macro_rules! words {
    ($ty:ty: $($word:literal = $value:path),+ $(,)?) => {
        $crate::config::declared::words!($ty = [$(($word, $value)),+]);
    };
    ($ty:ty = $words:expr) => {
        impl $crate::config::declared::Words for $ty {
            const WORDS: &'static [(&'static str, $ty)] = &$words;
        }

        impl $crate::config::declared::Setting for $ty {
            fn kind() -> String {
                let words = <$ty as $crate::config::declared::Words>::WORDS;
                words.iter().map(|word| format!("`{}`", word.0)).collect::<Vec<_>>().join(", ")
            }

            fn example() -> String {
                let words = <$ty as $crate::config::declared::Words>::WORDS;
                words.iter().map(|word| word.0).collect::<Vec<_>>().join(", ")
            }

            fn read(
                at: &$crate::config::findings::At<'_>,
                findings: &mut $crate::config::findings::Findings,
            ) -> Option<$ty> {
                findings.one_of(at, <$ty as $crate::config::declared::Words>::WORDS)
            }

            fn show(&self) -> Option<$crate::config::declared::Shown> {
                let word = $crate::config::declared::Words::word(*self);
                Some($crate::config::declared::Shown::of(word))
            }

            fn json(&self) -> serde_json::Value {
                $crate::config::declared::Words::word(*self).into()
            }
        }
    };
}
pub(crate) use words;
