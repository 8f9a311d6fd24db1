//! Purpose of a transfer, in the 64 bits that a backend returns with its delivery.

/// Purpose of a transfer. It is packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The message of a step to receive `slot` of chunk run `run` in `phase`.
    Step { run: u32, phase: u32, slot: u32 },
    /// The announcement of a receiver to chunk run `run` of the sender, for its step `step`.
    Clear { run: u32, phase: u32, step: u32 },
    /// A point-to-point message.
    Message { channel: u32, ordinal: u32 },
    /// A point-to-point announcement.
    Announce { channel: u32, ordinal: u32 },
}

/// Phases of a chunk and receives of a phase that a token can name.
const PHASE_BITS: u32 = 7;
pub(crate) const SLOT_BITS: u32 = 23;

impl Token {
    #[inline]
    pub(crate) fn pack(self) -> u64 {
        let word = |kind: u64, high: u32, phase: u32, low: u32| {
            assert!(phase < 1 << PHASE_BITS && low < 1 << SLOT_BITS);
            kind << 62
                | u64::from(high) << (PHASE_BITS + SLOT_BITS)
                | u64::from(phase) << SLOT_BITS
                | u64::from(low)
        };
        match self {
            Token::Step { run, phase, slot } => word(0, run, phase, slot),
            Token::Clear { run, phase, step } => word(1, run, phase, step),
            Token::Message { channel, ordinal } => {
                word(2, channel, ordinal >> SLOT_BITS, ordinal & ((1 << SLOT_BITS) - 1))
            }
            Token::Announce { channel, ordinal } => {
                word(3, channel, ordinal >> SLOT_BITS, ordinal & ((1 << SLOT_BITS) - 1))
            }
        }
    }

    #[inline]
    pub(crate) fn unpack(word: u64) -> Token {
        let high = (word >> (PHASE_BITS + SLOT_BITS)) as u32;
        let phase = (word >> SLOT_BITS) as u32 & ((1 << PHASE_BITS) - 1);
        let low = word as u32 & ((1 << SLOT_BITS) - 1);
        match word >> 62 {
            0 => Token::Step { run: high, phase, slot: low },
            1 => Token::Clear { run: high, phase, step: low },
            2 => Token::Message { channel: high, ordinal: phase << SLOT_BITS | low },
            _ => Token::Announce { channel: high, ordinal: phase << SLOT_BITS | low },
        }
    }
}
