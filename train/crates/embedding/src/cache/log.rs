//! The slower tier on a disk: records of rows, each written behind the last one (a log), and an
//! index that says where a row's newest record is.
//!
//! Nothing that a checkpoint needs is written over, so a crash at any moment leaves the last
//! checkpoint whole. The file consists of segments. One whose records are all outdated is used
//! again; if too many records are outdated, those that aren't move on (log-structured storage:
//! Rosenblum and Ousterhout, 1992). Writes are as large as a segment, and rows that were never
//! written take no space.

use super::disk::{BLOCK, Disk, Pages};
use super::places::{PLACE, Places};
use std::collections::BTreeSet;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// Bytes of a segment, about.
pub const SEGMENT: usize = 1 << 20;

/// Bytes in front of a record: its row.
pub const HEAD: usize = 8;

/// Segments that may be more than twice what the records need.
const SLACK: usize = 4;

/// Records of a segment, by what needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Segment {
    /// Newest records of rows.
    live: u32,
    /// Records of the last checkpoint.
    kept: u32,
}

/// Bytes that were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes written.
    pub written: u64,
    /// Records that moved because those around them were outdated.
    pub moved: u64,
}

/// Records of rows in a file.
pub struct Log {
    disk: Disk,
    places: Places,
    /// Bytes of a record, with its head.
    record: usize,
    /// Records of a segment.
    each: usize,
    segments: Vec<Segment>,
    free: BTreeSet<usize>,
    /// The segment that records are added to, its number, and how many it has.
    open: Pages,
    current: usize,
    filled: usize,
    /// Whether a segment was written since the last look for outdated records.
    sealed: bool,
    /// Bytes that were written so far.
    pub traffic: Traffic,
}

/// Bytes of memory that a log takes, for `rows` rows of `bytes` bytes.
pub fn fixed(rows: u64, bytes: usize) -> u64 {
    rows * PLACE as u64 + SEGMENT.max(bytes + HEAD) as u64
}

impl Log {
    /// An empty log in the file at `path`, for `rows` rows of `bytes` bytes.
    pub fn new(path: &Path, rows: u64, bytes: usize) -> Result<Self, Error> {
        let record = bytes + HEAD;
        let each = (SEGMENT / record).max(1);
        Ok(Self {
            disk: Disk::open(path)?,
            places: Places::new(rows)?,
            record,
            each,
            segments: vec![Segment::default()],
            free: BTreeSet::new(),
            open: Pages::new(each * record)?,
            current: 0,
            filled: 0,
            sealed: false,
            traffic: Traffic::default(),
        })
    }

    /// The log of a checkpoint, whose index is in a file with this checksum.
    pub fn resume(
        path: &Path,
        (rows, bytes): (u64, usize),
        (index, checksum): (&Path, u64),
    ) -> Result<Self, Error> {
        let mut log = Self::new(path, rows, bytes)?;
        log.places.load(index, checksum)?;
        let whole = log.disk.bytes()? / log.segment_bytes() as u64;
        log.segments = vec![Segment::default(); whole as usize];
        for row in 0..rows {
            if let Some(record) = log.places.get(row) {
                let segment = log.segments.get_mut(record as usize / log.each);
                let damaged = || Error::new(ErrorKind::InvalidData, "the file is too short");
                segment.ok_or_else(damaged)?.live += 1;
            }
        }
        for (at, segment) in log.segments.iter_mut().enumerate() {
            segment.kept = segment.live;
            if segment.live == 0 {
                log.free.insert(at);
            }
        }
        log.current = log.take();
        Ok(log)
    }

    fn segment_bytes(&self) -> usize {
        self.open.bytes().len()
    }

    /// A free segment, which is made if there is none.
    fn take(&mut self) -> usize {
        self.free.pop_first().unwrap_or_else(|| {
            self.segments.push(Segment::default());
            self.segments.len() - 1
        })
    }

    /// Frees a segment that nothing needs.
    fn release(&mut self, segment: usize) {
        if segment != self.current && self.segments[segment] == Segment::default() {
            self.free.insert(segment);
        }
    }

    /// Adds a record of `row`, whose bytes `write` fills in.
    pub fn append(&mut self, row: u64, write: impl FnOnce(&mut [u8])) -> Result<(), Error> {
        if self.filled == self.each {
            self.seal()?;
        }
        let at = self.filled * self.record;
        let record = &mut self.open.bytes_mut()[at..at + self.record];
        record[..HEAD].copy_from_slice(&row.to_le_bytes());
        write(&mut record[HEAD..]);
        let old = self.places.get(row);
        self.places.set(row, (self.current * self.each + self.filled) as u64);
        self.filled += 1;
        self.segments[self.current].live += 1;
        if let Some(old) = old {
            let segment = old as usize / self.each;
            self.segments[segment].live -= 1;
            self.release(segment);
        }
        Ok(())
    }

