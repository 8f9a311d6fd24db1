/// A signed integer of a batch: a length or an index.
pub trait Number: Copy + Send + Sync + 'static {
    /// The value. A negative one is larger than any table.
    fn wide(self) -> u64;
    /// The value with its sign.
    fn signed(self) -> i64;
    /// A value that is known to fit.
    fn narrow(value: u64) -> Self;
}

impl Number for i32 {
    #[inline(always)]
    fn wide(self) -> u64 {
        i64::from(self) as u64
    }

    #[inline(always)]
    fn signed(self) -> i64 {
        i64::from(self)
    }

    #[inline(always)]
    fn narrow(value: u64) -> Self {
        value as Self
    }
}

impl Number for i64 {
    #[inline(always)]
    fn wide(self) -> u64 {
        self as u64
    }

    #[inline(always)]
    fn signed(self) -> i64 {
        self
    }

    #[inline(always)]
    fn narrow(value: u64) -> Self {
        value as Self
    }
}
