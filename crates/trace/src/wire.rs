//! The protobuf wire format, over byte slices.
//!
//! Here: a cursor that walks the fields of a message without copying, and the few encoders the
//! writer needs. Written by hand because `prost` decodes into owned messages (one allocation a
//! string, a list or an attribute) and keeps its borrowing primitives behind `Buf`, which costs an
//! order of magnitude of the nodes per second asked for here. Equation: field = key varint (`number
//! << 3 | type`), then a varint, 8 bytes, a length and its bytes, or 4 bytes. Source: the protobuf
//! encoding guide.

/// The value of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wire<'a> {
    /// Type 0.
    Varint(u64),
    /// Type 1.
    Fixed64(u64),
    /// Type 2: a string, a message or a packed list.
    Bytes(&'a [u8]),
    /// Type 5.
    Fixed32(u32),
}

/// The bytes are not a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A position in a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// At the start of `message`.
    #[inline]
    pub fn new(message: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: message }
    }

    /// True behind the last byte.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes not yet read.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads one varint.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest.first() {
            Some(&byte) if byte < 0x80 => {
                self.rest = &self.rest[1..];
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (i, &byte) in self.rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i as u32);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Reads one field: its number and value, `None` at the end of the message.
    #[inline(always)]
    pub fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match key & 7 {
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(self.fixed64()?),
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Fixed32(self.fixed32()?),
            _ => return Err(Malformed),
        };
        Ok(Some((number, value)))
    }

    fn fixed64(&mut self) -> Result<u64, Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    fn fixed32(&mut self) -> Result<u32, Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*taken))
    }
}

/// The signed number behind a zigzag varint.
pub(crate) fn zigzag(value: u64) -> i64 {
    ((value >> 1) as i64) ^ -((value & 1) as i64)
}

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a varint field.
pub(crate) fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Appends a length-delimited field.
pub(crate) fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of 8 bytes.
pub(crate) fn put_fixed64(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a message field with what `fill` appends.
#[inline]
pub(crate) fn put_message(out: &mut Vec<u8>, number: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, u64::from(number) << 3 | 2);
    let start = out.len();
    out.push(0);
    fill(out);
    let length = out.len() - start - 1;
    if length < 0x80 {
        out[start] = length as u8;
    } else {
        let mut varint = Vec::with_capacity(10);
        put_varint(&mut varint, length as u64);
        out.splice(start..=start, varint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_survives_the_round_trip(value: u64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Ok(value));
            prop_assert!(cursor.is_at_end());
        }

        #[test]
        fn fields_survive_the_round_trip(number in 1u32..1000, value: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            put_number(&mut out, number, value);
            put_bytes(&mut out, number + 1, &bytes);
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.field(), Ok(Some((number, Wire::Varint(value)))));
            prop_assert_eq!(cursor.field(), Ok(Some((number + 1, Wire::Bytes(&bytes)))));
            prop_assert_eq!(cursor.field(), Ok(None));
        }
    }

    #[test]
    fn messages_of_any_length_survive_the_round_trip() {
        for length in [0, 1, 127, 128, 20_000] {
            let mut out = Vec::new();
            put_message(&mut out, 3, |out| out.resize(out.len() + length, 7));
            put_fixed64(&mut out, 4, 1 << 60);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.field(), Ok(Some((3, Wire::Bytes(&vec![7; length])))));
            assert_eq!(cursor.field(), Ok(Some((4, Wire::Fixed64(1 << 60)))));
        }
    }

    #[test]
    fn the_guide_s_examples_read() {
        // The encoding guide: 150 is 96 01; field 1 = 150 is 08 96 01; zigzag 1 is -1, 4294967294
        // is 2147483647.
        assert_eq!(Cursor::new(&[0x08, 0x96, 0x01]).field(), Ok(Some((1, Wire::Varint(150)))));
        assert_eq!((zigzag(1), zigzag(2), zigzag(4_294_967_294)), (-1, 1, 2_147_483_647));
        assert_eq!(Cursor::new(&[0x12, 0x05, b'a']).field(), Err(Malformed));
        assert_eq!(Cursor::new(&[0x80; 11]).varint(), Err(Malformed));
        assert_eq!(Cursor::new(&[0x00]).field(), Err(Malformed));
    }
}
