//! How a table stores its numbers, and conversions that every instruction set repeats to the bit.

/// The type of the elements of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// The upper half of binary32.
    Bf16,
    /// A byte for each element, with a scale and an offset for each row, behind its bytes. Such rows
    /// are only read.
    I8,
}

impl Precision {
    /// Bytes of an element.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Bytes of a row of `dim` elements.
    pub fn row(self, dim: usize) -> usize {
        dim * self.bytes() + if self == Self::I8 { 8 } else { 0 }
    }
}

/// A binary16 as a binary32; exact.
pub fn f16_to_f32(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let magnitude = u32::from(half & 0x7fff);
    let bits = match magnitude {
        0x7c00 => 0x7f80_0000,
        0x7c01.. => 0x7fc0_0000 | (magnitude & 0x3ff) << 13,
        0x400.. => (magnitude << 13) + (112 << 23),
        // Subnormal: a multiple of 2^-24.
        _ => (magnitude as f32 * f32::from_bits(103 << 23)).to_bits(),
    };
    f32::from_bits(sign | bits)
}

/// The nearest binary16; ties to even, infinity above the largest.
pub fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = bits & 0x7fff_ffff;
    let half = if magnitude > 0x7f80_0000 {
        0x7e00 | (magnitude >> 13 & 0x3ff)
    } else if magnitude >= 0x4780_0000 {
        0x7c00
    } else if magnitude >= 0x3880_0000 {
        let odd = magnitude >> 13 & 1;
        (magnitude - (112 << 23) + 0xfff + odd) >> 13
    } else {
        // Adding 0.5 leaves the multiple of 2^-24 in the lowest bits, rounded by the hardware.
        (f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits()
    };
    sign | half as u16
}

/// A bfloat16 as a binary32; exact.
pub fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// The nearest bfloat16; ties to even.
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    if value.is_nan() {
        (bits >> 16) as u16 | 0x40
    } else {
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives_the_way_there_and_back() {
        for half in 0..=u16::MAX {
            let quiet = |nan: bool, bit: u16| if nan { half | bit } else { half };
            let wide = f16_to_f32(half);
            assert_eq!(f32_to_f16(wide), quiet(wide.is_nan(), 0x200));
            let wide = bf16_to_f32(half);
            assert_eq!(f32_to_bf16(wide), quiet(wide.is_nan(), 0x40));
        }
    }

    #[test]
    fn halves_round_to_nearest_and_ties_to_even() {
        for (low, high) in (0..0x7bffu16).map(|half| (half, half + 1)) {
            let (a, b) = (f16_to_f32(low), f16_to_f32(high));
            let middle = (a + b) / 2.0;
            assert_eq!(f32_to_f16(middle), if low % 2 == 0 { low } else { high });
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() - 1)), low);
            assert_eq!(f32_to_f16(f32::from_bits(middle.to_bits() + 1)), high);
            assert_eq!(f32_to_f16(-middle), 0x8000 | f32_to_f16(middle));
        }
        assert_eq!(f32_to_f16(65519.9), 0x7bff);
        assert_eq!(f32_to_f16(65520.0), 0x7c00);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f80_8000)), 0x3f80);
        assert_eq!(f32_to_bf16(f32::from_bits(0x3f81_8000)), 0x3f82);
        assert_eq!(f32_to_bf16(f32::MAX), 0x7f80);
    }
}
