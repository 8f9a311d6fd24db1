//! Bytes from files: plain or gzipped, small files whole and large ones in blocks, archives member
//! by member.

use super::binary::BinaryReader;
use super::decode::Decoder;
use super::decoded::{Decoded, ReadOptions};
use super::json;
use super::marks::Marks;
use flate2::read::MultiGzDecoder;
use graph::Problem;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Up to here a file is read whole, beyond it in blocks.
pub(crate) const WHOLE: u64 = 64 << 20;
const BLOCK: usize = 1 << 20;

/// Format of a file according to its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Empty,
    Json,
    /// Protobuf, or at least no text.
    Binary,
    Tar,
    /// Text other than JSON; its first line.
    Text(String),
    /// A compression that isn't read.
    Compressed(&'static str),
}

/// Finds the format by the first bytes (300 or more, or all).
pub(crate) fn sniff(head: &[u8]) -> Format {
    if head.is_empty() {
        return Format::Empty;
    }
    if head.get(257..262) == Some(b"ustar") {
        return Format::Tar;
    }
    for (magic, name) in [
        (&b"\x28\xb5\x2f\xfd"[..], "zstd"),
        (b"PK\x03\x04", "zip"),
        (b"\xfd7zXZ\0", "xz"),
        (b"BZh", "bzip2"),
    ] {
        if head.starts_with(magic) {
            return Format::Compressed(name);
        }
    }
    let start = &head[..head.len().min(4096)];
    if start.iter().any(|&byte| byte < 0x20 && !b"\t\n\r\x0c".contains(&byte)) {
        return Format::Binary;
    }
    match start.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[') => Format::Json,
        _ => Format::Text(
            String::from_utf8_lossy(start).lines().next().unwrap_or("").chars().take(60).collect(),
        ),
    }
}

/// Why a format other than JSON or binary is not a trace.
pub(crate) fn refuse(format: Format, file: &str, rank: u32) -> Problem {
    let (message, help) = match format {
        Format::Empty => ("the file is empty".to_string(), "a Chakra execution trace"),
        Format::Tar => (
            "this is an archive inside an archive or a directory, not a trace".to_string(),
            "a trace, or the archive by itself",
        ),
        Format::Compressed(name) => {
            (format!("the file is compressed with {name}"), "plain, gzip or tar")
        }
        Format::Text(line) if line.ends_with(".et") && !line.contains(' ') => (
            format!(
                "the file contains only the name of another file, \"{line}\": a symbolic link that was copied as text"
            ),
            "the file it names",
        ),
        // The text is not repeated: a path in foreign input may lead anywhere.
        Format::Text(_) => {
            ("this is text, not a Chakra trace".to_string(), "protobuf or Chakra JSON")
        }
        Format::Json | Format::Binary => (String::new(), ""),
    };
    Problem::new(file, format!("rank {rank}"), message).help(help)
}

/// Meaning of an I/O error for the user.
pub(crate) fn io_problem(file: &str, error: &io::Error) -> Problem {
    let help = match error.kind() {
        io::ErrorKind::NotFound => "a file that exists",
        io::ErrorKind::PermissionDenied => "a file that you can read",
        _ => "a file that can be read to its end",
    };
    Problem::new(file, "", format!("can't be read: {error}")).help(help)
}

/// A file's uncompressed bytes: all of them in `head`, or the first ones with the rest behind.
pub(crate) struct Content<'a> {
    pub head: Vec<u8>,
    pub rest: Option<Box<dyn Read + 'a>>,
}

