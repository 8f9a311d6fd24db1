//! Dealing NPUs and memory groups to the stations of a ring or mesh.

/// How many of `count` each of `stations` holds: as even as possible, the first ones one more.
pub(super) fn deal(count: u32, stations: u32) -> Vec<u64> {
    let (each, more) = (count / stations, count % stations);
    (0..stations).map(|station| u64::from(each) + u64::from(station < more)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_stations_hold_one_more() {
        assert_eq!(deal(7, 3), [3, 2, 2]);
        assert_eq!(deal(2, 4), [1, 1, 0, 0]);
    }
}
