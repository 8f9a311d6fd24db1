//! Dealing NPUs and memory groups to the stations of a ring or mesh, or to nodes.

/// How many of `count` each of `stations` holds: as even as possible, the first ones one more.
pub(super) fn deal(count: u32, stations: u32) -> Vec<u64> {
    let (each, more) = (count / stations, count % stations);
    (0..stations).map(|station| u64::from(each) + u64::from(station < more)).collect()
}

/// Which of `stations` holds number `of` of `count`, dealt as by [`deal`] and in order.
pub(super) fn holder(of: u32, count: u32, stations: u32) -> u32 {
    let (each, more) = (count / stations, count % stations);
    let with_one_more = u64::from(more) * u64::from(each + 1);
    if u64::from(of) < with_one_more {
        return of / (each + 1);
    }
    more + (of - with_one_more as u32) / each.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stations_hold_one_more() {
        assert_eq!(deal(7, 3), [3, 2, 2]);
        assert_eq!(deal(2, 4), [1, 1, 0, 0]);
    }

    #[test]
    fn each_is_where_it_was_dealt_to() {
        for (count, stations) in [(7, 3), (2, 4), (12, 4), (250, 16)] {
            let mut held = vec![0; stations as usize];
            (0..count).for_each(|of| held[holder(of, count, stations) as usize] += 1);
            assert_eq!(held, deal(count, stations));
        }
    }
}