impl<'a> Content<'a> {
    /// Opens `path`, reusing the storage of `scratch`.
    pub fn open(path: &Path, mut scratch: Vec<u8>) -> io::Result<Content<'static>> {
        let mut file = files::open(path)?;
        let length = file.metadata()?.len();
        if !(1..WHOLE).contains(&length) {
            return Content::from_reader(Box::new(file), length, scratch);
        }
        // The usual file: one read of its whole length and one that finds its end.
        scratch.clear();
        scratch.reserve(length as usize + 1);
        (&mut file).take(WHOLE).read_to_end(&mut scratch)?;
        if scratch.starts_with(&[0x1f, 0x8b]) || scratch.len() as u64 >= WHOLE {
            file.rewind()?;
            return Content::from_reader(Box::new(file), length, scratch);
        }
        Ok(Content { head: scratch, rest: None })
    }

    /// Reads up to [`WHOLE`] bytes of `reader`, which has `length` bytes, unpacking gzip.
    pub fn from_reader(
        mut reader: Box<dyn Read + 'a>,
        length: u64,
        mut head: Vec<u8>,
    ) -> io::Result<Content<'a>> {
        head.clear();
        (&mut reader).take(2).read_to_end(&mut head)?;
        if head == [0x1f, 0x8b] {
            let packed = io::Cursor::new([0x1f, 0x8b]).chain(reader);
            reader = Box::new(files::unpacked(MultiGzDecoder::new(packed), length));
            head.clear();
        }
        (&mut reader).take(WHOLE - head.len() as u64).read_to_end(&mut head)?;
        let more = head.len() as u64 == WHOLE;
        Ok(Content { head, rest: more.then_some(reader) })
    }
}

/// A trace that was decoded or not, and what is left of it.
pub(crate) struct Outcome {
    pub decoded: Result<Decoded, Vec<Problem>>,
    /// The storage; the trace itself where there are marks.
    pub bytes: Vec<u8>,
    /// The marks of a binary trace that was read whole.
    pub marks: Option<Marks>,
}

/// Decodes one trace out of `content`, with marks if they are asked for and can be had.
pub(crate) fn decode_content(
    content: Content,
    file: &str,
    rank: u32,
    options: &ReadOptions,
    mark: bool,
) -> Outcome {
    let Content { mut head, rest } = content;
    let decoder = Decoder::new(file, rank, options);
    match (sniff(&head), rest) {
        (Format::Json, rest) => {
            if let Some(error) =
                rest.and_then(|rest| files::read_rest(rest, &mut head, files::MOST_TRACE).err())
            {
                return Outcome {
                    decoded: Err(vec![io_problem(file, &error)]),
                    bytes: head,
                    marks: None,
                };
            }
            Outcome { decoded: json::decode(&head, decoder), bytes: head, marks: None }
        }
        (Format::Binary, rest) => {
            let mut reader = BinaryReader::new(decoder);
            reader.marks = (mark && rest.is_none()).then(Marks::default);
            if let Err(error) = binary(&mut reader, &mut head, rest) {
                reader.decoder.problems.push(io_problem(file, &error));
            }
            Outcome { decoded: reader.decoder.finish(), bytes: head, marks: reader.marks }
        }
        (other, _) => {
            Outcome { decoded: Err(vec![refuse(other, file, rank)]), bytes: head, marks: None }
        }
    }
}

/// Feeds the reader the head and then the rest in blocks.
fn binary<'a>(
    reader: &mut BinaryReader,
    head: &mut Vec<u8>,
    rest: Option<Box<dyn Read + 'a>>,
) -> io::Result<()> {
    let Some(mut rest) = rest else {
        // A fault is in the decoder's problems already.
        let _ = reader.block(head, true);
        return Ok(());
    };
    loop {
        let Ok(used) = reader.block(head, false) else { return Ok(()) };
        head.drain(..used);
        // Only the first block is large; a cut message grows it again by itself.
        head.shrink_to(2 * BLOCK);
        if (&mut rest).take(BLOCK as u64).read_to_end(head)? == 0 {
            let _ = reader.block(head, true);
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_by_their_bytes() {
        assert_eq!(sniff(b""), Format::Empty);
        assert_eq!(sniff(b" \n{\"id\": 1}"), Format::Json);
        assert_eq!(sniff(b"{\n\"id\": 1}"), Format::Json);
        assert_eq!(sniff(&[7, 10, 5, b'0', b'.', b'0', b'.', b'4']), Format::Binary);
        assert_eq!(sniff(b"PK\x03\x04...."), Format::Compressed("zip"));
        assert_eq!(sniff(b"workload.0.et"), Format::Text("workload.0.et".into()));
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        assert_eq!(sniff(&tar), Format::Tar);
    }

    #[test]
    fn a_link_saved_as_text_is_explained() {
        let problem = refuse(sniff(b"workload.0.et"), "trace.0.et", 0);
        assert!(problem.message.contains("symbolic link"), "{problem}");
    }
}
