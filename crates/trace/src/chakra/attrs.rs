//! The attributes of a Chakra node that mean something here, whichever schema wrote them.
//!
//! Any scalar type is taken where its value fits, as the feeders of Chakra do; a fraction is never
//! cut to an integer.

/// The attributes that are read. Everything else is counted and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Key {
    IsCpuOp,
    NumOps,
    TensorSize,
    CommType,
    CommSize,
    CommPriority,
    CommSrc,
    CommDst,
    CommTag,
    CommRoot,
    PgName,
    InvolvedDim,
    Runtime,
    DurationPicos,
    Kernel,
    Layer,
    MemoryReach,
    MemoryTensor,
    MemoryAllocates,
    MemoryFrees,
}

const KEYS: usize = 20;

impl Key {
    /// Every key, in the order of its number.
    const ALL: [Key; KEYS] = [
        Key::IsCpuOp,
        Key::NumOps,
        Key::TensorSize,
        Key::CommType,
        Key::CommSize,
        Key::CommPriority,
        Key::CommSrc,
        Key::CommDst,
        Key::CommTag,
        Key::CommRoot,
        Key::PgName,
        Key::InvolvedDim,
        Key::Runtime,
        Key::DurationPicos,
        Key::Kernel,
        Key::Layer,
        Key::MemoryReach,
        Key::MemoryTensor,
        Key::MemoryAllocates,
        Key::MemoryFrees,
    ];

    /// The key an attribute name stands for.
    #[inline]
    pub fn from_name(name: &[u8]) -> Option<Key> {
        const NAMES: [(u64, u64); KEYS] = {
            let mut names = [(0, 0); KEYS];
            let mut i = 0;
            while i < KEYS {
                names[i] = words(Key::ALL[i].name().as_bytes());
                i += 1;
            }
            names
        };
        // Two integers tell names of 4 to 16 bytes of one length apart, without a call for each
        // comparison.
        let words = words(name);
        let candidates: &[Key] = match name.len() {
            5 => &[Key::Layer],
            6 => &[Key::Kernel],
            7 => &[Key::NumOps, Key::PgName, Key::Runtime],
            8 => &[Key::CommSrc, Key::CommDst, Key::CommTag],
            9 => &[Key::CommType, Key::CommSize, Key::IsCpuOp, Key::CommRoot],
            11 => &[Key::TensorSize],
            12 => &[Key::InvolvedDim, Key::MemoryReach, Key::MemoryFrees],
            13 => &[Key::CommPriority, Key::MemoryTensor],
            14 => &[Key::DurationPicos],
            16 => &[Key::MemoryAllocates],
            _ => &[],
        };
        candidates.iter().copied().find(|&key| NAMES[key as usize] == words)
    }

    /// The attribute's name.
    pub const fn name(self) -> &'static str {
        match self {
            Key::IsCpuOp => "is_cpu_op",
            Key::NumOps => "num_ops",
            Key::TensorSize => "tensor_size",
            Key::CommType => "comm_type",
            Key::CommSize => "comm_size",
            Key::CommPriority => "comm_priority",
            Key::CommSrc => "comm_src",
            Key::CommDst => "comm_dst",
            Key::CommTag => "comm_tag",
            Key::CommRoot => "comm_root",
            Key::PgName => "pg_name",
            Key::InvolvedDim => "involved_dim",
            Key::Runtime => "runtime",
            Key::DurationPicos => "duration_picos",
            Key::Kernel => "kernel",
            Key::Layer => "layer",
            Key::MemoryReach => "memory_reach",
            Key::MemoryTensor => "memory_tensor",
            Key::MemoryAllocates => "memory_allocates",
            Key::MemoryFrees => "memory_frees",
        }
    }
}

/// The first and last 8 bytes of a name, or the first and last 4 of a shorter one.
#[inline]
const fn words(name: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) {
        return (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
    }
    match (name.first_chunk::<4>(), name.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            (u32::from_le_bytes(*first) as u64, u32::from_le_bytes(*last) as u64)
        }
        _ => (0, 0),
    }
}

/// One attribute value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// An integer of zero or more.
    Unsigned(u64),
    /// An integer below zero.
    Negative(i64),
    /// A floating-point number.
    Real(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(&'a [u8]),
    /// Truth values, the first in bit 0.
    Flags {
        /// The values.
        bits: u32,
        /// How many there are.
        count: u32,
    },
    /// A list of anything else.
    List,
}

impl<'a> Value<'a> {
    /// From a signed integer.
    #[inline]
    pub fn signed(value: i64) -> Value<'a> {
        if value < 0 { Value::Negative(value) } else { Value::Unsigned(value as u64) }
    }

    /// Adds one truth value to a list of them.
    pub fn flag(bits: &mut u32, count: &mut u32, set: bool) {
        if *count < 32 {
            *bits |= u32::from(set) << *count;
        }
        *count += 1;
    }
}

impl std::fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Unsigned(v) => write!(f, "{v}"),
            Value::Negative(v) => write!(f, "{v}"),
            Value::Real(v) => write!(f, "{v}"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::Text(v) => write!(f, "\"{}\"", String::from_utf8_lossy(v)),
            Value::Flags { count, .. } => write!(f, "a list of {count} truth values"),
            Value::List => write!(f, "a list"),
        }
    }
}

/// The read attributes of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attrs<'a> {
    present: u32,
    values: [Value<'a>; KEYS],
}

/// Why an attribute can't be used: its name, its value when there is one, what is allowed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BadAttr {
    pub message: String,
    pub help: &'static str,
}

