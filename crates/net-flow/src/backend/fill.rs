//! New rates of all flows that are joined to a change, by one filling.

use crate::backend::{FairFlows, Hop};
use crate::fair::Use;

impl FairFlows {
    /// Finds the levels of all links and flows that are joined to a dirty link.
    pub(crate) fn fill(&mut self) {
        self.problem += 1;
        self.reach();
        self.pose();
        self.solver.solve();
        for (&link, &level) in self.reached_links.iter().zip(self.solver.full_at()) {
            let state = &self.links.states[link as usize];
            let room = &mut self.links.rooms[link as usize];
            (room.full_at, room.left) = (level, state.capacity as i128);
            room.is_known = false;
        }
        for at in self.spread.changed.drain(..) {
            self.paths[at as usize].is_changed = false;
        }
        for (&at, &level) in self.reached_flows.iter().zip(self.solver.levels()) {
            let flow = &self.flows[at as usize];
            self.paths[at as usize].level = level;
            self.spread.changed.push(at);
            for hop in &flow.hops {
                let Use { link, demand } = hop.used;
                self.links.rooms[link as usize].shift(demand, (0, level.value));
            }
        }
    }

    /// Collects the links and flows that are joined to a dirty link.
    fn reach(&mut self) {
        self.reached_links.clear();
        self.reached_flows.clear();
        for link in self.dirty.drain(..) {
            let state = &mut self.links.states[link as usize];
            state.is_dirty = false;
            if state.seen != self.problem {
                state.seen = self.problem;
                self.reached_links.push(link);
            }
        }
        let mut next = 0;
        while let Some(&link) = self.reached_links.get(next) {
            self.links.states[link as usize].local = next as u32;
            next += 1;
            for member in 0..self.links.states[link as usize].members.len() {
                let at = self.links.states[link as usize].members[member].flow;
                let flow = &mut self.flows[at as usize];
                if std::mem::replace(&mut flow.seen, self.problem) == self.problem {
                    continue;
                }
                self.reached_flows.push(at);
                for hop in &flow.hops {
                    let state = &mut self.links.states[hop.used.link as usize];
                    if state.seen != self.problem {
                        state.seen = self.problem;
                        self.reached_links.push(hop.used.link);
                    }
                }
            }
        }
    }

    /// States the problem of the links and flows that were reached.
    fn pose(&mut self) {
        self.solver.clear();
        for &link in &self.reached_links {
            self.solver.link(self.links.states[link as usize].capacity);
        }
        for &at in &self.reached_flows {
            let flow = &self.flows[at as usize];
            let states = &self.links.states;
            let local = |hop: &Hop| Use {
                link: states[hop.used.link as usize].local,
                demand: hop.used.demand,
            };
            self.solver.flow(flow.limit, flow.hops.iter().map(local));
        }
    }
}
