//! Tables of more rows than 32 bits can count. Most of their pages are never touched.

use embedding::{
    Batch, Engine, Feature, Integers, Optimizer, Part, Pooling, Precision, Rule, Table,
};

#[test]
fn rows_beyond_32_bits_are_looked_up_and_updated() {
    let (rows, dim) = ((1u64 << 32) + 10, 1);
    let rule = Rule::Sgd;
    let part = Part { whole: "t".into(), whole_rows: rows, first_row: 0, first_column: 0 };
    let table = Table::new("t", (rows, dim), (Precision::F16, false), part, &rule).unwrap();
    let feature = Feature { name: "f".into(), table: 0, pooling: Pooling::Sum };
    let optimizer = Optimizer {
        rule,
        learning_rate: 1.0,
        weight_decay: 0.0,
        decoupled: false,
        clip_value: f32::INFINITY,
        clip_norm: f32::INFINITY,
    };
    let mut engine = Engine::new(vec![table], vec![feature], optimizer).unwrap();
    let last = rows as i64 - 1;
    let indices = [last, 9, 1 << 31, last, i64::from(u32::MAX), 1 << 32];
    let batch = |indices| Batch {
        samples: 3,
        lengths: Integers::I32(&[2, 2, 2]),
        indices: Integers::I64(indices),
        weights: None,
    };
    engine.backward(&batch(&indices), &[-1.0, -2.0, -4.0], None).unwrap();
    let mut out = [0.0; 3];
    engine.forward(&batch(&indices), &mut out).unwrap();
    // The last row has the gradients of two samples, and so has none of the rows 2^32 before.
    assert_eq!(out, [3.0 + 1.0, 2.0 + 3.0, 4.0 + 4.0]);
    let other = [0, 10, (1 << 31) - 1, (1 << 31) + 1, last - 1, 8];
    engine.forward(&batch(&other), &mut out).unwrap();
    assert_eq!(out, [0.0; 3]);
    let fault = engine.forward(&batch(&[0, 0, 0, 0, 0, last + 1]), &mut out).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "table \"t\": feature \"f\": sample 2: index 4294967306 (allowed: 0 to 4294967305)"
    );
}
