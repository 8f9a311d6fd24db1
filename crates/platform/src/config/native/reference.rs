//! The declared keys as documentation: tables between the lines `<!-- keys: PATH -->` and
//! `<!-- end of keys -->` of a Markdown page, and a list for completion.

use super::top_level_keys::Root;
use declared::{self, Listed, Setting};

const END: &str = "<!-- end of keys -->";

/// Every key of a platform file.
pub fn keys() -> Vec<Listed> {
    declared::listed(Root::keys())
}

/// `page` with its tables of keys made anew. `<!-- keys: library -->` begins the table of the keys
/// below `library`, `<!-- keys: all but library -->` that of all others.
pub fn documented(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- keys: ") {
        let Some((which, after)) = after.split_once(" -->") else { break };
        let Some((_, after)) = after.split_once(END) else { break };
        let rows = chosen(which);
        out.push_str(&format!(
            "{before}<!-- keys: {which} -->\n\n{}\n{END}",
            declared::table(&rows)
        ));
        rest = after;
    }
    out + rest
}

fn chosen(which: &str) -> Vec<Listed> {
    let within = |path: &str, roots: &str| {
        roots.split(", ").any(|root| path.strip_prefix(root).is_some_and(|p| p.starts_with('.')))
    };
    let chosen = |row: &Listed| match which.strip_prefix("all but ") {
        Some(roots) => !within(&row.path, roots),
        None => within(&row.path, which),
    };
    keys().into_iter().filter(chosen).collect()
}
