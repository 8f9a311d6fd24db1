//! Routing policies as values of keys.

use crate::Routing;
use declared::findings::{At, Findings};
use declared::{Setting, Shown};

impl Setting for Routing {
    fn kind() -> String {
        let names: Vec<String> = Routing::NAMES.iter().map(|name| format!("`{name}`")).collect();
        format!("{}, `hash(seed)`", names.join(", "))
    }

    fn example() -> String {
        Routing::NAMES.join(", ")
    }

    fn read(at: &At<'_>, findings: &mut Findings) -> Option<Routing> {
        let text = findings.text(at)?;
        match text.parse() {
            Ok(routing) => Some(routing),
            Err(allowed) => {
                findings.refuse(at, format!("unknown routing policy \"{text}\""), allowed);
                None
            }
        }
    }

    fn show(&self) -> Option<Shown> {
        Some(Shown::of(self))
    }

    fn json(&self) -> serde_json::Value {
        self.to_string().into()
    }
}
