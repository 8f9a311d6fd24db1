//! Kinds of collectives as values of keys.

use crate::CollectiveKind;
use declared::findings::{At, Findings};
use declared::{Setting, Shown};
use serde_json::Value as Json;

impl Setting for CollectiveKind {
    fn kind() -> String {
        "collective".into()
    }

    fn example() -> String {
        "a collective, such as all_reduce".into()
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<CollectiveKind> {
        findings.one_of(at, &CollectiveKind::ALL.map(|kind| (kind.name(), kind)))
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::of(self.name()))
    }

    fn json(&self) -> Json {
        self.name().into()
    }
}
