//! `network`: which backend simulates the network, how messages are routed, and a section for each
//! backend.
//!
//! ```yaml
//! network: {model: link, routing: d_mod_k}
//! ```
//!
//! A backend is one line of `backends!`. From it follow the backend's name, its key in platform
//! files, and its field in [`Network`]. Not here: the settings of backends (`net_settings`), what a
//! backend does (`net-*`), and how it is made for a platform (`sim::backends`).

use declared::findings::{At, Findings};
use declared::{Words, section, words};
use net_settings::analytical::Analytical;
use net_settings::external::External;
use net_settings::flit::{self, Flit};
use net_settings::flow::Flow;
use net_settings::link::Link;
use net_settings::packet::{self, Packet};
use topology::{Fabric, Routing};

/// Registers backends, the default first: the key of its section, the type of its settings and its
/// name, what it is in a few words.
macro_rules! backends {
    ($($(#[doc = $doc:literal])+ $key:ident: $name:ident, $word:literal, $about:literal;)+) => {
        /// A built-in backend. This is the one list of their names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum NetworkModel {
            $($(#[doc = $doc])+ $name,)+
        }

        impl NetworkModel {
            /// All of them, the default first.
            pub const ALL: &'static [NetworkModel] = &[$(NetworkModel::$name),+];

            /// Description of the model, in a few words.
            pub fn about(self) -> &'static str {
                match self {
                    $(NetworkModel::$name => $about,)+
                }
            }
        }

        words!(NetworkModel: $($word = NetworkModel::$name),+);

        section! {
            /// How the network is simulated.
            #[derive(Clone, Debug, PartialEq, Eq, Hash)]
            pub struct Network {
                /// The backend that simulates the network. `--backend` overrides it.
                pub model: NetworkModel, default NetworkModel::ALL[0];
                /// Which of several equally near next hops a message takes
                /// ([topologies](../models/topologies.md#routes)).
                pub routing: Routing, default Routing::default();
                $($(#[doc = $doc])+ pub $key: Option<$name>, default None,
                    says "defaults of the backend";)+
                /// Settings of simulators in other processes
                /// ([guide](../guides/external-simulators.md)).
                pub external: Option<External>, default None, says "defaults of the backend";
            }
        }

        impl Network {
            /// The backends whose sections the platform gives.
            fn sections(&self) -> Vec<NetworkModel> {
                let given = [$((NetworkModel::$name, self.$key.is_some())),+];
                given.into_iter().filter(|each| each.1).map(|each| each.0).collect()
            }
        }
    };
}

backends! {
    /// Settings of the analytical backend.
    analytical: Analytical, "analytical", "latency and bandwidth";
    /// Settings of the link-queue backend.
    link: Link, "link", "messages queue for links";
    /// Settings of the fair-flow backend.
    flow: Flow, "flow", "transfers share links fairly";
    /// Settings of the packet backend ([model](../models/networks-packet.md)).
    packet: Packet, "packet", "packets of TCP or RDMA queue in switches";
    /// Settings of the flit backend ([model](../models/networks-flit.md)).
    flit: Flit, "flit", "flits take turns on virtual channels, cycle by cycle";
}

/// Refuses settings that do not fit together, and warns of those without effect.
pub(super) fn check(network: &Network, fabric: &Fabric, at: &At<'_>, findings: &mut Findings) {
    if let (Some(packet), Some(at)) = (&network.packet, at.get(Network::packet)) {
        packet::check(packet, fabric, network.routing == Routing::Spray, &at, findings);
    }
    if let (Some(flit), Some(at)) = (&network.flit, at.get(Network::flit)) {
        flit::check(flit, fabric, &at, findings);
    }
}

impl NetworkModel {
    /// Name of the model.
    pub fn name(self) -> &'static str {
        self.word()
    }
}

impl Network {
    /// The settings with what each word stands for.
    #[must_use]
    pub(super) fn resolved(self) -> Network {
        Network { packet: self.packet.map(Packet::resolved), ..self }
    }

    /// Warnings about sections of backends other than `model`, the one that runs.
    pub fn idle(&self, model: &str) -> Vec<String> {
        let is_external = model.starts_with("external:");
        // Simulators in other processes are sent the settings of packets.
        let runs = |other: &str| other == model || is_external && other == "packet";
        let external = self.external.is_some() && !is_external;
        let others = self.sections().into_iter().map(NetworkModel::name);
        others
            .filter(|other| !runs(other))
            .chain(external.then_some("external"))
            .map(|other| format!("network.{other} has no effect with the backend {model}"))
            .collect()
    }

    /// Warnings about settings of packets that hardly make sense together, if `model` has packets.
    pub fn doubt(&self, model: &str) -> Vec<String> {
        let has_packets = model == NetworkModel::Packet.name() || model.starts_with("external:");
        self.packet.as_ref().filter(|_| has_packets).map_or_else(Vec::new, packet::Packet::doubt)
    }
}

impl std::fmt::Display for NetworkModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Network {
    fn default() -> Network {
        declared::absent()
    }
}