impl<'a> Attrs<'a> {
    /// None yet.
    #[inline]
    pub fn new() -> Attrs<'a> {
        Attrs { present: 0, values: [Value::List; KEYS] }
    }

    /// Sets one; the last of several wins.
    #[inline]
    pub fn set(&mut self, key: Key, value: Value<'a>) {
        self.present |= 1 << key as u32;
        self.values[key as usize] = value;
    }

    /// The value of `key`, if the node has it.
    #[inline]
    pub fn get(&self, key: Key) -> Option<Value<'a>> {
        (self.present >> key as u32 & 1 == 1).then(|| self.values[key as usize])
    }

    /// An integer of zero or more, if the node has it.
    #[inline]
    pub fn unsigned(&self, key: Key) -> Result<Option<u64>, BadAttr> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::Unsigned(v)) => Ok(Some(v)),
            Some(other) => odd_unsigned(key, other).map(Some),
        }
    }

    /// An integer of zero or more that the node must have.
    #[inline]
    pub fn required(&self, key: Key) -> Result<u64, BadAttr> {
        self.unsigned(key)?.ok_or_else(|| BadAttr {
            message: format!("attribute {} is missing", key.name()),
            help: "a number of zero or more",
        })
    }

    /// A number below 2^32, if the node has it.
    #[inline]
    pub fn small(&self, key: Key) -> Result<Option<u32>, BadAttr> {
        let Some(value) = self.unsigned(key)? else { return Ok(None) };
        u32::try_from(value).map(Some).map_err(|_| BadAttr {
            message: format!("attribute {} is {value}", key.name()),
            help: "0 to 4294967295",
        })
    }

    /// A truth value, false when absent.
    #[inline]
    pub fn truth(&self, key: Key) -> Result<bool, BadAttr> {
        match self.get(key) {
            None => Ok(false),
            Some(Value::Bool(b)) => Ok(b),
            Some(Value::Unsigned(v)) => Ok(v != 0),
            Some(other) => Err(BadAttr {
                message: format!("attribute {} is {other}", key.name()),
                help: "a truth value or an integer",
            }),
        }
    }

    /// A signed 32-bit number, 0 when absent.
    #[inline]
    pub fn signed(&self, key: Key) -> Result<i32, BadAttr> {
        let value = match self.get(key) {
            None => Some(0),
            Some(Value::Unsigned(v)) => i32::try_from(v).ok(),
            Some(Value::Negative(v)) => i32::try_from(v).ok(),
            Some(_) => None,
        };
        value.ok_or_else(|| BadAttr {
            message: format!("attribute {} is {}", key.name(), self.values[key as usize]),
            help: "an integer from -2147483648 to 2147483647",
        })
    }

    /// The dimensions that take part, all when absent.
    #[inline]
    pub fn dims(&self) -> Result<u32, BadAttr> {
        match self.get(Key::InvolvedDim) {
            None => Ok(u32::MAX),
            Some(Value::Flags { bits, count }) if (1..=32).contains(&count) => Ok(bits),
            Some(other) => Err(BadAttr {
                message: format!("attribute involved_dim is {other}"),
                help: "a list of 1 to 32 truth values, one for each dimension",
            }),
        }
    }
}

#[cold]
fn odd_unsigned(key: Key, value: Value) -> Result<u64, BadAttr> {
    match value {
        // Generators that compute sizes in floating point write whole numbers; 2^53 keeps them
        // exact.
        Value::Real(v) if v.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&v) => {
            Ok(v as u64)
        }
        Value::Text(v) => {
            let number = std::str::from_utf8(v).ok().and_then(|s| s.trim().parse().ok());
            number.ok_or_else(|| not_a_count(key, value))
        }
        _ => Err(not_a_count(key, value)),
    }
}

fn not_a_count(key: Key, value: Value) -> BadAttr {
    BadAttr {
        message: format!("attribute {} is {value}", key.name()),
        help: "an integer of zero or more",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(key: Key, value: Value<'_>) -> Attrs<'_> {
        let mut attrs = Attrs::new();
        attrs.set(key, value);
        attrs
    }

    #[test]
    fn every_scalar_that_is_a_whole_count_is_taken() {
        for value in [Value::Unsigned(7), Value::Real(7.0), Value::Text(b" 7 ")] {
            assert_eq!(with(Key::CommSize, value).required(Key::CommSize), Ok(7));
        }
    }

    #[test]
    fn no_other_value_is() {
        for value in [
            Value::Negative(-5),
            Value::Real(1.5),
            Value::Real(f64::NAN),
            Value::Text(b"x"),
            Value::List,
        ] {
            let error = with(Key::CommSize, value).required(Key::CommSize).unwrap_err();
            assert!(error.message.starts_with("attribute comm_size is "), "{error:?}");
        }
        assert!(Attrs::new().required(Key::CommSize).unwrap_err().message.contains("missing"));
    }

    #[test]
    fn names_and_keys_agree() {
        for (i, key) in Key::ALL.into_iter().enumerate() {
            assert_eq!((Key::from_name(key.name().as_bytes()), key as usize), (Some(key), i));
        }
        for name in [
            &b"op_type"[..],
            b"",
            b"comm_sizes",
            b"comm_siz",
            b"xomm_size",
            b"comm-size",
            b"involved_dims",
        ] {
            assert_eq!(Key::from_name(name), None);
        }
    }

    #[test]
    fn involved_dim_must_be_truth_values() {
        assert_eq!(
            with(Key::InvolvedDim, Value::Flags { bits: 0b101, count: 3 }).dims(),
            Ok(0b101)
        );
        assert_eq!(Attrs::new().dims(), Ok(u32::MAX));
        assert!(with(Key::InvolvedDim, Value::List).dims().is_err());
        assert!(with(Key::InvolvedDim, Value::Flags { bits: 0, count: 33 }).dims().is_err());
    }
}
