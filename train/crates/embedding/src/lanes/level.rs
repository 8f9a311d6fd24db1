//! Which instructions the machine has.

/// A set of instructions that kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Instructions that every machine of this architecture has; on aarch64, NEON.
    Portable,
    /// AVX2 and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Level {
    /// All sets that this machine has, the widest last.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let narrow = has!("avx2") && has!("f16c");
            let wide = narrow && has!("avx512f") && has!("avx512bw") && has!("avx512dq");
            if wide && has!("avx512vl") {
                return vec![Self::Portable, Self::Avx2, Self::Avx512];
            }
            if narrow {
                return vec![Self::Portable, Self::Avx2];
            }
        }
        vec![Self::Portable]
    }

    /// The name: `portable` (`neon` on aarch64), `avx2`, `avx512`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable if cfg!(target_arch = "aarch64") => "neon",
            Self::Portable => "portable",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}
