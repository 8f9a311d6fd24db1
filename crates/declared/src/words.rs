//! One of a few words: the values of an enum.

/// An enum whose values have words in platform files.
pub trait Words: Copy + PartialEq + 'static {
    /// The word of each value.
    const WORDS: &'static [(&'static str, Self)];

    /// Word of the value in files.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|word| word.1 == self).map_or("", |word| word.0)
    }
}

/// Declares the words of an enum: `words!(Name: "nccl" = Name::Nccl, ...)`.
#[macro_export]
macro_rules! words {
    ($ty:ty: $($word:literal = $value:path),+ $(,)?) => {
        impl $crate::Words for $ty {
            const WORDS: &'static [(&'static str, $ty)] = &[$(($word, $value)),+];
        }

        impl $crate::Setting for $ty {
            fn kind() -> String {
                let words = <$ty as $crate::Words>::WORDS;
                words.iter().map(|word| format!("`{}`", word.0)).collect::<Vec<_>>().join(", ")
            }

            fn example() -> String {
                let words = <$ty as $crate::Words>::WORDS;
                words.iter().map(|word| word.0).collect::<Vec<_>>().join(", ")
            }

            fn read(
                at: &$crate::findings::At<'_>,
                findings: &mut $crate::findings::Findings,
            ) -> Option<$ty> {
                findings.one_of(at, <$ty as $crate::Words>::WORDS)
            }

            fn show(&self) -> Option<$crate::Shown> {
                let word = $crate::Words::word(*self);
                Some($crate::Shown::of(word))
            }

            fn json(&self) -> $crate::serde_json::Value {
                $crate::Words::word(*self).into()
            }
        }
    };
}
