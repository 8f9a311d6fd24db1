//! The binary form: `varint length, message` again and again, read from blocks of bytes so that no
//! file is held whole.

use super::decode::Decoder;
use super::marks::Marks;
use super::schema::{Raw, Schema, detect, is_metadata};
use crate::wire::Cursor;

/// Protobuf itself allows no message beyond 2 GiB.
const LONGEST_MESSAGE: u64 = i32::MAX as u64;
const ANOTHER_FILE: &str =
    "a Chakra execution trace (protobuf, Chakra JSON, either of them gzipped or in a tar archive)";

/// Reads messages out of consecutive blocks.
pub(crate) struct BinaryReader<'o> {
    pub decoder: Decoder<'o>,
    /// Where nodes start and which depend on the rank, for who wants to know.
    pub marks: Option<Marks>,
    schema: Option<Schema>,
    offset: u64,
    deps: Vec<u64>,
    nodes: u64,
}

/// A reason to read no further; it is in the decoder's problems already.
#[derive(Debug)]
pub(crate) struct Stop;

pub(crate) enum Frame<'a> {
    /// A message and the bytes it takes with its length.
    Whole(&'a [u8], usize),
    /// `need` bytes from the frame's start would do.
    Cut { need: u64 },
    /// No length at all.
    Bad,
}

/// The message at the start of `block`.
#[inline]
pub(crate) fn frame(block: &[u8]) -> Frame<'_> {
    let mut cursor = Cursor::new(block);
    let Ok(length) = cursor.varint() else {
        return if block.len() < 10 {
            Frame::Cut { need: block.len() as u64 + 1 }
        } else {
            Frame::Bad
        };
    };
    if length > LONGEST_MESSAGE {
        return Frame::Bad;
    }
    let header = block.len() - cursor.remaining();
    let end = header + length as usize;
    match block.get(header..end) {
        Some(message) => Frame::Whole(message, end),
        None => Frame::Cut { need: end as u64 },
    }
}

/// The whole messages of a block.
pub(crate) struct Frames<'a>(pub &'a [u8]);

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        match frame(self.0) {
            Frame::Whole(message, end) if !self.0.is_empty() => {
                self.0 = &self.0[end..];
                Some(message)
            }
            _ => None,
        }
    }
}

impl<'o> BinaryReader<'o> {
    /// At the start of a file.
    pub fn new(decoder: Decoder<'o>) -> BinaryReader<'o> {
        BinaryReader { decoder, marks: None, schema: None, offset: 0, deps: Vec::new(), nodes: 0 }
    }

    /// Reads the whole messages at the start of `block` and says how many bytes they took.
    ///
    /// `last` says that no further block comes, so that a message that isn't whole is a fault.
    pub fn block(&mut self, block: &[u8], last: bool) -> Result<usize, Stop> {
        let mut at = 0;
        while at < block.len() {
            match frame(&block[at..]) {
                Frame::Whole(message, taken) => {
                    self.message(message, taken, &block[at..])?;
                    at += taken;
                    self.offset += taken as u64;
                }
                Frame::Cut { need } if last => return self.cut(need, (block.len() - at) as u64),
                Frame::Cut { .. } => break,
                Frame::Bad => return self.not_a_trace("the length of a message is expected here"),
            }
        }
        Ok(at)
    }

    #[inline]
    fn message(&mut self, message: &[u8], taken: usize, ahead: &[u8]) -> Result<(), Stop> {
        let Some(schema) = self.schema else { return self.first(message, taken, ahead) };
        self.node(schema, message, taken)
    }

    #[cold]
    fn first(&mut self, message: &[u8], taken: usize, ahead: &[u8]) -> Result<(), Stop> {
        let schema = detect(Frames(ahead));
        self.schema = Some(schema);
        if is_metadata(message) { Ok(()) } else { self.node(schema, message, taken) }
    }

    #[inline]
    fn node(&mut self, schema: Schema, message: &[u8], taken: usize) -> Result<(), Stop> {
        let mut raw = Raw::new(Some(self.offset));
        self.deps.clear();
        let read = schema.node(message, &mut raw, &mut self.deps, &mut self.decoder.notes);
        if read.is_err() || message.is_empty() {
            return self.not_a_trace("a node is expected here").map(drop);
        }
        let op = self.decoder.node(schema, &raw, &self.deps);
        if let Some(marks) = &mut self.marks {
            marks.add(self.offset, schema, &raw, op, message, taken);
        }
        self.nodes += 1;
        if self.decoder.problems.is_full() { Err(Stop) } else { Ok(()) }
    }

    #[cold]
    fn cut(&mut self, need: u64, have: u64) -> Result<usize, Stop> {
        if self.schema.is_none() {
            return self.not_a_trace("the first message is longer than the file");
        }
        let message = format!(
            "the file ends {} bytes before the end of the message that starts here",
            need - have
        );
        self.decoder.problem(
            &format!("byte {}", self.offset),
            message,
            "a complete file: copy or write it again",
        );
        Err(Stop)
    }

    #[cold]
    fn not_a_trace(&mut self, expected: &str) -> Result<usize, Stop> {
        let place = format!("byte {}", self.offset);
        if self.nodes == 0 {
            self.decoder.problem(&place, format!("not a Chakra trace: {expected}"), ANOTHER_FILE);
        } else {
            let message =
                format!("the file is damaged: {expected}, after {} valid nodes", self.nodes);
            self.decoder.problem(&place, message, "a complete file: copy or write it again");
        }
        Err(Stop)
    }
}
