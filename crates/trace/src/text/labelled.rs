//! The form of the paper's Fig. 8: one labelled field on a line.
//!
//! ```text
//! Parallelism Type: DATA
//! Number of Layers: 1
//! Layer 1
//! Name: conv1
//! Compute Time: 13003 12864 32291
//! Coll Comm Type: NONE NONE ALLREDUCE
//! Coll Comm Size: 0 0 37632
//! Local Update Time: 3229
//! ```
//!
//! The three values of a line are those of forward, input gradient and weight gradient. The figure
//! prints the first two fields and the name without a colon, so their labels may be left out. The
//! update time is that of each KB of a collective (section IV-C). Not here: the tool's own columns
//! (`parse.rs`), which have no labels.

use super::labels::{FIELDS, LAYER, Line, NAME, form, without_label};
use super::layers::{Layer, Parallelism, Update};
use super::parse::{COLUMNS, Parser, Row, short};

impl Parser<'_> {
    /// The layers, each described by six lines.
    pub(super) fn labelled<'t>(
        &mut self,
        lines: &mut impl Iterator<Item = Line<'t>>,
        parallelism: Option<&Parallelism>,
    ) -> Option<Vec<Layer>> {
        if parallelism == Some(&Parallelism::HybridCustomized) {
            let message = "HYBRID_CUSTOMIZED needs a word of each layer, which has no label".into();
            return self.refuse(String::new(), message, "layers of 13 columns");
        }
        let mut layers = Vec::new();
        while let Some(line) = lines.next() {
            layers.push(self.labelled_layer(line, lines, layers.len() + 1)?);
        }
        Some(layers)
    }

    fn labelled_layer<'t>(
        &mut self,
        (line, words): Line<'t>,
        lines: &mut impl Iterator<Item = Line<'t>>,
        number: usize,
    ) -> Option<Layer> {
        let wanted = format!("{LAYER} {number}");
        if words.join(" ").trim_end_matches(':') != wanted {
            let message = format!("expected {wanted}, found \"{}\"", short(&words.join(" ")));
            return self.refuse(format!("line {line}"), message, form());
        }
        let mut row = ["-1"; COLUMNS.len() - 1];
        let mut places = [line; COLUMNS.len() - 1];
        let name = lines.next().map(|line| without_label(NAME, line));
        let (at, words) = self.values(name, "", NAME, line, 1)?;
        (places[0], row[0]) = (at, words[0]);
        for (label, columns) in FIELDS {
            let (at, words) = self.values(lines.next(), label, label, places[0], columns.len())?;
            for (&column, word) in columns.iter().zip(words) {
                (places[column], row[column]) = (at, word);
            }
        }
        let layer = self.described(&Row { line, words: &row, places: Some(places) })?;
        let Update::Whole(ns) = layer.update else { return Some(layer) };
        Some(Layer { update: Update::Kilobyte(ns), ..layer })
    }

    /// The values behind `label` on a line, and its number.
    fn values<'t>(
        &mut self,
        line: Option<Line<'t>>,
        label: &str,
        shown: &str,
        last: usize,
        count: usize,
    ) -> Option<Line<'t>> {
        let Some((at, words)) = line else {
            let message = format!("{shown} is missing behind line {last}");
            return self.refuse(String::new(), message, form());
        };
        let values = without_label(label, (at, words.clone())).1;
        if values.len() == count && (label.is_empty() || values.len() < words.len()) {
            return Some((at, values));
        }
        let message = format!(
            "expected {shown} and {count} of its values, found \"{}\"",
            short(&words.join(" "))
        );
        self.refuse(format!("line {at}"), message, form())
    }
}
