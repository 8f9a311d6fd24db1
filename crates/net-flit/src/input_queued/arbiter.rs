//! Arbiters: which of several requests is served (Dally and Towles, "Principles and Practices of
//! Interconnection Networks", 2004, chapter 18).

use net_settings::flit::Allocator;

/// A request of an arbiter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Number of the request among all that may ask.
    pub index: u32,
    /// Whether it may turn out to be of no use: others come first.
    pub is_guess: bool,
    /// When its packet was created.
    pub created: u64,
    /// When it was served last, 0 if never.
    pub served: u64,
}

/// The request that is served; `turn` is where a round begins.
pub(super) fn pick(
    allocator: Allocator,
    requests: impl Iterator<Item = Request>,
    turn: u32,
) -> Option<Request> {
    requests.min_by_key(|request| {
        let Request { index, is_guess, created, served } = *request;
        let first = match allocator {
            Allocator::Islip | Allocator::RoundRobin => u64::from(index < turn),
            Allocator::Matrix => served,
            Allocator::Age => created,
        };
        (is_guess, first, index)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Random;

    /// The circuit: a bit for each pair says who goes first. Whoever is served goes last.
    struct Matrix([[bool; 6]; 6]);

    impl Matrix {
        fn serve(&mut self, asks: u64) -> usize {
            let first = |&one: &usize| {
                let loses = |other: usize| asks >> other & 1 == 1 && self.0[other][one];
                asks >> one & 1 == 1 && !(0..6).any(loses)
            };
            let served = (0..6).find(first).expect("one goes first");
            for other in 0..6 {
                self.0[served][other] = false;
                self.0[other][served] = other != served;
            }
            served
        }
    }

    #[test]
    fn least_recently_served_is_what_the_matrix_circuit_serves() {
        let mut circuit = Matrix([[false; 6]; 6]);
        for one in 0..6 {
            for other in one + 1..6 {
                circuit.0[one][other] = true;
            }
        }
        let (mut random, mut served) = (Random::new(5), [0; 6]);
        for cycle in 1..2000 {
            let asks = 1 + random.below(63);
            let request = |index: u32| Request {
                index,
                is_guess: false,
                created: 0,
                served: served[index as usize],
            };
            let requests = (0..6).filter(|index| asks >> index & 1 == 1).map(request);
            let ours = pick(Allocator::Matrix, requests, 0).expect("one asks").index;
            assert_eq!(ours as usize, circuit.serve(asks), "cycle {cycle}: {asks:06b}");
            served[ours as usize] = cycle;
        }
    }

    #[test]
    fn a_round_serves_all_in_turn_and_guesses_last() {
        let request = |index| Request { index, is_guess: index == 1, created: 0, served: 0 };
        let pick = |turn| pick(Allocator::RoundRobin, [0, 1, 3].map(request).into_iter(), turn);
        let found: Vec<u32> = (0..5).filter_map(|turn| Some(pick(turn)?.index)).collect();
        assert_eq!(found, [0, 3, 3, 3, 0]);
    }
}
