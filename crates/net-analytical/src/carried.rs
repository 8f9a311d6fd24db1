//! Bytes that the links and the dimensions of a graph carried.
//!
//! The analytical network does not model what shares a link. So it counts what links and dimensions
//! carried, and the report says where that is more than they can.

use network::LinkCost;
use units::Span;

/// Bytes by link and by dimension of a graph; nothing for a stack.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    /// Sizes of the dimensions, if NPUs have coordinates.
    sizes: Vec<u32>,
    /// See [`network::Usage::outermost`].
    pub outermost: Vec<u128>,
    /// Bytes of each link; empty where one rank represents several.
    links: Vec<u128>,
}

impl Carried {
    /// Counts by link.
    pub(crate) fn of_links(links: usize) -> Carried {
        Carried { links: vec![0; links], ..Carried::default() }
    }

    /// Counts by dimension as well.
    pub(crate) fn count_by(&mut self, sizes: Vec<u32>) {
        self.outermost = vec![0; sizes.len()];
        self.sizes = sizes;
    }

    /// Transfers of `bytes` in all start; each stands for `weight` of them.
    #[inline]
    pub(crate) fn start(&mut self, (src, dst): (u32, u32), bytes: u128, weight: u64) {
        if weight > 1 {
            self.links.clear();
        }
        if let Some(dim) = topology::outermost(&self.sizes, src, dst) {
            self.outermost[dim] += bytes;
        }
    }

    /// `bytes` cross a link.
    #[inline]
    pub(crate) fn add(&mut self, link: u32, bytes: u128) {
        if let Some(carried) = self.links.get_mut(link as usize) {
            *carried += bytes;
        }
    }

    /// See [`network::Usage::busiest`].
    pub(crate) fn busiest(&self, costs: &[LinkCost]) -> Option<(u32, Span)> {
        let time = |(link, &bytes): (u32, &u128)| {
            let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
            (link, costs[link as usize].occupancy(bytes))
        };
        let busiest = (0..).zip(&self.links).map(time);
        busiest.reduce(|most, link| if link.1 > most.1 { link } else { most })
    }
}
