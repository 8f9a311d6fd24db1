//! Cached tables against tables in memory: the same bits, whatever the cache is like.

use embedding::{
    Batch, Caching, Engine, Fault, Feature, Folder, Integers, Optimizer, Part, Policy, Pooling,
    Precision, Rule, Table,
};
use proptest::prelude::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slots of a set of the cache, and bytes of a slot's entries in its directory.
const WAYS: usize = 32;
const ENTRY: usize = 8 + 1 + 4 + 4 + 1;

/// Bytes of a segment of the log.
const SEGMENT: u64 = 1 << 20;

/// SplitMix64's finalizer (Steele et al. 2014).
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A folder that is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name =
            format!("armillary-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    rule: Rule,
    precision: Precision,
    stochastic: bool,
    dim: usize,
    threads: usize,
}

const ROWS: [u64; 2] = [3000, 700];
const SEED: u64 = 5;

fn optimizer(rule: Rule) -> Optimizer {
    Optimizer {
        rule,
        learning_rate: 0.1,
        weight_decay: 0.01,
        decoupled: false,
        clip_value: f32::INFINITY,
        clip_norm: f32::INFINITY,
    }
}

/// Two tables, the first with two features; both in memory, or both in caches of `bytes`.
fn engine(
    case: Case,
    caching: Option<(u64, Policy)>,
    mut folder: Option<Folder>,
) -> Result<Engine, Fault> {
    let table = |at: usize, folder: Option<&mut Folder>| {
        let name = format!("t{at}");
        let first_row = 100 * at as u64;
        let part = Part { whole: name.clone(), whole_rows: 10_000, first_row, first_column: 3 };
        let (size, precision) = ((ROWS[at], case.dim), (case.precision, case.stochastic));
        match caching {
            None => Table::new(&name, size, precision, part, &case.rule),
            Some((bytes, policy)) => {
                let precision_ = case.precision;
                let caching =
                    Caching { bytes, policy, precision: precision_, seed: SEED, staged: false };
                Table::cached(&name, size, precision, part, &case.rule, (&caching, folder))
            }
        }
    };
    let tables = vec![table(0, folder.as_mut())?, table(1, folder.as_mut())?];
    let feature = |table: usize, pooling| Feature { name: format!("f{table}"), table, pooling };
    let features =
        vec![feature(0, Pooling::Sum), feature(1, Pooling::Mean), feature(0, Pooling::Sum)];
    let mut engine = Engine::new(tables, features, optimizer(case.rule))?;
    engine.seed = SEED;
    engine.threads = case.threads;
    engine.fill();
    if let Some(folder) = folder {
        engine.keep(folder);
    }
    Ok(engine)
}

/// A batch of a step: lengths and rows. A few rows are much more frequent.
fn batch(step: u64, samples: usize) -> (Vec<i32>, Vec<i64>) {
    let (mut lengths, mut indices) = (Vec::new(), Vec::new());
    for (feature, table) in [0usize, 1, 0].into_iter().enumerate() {
        for sample in 0..samples {
            let draw = |at: usize| {
                mix((step << 40) + (feature * samples + sample) as u64 * 64 + at as u64)
            };
            let length = draw(63) % 5;
            lengths.push(length as i32);
            indices.extend((0..length as usize).map(|at| {
                let unit = (draw(at) >> 11) as f64 / (1u64 << 53) as f64;
                ((unit.powi(3) * ROWS[table] as f64) as u64) as i64
            }));
        }
    }
    (lengths, indices)
}

fn given<'a>(lengths: &'a [i32], indices: &'a [i64], samples: usize) -> Batch<'a> {
    Batch {
        samples,
        lengths: Integers::I32(lengths),
        indices: Integers::I64(indices),
        weights: None,
    }
}

