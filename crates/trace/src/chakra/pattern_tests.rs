//! Reading against patterns gives what decoding gives, whatever differs between the ranks.

use super::assemble::Assembler;
use super::marks::Marks;
use super::pattern::{MOST, Match, Patterns};
use super::source::{Content, Outcome, decode_content};
use super::*;
use crate::wire::{put_bytes, put_number, put_varint};
use graph::{Problem, Workload};
use proptest::prelude::*;
use proptest::sample::select;
use std::sync::Arc;

/// An attribute, or a field of the node.
#[derive(Clone, Debug)]
enum Part {
    /// `key` holds the rank plus this, as a varint of this field.
    Relative(&'static str, u32, i64),
    /// `key` holds this on every rank.
    Number(&'static str, u32, u64),
    /// The name of the rank's group of this index, as text.
    Group(usize),
    /// Any text under any name.
    Text(&'static str, &'static str),
    /// Another encoding of a number: zigzag, fixed, a list of truth values.
    Odd(&'static str),
    /// The time at which the node started, different on each rank.
    Start,
    /// A declaration of groups, the rank among them.
    Declares,
    /// A field of no schema.
    Field(u32),
}

#[derive(Clone, Debug)]
struct Spec {
    id: u64,
    kind: u64,
    deps: Vec<u64>,
    parts: Vec<Part>,
}

/// Fault or peculiarity of one rank's file; places count modulo their number.
#[derive(Clone, Debug)]
enum Quirk {
    Byte(usize, u8),
    Cut(usize),
    Twice(usize),
    Without(usize),
    Part(usize, Part),
    Rename(usize, &'static str),
}

fn bytes_of(rank: u32, spec: &Spec, groups: &[&str]) -> Vec<u8> {
    let mut node = Vec::new();
    put_number(&mut node, 1, spec.id);
    put_bytes(&mut node, 2, format!("n{}", spec.id).as_bytes());
    put_number(&mut node, 3, spec.kind);
    spec.deps.iter().for_each(|&dep| put_number(&mut node, 5, dep));
    for part in &spec.parts {
        let mut attr = Vec::new();
        match *part {
            Part::Relative(key, field, by) => {
                put_bytes(&mut attr, 1, key.as_bytes());
                put_number(&mut attr, field, (i64::from(rank) + by) as u64);
            }
            Part::Number(key, field, value) => {
                put_bytes(&mut attr, 1, key.as_bytes());
                put_number(&mut attr, field, value);
            }
            Part::Group(index) => {
                put_bytes(&mut attr, 1, b"pg_name");
                put_bytes(&mut attr, 29, groups[(rank as usize + index) % groups.len()].as_bytes());
            }
            Part::Text(key, text) => {
                put_bytes(&mut attr, 1, key.as_bytes());
                put_bytes(&mut attr, 29, text.as_bytes());
            }
            Part::Odd(key) => {
                put_bytes(&mut attr, 1, key.as_bytes());
                put_number(&mut attr, 15, u64::from(rank) << 1);
            }
            Part::Start => {
                put_number(&mut node, 6, u64::from(rank) * 1000);
                continue;
            }
            Part::Declares => {
                let mut io = Vec::new();
                let text =
                    format!(r#"["[{{\"pg_name\": \"17\", \"ranks\": [0, {}]}}]"]"#, rank + 1);
                put_bytes(&mut io, 1, text.as_bytes());
                put_bytes(&mut node, 8, &io);
                continue;
            }
            Part::Field(number) => {
                put_number(&mut node, number, 1);
                continue;
            }
        }
        put_bytes(&mut node, 10, &attr);
    }
    node
}

fn file_of(rank: u32, specs: &[Spec], groups: &[&str], quirks: &[Quirk]) -> Vec<u8> {
    let mut specs = specs.to_vec();
    let mut groups = groups.to_vec();
    for quirk in quirks {
        match quirk {
            Quirk::Twice(at) => specs.push(specs[at % specs.len()].clone()),
            Quirk::Without(at) if specs.len() > 1 => drop(specs.remove(at % specs.len())),
            Quirk::Part(at, part) => {
                let at = at % specs.len();
                specs[at].parts.push(part.clone());
            }
            Quirk::Rename(at, name) => {
                let at = at % groups.len();
                groups[at] = name;
            }
            _ => {}
        }
    }
    let mut file = Vec::new();
    put_varint(&mut file, 7);
    put_bytes(&mut file, 1, b"0.0.4");
    for spec in &specs {
        let node = bytes_of(rank, spec, &groups);
        put_varint(&mut file, node.len() as u64);
        file.extend(node);
    }
    for quirk in quirks {
        match quirk {
            Quirk::Byte(at, byte) if !file.is_empty() => {
                let at = at % file.len();
                file[at] = *byte;
            }
            Quirk::Cut(at) => file.truncate(at % (file.len() + 1)),
            _ => {}
        }
    }
    file
}

const NAMES: [&str; 7] = ["", "0", "1", "2", "17", "18", "x"];

fn part() -> impl Strategy<Value = Part> {
    let rank_key = select(vec!["comm_src", "comm_dst"]);
    let plain = select(vec![7u32, 9, 11, 13]);
    prop_oneof![
        (rank_key.clone(), plain.clone(), -1i64..2)
            .prop_map(|(key, field, by)| Part::Relative(key, field, by)),
        (rank_key.clone(), plain, 0u64..4)
            .prop_map(|(key, field, value)| Part::Number(key, field, value)),
        rank_key.prop_map(Part::Odd),
        (0usize..3).prop_map(Part::Group),
        (0u64..3).prop_map(|value| Part::Number("pg_name", 13, value)),
        (0u64..3).prop_map(|value| Part::Number("comm_size", 13, value)),
        (0u64..12).prop_map(|value| Part::Number("comm_type", 9, value)),
        Just(Part::Number("is_cpu_op", 27, 1)),
        select(vec![
            ("color", "red"),
            ("op_type", "M"),
            ("pg_name", "\u{fffd}"),
            ("layer", "a"),
            ("layer", "b")
        ])
        .prop_map(|(k, v)| Part::Text(k, v)),
        Just(Part::Start),
        Just(Part::Declares),
        (40u32..42).prop_map(Part::Field),
    ]
}

/// Mostly sound nodes, so that most files decode.
fn spec() -> impl Strategy<Value = (u64, Spec)> {
    let size = Part::Number("comm_size", 13, 64);
    let message = move |send: bool, by: i64, field: u32, own: bool| {
        let (mine, other) = if send { ("comm_src", "comm_dst") } else { ("comm_dst", "comm_src") };
        let mut parts =
            vec![Part::Relative(other, field, by), size.clone(), Part::Number("comm_tag", 7, 3)];
        parts.extend(own.then_some(Part::Relative(mine, field, 0)));
        (if send { 5 } else { 6 }, parts)
    };
    let collective = |group: usize| {
        let parts = vec![
            Part::Number("comm_type", 9, 0),
            Part::Group(group),
            Part::Number("comm_size", 13, 64),
        ];
        (7, parts)
    };
    let body = prop_oneof![
        3 => (any::<bool>(), select(vec![-2i64, -1, 1, 2]), select(vec![7u32, 9, 11, 13]), any::<bool>())
            .prop_map(move |(send, by, field, own)| message(send, by, field, own)),
        3 => (0usize..3).prop_map(collective),
        2 => Just((4, vec![Part::Number("num_ops", 13, 5), Part::Text("op_type", "M")])),
        1 => Just((1, vec![Part::Declares])),
    ];
    let extra = prop_oneof![5 => Just(Vec::new()), 1 => proptest::collection::vec(part(), 1..3)];
    let deps = proptest::collection::vec(1u64..4, 0..3);
    (1u64..3, body, extra, deps).prop_map(|(step, (kind, mut parts), extra, back)| {
        parts.extend(extra);
        (step, Spec { id: 0, kind, deps: back, parts })
    })
}

fn specs() -> impl Strategy<Value = Vec<Spec>> {
    proptest::collection::vec(spec(), 1..14).prop_map(|list| {
        let mut ids: Vec<u64> = Vec::new();
        list.into_iter()
            .map(|(step, mut spec)| {
                spec.id = ids.last().map_or(100, |last| last + step);
                // A dependency counts nodes backwards; what would stand before the first falls
                // away.
                let known = |back: &u64| ids.len().checked_sub(*back as usize).map(|i| ids[i]);
                spec.deps = spec.deps.iter().filter_map(known).collect();
                ids.push(spec.id);
                spec
            })
            .collect()
    })
}

fn quirk() -> impl Strategy<Value = Quirk> {
    prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, byte)| Quirk::Byte(at, byte)),
        any::<usize>().prop_map(Quirk::Cut),
        any::<usize>().prop_map(Quirk::Twice),
        any::<usize>().prop_map(Quirk::Without),
        (any::<usize>(), part()).prop_map(|(at, part)| Quirk::Part(at, part)),
        (any::<usize>(), select(NAMES.to_vec())).prop_map(|(at, name)| Quirk::Rename(at, name)),
    ]
}

fn options() -> impl Strategy<Value = ReadOptions> {
    any::<bool>().prop_map(|replay| ReadOptions { replay })
}

fn assembled(
    base: u32,
    files: &[Vec<u8>],
    options: &ReadOptions,
    patterns: usize,
) -> Result<Workload, Vec<Problem>> {
    let mut assembler = Assembler::new(options, patterns);
    for (rank, bytes) in (base..).zip(files) {
        let content = Content { head: bytes.clone(), rest: None };
        assembler.content(rank, &format!("t.{rank}.et"), content, true);
    }
    let groups: Vec<(String, Vec<u32>)> =
        NAMES[2..].iter().map(|name| (name.to_string(), vec![0, 1, 2])).collect();
    assembler.finish(&groups)
}

/// Keeps the decoded trace `first` and reads `second` against it.
fn against<'o>(
    first: (u32, &[u8]),
    second: (u32, &[u8]),
    options: &'o ReadOptions,
) -> Option<Match> {
    let content = Content { head: first.1.to_vec(), rest: None };
    let Outcome { decoded, bytes, marks } =
        decode_content(content, "first", first.0, options, true);
    let Decoded { slots, declared, notes, rank_free, .. } = decoded.ok()?;
    let mut patterns: Patterns<'o> = Patterns::new(1);
    let found = Match { program: 0, notes: Arc::new(notes), rank_free, slots, declared };
    let marks: Marks = marks.unwrap();
    patterns.keep(bytes, marks, first.0, &found, options);
    patterns.read(second.1, second.0, options)
}

proptest! {
    #[test]
    fn patterns_read_like_the_decoder(
        specs in specs(),
        groups in proptest::collection::vec(select(NAMES.to_vec()), 1..5),
        quirks in proptest::collection::vec(prop_oneof![2 => Just(vec![]), 1 => proptest::collection::vec(quirk(), 1..3)], 2..7),
        base in select(vec![0u32, 3, 125, 16_382]),
        options in options(),
    ) {
        let files: Vec<Vec<u8>> =
            (base..).zip(&quirks).map(|(rank, quirks)| file_of(rank, &specs, &groups, quirks)).collect();
        match (assembled(base, &files, &options, 0), assembled(base, &files, &options, MOST)) {
            (Err(plain), Err(ours)) => prop_assert_eq!(plain, ours),
            (Ok(plain), Ok(ours)) => {
                prop_assert_eq!(plain.programs, ours.programs);
                prop_assert_eq!(plain.ranks, ours.ranks);
                prop_assert_eq!(plain.slots, ours.slots);
                prop_assert_eq!(plain.groups, ours.groups);
                prop_assert_eq!(plain.notes, ours.notes);
            }
            (plain, ours) => prop_assert!(false, "{:?} {:?}", plain.err(), ours.err()),
        }
    }

    /// The same for one pair, where nothing a workload leaves out can hide.
    #[test]
    fn a_match_is_what_the_decoder_finds(
        specs in specs(),
        groups in proptest::collection::vec(select(NAMES.to_vec()), 1..5),
        quirks in proptest::collection::vec(quirk(), 0..2),
        ranks in (select(vec![0u32, 2, 126, 300]), 0u32..4),
        options in options(),
    ) {
        let (first, second) = (ranks.0, ranks.0 + ranks.1);
        let known = file_of(first, &specs, &groups, &[]);
        let bytes = file_of(second, &specs, &groups, &quirks);
        if let Some(found) = against((first, &known), (second, &bytes), &options) {
            let plain = decode(&bytes, "t.et", second, &options).unwrap();
            prop_assert_eq!(decode(&known, "t.et", first, &options).unwrap().program, plain.program);
            prop_assert_eq!(found.slots, plain.slots);
            prop_assert_eq!(found.declared, plain.declared);
            prop_assert_eq!(&*found.notes, &plain.notes);
            prop_assert_eq!(found.rank_free, plain.rank_free);
        }
    }
}

fn sound(kind: u64, id: u64, parts: &[Part]) -> Spec {
    Spec { id, kind, deps: Vec::new(), parts: parts.to_vec() }
}

fn send(by: i64) -> Spec {
    let peers = [Part::Relative("comm_src", 7, 0), Part::Relative("comm_dst", 7, by)];
    let rest = [Part::Number("comm_size", 13, 8), Part::Number("comm_tag", 7, 1)];
    sound(5, 1, &[peers, rest].concat())
}

fn collective(id: u64, group: usize) -> Spec {
    sound(
        7,
        id,
        &[Part::Number("comm_type", 9, 0), Part::Number("comm_size", 13, 8), Part::Group(group)],
    )
}

fn matches(specs: &[Spec], groups: &[&str], ranks: (u32, u32), quirks: &[Quirk]) -> bool {
    let options = ReadOptions::default();
    let (known, bytes) =
        (file_of(ranks.0, specs, groups, &[]), file_of(ranks.1, specs, groups, quirks));
    against((ranks.0, &known), (ranks.1, &bytes), &options).is_some()
}

#[test]
fn ranks_that_do_the_same_match() {
    let specs = [send(1), collective(2, 0), collective(3, 1), collective(4, 0)];
    assert!(matches(&specs, &["17", "18", "20"], (4, 5), &[]), "values of the same length");
    assert!(matches(&specs, &["1", "18", ""], (4, 5), &[]), "names of other lengths");
    assert!(matches(&specs, &["17", "18"], (100, 200), &[]), "ranks of other lengths");
    let start = [Quirk::Part(0, Part::Start)];
    assert!(matches(&specs, &["1"], (4, 5), &start), "a start time, which means nothing");
}

#[test]
fn ranks_that_do_something_else_do_not() {
    let specs = [send(1), collective(2, 0), collective(3, 1)];
    let with = |part| [Quirk::Part(0, part)];
    assert!(!matches(&specs, &["17", "18", "18"], (0, 1), &[]), "two groups become one");
    assert!(
        !matches(&specs, &["17"], (0, 1), &with(Part::Number("comm_dst", 7, 3))),
        "another peer"
    );
    assert!(!matches(&specs, &["17"], (0, 1), &with(Part::Text("color", "red"))), "another note");
    assert!(!matches(&specs, &["17"], (0, 1), &[Quirk::Twice(0)]), "one node more");
    assert!(!matches(&specs, &["17"], (0, 1), &[Quirk::Without(0)]), "one node less");
    let absolute = [sound(
        5,
        1,
        &[
            Part::Number("comm_dst", 7, 3),
            Part::Number("comm_size", 13, 8),
            Part::Number("comm_tag", 7, 1),
        ],
    )];
    assert!(matches(&absolute, &[""], (1, 1), &[]));
    assert!(!matches(&absolute, &[""], (1, 2), &[]), "equal bytes, but another relative peer");
}

#[test]
fn a_rank_must_fill_its_place() {
    let parts = [
        Part::Relative("comm_dst", 7, 1),
        Part::Number("comm_size", 13, 8),
        Part::Number("comm_tag", 7, 1),
    ];
    let known = file_of(200, &[sound(5, 1, &parts)], &[""], &[]);
    let place = known.windows(2).position(|bytes| bytes == [201, 1]).unwrap();
    let with = |value: [u8; 2]| {
        let mut bytes = known.clone();
        bytes[place..place + 2].copy_from_slice(&value);
        bytes
    };
    let options = ReadOptions::default();
    assert!(against((200, &known), (4, &with([0x85, 0])), &options).is_some(), "5, in two bytes");
    assert!(
        against((200, &known), (4, &with([5, 0x20])), &options).is_none(),
        "5, and half a field"
    );
}
