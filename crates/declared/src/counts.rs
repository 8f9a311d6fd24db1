//! Whole numbers in a range, for `as` in `section!`.

/// `counts!(sides: 1 to 65_536)`: a module that reads, prints and describes such a count. Fields
/// are `u32` or `Option<u32>`.
#[macro_export]
macro_rules! counts {
    ($($(#[$meta:meta])* $name:ident: $least:literal to $most:expr;)+) => {$(
        $(#[$meta])*
        mod $name {
            use $crate::{Setting, Shown};
            use $crate::findings::{At, Findings};

            pub(super) fn kind() -> String {
                match ($least, $most) {
                    (least, u32::MAX) => format!("count from {least}"),
                    (least, most) => format!("count, {least} to {most}"),
                }
            }

            #[allow(dead_code)]
            pub(super) fn example() -> String {
                match ($least, $most) {
                    (least, u32::MAX) => format!("a whole number from {least}"),
                    (least, most) => format!("a whole number from {least} to {most}"),
                }
            }

            pub(super) fn read<T: From<u32>>(at: &At<'_>, findings: &mut Findings) -> Option<T> {
                findings.whole(at, $least, $most).map(T::from)
            }

            pub(super) fn show<T: Copy + Into<Option<u32>>>(value: &T) -> Option<Shown> {
                Setting::show(&(*value).into())
            }

            pub(super) fn json<T: Copy + Into<Option<u32>>>(value: &T) -> $crate::serde_json::Value {
                Setting::json(&(*value).into())
            }
        }
    )+};
}