/// Results of `steps` training steps and, in the end, every row and its state, as bits.
fn course(
    engine: &mut Engine,
    steps: std::ops::Range<u64>,
    prefetch: bool,
) -> Result<Vec<u32>, Fault> {
    let samples = 40;
    let (mut results, end) = (Vec::new(), steps.end);
    for step in steps {
        let (lengths, indices) = batch(step, samples);
        let batch_ = given(&lengths, &indices, samples);
        let (rows, columns) = engine.shape(samples, indices.len());
        let mut out = vec![0.0; rows * columns];
        engine.forward(&batch_, &mut out)?;
        if prefetch && step + 1 < end {
            let (lengths, indices) = batch(step + 1, samples);
            engine.prefetch(&given(&lengths, &indices, samples))?;
        }
        results.extend(out.iter().map(|number| number.to_bits()));
        let grad: Vec<f32> = (0..out.len())
            .map(|at| (mix(step << 32 | at as u64) >> 40) as f32 / 1e7 - 0.8)
            .collect();
        engine.backward(&batch_, &grad, None)?;
    }
    Ok(results)
}

/// All rows of a table: weights, then state of each.
fn rows(engine: &Engine, table: usize) -> Vec<u8> {
    records(engine, table, ROWS[table] as usize)
}

/// The same of a table with `count` rows.
fn records(engine: &Engine, table: usize, count: usize) -> Vec<u8> {
    let found = &engine.tables()[table];
    if let Some(cache) = found.cache() {
        let mut records = vec![0; cache.record() * count];
        engine.read_rows(table, 0, &mut records).unwrap();
        return records;
    }
    let parts: Vec<_> = [found.weights()].into_iter().chain(found.state()).collect();
    let mut records = Vec::new();
    for row in 0..count {
        for memory in &parts {
            let bytes = memory.bytes() / count;
            // SAFETY: the row is inside of the memory, and nothing writes it.
            #[allow(unsafe_code)]
            let row = unsafe { std::slice::from_raw_parts(memory.start().add(row * bytes), bytes) };
            records.extend(row);
        }
    }
    records
}

fn cases() -> impl Strategy<Value = Case> {
    let eps = 1e-8;
    let rules = prop_oneof![
        Just(Rule::Sgd),
        Just(Rule::AdaGrad { eps }),
        Just(Rule::RowWiseAdaGrad { eps }),
        Just(Rule::Adam { beta1: 0.9, beta2: 0.99, eps }),
        Just(Rule::Lamb { beta1: 0.9, beta2: 0.99, eps }),
    ];
    let precisions = prop_oneof![Just(Precision::F32), Just(Precision::F16), Just(Precision::Bf16)];
    (rules, precisions, any::<bool>(), 1usize..40, 1usize..4).prop_map(
        |(rule, precision, stochastic, dim, threads)| Case {
            rule,
            precision,
            stochastic,
            dim,
            threads,
        },
    )
}

/// 40 random cases, or the number that `PROPTEST_CASES` gives (`make thorough`).
fn usual() -> ProptestConfig {
    let all = ProptestConfig::default();
    let cases = std::env::var_os("PROPTEST_CASES").map_or(40, |_| all.cases);
    ProptestConfig { cases, ..all }
}

proptest! {
    #![proptest_config(usual())]
    #[test]
    fn a_cache_changes_no_bit(case in cases(), lfu: bool, disk: bool, prefetch: bool, sets in 1u64..30) {
        let mut plain = engine(case, None, None).unwrap();
        let expected = course(&mut plain, 0..12, false).unwrap();
        let policy = if lfu { Policy::Lfu } else { Policy::Lru };
        let scratch = Scratch::new();
        let folder = disk.then(|| Folder::open(&scratch.0, false, SEED).unwrap());
        // The 160 lookups of a batch in the first table are of up to 160 rows.
        let slot = case.precision.row(case.dim)
            + case.rule.state(case.dim).iter().sum::<usize>() * 4 + ENTRY;
        let fixed = if disk { SEGMENT + 5 * ROWS[0] + 65536 } else { 0 };
        let bytes = (slot * WAYS) as u64 * sets + fixed;
        let mut cached = engine(case, Some((bytes, policy)), folder).unwrap();
        let found = course(&mut cached, 0..12, prefetch).unwrap();
        prop_assert_eq!(found, expected);
        for table in 0..2 {
            prop_assert!(rows(&plain, table) == rows(&cached, table));
        }
        let counts = cached.counts();
        prop_assert!(counts.misses > 0 && counts.misses <= counts.lookups);
        prop_assert!(!prefetch || sets < 12 || counts.prefetched == 11, "{:?}", counts);
        prop_assert!(sets < 6 || counts.guests == 0, "{:?}", counts);
        // Over a disk, what `fixed` leaves over holds further rows where they are small.
        prop_assert!(sets > 1 || disk || counts.guests > 0, "{:?}", counts);
    }
}

