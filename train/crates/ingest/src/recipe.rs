//! A recipe: which field of a line is what, and how it changes.
//!
//! Model. A dense value `x` becomes `normalize(log(clip(x)))`:
//!
//! ```text
//! clip       min(max(x, low), high)
//! log        ln(x + add)
//! normalize  (x - mean) / deviation
//! ```
//!
//! A category's value `v` becomes the row `hash(v) mod rows`; without `rows` it stays whole.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Values of small whole numbers that are computed once.
const KNOWN: std::ops::Range<i64> = -16..8192;

/// Role of a field of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Not read.
    Skip,
    /// The label, 0 or 1.
    Label,
    /// The dense column of this number.
    Dense(usize),
    /// The category of this number.
    Category(usize),
}

/// Numbers that a dense column may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Whole numbers of up to nine digits.
    Whole,
    /// Decimal numbers.
    Decimal,
}

/// A dense column.
#[derive(Clone, Debug)]
pub struct Dense {
    name: String,
    numbers: Numbers,
    missing: f64,
    low: f64,
    high: f64,
    log: Option<f64>,
    normalize: (f64, f64),
    /// Results for `KNOWN`, and for a missing value.
    known: Vec<f32>,
    of_missing: f32,
}

impl Dense {
    /// A column in which a missing value is `missing`. Every value must have a finite result, which
    /// `parse` checks.
    pub fn new(name: &str, numbers: Numbers, missing: f64) -> Self {
        let made = Self {
            name: name.into(),
            numbers,
            missing,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            log: None,
            normalize: (0.0, 1.0),
            known: Vec::new(),
            of_missing: 0.0,
        };
        made.prepared()
    }

    /// With values raised to `low` and lowered to `high`.
    #[must_use]
    pub fn clip(self, low: f64, high: f64) -> Self {
        Self { low, high, ..self }.prepared()
    }

    /// With logarithms of values plus `add`.
    #[must_use]
    pub fn log(self, add: f64) -> Self {
        Self { log: Some(add), ..self }.prepared()
    }

    /// With values minus `mean`, divided by `deviation`.
    #[must_use]
    pub fn normalize(self, mean: f64, deviation: f64) -> Self {
        Self { normalize: (mean, deviation), ..self }.prepared()
    }

    fn prepared(mut self) -> Self {
        self.of_missing = self.value(self.missing);
        self.known = match self.numbers {
            Numbers::Whole => KNOWN.map(|value| self.value(value as f64)).collect(),
            Numbers::Decimal => Vec::new(),
        };
        self
    }

    /// Name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Value in place of a missing one.
    pub(crate) fn of_missing(&self) -> f32 {
        self.of_missing
    }

    /// Number that a value becomes.
    pub(crate) fn value(&self, given: f64) -> f32 {
        let mut value = given.max(self.low).min(self.high);
        if let Some(add) = self.log {
            value = (value + add).ln();
        }
        let (mean, deviation) = self.normalize;
        ((value - mean) / deviation) as f32
    }

    /// Number that a whole number becomes.
    #[inline]
    pub(crate) fn whole(&self, given: i64) -> f32 {
        match self.known.get(given.wrapping_sub(KNOWN.start) as usize) {
            Some(known) => *known,
            None => self.value(given as f64),
        }
    }
}

/// How a category is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Up to eight hexadecimal digits.
    Hexadecimal,
    /// A whole number of 63 bits, which may be negative.
    Whole,
    /// Text without quotes around it: the value is a hash of it, of 63 bits.
    Text,
    /// Any text without separators, as programs write it that quote nothing.
    Verbatim,
}

/// Category in place of a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// This value.
    Value(i64),
    /// Nothing: the sample looks up no row.
    Skip,
}

/// A category.
#[derive(Clone, Debug)]
pub struct Category {
    /// Name of the column.
    pub name: String,
    /// How a value is written.
    pub kind: Kind,
    /// Category in place of a missing one.
    pub missing: Missing,
    /// Separator of several values of a sample, if there may be several.
    pub between: Option<u8>,
    /// Seed of a hash of values before they become rows.
    pub hash: Option<u64>,
    /// Rows of the table; values stay whole without.
    pub rows: Option<i64>,
}

impl Category {
    /// A category of one value for each sample.
    pub fn new(name: &str, kind: Kind) -> Self {
        let missing = Missing::Value(0);
        Self { name: name.into(), kind, missing, between: None, hash: None, rows: None }
    }

    /// Whether samples may have other than one value.
    pub(crate) fn varies(&self) -> bool {
        self.between.is_some() || self.missing == Missing::Skip
    }

    /// A value, hashed if the recipe says so.
    #[inline]
    pub(crate) fn hashed(&self, value: i64) -> i64 {
        match self.hash {
            None => value,
            Some(seed) => positive(xxh3_64_with_seed(&value.to_le_bytes(), seed)),
        }
    }
}

/// A hash of text as a value.
pub(crate) fn text_value(text: &[u8]) -> i64 {
    positive(xxh3_64_with_seed(text, 0))
}

fn positive(hash: u64) -> i64 {
    (hash >> 1) as i64
}

/// Which field of a line is what.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Separator of fields.
    pub separator: u8,
    /// Fields of a line, in order; one is the label.
    pub fields: Vec<Field>,
    /// Dense columns, each in one field.
    pub dense: Vec<Dense>,
    /// Categories, each in one field.
    pub categories: Vec<Category>,
}

impl Recipe {
    /// Whether all rows have 32 bits.
    pub fn is_narrow(&self) -> bool {
        self.categories.iter().all(|each| each.rows.is_some_and(|rows| rows <= i64::from(i32::MAX)))
    }

    /// Whether samples may have other than one value of a category.
    pub fn varies(&self) -> bool {
        self.categories.iter().any(Category::varies)
    }

    /// Whether lines are those of a program that quotes nothing.
    pub(crate) fn is_verbatim(&self) -> bool {
        self.categories.iter().any(|each| each.kind == Kind::Verbatim)
    }

    /// The name of a field's column.
    pub(crate) fn column(&self, field: Field) -> &str {
        match field {
            Field::Skip => "",
            Field::Label => "label",
            Field::Dense(column) => self.dense[column].name(),
            Field::Category(each) => &self.categories[each].name,
        }
    }
}
