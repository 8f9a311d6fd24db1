//! Traces byte by byte, for nodes no writer of ours would write: wrong types, negative sizes, equal
//! ids.

/// A field value of a message.
pub enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

use Value::{Bytes, Number};

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A message of `(field number, value)`.
pub fn message(fields: &[(u64, Value<'_>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (field, value) in fields {
        match value {
            Number(number) => {
                varint(&mut out, field << 3);
                varint(&mut out, *number);
            }
            Bytes(bytes) => {
                varint(&mut out, field << 3 | 2);
                varint(&mut out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
        }
    }
    out
}

/// Node types and value fields of the Chakra schema that the tests use.
pub const COMPUTE: u64 = 4;
pub const SEND: u64 = 5;
pub const RECV: u64 = 6;
pub const COLLECTIVE: u64 = 7;

/// A node: id, type, ids it depends on, microseconds, attributes (all signed 64-bit).
pub fn node(id: u64, kind: u64, deps: &[u64], us: u64, attributes: &[(&str, i64)]) -> Vec<u8> {
    let attribute = |&(name, value): &(&str, i64)| {
        message(&[(1, Bytes(name.as_bytes())), (9, Number(value as u64))])
    };
    let attributes: Vec<Vec<u8>> = attributes.iter().map(attribute).collect();
    let mut fields = vec![(1, Number(id)), (2, Bytes(b"n")), (3, Number(kind)), (7, Number(us))];
    fields.extend(deps.iter().map(|&dep| (5, Number(dep))));
    fields.extend(attributes.iter().map(|a| (10, Bytes(a))));
    message(&fields)
}

/// A trace: the metadata message and the nodes, each behind its length.
pub fn trace(nodes: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in std::iter::once(&message(&[(1, Bytes(b"0.0.4"))])).chain(nodes) {
        varint(&mut out, part.len() as u64);
        out.extend_from_slice(part);
    }
    out
}
