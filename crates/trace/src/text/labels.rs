//! The labels of the form of the paper's Fig. 8 (`labelled.rs`), and whether a text has that form;
//! keys of the first line of the other form.

/// A line that isn't blank: its number from 1, and its words.
pub(super) type Line<'t> = (usize, Vec<&'t str>);

/// Key of the first line: NPUs of a model-parallel group.
pub(super) const MODEL_GROUP: &str = "model_parallel_NPU_group:";
/// Key of the first line: NPUs of a data-parallel group below it, which the tool doesn't have.
pub(super) const INNER_DATA: &str = "inner_data_parallel_NPU_group:";

/// Labels of the first two lines.
pub(super) const HEAD: [&str; 2] = ["Parallelism Type:", "Number of Layers:"];
/// Before the number of a layer.
pub(super) const LAYER: &str = "Layer";
/// Label of a layer's name.
pub(super) const NAME: &str = "Name:";
/// Labels behind the name, each with the columns of its values.
pub(super) const FIELDS: [(&str, &[usize]); 4] = [
    ("Compute Time:", &[2, 5, 8]),
    ("Coll Comm Type:", &[3, 6, 9]),
    ("Coll Comm Size:", &[4, 7, 10]),
    ("Local Update Time:", &[11]),
];

/// Whether a text has this form: it begins with the first label, or a layer's number comes third.
pub(super) fn begins(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let words = |line: Option<&str>| -> Vec<String> {
        line.unwrap_or_default().split_whitespace().map(str::to_string).collect()
    };
    let first = words(lines.next());
    let third = words(lines.nth(1));
    first.first().is_some_and(|word| word == "Parallelism")
        || (third.len() == 2 && third[0] == LAYER)
}

/// The line without its label.
pub(super) fn without_label<'t>(label: &str, (line, words): Line<'t>) -> Line<'t> {
    let count = label.split_whitespace().count();
    let found = words.len() > count && label.split_whitespace().eq(words[..count].iter().copied());
    (line, if found { words[count..].to_vec() } else { words })
}

/// The line of the first two without its label.
pub(super) fn head(at: usize, line: Line<'_>) -> Line<'_> {
    without_label(HEAD[at], line)
}

/// The lines of a layer, for error messages.
pub(super) fn form() -> String {
    let labels = FIELDS.map(|(label, columns)| match columns.len() {
        1 => format!("{label} t"),
        _ => format!("{label} forward, input gradient, weight gradient"),
    });
    format!("{LAYER} n; {NAME} word; {}", labels.join("; "))
}
