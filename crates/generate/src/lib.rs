//! Files of the repository that follow from Rust types: `make generate` writes them, a test fails
//! when one is stale.
//!
//! Here: which files there are. One file per form: types as read from JSON Schema (`model.rs`),
//! Python (`python.rs`), tables in Markdown (`markdown.rs`). Not here: the types
//! (`crates/stats/src`).

mod markdown;
mod model;
mod python;

use std::io;
use std::path::Path;

/// A generated file, or a file with generated parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// Path in the repository.
    pub path: &'static str,
    /// Text that the file should have.
    pub text: String,
}

/// Everything that is generated, for the repository at `root`, whose pages say where tables go.
///
/// # Errors
/// A page that can't be read.
pub fn outputs(root: &Path) -> io::Result<Vec<Output>> {
    let schema = model::schema_of::<stats::Report>();
    let types = model::types(&schema);
    let page = "docs/reference/report.md";
    let text = std::fs::read_to_string(root.join(page))?;
    Ok(vec![
        Output { path: "python/armillary/report.schema.json", text: format!("{schema:#}\n") },
        Output { path: "python/armillary/schema.py", text: python::types_module(&types) },
        Output { path: "python/armillary/step_parts.py", text: python::parts_module() },
        Output { path: page, text: markdown::filled(&text, &types) },
    ])
}
