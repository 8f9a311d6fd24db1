//! Where a node is drawn.

/// How the cells of a sketch lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// In tiers, the NPUs lowest. Places are paths in a tree of groups: a group is what hangs
    /// together below a tier.
    Tiers,
    /// On a grid of coordinates.
    Grid,
    /// In groups by the last coordinate, which are joined to each other.
    Groups,
    /// On a circle.
    Circle,
}

impl Layout {
    /// Name of the node in reports.
    pub fn name(self) -> &'static str {
        match self {
            Layout::Tiers => "tiers",
            Layout::Grid => "grid",
            Layout::Groups => "groups",
            Layout::Circle => "circle",
        }
    }
}

/// Where a node is drawn: tier, place, and number among the nodes of that tier and place.
pub(super) type Spot = (u32, Vec<u32>, u32);

/// Where number `index` of `count` alike things is drawn when there is room for `room` (3 or more):
/// its place, and whether it shares that place with others. All but the last share the last place
/// but one when there are too many.
pub(super) fn place(index: u32, count: u32, room: u32) -> (u32, bool) {
    if count <= room || index + 2 < room {
        return (index, false);
    }
    if index + 1 == count { (room - 1, false) } else { (room - 2, true) }
}
