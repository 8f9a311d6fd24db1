//! Minimal routes between groups of switches: how the traffic of a group is spread over its cables
//! to another group.
//!
//! Every switch of a group sends alike, and each cable should carry the same. A switch whose cables
//! have room for all that it sends uses only them. One with fewer cables, or none, fills its own and
//! sends the rest to the switches whose cables have room left, in proportion to that room. So what
//! enters a switch for its cables can use all of them, and nothing takes more links than it must.

/// How a switch spreads what it sends to another group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// Parts on each of its own cables.
    pub own: u32,
    /// Parts by way of each switch of its group.
    pub over: Vec<u32>,
}

/// The spread of switch `at` of a group, where `cables` has the number of cables to the other group
/// that each switch of the group has.
pub(crate) fn spread(cables: &[u32], at: usize) -> Spread {
    // In these units a switch sends one part for each cable, and a cable carries one for each
    // switch.
    let (switches, sent) = (cables.len() as u32, cables.iter().sum::<u32>());
    let room = |&own: &u32| (own * switches).saturating_sub(sent);
    let left = sent.saturating_sub(cables[at] * switches);
    if left == 0 {
        return Spread { own: 1, over: vec![0; cables.len()] };
    }
    let own = switches * cables.iter().map(room).sum::<u32>();
    let over: Vec<u32> = cables.iter().map(|own| room(own) * left).collect();
    let own = if cables[at] == 0 { 0 } else { own };
    let divisor = over.iter().fold(own, |a, &b| gcd(a, b)).max(1);
    Spread { own: own / divisor, over: over.into_iter().map(|parts| parts / divisor).collect() }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_with_room_for_all_that_it_sends_uses_its_own_cables() {
        assert_eq!(spread(&[0, 1, 0, 1], 1), Spread { own: 1, over: vec![0; 4] });
        assert_eq!(spread(&[0, 1, 0, 1], 0), Spread { own: 0, over: vec![0, 1, 0, 1] });
        assert_eq!(spread(&[2, 2, 2, 2], 3), Spread { own: 1, over: vec![0; 4] });
        // 5 cables of 8 switches: 2 cables take 16 of what 8 switches send, in fifths: 11 are left.
        assert_eq!(spread(&[2, 2, 1, 0, 0, 0, 0, 0], 7).over, [11, 11, 3, 0, 0, 0, 0, 0]);
        // 3 switches with 1 + 1 + 4 cables: the first keeps half of what it sends.
        assert_eq!(spread(&[1, 1, 4], 0), Spread { own: 1, over: vec![0, 0, 1] });
    }

    /// Every cable carries the same, in any group.
    #[test]
    fn cables_carry_the_same() {
        for code in 1..4u32.pow(5) {
            let cables: Vec<u32> = (0..5).map(|at| code / 4u32.pow(at) % 4).collect();
            let mut carried = [0.0; 5];
            for at in 0..5 {
                let Spread { own, over } = spread(&cables, at);
                let all = f64::from(own * cables[at] + over.iter().sum::<u32>());
                carried[at] += f64::from(own * cables[at]) / all;
                carried.iter_mut().zip(&over).for_each(|(c, &o)| *c += f64::from(o) / all);
                let passes = cables[at] > 0 && over.iter().any(|&over| over > 0);
                let visited = (0..5).any(|from| spread(&cables, from).over[at] > 0);
                assert!(!(passes && visited), "{cables:?}: {at} sends on what came for its cables");
            }
            let each = 5.0 / f64::from(cables.iter().sum::<u32>());
            for (carried, &own) in carried.iter().zip(&cables) {
                assert!((carried - each * f64::from(own)).abs() < 1e-9, "{cables:?}: {carried}");
            }
        }
    }
}
