//! Assumptions on messages where NPUs have several network cards.

use super::network::Network;
use declared::Tried;
use topology::{Fabric, Routing};

/// A note that messages spread over the cards of their NPU.
pub(super) fn note(fabric: &Fabric, network: &Tried<Network>) -> Option<String> {
    let routing = match network {
        Tried::Read(network) => network.routing,
        _ => Routing::default(),
    };
    let cards = if routing == Routing::Auto { fabric.cards() } else { 1 };
    (cards > 1).then(|| {
        format!(
            "NPUs have up to {cards} links towards another one; a message spreads over them in \
             proportion to their bandwidth, as a library spreads its channels over network cards. \
             All backends take one of them for a message with network.routing: d_mod_k. So does \
             flit with network.flit.routing: dimension_order, up_down or a table"
        )
    })
}
