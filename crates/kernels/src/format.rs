//! Number formats of kernels.

use serde::Deserialize;

/// Number format of the elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// Brain floats of 16 bits.
    Bf16,
    /// Half precision.
    Fp16,
    /// Single precision, multiplied as TF32.
    Fp32,
    /// 8-bit floats, one scale for each tensor or row.
    Fp8,
    /// 8-bit floats, one scale for each block of 128.
    Fp8Block,
    /// 8-bit integers.
    Int8,
    /// NVIDIA's 4-bit floats: one 8-bit scale for each 16.
    Nvfp4,
    /// OCP's 4-bit floats: one 8-bit scale for each 32.
    Mxfp4,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 8] = [
        Format::Bf16,
        Format::Fp16,
        Format::Fp32,
        Format::Fp8,
        Format::Fp8Block,
        Format::Int8,
        Format::Nvfp4,
        Format::Mxfp4,
    ];

    /// Word of the format in shapes and on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Format::Bf16 => "bf16",
            Format::Fp16 => "fp16",
            Format::Fp32 => "fp32",
            Format::Fp8 => "fp8",
            Format::Fp8Block => "fp8_block",
            Format::Int8 => "int8",
            Format::Nvfp4 => "nvfp4",
            Format::Mxfp4 => "mxfp4",
        }
    }

    /// Bytes of an element, with its part of the scales.
    pub const fn bytes(self) -> f64 {
        match self {
            Format::Bf16 | Format::Fp16 => 2.0,
            Format::Fp32 => 4.0,
            Format::Fp8 | Format::Int8 => 1.0,
            Format::Fp8Block => 1.0 + 4.0 / 128.0,
            Format::Nvfp4 => 0.5 + 1.0 / 16.0,
            Format::Mxfp4 => 0.5 + 1.0 / 32.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_reads_back() {
        for format in Format::ALL {
            let read: Format = serde_json::from_value(format.word().into()).unwrap();
            assert_eq!(read, format);
        }
    }
}
