//! Training gives the bits of every other architecture: digests that x86-64 and aarch64 (NEON, in
//! QEMU) both have. A change of them is a change of what a checkpoint goes on to.

use embedding::{
    Batch, Engine, Feature, Integers, Level, Optimizer, Part, Pooling, Precision, Rule, Table,
};

/// FNV-1a of some bytes, behind those of `hash`.
fn digest(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Numbers from a linear congruential generator (Knuth's MMIX).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// The digest of all results and weights of some steps.
fn trained(rule: Rule, precision: Precision, level: Level) -> u64 {
    let part = Part { whole: "t".into(), whole_rows: 90, first_row: 0, first_column: 0 };
    let by_chance = precision != Precision::F32;
    let table = Table::new("t", (90, 37), (precision, by_chance), part, &rule).unwrap();
    let features = [Pooling::Sum, Pooling::Mean].map(|pooling| Feature {
        name: format!("{pooling:?}"),
        table: 0,
        pooling,
    });
    let optimizer = Optimizer {
        rule,
        learning_rate: 0.07,
        weight_decay: 0.01,
        decoupled: false,
        clip_value: 0.9,
        clip_norm: 2.0,
    };
    let mut engine = Engine::new(vec![table], features.into(), optimizer).unwrap();
    engine.level = level;
    engine.fill();
    let (mut draws, mut hash) = (Draws(7), 0xcbf2_9ce4_8422_2325);
    for _ in 0..6 {
        let lengths: Vec<i32> = (0..80).map(|_| (draws.next() % 6) as i32).collect();
        let count = lengths.iter().sum::<i32>();
        let indices: Vec<i64> = (0..count).map(|_| (draws.next() % 90) as i64).collect();
        let batch = Batch {
            samples: 40,
            lengths: Integers::I32(&lengths),
            indices: Integers::I64(&indices),
            weights: None,
        };
        let mut out = vec![0.0f32; 40 * 74];
        engine.forward(&batch, &mut out).unwrap();
        let grad: Vec<f32> =
            out.iter().map(|row| row * 3.0 + (draws.next() % 64) as f32 / 32.0 - 1.0).collect();
        engine.backward(&batch, &grad, None).unwrap();
        hash = out.iter().fold(hash, |hash, number| digest(hash, &number.to_le_bytes()));
    }
    let weights = engine.tables()[0].weights();
    // SAFETY: the engine is idle, so nothing writes the weights.
    #[allow(unsafe_code)]
    let weights = unsafe { std::slice::from_raw_parts(weights.start(), weights.bytes()) };
    digest(hash, weights)
}

#[test]
fn training_has_the_same_bits_on_every_architecture() {
    let (eps, beta1, beta2) = (1e-8, 0.9, 0.999);
    let rules = [
        Rule::Sgd,
        Rule::AdaGrad { eps },
        Rule::RowWiseAdaGrad { eps },
        Rule::Adam { beta1, beta2, eps },
        Rule::Lamb { beta1, beta2, eps },
    ];
    for level in Level::available() {
        let found: Vec<[u64; 3]> = rules
            .iter()
            .map(|&rule| {
                [Precision::F32, Precision::F16, Precision::Bf16]
                    .map(|precision| trained(rule, precision, level))
            })
            .collect();
        assert_eq!(found, DIGESTS, "{}", level.name());
    }
}

/// For each rule, those of 32 and 16 bits.
const DIGESTS: [[u64; 3]; 5] = [
    [0xb47b_ff26_4829_97eb, 0x7962_4f94_b83d_eb01, 0x56d5_43ef_f3b4_35f5],
    [0x653c_35d3_fa63_08e3, 0xd2d3_7271_17fe_45e6, 0x1db5_2b4b_33aa_fba7],
    [0x4c12_a921_6f79_0b73, 0x6518_9036_0f2f_2c57, 0x188a_aca2_4b94_f527],
    [0xd81c_6a0c_f5e9_1f6c, 0x04fd_9d8a_9158_585d, 0xc8e1_a97d_6fca_f240],
    [0x668e_9c97_61a4_263b, 0x384e_0f3c_50dc_3ad8, 0xd965_f843_50c1_8bee],
];
