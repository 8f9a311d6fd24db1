//! The answer of a formula.

/// Time of a kernel, with its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// Time, seconds.
    pub seconds: f64,
    /// Floating-point operations.
    pub operations: f64,
    /// Bytes that must be read from memory or written to it.
    pub bytes: f64,
    /// Parts of the time: names, and the seconds that each takes alone. Parts may overlap.
    pub parts: Vec<(&'static str, f64)>,
}

/// Why a kernel has no time, in words for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(String);

impl Refused {
    /// With this reason.
    pub fn new(reason: impl Into<String>) -> Refused {
        Refused(reason.into())
    }

    /// The platform lacks the parameters `npu.kernels.<key>`.
    pub(crate) fn lacking(key: &str) -> Refused {
        Refused::new(format!("the platform has no parameters npu.kernels.{key}"))
    }

    /// The reason.
    pub fn reason(&self) -> &str {
        &self.0
    }
}
