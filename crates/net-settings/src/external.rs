//! `network.external`: a simulator in another process, which only the command line and Python name:
//! a platform file starts no program.

use declared::section;
use units::Span;

section! {
    /// Settings of simulators in other processes.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct External {
        /// A simulator that sends nothing for so long counts as hanging.
        pub timeout: Span, default Span(300_000_000_000_000);
    }
}

impl Default for External {
    fn default() -> External {
        declared::absent()
    }
}
