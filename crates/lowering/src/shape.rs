//! The shape of a communicator group on the network: the whole machine, a block of lines, or a list
//! of ranks.
//!
//! A strided group that fills (an aligned part of) consecutive dimensions is a small machine of its
//! own and runs collectives dimension by dimension; any other group is one ring-ordered list.

use graph::{Members, Workload};
use rustc_hash::FxHashMap;

/// Positions along one dimension: `rank / stride % size`, the neighbour `stride` ranks away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// Dimension it lies in.
    pub dim: u32,
    /// Rank distance between neighbours.
    pub stride: u32,
    /// Positions.
    pub size: u32,
}

/// The shape of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Everybody.
    World,
    /// A block of lines, innermost first.
    Lines(Vec<Line>),
    /// A list of `count` ranks; `dim` is the innermost dimension in which they differ.
    List {
        /// Members.
        count: u32,
        /// Dimension whose queues and algorithm it uses.
        dim: u32,
    },
}

impl Shape {
    /// The shape of `members` on a machine with dimensions of `sizes`. With `aligned` false, groups
    /// smaller than the machine are always lists (ASTRA-sim).
    pub fn of(members: &Members, sizes: &[u32], aligned: bool) -> Shape {
        let world = sizes.iter().product();
        let count = members.len(world);
        if count == world {
            return Shape::World;
        }
        if !aligned {
            return Shape::List { count, dim: 0 };
        }
        let lines = match members {
            Members::Strided { first, count, step } => lines(*first, *count, *step, sizes),
            _ => None,
        };
        lines.map_or_else(
            || Shape::List { count, dim: innermost(members, count, sizes) },
            Shape::Lines,
        )
    }

    /// Ranks in a group of this shape.
    pub fn members(&self, sizes: &[u32]) -> u64 {
        match self {
            Shape::World => sizes.iter().map(|&s| u64::from(s)).product(),
            Shape::Lines(lines) => lines.iter().map(|l| u64::from(l.size)).product(),
            Shape::List { count, .. } => u64::from(*count),
        }
    }
}

/// The distinct shapes of a workload's groups, looked up once a group.
pub struct Shapes<'a> {
    sizes: &'a [u32],
    aligned: bool,
    distinct: Vec<Shape>,
    of_group: FxHashMap<u32, u32>,
}

impl<'a> Shapes<'a> {
    /// On a machine with dimensions of `sizes`; `aligned` as [`Shape::of`] takes it.
    pub fn new(sizes: &'a [u32], aligned: bool) -> Shapes<'a> {
        Shapes { sizes, aligned, distinct: Vec::new(), of_group: FxHashMap::default() }
    }

    /// The index of the shape of `group`.
    pub fn index(&mut self, workload: &Workload, group: u32) -> u32 {
        if let Some(&known) = self.of_group.get(&group) {
            return known;
        }
        let shape = Shape::of(&workload.groups[group as usize].members, self.sizes, self.aligned);
        let at = self.distinct.iter().position(|s| *s == shape).unwrap_or_else(|| {
            self.distinct.push(shape);
            self.distinct.len() - 1
        }) as u32;
        self.of_group.insert(group, at);
        at
    }

    /// The shape with this index.
    pub fn get(&self, index: u32) -> &Shape {
        &self.distinct[index as usize]
    }
}

/// Splits `first, first + step, ...` into lines, if it fills them.
fn lines(first: u32, count: u32, step: u32, sizes: &[u32]) -> Option<Vec<Line>> {
    let (mut lines, mut stride, mut step, mut left) = (Vec::new(), 1, step, count);
    for (dim, &size) in sizes.iter().enumerate() {
        let outer = stride * size;
        if left > 1 && step < outer {
            if !step.is_multiple_of(stride) || !size.is_multiple_of(step / stride) {
                return None;
            }
            let available = size / (step / stride);
            let here = available.min(left);
            if !left.is_multiple_of(here)
                || !available.is_multiple_of(here)
                || !(first / step).is_multiple_of(here)
            {
                return None;
            }
            lines.push(Line { dim: dim as u32, stride: step, size: here });
            left /= here;
            if here < available && left > 1 {
                return None;
            }
            step = outer;
        }
        stride = outer;
    }
    (left == 1).then_some(lines)
}

/// The innermost dimension in which the members differ.
fn innermost(members: &Members, count: u32, sizes: &[u32]) -> u32 {
    let first = if count > 0 { members.rank(0) } else { 0 };
    let mut stride = 1;
    for (dim, &size) in sizes.iter().enumerate() {
        if (1..count).any(|p| members.rank(p) / stride % size != first / stride % size) {
            return dim as u32;
        }
        stride *= size;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(list: &[u32], sizes: &[u32]) -> Shape {
        Shape::of(&Members::from_list(list.to_vec(), sizes.iter().product()), sizes, true)
    }

    #[test]
    fn tensor_and_data_groups_are_lines() {
        let line = |dim, stride, size| Line { dim, stride, size };
        assert_eq!(
            shape(&[8, 9, 10, 11, 12, 13, 14, 15], &[8, 4]),
            Shape::Lines(vec![line(0, 1, 8)])
        );
        assert_eq!(shape(&[3, 11, 19, 27], &[8, 4]), Shape::Lines(vec![line(1, 8, 4)]));
        assert_eq!(shape(&[4, 5, 6, 7], &[8, 4]), Shape::Lines(vec![line(0, 1, 4)]));
        assert_eq!(shape(&[1, 3, 5, 7], &[8, 4]), Shape::Lines(vec![line(0, 2, 4)]));
        assert_eq!(
            shape(&(0..16).collect::<Vec<_>>(), &[8, 4]),
            Shape::Lines(vec![line(0, 1, 8), line(1, 8, 2)])
        );
        assert_eq!(shape(&(0..32).collect::<Vec<_>>(), &[8, 4]), Shape::World);
    }

    #[test]
    fn anything_else_is_a_list() {
        assert_eq!(shape(&[2, 3, 4, 5], &[8, 4]), Shape::List { count: 4, dim: 0 });
        assert_eq!(shape(&[0, 3, 1], &[8, 4]), Shape::List { count: 3, dim: 0 });
        assert_eq!(shape(&[0, 24, 8], &[8, 4]), Shape::List { count: 3, dim: 1 });
        assert_eq!(shape(&(4..12).collect::<Vec<_>>(), &[8, 4]), Shape::List { count: 8, dim: 0 });
    }

    /// Positions computed from a line are those of the group.
    #[test]
    fn lines_number_the_members_in_order() {
        for sizes in [vec![4, 2, 3], vec![6, 4], vec![12]] {
            let world: u32 = sizes.iter().product();
            for (first, step, count) in (0..world)
                .flat_map(|f| (1..world).flat_map(move |s| (2..=world).map(move |c| (f, s, c))))
            {
                if first + step * (count - 1) >= world || count == world {
                    continue;
                }
                if let Some(lines) = lines(first, count, step, &sizes) {
                    for p in 0..count {
                        let (rank, mut position, mut weight) = (first + step * p, 0, 1);
                        for line in &lines {
                            position += rank / line.stride % line.size * weight;
                            weight *= line.size;
                        }
                        assert_eq!(position, p, "{sizes:?} {first} {step} {count}: {lines:?}");
                    }
                }
            }
        }
    }
}