const CASE: Case = Case {
    rule: Rule::RowWiseAdaGrad { eps: 1e-8 },
    precision: Precision::F32,
    stochastic: false,
    dim: 16,
    threads: 1,
};

/// Room for about 600 rows of `CASE` over a file.
const BYTES: u64 = 600 * 86 + (1 << 20) + 5 * 3000 + 512;

#[test]
fn a_run_goes_on_from_its_last_checkpoint() {
    let scratch = Scratch::new();
    let mut plain = engine(CASE, None, None).unwrap();
    let open = |resume| {
        let folder = Folder::open(&scratch.0, resume, SEED)?;
        engine(CASE, Some((BYTES, Policy::Lru)), Some(folder))
    };
    let mut first = open(false).unwrap();
    course(&mut first, 0..10, true).unwrap();
    first.commit().unwrap();
    course(&mut plain, 0..10, false).unwrap();
    // What comes after the checkpoint is lost with the engine, though much of it was written.
    course(&mut first, 50..90, true).unwrap();
    let busy = open(true).err().unwrap();
    assert_eq!(busy.message, "another process uses the tables of this folder");
    drop(first);
    let refused = open(false).err().unwrap();
    assert_eq!(refused.message, "the folder has a checkpoint of step 10");
    for end in [20, 30] {
        let mut next = open(true).unwrap();
        assert_eq!(next.step, end - 10);
        assert!((0..2).all(|table| rows(&next, table) == rows(&plain, table)));
        let found = course(&mut next, end - 10..end, true).unwrap();
        assert_eq!(found, course(&mut plain, end - 10..end, false).unwrap());
        next.commit().unwrap();
        course(&mut next, 90..99, false).unwrap();
    }
    assert!(Folder::open(&scratch.0, true, SEED + 1).err().unwrap().message.contains("seed 5"));
    std::fs::write(scratch.0.join("table-0.index-3"), b"short").unwrap();
    let damaged = open(true).err().unwrap();
    assert_eq!(damaged.message, "the file has another size");
}

#[test]
fn a_batch_with_more_rows_than_slots_has_the_rest_behind_them() {
    let mut cached = engine(CASE, Some((86 * 32 * 3, Policy::Lru)), None).unwrap();
    let mut plain = engine(CASE, None, None).unwrap();
    let all: Vec<i64> = (0..200).rev().collect();
    let (large, small) = ([200, 0, 0], [90, 3, 0]);
    let (large, small) = (given(&large, &all, 1), given(&small, &all[..93], 1));
    let results = [&mut cached, &mut plain].map(|engine| {
        let grad: Vec<f32> = (0..48).map(|at| at as f32).collect();
        let (mut results, mut out) = (Vec::<f32>::new(), vec![0.0; 48]);
        for _ in 0..2 {
            engine.forward(&large, &mut out).unwrap();
            results.extend(&out);
            engine.prefetch(&small).unwrap();
            engine.backward(&large, &grad, None).unwrap();
        }
        let trained = [rows(engine, 0), rows(engine, 1)];
        // Records of rows that are behind the slots.
        if engine.tables()[0].cache().is_some() {
            let size = engine.tables()[0].cache().unwrap().record();
            engine.write_rows(0, 0, &trained[0][size * 7..size * 57]).unwrap();
            engine.write_rows(0, 0, &trained[0][..size * 50]).unwrap();
        }
        engine.forward(&large, &mut out).unwrap();
        results.extend(&out);
        engine.backward(&large, &grad, None).unwrap();
        engine.backward(&small, &grad, None).unwrap();
        (results, trained, [rows(engine, 0), rows(engine, 1)])
    });
    assert!(results[0] == results[1]);
    let counts = cached.counts();
    assert_eq!((counts.guests, counts.batches, counts.prefetched), (104, 2, 0));
    assert_eq!(cached.tables()[0].held(), 96);
}

