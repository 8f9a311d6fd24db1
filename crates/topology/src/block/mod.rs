//! Blocks: how the NPUs along one dimension are joined.
//!
//! A block is one file that implements [`Wiring`], and one line of the table [`Block`] is made of.
//! Everything else asks the methods of [`Block`]. Coordinates along a block of `n` run from 0 to
//! `n - 1`. The one-way links of a block are numbered by the coordinate that owns them; a *slot* is
//! a link among those of its owner. Slots `0..leaving` leave the owner, the others enter it.

/// How one block is wired. `n` is at least 1; `a` and `b` are different coordinates below `n`.
trait Wiring {
    /// By what messages get from one NPU to another.
    const PATHS: Paths;
    /// Which coordinates look alike.
    const SYMMETRY: Symmetry;

    /// Links from `a` to `b`.
    fn hops(n: u32, a: u32, b: u32) -> u32;
    /// Links that leave an NPU, for the NPU that has most.
    fn leaving(n: u32) -> u32;
    /// Slot of the first link from `a` to `b`; with several equally short ways the lowest.
    fn slot(n: u32, a: u32, b: u32) -> u32;
    /// The coordinate at the other end of a slot that leaves `a`. Not asked of a block with a
    /// switch.
    fn end(n: u32, a: u32, slot: u32) -> u32;

    /// The slot of way number `way` from `a` to `b`, and the coordinate at its end where that is an
    /// NPU.
    #[inline]
    fn first(n: u32, a: u32, b: u32, way: u32) -> (u32, Option<u32>) {
        let slot = Self::slot(n, a, b) + way;
        (slot, (Self::PATHS != Paths::Switched).then(|| Self::end(n, a, slot)))
    }

    /// Equally short ways from `a` to `b`: slots `slot(a, b)..slot(a, b) + ways(a, b)`.
    fn ways(_n: u32, _a: u32, _b: u32) -> u32 {
        1
    }

    /// Which of the ways from `a` to `b` to take so that all messages together load the links alike.
    fn even_way(_n: u32, _a: u32, _b: u32) -> u32 {
        0
    }

    /// Links owned by the coordinates below `a`, which may be `n`.
    fn before(n: u32, a: u32) -> u64 {
        let down = u32::from(Self::PATHS == Paths::Switched && n > 1);
        u64::from(a) * u64::from(Self::leaving(n) + down)
    }

    /// The slot from `a` to `b`, numbered alike by all `a` from which it leads the same way.
    fn direction(n: u32, a: u32, b: u32) -> u32 {
        Self::slot(n, a, b)
    }
}

/// By what messages between two NPUs of a block pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Paths {
    /// A link between every two NPUs.
    Direct,
    /// A switch.
    Switched,
    /// The NPUs in between.
    Relayed,
}

/// Which coordinates of a block look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Symmetry {
    /// Every two: all pairs are equally far from each other.
    Full,
    /// Any coordinate can be turned into any other.
    Rotation,
    /// No two in general.
    None,
}

