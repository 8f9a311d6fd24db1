//! Every operation of every instruction set has the bits of `Portable`'s, on random and on special
//! numbers.

use super::call::{Kernel, call};
use super::element::{Bf16, F16, F32, I8, Stored, load_part, store_part};
use super::level::Level;
use super::vector::Lanes;
use crate::random::of_column;

/// Zeros, the ends of ranges, ties of 16-bit types, infinities and what is not a number.
const SPECIAL: [u32; 24] = [
    0,
    0x8000_0000,
    1,
    0x0080_0000,
    0x3380_0000,
    0x3300_0000,
    0x3300_0001,
    0x387f_ffff,
    0x3880_0000,
    0x3880_1000,
    0x3880_3000,
    0x3f80_8000,
    0x3f81_8000,
    0x477f_e000,
    0x477f_efff,
    0x477f_f000,
    0x4780_0000,
    0x7f7f_0000,
    0x7f7f_8000,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7f80_0001,
    0xffc1_2345,
];

struct All<'a> {
    one: &'a [f32; 16],
    other: &'a [f32; 16],
    seed: u32,
    found: &'a mut Vec<u32>,
}

impl Kernel for All<'_> {
    #[inline(always)]
    unsafe fn run<L: Lanes>(self) {
        let mut numbers = [0f32; 16];
        let mut halves = [0u16; 16];
        // SAFETY: the machine has the instructions, and all arrays have sixteen elements.
        unsafe {
            let (a, b) = (L::load(self.one.as_ptr()), L::load(self.other.as_ptr()));
            let results = [
                a.add(b),
                a.sub(b),
                a.mul(b),
                a.div(b),
                a.sqrt(),
                a.min(b),
                a.max(b),
                L::splat(3.5),
            ];
            for result in results {
                result.store(numbers.as_mut_ptr());
                self.found.extend(numbers.map(of_number));
            }
            self.found.push(of_number(a.sum()));
            let bits = L::bits(self.seed, self.seed >> 3);
            a.store_f16(halves.as_mut_ptr());
            self.found.extend(halves.map(u32::from));
            L::load_f16(halves.as_ptr()).store(numbers.as_mut_ptr());
            self.found.extend(numbers.map(f32::to_bits));
            a.store_bf16(halves.as_mut_ptr());
            self.found.extend(halves.map(u32::from));
            L::load_bf16(halves.as_ptr()).store(numbers.as_mut_ptr());
            self.found.extend(numbers.map(f32::to_bits));
            a.store_f16_random(halves.as_mut_ptr(), bits);
            self.found.extend(halves.map(u32::from));
            a.store_bf16_random(halves.as_mut_ptr(), bits);
            self.found.extend(halves.map(u32::from));
            L::load_u8(self.one.as_ptr().cast()).store(numbers.as_mut_ptr());
            self.found.extend(numbers.map(f32::to_bits));
            let n = self.seed as usize % 16 + 1;
            let scale = (0.5, -3.0);
            load_part::<L, I8>(self.one.as_ptr().cast(), n, scale).store(numbers.as_mut_ptr());
            self.found.extend(numbers.map(f32::to_bits));
            part::<L, F32>(a, self.one, n, self.found);
            part::<L, F16>(a, self.one, n, self.found);
            part::<L, Bf16>(a, self.one, n, self.found);
        }
    }
}

/// The bits of a result; which bits a result that is not a number has is not part of the contract.
fn of_number(number: f32) -> u32 {
    if number.is_nan() { 0x7fc0_0000 } else { number.to_bits() }
}

/// # Safety
///
/// The machine has the instructions of `L`.
#[inline(always)]
unsafe fn part<L: Lanes, E: Stored>(value: L, from: &[f32; 16], n: usize, found: &mut Vec<u32>) {
    let (mut stored, mut numbers) = ([7u8; 64], [7f32; 16]);
    // SAFETY: the machine has the instructions, and all arrays have sixteen elements.
    unsafe {
        store_part::<L, E>(value, stored.as_mut_ptr(), n, None);
        load_part::<L, E>(from.as_ptr().cast(), n, ()).store(numbers.as_mut_ptr());
    }
    assert!(stored[n * E::BYTES..].iter().all(|&byte| byte == 7), "written past the part");
    assert!(numbers[n..].iter().all(|&number| number == 0.0));
    found.extend(stored.map(u32::from));
    found.extend(numbers.map(f32::to_bits));
}

#[test]
fn all_instruction_sets_give_the_same_bits() {
    for seed in 0..2000 {
        let draw = |place: u32| {
            let word = of_column(seed, place);
            match word % 4 {
                0 => f32::from_bits(SPECIAL[of_column(word, 1) as usize % SPECIAL.len()]),
                1 => f32::from_bits(of_column(word, 2)),
                // In the range of binary16.
                2 => f32::from_bits((of_column(word, 3) & 0x8fff_ffff) | 0x3000_0000),
                _ => of_column(word, 4) as f32 * 1e-9,
            }
        };
        let one: [f32; 16] = std::array::from_fn(|lane| draw(lane as u32));
        let other: [f32; 16] = std::array::from_fn(|lane| draw(16 + lane as u32));
        let mut expected: Option<Vec<u32>> = None;
        for level in Level::available() {
            let mut found = Vec::new();
            // SAFETY: the machine has the instructions.
            unsafe { call(level, All { one: &one, other: &other, seed, found: &mut found }) };
            let expected = expected.get_or_insert_with(|| found.clone());
            let place = expected.iter().zip(&found).position(|(one, other)| one != other);
            assert_eq!(place, None, "{} on {one:?} and {other:?}", level.name());
            assert_eq!(expected.len(), found.len());
        }
    }
}
