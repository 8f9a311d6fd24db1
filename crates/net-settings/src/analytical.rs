//! `network.analytical`: the analytical backend, which has no settings.

use declared::section;

section! {
    /// Settings of the analytical backend.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Analytical {}
}
