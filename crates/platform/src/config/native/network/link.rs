//! `network.link`: the link-queue backend, which has no settings.

use crate::config::declared::section;

section! {
    /// Settings of the link-queue backend.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Link {}
}
