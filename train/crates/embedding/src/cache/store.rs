//! The slower tier: records of rows in memory or in a file.

use super::disk::Pages;
use super::log::{Log, Traffic};
use std::io::Error;

/// Records of rows.
pub enum Store {
    /// In memory.
    Memory(Plain),
    /// In a file.
    File(Box<Log>),
}

/// Records in memory, and whether each was ever written.
pub struct Plain {
    records: Pages,
    written: Pages,
    bytes: usize,
}

impl Plain {
    /// Room for `rows` records of `bytes` bytes.
    pub fn new(rows: u64, bytes: usize) -> Result<Self, Error> {
        let rows = usize::try_from(rows).ok();
        let all = rows.and_then(|rows| rows.checked_mul(bytes));
        let (Some(rows), Some(all)) = (rows, all) else {
            return Err(std::io::ErrorKind::OutOfMemory.into());
        };
        Ok(Self { records: Pages::new(all)?, written: Pages::new(rows / 8 + 1)?, bytes })
    }
}

impl Store {
    /// Makes what `write` fills in the record of a row.
    pub fn write(&mut self, row: u64, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        match self {
            Self::Memory(plain) => {
                let (row, bytes) = (row as usize, plain.bytes);
                write(&mut plain.records.bytes_mut()[row * bytes..(row + 1) * bytes]);
                plain.written.bytes_mut()[row / 8] |= 1 << (row % 8);
                Ok(())
            }
            Self::File(log) => log.append(row, write),
        }
    }

    /// The record of a row, or `None` if it was never written. `room` may be overwritten, and has
    /// at least `Store::room` bytes.
    pub fn read<'a>(&'a self, row: u64, room: &'a mut Pages) -> Result<Option<&'a [u8]>, Error> {
        match self {
            Self::Memory(plain) => {
                let (row, bytes) = (row as usize, plain.bytes);
                let written = plain.written.bytes()[row / 8] >> (row % 8) & 1 == 1;
                Ok(written.then(|| &plain.records.bytes()[row * bytes..(row + 1) * bytes]))
            }
            Self::File(log) => log.read(row, room),
        }
    }

    /// Key by which rows are read in order.
    pub fn order(&self, row: u64) -> u64 {
        match self {
            Self::Memory(_) => row,
            Self::File(log) => log.place(row).unwrap_or(u64::MAX),
        }
    }

    /// Bytes of room for `read`.
    pub fn room(&self) -> usize {
        match self {
            Self::Memory(_) => 0,
            Self::File(log) => log.room(),
        }
    }

    /// Moves records together, if many are outdated.
    pub fn tidy(&mut self) -> Result<(), Error> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(log) => log.tidy(false),
        }
    }

    /// Bytes that were written to a disk.
    pub fn traffic(&self) -> Traffic {
        match self {
            Self::Memory(_) => Traffic::default(),
            Self::File(log) => log.traffic,
        }
    }
}