/// Makes [`Block`] of its table: one line for each block with its file and its type there. `$d` is
/// the dollar sign, for the macro inside.
macro_rules! blocks {
    (($d:tt) $($(#[$doc:meta])* $name:ident($short:literal) = $file:ident,)*) => {
        $(mod $file;)*

        /// A building block: how the NPUs along one dimension are joined.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum Block {
            $($(#[$doc])* $name,)*
        }

        /// Calls a function of [`Wiring`] for a block.
        macro_rules! of {
            ($d block:expr, $d what:ident $d arguments:tt) => {
                match $d block { $(Block::$name => $file::$name::$d what $d arguments,)* }
            };
            ($d block:expr, $d what:ident) => {
                match $d block { $(Block::$name => $file::$name::$d what,)* }
            };
        }

        impl Block {
            /// Every block.
            pub const ALL: &'static [Block] = &[$(Block::$name,)*];

            /// The name in the notation and in ASTRA-sim's files.
            pub const fn name(self) -> &'static str {
                match self { $(Block::$name => stringify!($name),)* }
            }

            /// The short name.
            pub const fn short(self) -> &'static str {
                match self { $(Block::$name => $short,)* }
            }
        }

        /// Allowed notation, for error messages.
        pub const NOTATION: &str = concat!(
            "blocks ", $(stringify!($name), "(n), ",)* "or ", $($short, "(n), ",)*
            "joined by \"_\", such as \"Ring(4)_FullyConnected(8)_Switch(16)\"",
        );
    };
}

blocks! {
    ($)
    /// A bidirectional ring: one link each way between neighbours.
    Ring("R") = ring,
    /// One link each way between every pair.
    FullyConnected("FC") = fully_connected,
    /// One link each way between every NPU and a non-blocking switch.
    Switch("SW") = switch,
    /// A bidirectional line: one link each way between neighbours, none from end to end.
    Mesh("M") = mesh,
}
impl Block {
    /// The block with this long or short name, in any case.
    pub fn from_name(name: &str) -> Option<Block> {
        let same =
            |b: &Block| name.eq_ignore_ascii_case(b.name()) || name.eq_ignore_ascii_case(b.short());
        Block::ALL.iter().copied().find(same)
    }

    /// The first block on which messages between two NPUs pass by `paths`.
    pub fn with_paths(paths: Paths) -> Option<Block> {
        Block::ALL.iter().copied().find(|block| block.paths() == paths)
    }

    /// By what messages get from one NPU to another.
    #[inline]
    pub const fn paths(self) -> Paths {
        of!(self, PATHS)
    }

    /// Which coordinates look alike.
    pub const fn symmetry(self) -> Symmetry {
        of!(self, SYMMETRY)
    }

    /// Links between coordinates `a` and `b` of a block of `n`; none when they are the same.
    #[inline]
    pub fn hops(self, n: u32, a: u32, b: u32) -> u32 {
        if a == b { 0 } else { of!(self, hops(n, a, b)) }
    }

    /// Most links between two coordinates of a block of `n`.
    pub fn diameter(self, n: u32) -> u32 {
        match self.symmetry() {
            Symmetry::None => (0..n).map(|b| self.hops(n, 0, b)).max().unwrap_or(0),
            _ => self.hops(n, 0, n / 2),
        }
    }

    /// Links that leave an NPU of a block of `n`, for the NPU that has most.
    #[inline]
    pub fn leaving(self, n: u32) -> u32 {
        of!(self, leaving(n))
    }

    /// One-way links of a block of `n`.
    pub fn links(self, n: u32) -> u64 {
        of!(self, before(n, n))
    }

    /// One-way links of a block of `n` that leave an NPU.
    pub fn links_out(self, n: u32) -> u64 {
        match self.paths() {
            Paths::Switched => u64::from(n) * u64::from(self.leaving(n)),
            Paths::Direct | Paths::Relayed => self.links(n),
        }
    }

    /// The link by which a message from `a` to `b`, which differ, leaves its NPU, among those that
    /// leave it: below [`Block::leaving`].
    #[inline]
    pub fn slot(self, n: u32, a: u32, b: u32) -> u32 {
        of!(self, slot(n, a, b))
    }

    /// The slot by which way number `way` from `a` to `b`, which differ, leaves its NPU, and the
    /// coordinate at its end; `None` where that is a switch.
    #[inline]
    pub(crate) fn first(self, n: u32, a: u32, b: u32, way: u32) -> (u32, Option<u32>) {
        of!(self, first(n, a, b, way))
    }

    /// Equally short ways from `a` to `b`, which differ: they leave by slots `slot(a, b)`,
    /// `slot(a, b) + 1` and so on.
    #[inline]
    pub fn ways(self, n: u32, a: u32, b: u32) -> u32 {
        of!(self, ways(n, a, b))
    }

    /// Which of the equally short ways from `a` to `b`, which differ, a message takes so that those
    /// of all pairs together load the links alike.
    #[inline]
    pub fn even_way(self, n: u32, a: u32, b: u32) -> u32 {
        of!(self, even_way(n, a, b))
    }

    /// The slot from `a` to `b`, which differ, numbered alike by all `a` from which it leads the
    /// same way.
    #[inline]
    pub fn direction(self, n: u32, a: u32, b: u32) -> u32 {
        of!(self, direction(n, a, b))
    }

    /// Links that leave an NPU among the first `hops` of a way.
    #[inline]
    pub fn hops_from_npus(self, hops: u32) -> u32 {
        match self.paths() {
            Paths::Relayed => hops,
            Paths::Direct | Paths::Switched => hops.min(1),
        }
    }

    /// Whether messages the other way round a block of `n` take other links of their NPU.
    pub fn has_ways_round(self, n: u32) -> bool {
        self.paths() == Paths::Relayed && n > 2
    }

    /// Links owned by the coordinates below `a`.
    pub(crate) fn before(self, n: u32, a: u32) -> u64 {
        of!(self, before(n, a))
    }

    /// The coordinate at the other end of a slot that leaves `a`.
    pub(crate) fn end(self, n: u32, a: u32, slot: u32) -> u32 {
        of!(self, end(n, a, slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contract that every block must keep, whatever its wiring.
    #[test]
    fn every_block_keeps_its_contract() {
        for &block in Block::ALL {
            assert_eq!(Block::from_name(&block.short().to_lowercase()), Some(block));
            for n in 1..12 {
                assert_eq!(block.before(n, 0), 0, "{block:?}({n})");
                assert!((0..n).all(|a| block.before(n, a) <= block.before(n, a + 1)));
                let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b)));
                for (a, b) in pairs.filter(|(a, b)| a != b) {
                    one_pair(block, n, a, b);
                }
            }
        }
    }

    fn one_pair(block: Block, n: u32, a: u32, b: u32) {
        let place = format!("{block:?}({n}) from {a} to {b}");
        let owned = (block.before(n, a + 1) - block.before(n, a)) as u32;
        let (slot, ways) = (block.slot(n, a, b), block.ways(n, a, b));
        assert!(ways > 0 && slot + ways <= owned.min(block.leaving(n)), "{place}");
        let far = block.hops(n, a, b);
        assert!((1..=block.diameter(n)).contains(&far), "{place}");
        match block.paths() {
            Paths::Direct => assert_eq!((far, block.end(n, a, slot)), (1, b), "{place}"),
            Paths::Switched => assert_eq!(far, 2, "{place}"),
            // Every way is one link nearer after its first.
            Paths::Relayed => (slot..slot + ways).for_each(|s| {
                assert_eq!(block.hops(n, block.end(n, a, s), b), far - 1, "{place}");
            }),
        }
        match block.symmetry() {
            Symmetry::Full => assert_eq!(far, block.hops(n, 0, 1), "{place}"),
            Symmetry::Rotation => {
                let turned = (b + n - a) % n;
                assert_eq!(far, block.hops(n, 0, turned), "{place}");
                assert_eq!(block.direction(n, a, b), block.direction(n, 0, turned), "{place}");
            }
            Symmetry::None => {}
        }
    }
}
