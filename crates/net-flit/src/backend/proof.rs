//! The channel dependency graph, and the search for circles in it.
//!
//! A packet that holds a channel waits only for the next one on its way. If these dependencies have
//! no circle, the network cannot lock up (Dally and Seitz, IEEE Transactions on Computers C-36,
//! 1987). Every plan of routes is looked at before the run.

use super::circle::circle;
use super::routing_choice::{Hop, Refusal};

/// Dependencies of channels: of classes of links.
pub(super) struct Dependencies {
    classes: u32,
    after: Vec<Vec<u32>>,
}

impl Dependencies {
    pub(super) fn new(links: u32, classes: u16) -> Dependencies {
        let classes = u32::from(classes);
        Dependencies { classes, after: vec![Vec::new(); (links * classes) as usize] }
    }

    /// Packets on a channel may wait for another.
    pub(super) fn add(&mut self, before: Hop, next: Hop) {
        let number = |hop: Hop| hop.link * self.classes + u32::from(hop.class);
        let next = number(next);
        let following = &mut self.after[number(before) as usize];
        if !following.contains(&next) {
            following.push(next);
        }
    }

    /// Those of a whole route.
    pub(super) fn add_route(&mut self, hops: &[Hop]) {
        hops.windows(2).for_each(|two| self.add(two[0], two[1]));
    }

    /// # Errors
    /// A circle.
    pub(super) fn check(&self) -> Result<(), Refusal> {
        let hop = |number: u32| Hop {
            link: number / self.classes,
            class: (number % self.classes) as u16,
        };
        match circle(&self.after) {
            Some(found) => Err(Refusal::Circle(found.into_iter().map(hop).collect())),
            None => Ok(()),
        }
    }

    /// Channels that follow each channel.
    #[cfg(test)]
    pub(super) fn sorted(mut self) -> Vec<Vec<u32>> {
        self.after.iter_mut().for_each(|following| following.sort_unstable());
        self.after
    }
}
