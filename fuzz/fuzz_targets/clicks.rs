//! See `fuzz::clicks`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::watched(data, fuzz::clicks));
