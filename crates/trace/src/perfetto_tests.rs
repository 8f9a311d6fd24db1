use super::*;
use crate::wire::{Cursor, Wire};

/// The fields of a message.
fn fields(message: &[u8]) -> Vec<(u32, Wire<'_>)> {
    let mut cursor = Cursor::new(message);
    std::iter::from_fn(|| cursor.field().expect("a message")).collect()
}

fn inner<'a>(fields: &[(u32, Wire<'a>)], number: u32) -> Vec<(u32, Wire<'a>)> {
    let of = |&(n, value): &(u32, Wire<'a>)| match value {
        Wire::Bytes(bytes) if n == number => Some(bytes),
        _ => None,
    };
    super::tests::fields(fields.iter().find_map(of).expect("the field is there"))
}

fn packets(trace: &[u8]) -> Vec<Vec<(u32, Wire<'_>)>> {
    let of = |(number, value)| match value {
        Wire::Bytes(packet) if number == 1 => fields(packet),
        other => panic!("field {number} of a trace is {other:?}"),
    };
    fields(trace).into_iter().map(of).collect()
}

#[test]
fn a_slice_is_what_the_schema_says() {
    let mut writer = Writer::new(Vec::new());
    let track = Track { parent: None, name: "rank 0", description: "", order: 7, unit: None };
    let rank = writer.track(&track);
    let (category, name) =
        (writer.intern(Table::Category, "operation"), writer.intern(Table::Name, "forward"));
    let (key, value) = (writer.intern(Table::Key, "layer"), writer.intern(Table::Value, "first"));
    let arguments = [(key, Value::Text(value)), (key, Value::Number(300))];
    writer.begin(
        1000,
        rank,
        category,
        name,
        &Details { arguments: &arguments, flows: &[1], ends: &[2] },
    );
    writer.end(900, rank, &Details::default());
    let trace = writer.finish().expect("memory holds it");
    let all = packets(&trace);
    assert_eq!(all[0], [(10, Wire::Varint(1)), (13, Wire::Varint(1))]);
    let described = [
        (1, Wire::Varint(1)),
        (2, Wire::Bytes(b"rank 0")),
        (12, Wire::Varint(7)),
        (11, Wire::Varint(3)),
    ];
    assert_eq!(inner(&all[1], 60), described);
    assert_eq!(all[2][1], (8, Wire::Varint(1000)));
    let texts = inner(&all[2], 12);
    let numbers: Vec<u32> = texts.iter().map(|text| text.0).collect();
    assert_eq!(numbers, [1, 2, 3, 29]);
    assert_eq!(inner(&texts, 2), [(1, Wire::Varint(1)), (2, Wire::Bytes(b"forward"))]);
    let event = inner(&all[2], 11);
    assert_eq!(event[..4], [9, 11, 3, 10].map(|number| (number, Wire::Varint(1))));
    assert_eq!(inner(&event, 4), [(1, Wire::Varint(1)), (17, Wire::Varint(1))]);
    let second: Vec<_> = event[5..].to_vec();
    assert_eq!(inner(&second, 4), [(1, Wire::Varint(1)), (3, Wire::Varint(300))]);
    assert_eq!(second[1..], [(47, Wire::Fixed64(1)), (48, Wire::Fixed64(2))]);
    assert_eq!(all[3][1], (8, Wire::Varint(900)));
    assert_eq!(inner(&all[3], 11), [(9, Wire::Varint(2)), (11, Wire::Varint(1))]);
}

#[test]
fn a_text_comes_once() {
    let mut writer = Writer::new(Vec::new());
    let numbers = ["a", "b", "a"].map(|text| writer.intern(Table::Name, text));
    assert_eq!(numbers, [1, 2, 1]);
    assert_eq!(writer.intern(Table::Key, "b"), 1);
    writer.count(0, 1, 5);
    writer.measure(1, 1, 0.5);
    let trace = writer.finish().expect("memory holds it");
    let all = packets(&trace);
    assert_eq!(inner(&all[1], 12).len(), 3);
    assert!(all[2].iter().all(|&(number, _)| number != 12));
    assert_eq!(inner(&all[1], 11)[2], (30, Wire::Varint(5)));
    assert_eq!(inner(&all[2], 11)[2], (44, Wire::Fixed64(0.5f64.to_bits())));
}

/// A writer with room for this number of bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_is_kept() {
    let mut writer = Writer::new(Full(40));
    assert!(!writer.has_failed());
    (0..9).for_each(|ns| writer.count(ns, 1, 1));
    assert!(writer.has_failed());
    assert_eq!(writer.finish().err().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
}
