//! Routes against the same in a few lines, with lists.

use super::{Cut, Number, Router, Routes, Sent};
use crate::Fault;

/// Numbers below `below`, always the same.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed * 2 + 1;
    move |below| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

fn cut(rows: u64, ends: &[u64]) -> Cut {
    Cut { feature: "f".into(), table: "t".into(), rows, ends: ends.to_vec() }
}

/// Lengths and indices of each segment, with the weight of each index.
type Segments = Vec<(Vec<i32>, Vec<(i64, f32)>)>;

fn expected(
    cuts: &[Cut],
    segments: &[(usize, usize)],
    samples: usize,
    lengths: &[i64],
    indices: &[i32],
) -> Segments {
    let mut found: Segments = vec![(vec![0; samples], Vec::new()); segments.len()];
    let mut at = 0;
    for (bag, &length) in lengths.iter().enumerate() {
        let (feature, sample) = (bag / samples, bag % samples);
        for _ in 0..length {
            let row = indices[at] as u64;
            let starts: Vec<u64> = [0].iter().chain(&cuts[feature].ends).copied().collect();
            let shard = cuts[feature].ends.iter().filter(|&&end| end <= row).count();
            for (segment, _) in segments.iter().enumerate().filter(|(_, s)| **s == (feature, shard))
            {
                found[segment].0[sample] += 1;
                found[segment].1.push(((row - starts[shard]) as i64, at as f32));
            }
            at += 1;
        }
    }
    found
}

fn routed<O: Number>(
    router: &Router,
    segments: usize,
    samples: usize,
    lengths: &[i64],
    indices: &[i32],
) -> Result<Segments, Fault> {
    let weights: Vec<f32> = (0..indices.len()).map(|at| at as f32).collect();
    let mut routes = Routes::default();
    router.count(samples, lengths, indices, Some(&weights), &mut routes)?;
    let (bags, lookups) = routes.extent();
    assert_eq!(bags, segments * samples);
    let mut sent = (vec![-1; bags], vec![O::narrow(0); lookups], vec![0.0; lookups]);
    let mut to = Sent { lengths: &mut sent.0, indices: &mut sent.1, weights: Some(&mut sent.2) };
    router.fill(&mut routes, lengths, indices, Some(&weights), &mut to);
    let part = |segment: usize| {
        let range = routes.segments()[segment]..routes.segments()[segment + 1];
        let pairs = sent.1[range.clone()].iter().zip(&sent.2[range]);
        let bags = sent.0[segment * samples..][..samples].to_vec();
        (bags, pairs.map(|(index, &weight)| (index.signed(), weight)).collect())
    };
    Ok((0..segments).map(part).collect())
}

#[test]
fn features_are_copied_and_bucketized_in_their_order() {
    for seed in 0..60 {
        let mut next = numbers(seed);
        let ways = 1 + next(if seed % 3 == 0 { 40 } else { 8 });
        let rows = ways + next(if seed % 2 == 0 { 100 } else { 1_000_000 });
        let even: Vec<u64> = (1..=ways).map(|shard| rows * shard / ways).collect();
        let mut uneven: Vec<u64> = (1..=ways).collect();
        uneven[ways as usize - 1] = rows;
        let cuts = [cut(rows, &even), cut(7, &[]), cut(rows, &uneven)];
        let mut segments = vec![(1, 0), (1, 0)];
        for shard in (0..ways as usize).rev() {
            segments.extend([(0, shard), (2, shard)]);
        }
        let samples = next(30) as usize;
        let longest = [3, 20, 700][next(3) as usize];
        let lengths: Vec<i64> = (0..3 * samples).map(|_| next(longest) as i64).collect();
        let mut indices = Vec::new();
        for (bag, &length) in lengths.iter().enumerate() {
            let rows = cuts[bag / samples].rows;
            indices.extend((0..length).map(|_| next(rows) as i32));
        }
        let wanted = expected(&cuts, &segments, samples, &lengths, &indices);
        let router = Router::new(cuts.to_vec(), segments.clone()).unwrap();
        let found = routed::<i32>(&router, segments.len(), samples, &lengths, &indices).unwrap();
        assert_eq!(found, wanted, "seed {seed}");
        let found = routed::<i64>(&router, segments.len(), samples, &lengths, &indices).unwrap();
        assert_eq!(found, wanted, "seed {seed}");
    }
}

#[test]
fn faults_of_batches_are_named() {
    let router = Router::new(vec![cut(10, &[]), cut(5, &[2, 5])], vec![(1, 0), (1, 1)]).unwrap();
    let cases: [(&[i64], &[i32], &str); 6] = [
        (&[1, 0, 0, 1], &[9, 5], "table \"t\": feature \"f\": sample 1: index 5 (allowed: 0 to 4)"),
        (&[1, 0, 0, 1], &[-1, 4], "table \"t\": feature \"f\": sample 0: index -1"),
        (&[0, 2, -1, 0], &[0], "table \"t\": feature \"f\": sample 0: length -1"),
        (&[0, 2, 1, 0], &[0, 1], "batch: lengths add up to 3, but there are 2 indices"),
        (&[0, 2, 1], &[0, 1], "lengths: 3 lengths of 2 samples (allowed: 4)"),
        (&[1 << 31, 0, 0, 0], &[0, 1], "sample 0: length 2147483648"),
    ];
    for (lengths, indices, said) in cases {
        let fault = routed::<i32>(&router, 2, 2, lengths, indices).unwrap_err().to_string();
        assert!(fault.contains(said), "{fault}");
    }
    let mut routes = Routes::default();
    let nan = router.count(1, &[0, 1], &[1], Some(&[f32::NAN]), &mut routes).unwrap_err();
    assert!(nan.to_string().contains("sample 0: weight NaN"), "{nan}");
    let few = router.count(1, &[0, 1], &[1], Some(&[]), &mut routes).unwrap_err();
    assert!(few.to_string().contains("0 weights"), "{few}");
}

#[test]
fn shards_and_segments_fit_together() {
    let whole = || vec![cut(10, &[])];
    for ends in [&[5, 5, 10][..], &[0, 10], &[5], &[11]] {
        assert!(Router::new(vec![cut(10, ends)], vec![(0, 0)]).is_err(), "{ends:?}");
    }
    assert!(Router::new(vec![cut(10, &[5, 10])], vec![(0, 0)]).is_err());
    assert!(Router::new(vec![cut(10, &[5, 10])], vec![(0, 0), (0, 1), (0, 1)]).is_err());
    assert!(Router::new(whole(), vec![(0, 1)]).is_err());
    assert!(Router::new(whole(), vec![(1, 0)]).is_err());
    assert!(Router::new(whole(), vec![]).is_ok());
}
