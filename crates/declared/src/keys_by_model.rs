//! Mappings whose keys depend on a model: which keys it needs, and which it does not read.

use crate::Key;
use crate::findings::{At, Findings};

/// Reasons why a model does not read a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// A problem.
    Refuse,
    /// A warning: another model that the file or a preset describes may read it.
    Warn,
}

/// Checks the keys given at `at` against those that the model `word`, the value of the key `tag`,
/// needs and reads. A warning is only of a value that is not the default: a platform that was printed
/// has the defaults of all keys.
pub fn suited(
    at: &At<'_>,
    keys: &[Key],
    tag: &str,
    word: &str,
    misfit: Misfit,
    findings: &mut Findings,
) {
    for key in keys {
        let models = key.models();
        let reads = models.is_empty() || models.contains(&word);
        match at.get(key.name) {
            Some(found) if !reads && misfit == Misfit::Warn && key.has_default(&found) => {}
            Some(found) if !reads && misfit == Misfit::Warn => {
                let text = format!("{} has no effect with {tag}: {word}", found.path);
                findings.warnings.push(text);
            }
            Some(found) if !reads => {
                let message = format!("\"{}\" has no meaning with {tag}: {word}", key.name);
                let allowed: Vec<&str> = keys
                    .iter()
                    .filter(|key| key.models().is_empty() || key.models().contains(&word))
                    .map(|key| key.name)
                    .collect();
                findings.refuse(&found, message, allowed.join(", "));
            }
            None if (key.needed)().contains(&word) => {
                findings.missing(at, key.name, &(key.example)());
            }
            _ => {}
        }
    }
}