    /// Writes the open segment and takes another one.
    fn seal(&mut self) -> Result<(), Error> {
        let bytes = self.segment_bytes();
        let at = self.current as u64 * bytes as u64;
        // The bytes after the last record are zero or outdated; no place leads there.
        self.disk.write(self.open.bytes(), at)?;
        self.traffic.written += bytes as u64;
        let full = self.current;
        self.current = self.take();
        self.filled = 0;
        self.sealed = true;
        self.release(full);
        Ok(())
    }

    /// Moves records out of segments with many outdated ones, until the file is about twice as
    /// large as its newest records. Segments of the last checkpoint are left alone, unless the next
    /// one is made now (`all`).
    pub fn tidy(&mut self, all: bool) -> Result<(), Error> {
        while all || self.sealed {
            self.sealed = false;
            let live: usize = self.segments.iter().map(|segment| segment.live as usize).sum();
            let movable = |at: usize, segment: &Segment| {
                at != self.current && segment.live > 0 && (all || segment.kept == 0)
            };
            let mut used = self.segments.iter().enumerate();
            let (mut count, mut worst) = (0, None);
            for (at, segment) in used.by_ref().filter(|&(at, segment)| movable(at, segment)) {
                count += 1;
                let key = (segment.live, at);
                worst = Some(worst.map_or(key, |worst: (u32, usize)| worst.min(key)));
            }
            match worst {
                Some((live_there, segment))
                    if count > 2 * live.div_ceil(self.each) + SLACK
                        && (live_there as usize) < self.each =>
                {
                    self.move_on(segment)?;
                    self.sealed = true;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// Adds the newest records of a segment again.
    fn move_on(&mut self, segment: usize) -> Result<(), Error> {
        let mut old = Pages::new(self.segment_bytes())?;
        self.disk.read(old.bytes_mut(), segment as u64 * self.segment_bytes() as u64)?;
        for at in 0..self.each {
            let record = &old.bytes()[at * self.record..(at + 1) * self.record];
            let row = head(record);
            let place = (segment * self.each + at) as u64;
            if self.segments[segment].live > 0 && self.is_at(row, place) {
                self.append(row, |to| to.copy_from_slice(&record[HEAD..]))?;
                self.traffic.moved += 1;
            }
        }
        Ok(())
    }

    fn is_at(&self, row: u64, place: u64) -> bool {
        row < self.rows() && self.places.get(row) == Some(place)
    }

    /// The newest record of a row, without its head, or `None` if it has none. `room` may be
    /// overwritten, and has at least `Log::room` bytes.
    pub fn read<'a>(&'a self, row: u64, room: &'a mut Pages) -> Result<Option<&'a [u8]>, Error> {
        let Some(place) = self.places.get(row) else { return Ok(None) };
        let (segment, at) = (place as usize / self.each, place as usize % self.each);
        let start = at * self.record;
        let record = if segment == self.current {
            &self.open.bytes()[start..start + self.record]
        } else {
            let first = start / BLOCK * BLOCK;
            let last = (start + self.record).next_multiple_of(BLOCK);
            let file = segment as u64 * self.segment_bytes() as u64;
            self.disk.read(&mut room.bytes_mut()[..last - first], file + first as u64)?;
            &room.bytes()[start - first..start - first + self.record]
        };
        if head(record) != row {
            let said = format!("the record of row {row} is damaged");
            return Err(Error::new(ErrorKind::InvalidData, said));
        }
        Ok(Some(&record[HEAD..]))
    }

    /// Bytes of room for `read`.
    pub fn room(&self) -> usize {
        self.record + 2 * BLOCK
    }

    /// Where a row's newest record is, for an order of reads.
    pub fn place(&self, row: u64) -> Option<u64> {
        self.places.get(row)
    }

    /// Puts all records on the disk.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.tidy(true)?;
        if self.filled > 0 {
            self.seal()?;
        }
        self.disk.sync()
    }

    /// Puts the index on the disk, in a new file. Returns its checksum.
    pub fn save(&self, index: &Path) -> Result<u64, Error> {
        self.places.save(index)
    }

    /// Notes that the checkpoint of the last `save` is the one to keep.
    pub fn keep(&mut self) {
        for at in 0..self.segments.len() {
            self.segments[at].kept = self.segments[at].live;
            self.release(at);
        }
    }

    fn rows(&self) -> u64 {
        self.places.rows()
    }
}

fn head(record: &[u8]) -> u64 {
    let mut row = [0; HEAD];
    row.copy_from_slice(&record[..HEAD]);
    u64::from_le_bytes(row)
}
