//! Which ranks a timeline shows, and their names.

use crate::folding::Folding;
use graph::{Problem, ranges};

/// Ranks, or classes of ranks, that are shown unless the user picks some.
const MOST: usize = 32;
/// Stretches of ranks that the name of a class lists.
const STRETCHES: usize = 4;

/// A problem for every rank of `picked` that does not exist.
pub(super) fn absent(picked: &[u32], ranks: u32) -> Vec<Problem> {
    let help = format!("0 to {}", ranks.saturating_sub(1));
    let problem =
        |rank| Problem::new("", "ranks", format!("rank {rank} does not exist")).help(help.clone());
    picked.iter().filter(|&&rank| rank >= ranks).map(problem).collect()
}

/// Simulated ranks to show, ascending: those that stand for the picked ranks, or all of them. If
/// there is no room for all, one rank of each set that must behave alike comes first.
pub(super) fn pick(picked: &[u32], folding: &Folding, symmetry: &Folding) -> Vec<u32> {
    let mut shown: Vec<u32> = picked.iter().map(|&rank| folding.local(rank)).collect();
    if picked.is_empty() {
        let different = symmetry.representatives.iter().map(|&rank| folding.local(rank));
        let all = 0..folding.representatives.len() as u32;
        let mut seen = rustc_hash::FxHashSet::default();
        shown = different.chain(all).filter(|&local| seen.insert(local)).take(MOST).collect();
    }
    shown.sort_unstable();
    shown.dedup();
    shown
}

/// `rank 5`, or `ranks 0-7,16 (9)` if a simulated rank stands for others. The first rank has
/// leading zeros, because Perfetto sorts groups by name.
pub(super) fn names(shown: &[u32], folding: &Folding) -> Vec<String> {
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); shown.len()];
    match &folding.class_of {
        Some(class_of) => (0u32..).zip(class_of).for_each(|(rank, class)| {
            if let Ok(at) = shown.binary_search(class) {
                members[at].push(rank);
            }
        }),
        None => members.iter_mut().zip(shown).for_each(|(members, &rank)| members.push(rank)),
    }
    let width = members.iter().map(|members| members[0].to_string().len()).max().unwrap_or(1);
    members.iter().map(|members| name(members, width)).collect()
}

fn name(ranks: &[u32], width: usize) -> String {
    if let [rank] = ranks {
        return format!("rank {rank:0width$}");
    }
    let zeros = "0".repeat(width - ranks[0].to_string().len());
    let all = format!("{zeros}{}", ranges(ranks));
    let cut = all.match_indices(',').nth(STRETCHES - 1).map_or(all.as_str(), |(at, _)| &all[..at]);
    let more = if cut.len() < all.len() { ",..." } else { "" };
    format!("ranks {cut}{more} ({})", ranks.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folding(class_of: Vec<u32>) -> Folding {
        let classes = class_of.iter().max().map_or(0, |most| most + 1);
        let of = |class: u32| class_of.iter().filter(move |&&c| c == class);
        Folding {
            representatives: (0..classes)
                .filter_map(|c| class_of.iter().position(|&x| x == c))
                .map(|r| r as u32)
                .collect(),
            multiplicity: (0..classes).map(|c| of(c).count() as u64).collect(),
            class_of: Some(class_of),
            slots: Vec::new(),
            components: Vec::new(),
        }
    }

    #[test]
    fn classes_are_named_by_their_ranks() {
        let folded = folding(vec![0, 0, 1, 0, 1, 2]);
        assert_eq!(names(&[0, 1, 2], &folded), ["ranks 0-1,3 (3)", "ranks 2,4 (2)", "rank 5"]);
        assert_eq!(names(&[3, 10], &Folding::none(12)), ["rank 03", "rank 10"]);
        let late = folding((0..20).map(|rank| u32::from(rank >= 10)).collect());
        assert_eq!(names(&[0, 1], &late), ["ranks 00-9 (10)", "ranks 10-19 (10)"]);
        let alternating = folding((0..12).map(|rank| rank % 2).collect());
        assert_eq!(names(&[1], &alternating), ["ranks 1-11:2 (6)"]);
        let uneven = folding([0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1].to_vec());
        assert_eq!(names(&[1], &uneven), ["ranks 1,4,8,13,... (5)"]);
    }

    #[test]
    fn picked_ranks_stand_for_their_classes() {
        let folded = folding(vec![0, 0, 1, 0, 1, 2]);
        assert_eq!(pick(&[4, 2, 5], &folded, &folded), [1, 2]);
        assert_eq!(pick(&[3], &Folding::none(6), &folded), [3]);
    }

    #[test]
    fn ranks_that_do_not_exist_are_all_named() {
        let wrong = absent(&[6, 1, 9], 6);
        let said: Vec<_> = wrong.iter().map(|p| (p.message.as_str(), p.help.as_str())).collect();
        assert_eq!(
            said,
            [("rank 6 does not exist", "0 to 5"), ("rank 9 does not exist", "0 to 5")]
        );
    }

    #[test]
    fn of_many_ranks_different_ones_come_first() {
        let symmetry = folding((0..100).map(|rank| u32::from(rank >= 90)).collect());
        let shown = pick(&[], &Folding::none(100), &symmetry);
        assert_eq!(shown, (0..31).chain([90]).collect::<Vec<u32>>());
        let all = pick(&[], &Folding::none(8), &folding(vec![0; 8]));
        assert_eq!(all, (0..8).collect::<Vec<u32>>());
    }
}
