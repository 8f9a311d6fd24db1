//! (header to be written with the crate)
