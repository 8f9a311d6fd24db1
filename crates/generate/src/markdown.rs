//! Tables of fields in Markdown.
//!
//! A page marks where they go: what stands between `<!-- fields: NAME -->` and `<!-- end -->` is
//! the table of that type.

use crate::model::Type;

const BEGIN: &str = "<!-- fields: ";
const END: &str = "<!-- end -->";

/// The page with its tables filled in. A mark of an unknown type stays empty.
pub(crate) fn filled(page: &str, types: &[Type]) -> String {
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once(" -->").unwrap_or((part, ""));
        let after = rest.split_once(END).map_or(rest, |(_, after)| after);
        let table = types.iter().find(|known| known.name == name).map(table).unwrap_or_default();
        text.push_str(&format!("{BEGIN}{name} -->\n\n{table}\n{END}{after}"));
    }
    text
}

fn table(of: &Type) -> String {
    let row =
        |name: &str, meaning: &str| format!("| `{name}` | {} |\n", meaning.replace('|', "\\|"));
    let rows: String = of.fields.iter().map(|field| row(&field.name, &field.description)).collect();
    format!("| field | meaning |\n| --- | --- |\n{rows}")
}
