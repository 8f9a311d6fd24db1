//! Which instructions the machine has.

/// A set of instructions that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// What every machine of this architecture has; on aarch64, NEON.
    Portable,
}

impl Level {
    /// All sets that this machine has, the widest last.
    pub fn available() -> Vec<Self> {
        vec![Self::Portable]
    }

    /// The name: `portable`, or `neon` on aarch64.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "neon",
            Self::Portable => "portable",
        }
    }
}
