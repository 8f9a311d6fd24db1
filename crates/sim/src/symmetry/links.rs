//! Networks on which NPUs are alike only as long as no two of them send over one link.

use super::Finder;
use super::programs::Message;
use collective::To;
use lowering::Geometry;
use network::Alike;
use topology::{Fabric, Paths, Symmetry};

impl Finder<'_> {
    /// Refuses networks and algorithms in which transfers meet what the backend does not call
    /// alike.
    pub(super) fn check_links(&self) -> Result<(), String> {
        match (self.network.alike(), &self.platform.fabric) {
            (Alike::Departures | Alike::Classes, _) => Ok(()),
            (_, Fabric::Graph(_)) => Err("links of an explicit graph are shared".into()),
            (Alike::OneLink, Fabric::Stacked(dims)) => self.check_one_link(dims),
            (Alike::Nothing, _) => Err("the backend treats no links as alike".into()),
        }
    }

    /// Refuses transfers that take more than one link, and links over which several ranks send.
    fn check_one_link(&self, dims: &[topology::Dim]) -> Result<(), String> {
        if self.settings.rendezvous {
            return Err("announcements and messages share links".into());
        }
        for ports in self.ports.iter().flat_map(|p| p.iter()) {
            let Geometry::Line { stride, size } = ports.geometry else {
                return Err(
                    "a communicator group that is not a line of the network may share links".into(),
                );
            };
            let (dim, symmetry, full) = (self.platform.fabric.line(stride, size))
                .ok_or("a collective crosses several dimensions and shares links")?;
            let block = dims[dim].block;
            let peers =
                || ports.phases.iter().flat_map(|p| &p.scripts).flatten().flat_map(|s| &s.1);
            let neighbour =
                |to: &To| matches!(to, To::Shift(k) if full && (*k == 1 || *k + 1 == size));
            let single = match block.paths() {
                Paths::Direct => true,
                Paths::Switched => false,
                Paths::Relayed => {
                    symmetry != Symmetry::None && peers().all(|(to, _)| neighbour(to))
                }
            };
            if !single {
                return Err(format!(
                    "transfers share links in dimension {} ({block:?})",
                    ports.phases[0].phase.dim + 1
                ));
            }
        }
        self.check_message_links(dims)
    }

    fn check_message_links(&self, dims: &[topology::Dim]) -> Result<(), String> {
        for (rank, binding) in self.workload.ranks.iter().enumerate() {
            for &Message { peer, .. } in &self.programs.messages[binding.program as usize] {
                let (mut a, mut b, mut hops) =
                    (rank as u32, (rank as u32).wrapping_add_signed(peer), 0);
                for dim in dims {
                    hops += dim.block.hops(dim.size, a % dim.size, b % dim.size);
                    (a, b) = (a / dim.size, b / dim.size);
                }
                if hops > 1 {
                    return Err(format!("messages of rank {rank} share links with others"));
                }
            }
        }
        Ok(())
    }
}