#[test]
fn wide_rows_over_narrow_ones_lose_less_than_narrow_ones() {
    // A thousand steps that are each too small for a binary16 of this size.
    let after = |precision| {
        let case = Case { rule: Rule::Sgd, precision: Precision::F16, dim: 1, ..CASE };
        let part = Part { whole: "t".into(), whole_rows: 4, first_row: 0, first_column: 0 };
        let caching =
            Caching { bytes: 4096, policy: Policy::Lru, precision, seed: 0, staged: false };
        let table =
            Table::cached("t", (4, 1), (case.precision, false), part, &case.rule, (&caching, None));
        let feature = Feature { name: "f".into(), table: 0, pooling: Pooling::Sum };
        let plain = Optimizer { weight_decay: 0.0, ..optimizer(case.rule) };
        let mut engine = Engine::new(vec![table.unwrap()], vec![feature], plain).unwrap();
        engine.write_rows(0, 0, &[0x00, 0x3c].repeat(4)).unwrap();
        for _ in 0..1000 {
            engine.backward(&given(&[1], &[2], 1), &[-0.001], None).unwrap();
        }
        records(&engine, 0, 4)
    };
    let one = [0x00, 0x3c];
    assert_eq!(after(Precision::F16), one.repeat(4));
    // 1 + 1000 x 0.1 x 0.001 is 1.1, whose nearest binary16 is 1 + 102 / 1024.
    let near = 0x3c66u16.to_le_bytes();
    assert_eq!(after(Precision::F32), [one, one, near, one].concat());
}

#[test]
fn a_cache_without_room_for_a_set_is_refused() {
    let fault = engine(CASE, Some((2000, Policy::Lru)), None).err().unwrap();
    assert_eq!(
        fault.to_string(),
        "table \"t0\": a cache of 2000 bytes (allowed: at least 2752 bytes)"
    );
}

#[test]
fn a_log_uses_its_space_again() {
    let scratch = Scratch::new();
    let case = Case { dim: 1024, ..CASE };
    let folder = Folder::open(&scratch.0, false, SEED).unwrap();
    let bytes = (4096 + 22) * 32 * 6 + (1 << 20) + 5 * 3000;
    let mut cached = engine(case, Some((bytes, Policy::Lru)), Some(folder)).unwrap();
    for round in 0..4 {
        course(&mut cached, 100 * round..100 * round + 60, false).unwrap();
        if round == 2 {
            cached.commit().unwrap();
        }
    }
    let mut plain = engine(case, None, None).unwrap();
    for round in 0..4 {
        course(&mut plain, 100 * round..100 * round + 60, false).unwrap();
    }
    assert!((0..2).all(|table| rows(&plain, table) == rows(&cached, table)));
    let (written, moved) = cached.tables()[0].cache().unwrap().traffic();
    let file = std::fs::metadata(scratch.0.join("table-0.rows")).unwrap().len();
    assert!(moved > 0 && written > 2 * file, "{written} {moved} {file}");
    // 3000 rows take 12 MiB. Twice as much and 4 MiB are allowed, and as much for the checkpoint.
    assert!(file < 60 << 20, "{file}");
}
