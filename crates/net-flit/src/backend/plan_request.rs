//! Inputs of a plan, and the proofs that several plans share.

use super::datelines::Datelines;
use super::layers;
use super::proof::Dependencies;
use super::routing_choice::{Hop, Refusal, RoutingChoice};
use super::search::Search;
use topology::{Fabric, LinkGraph};

/// Inputs of a plan.
pub(super) struct PlanRequest<'a> {
    pub fabric: &'a Fabric,
    pub links: &'a LinkGraph,
    pub routing: &'a RoutingChoice,
    /// Most classes of deterministic routes.
    pub classes: Option<u16>,
    /// Whether circles are allowed.
    pub may_lock_up: bool,
}

impl PlanRequest<'_> {
    /// Most classes of deterministic routes.
    pub(super) fn most(&self) -> u16 {
        self.classes.unwrap_or(layers::MOST).max(1)
    }

    /// Proved plan, or a refusal that the settings overrule.
    pub(super) fn overrule(&self, proved: Result<(), Refusal>) -> Result<(), Refusal> {
        match proved {
            Err(Refusal::Circle(_)) if self.may_lock_up => Ok(()),
            other => other,
        }
    }

    /// Pairs of different NPUs.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let npus = self.links.npus();
        let pairs = (0..npus).flat_map(move |src| (0..npus).map(move |dst| (src, dst)));
        pairs.filter(|(src, dst)| src != dst)
    }
}

/// The fewest classes of a stack that `proves`.
pub(super) fn datelines(
    request: &PlanRequest<'_>,
    proves: impl Fn(&Datelines) -> Result<(), Refusal>,
) -> Result<Datelines, Refusal> {
    let one = Datelines::new(request.fabric.dims(), 1);
    let most = request.most();
    // A pair of any line may go either way round, which the pairs of one line do not show.
    let refused = if one.has_ties(request.links) && most > 1 { None } else { Some(proves(&one)) };
    match refused {
        Some(Ok(())) => Ok(one),
        Some(refused) if most == 1 => request.overrule(refused).map(|()| one),
        _ => {
            let two = Datelines::new(request.fabric.dims(), 2);
            request.overrule(proves(&two)).map(|()| two)
        }
    }
}

/// Ways up and down between all nodes.
pub(super) fn up_down(request: &PlanRequest<'_>) -> Result<Search, Refusal> {
    let tiers: Vec<u32> = match request.fabric {
        Fabric::Graph(graph) => graph.nodes.iter().map(|node| node.tier).collect(),
        Fabric::Stacked(_) => Vec::new(),
    };
    let npus = 0..request.links.npus();
    let mut search = Search::up_down(request.links, &tiers);
    if !tiers.is_empty() && search.cut_off(npus.clone()).is_some() {
        search = Search::up_down(request.links, &[]);
    }
    if let Some((at, to)) = search.cut_off(npus) {
        return Err(Refusal::NoWay { at, to });
    }
    let mut all = Dependencies::new(request.links.len(), 1);
    for (link, turns) in (0..).zip(search.turns()) {
        for next in turns {
            all.add(Hop { link, class: 0 }, Hop { link: next, class: 0 });
        }
    }
    all.check().map(|()| search)
}
