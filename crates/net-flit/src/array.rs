//! A row of values that every flit looks at, without a check of each place.
//!
//! A flit that crosses a router looks at 80 places. Checks of them take a fifth of the
//! instructions. Builds with debug assertions, which all tests use, do check them.
#![allow(unsafe_code)] // Places are not checked in builds without debug assertions.

use std::ops::{Deref, DerefMut, Index, IndexMut};

/// Values that are looked at by numbers that the network itself has given out: of channels, virtual
/// channels, ports and packets. They never come from outside.
#[derive(Clone, Debug)]
pub(crate) struct Array<T>(Vec<T>);

impl<T: Clone> Array<T> {
    /// More places, with one value.
    pub(crate) fn grow(&mut self, by: usize, value: T) {
        self.0.resize(self.0.len() + by, value);
    }
}

impl<T> Default for Array<T> {
    fn default() -> Array<T> {
        Array(Vec::new())
    }
}

impl<T> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Array<T> {
        Array(values)
    }
}

impl<T> Deref for Array<T> {
    type Target = Vec<T>;

    #[inline(always)]
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Array<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> Index<usize> for Array<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, place: usize) -> &T {
        debug_assert!(place < self.0.len(), "place {place} of {}", self.0.len());
        // SAFETY: the number of a channel, virtual channel, port or packet is given out together
        // with its place, and places are never taken away.
        unsafe { self.0.get_unchecked(place) }
    }
}

impl<T> IndexMut<usize> for Array<T> {
    #[inline(always)]
    fn index_mut(&mut self, place: usize) -> &mut T {
        debug_assert!(place < self.0.len(), "place {place} of {}", self.0.len());
        // SAFETY: as in `index`.
        unsafe { self.0.get_unchecked_mut(place) }
    }
}
