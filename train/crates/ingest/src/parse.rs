//! Lines to columns. A line ends with LF or CRLF. A CR elsewhere and text in quotes are refused: other
//! programs would read them as something else. Verbatim text has its own rules: it ends with LF.

use crate::columns::{Columns, Index};
use crate::fault::{Fault, MOST_FAULTS, shown};
use crate::number::{MOST_WHOLE, decimal, digits, hexadecimal, whole};
use crate::recipe::{Category, Dense, Field, Kind, Missing, Numbers, Recipe, text_value};
use crate::remainder::Remainder;
use crate::scan::{Ends, lines};

/// Digits of a whole number that is a category: 63 bits always hold them.
const MOST_DIGITS: usize = 18;

/// The columns of all lines of a text. The last line may have no end.
///
/// # Errors
/// The first faults, in the order of lines.
pub fn parse<I: Index>(text: &[u8], recipe: &Recipe) -> Result<Columns<I>, Vec<Fault>> {
    let count = lines(text);
    let mut rows = Rows::new(recipe, count);
    rows.returns = !recipe.is_verbatim() && text.contains(&b'\r');
    let mut ends = Ends::new(text, recipe.separator, b'\n');
    let (mut at, mut faults) = (0, Vec::new());
    for line in 0..count {
        match rows.line(text, at, &mut ends) {
            Some(next) => at = next,
            None => {
                let end = line_end(text, at);
                faults.extend(explain(&text[at..end], line, recipe));
                if faults.len() >= MOST_FAULTS {
                    faults.truncate(MOST_FAULTS);
                    break;
                }
                at = end + 1;
                ends.seek(at);
            }
        }
    }
    if faults.is_empty() { Ok(rows.finish()) } else { Err(faults) }
}

/// Cuts a text into up to `count` pieces of whole lines, of about the same size.
pub fn pieces(text: &[u8], count: usize) -> Vec<&[u8]> {
    let (mut made, mut from) = (Vec::new(), 0);
    for piece in 1..=count {
        let near = (text.len() as u128 * piece as u128 / count as u128) as usize;
        if piece < count && near <= from {
            continue;
        }
        let to = if piece == count { text.len() } else { line_end(text, near - 1) + 1 };
        let to = to.min(text.len());
        if to > from {
            made.push(&text[from..to]);
            from = to;
        }
    }
    made
}

/// Where the line around `at` ends.
fn line_end(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |place| at + place)
}

/// Columns under way.
struct Rows<'a, I> {
    recipe: &'a Recipe,
    remainders: Vec<Remainder>,
    /// Lines of the text.
    count: usize,
    labels: Vec<u8>,
    dense: Vec<f32>,
    indices: Indices<I>,
    /// Whether the text has carriage returns, which end lines at best.
    returns: bool,
}

/// Rows of categories under way.
enum Indices<I> {
    /// One for each sample, category by category.
    One(Vec<I>),
    /// Lengths and rows of each category.
    Several(Vec<(Vec<i32>, Vec<I>)>),
}

impl<'a, I: Index> Rows<'a, I> {
    fn new(recipe: &'a Recipe, count: usize) -> Self {
        let categories = &recipe.categories;
        let several = || (Vec::with_capacity(count), Vec::with_capacity(count));
        Self {
            recipe,
            remainders: categories.iter().map(|each| Remainder::new(each.rows)).collect(),
            count,
            labels: Vec::with_capacity(count),
            dense: vec![0.0; count * recipe.dense.len()],
            indices: if recipe.varies() {
                Indices::Several(categories.iter().map(|_| several()).collect())
            } else {
                Indices::One(vec![I::default(); count * categories.len()])
            },
            returns: false,
        }
    }

    /// Reads the line at `at`, and returns where the next one is; `None` if a field is wrong.
    #[inline]
    fn line(&mut self, text: &[u8], mut at: usize, ends: &mut Ends<'_>) -> Option<usize> {
        let (recipe, sample) = (self.recipe, self.labels.len());
        let dense = &mut self.dense[sample * recipe.dense.len()..];
        let last = recipe.fields.len() - 1;
        let mut label = None;
        if self.returns && has_return(&text[at..line_end(text, at)]) {
            return None;
        }
        for (number, field) in recipe.fields.iter().enumerate() {
            let end = ends.next();
            let ended = text.get(end).is_none_or(|byte| *byte == b'\n');
            if ended != (number == last) {
                return None;
            }
            let value = &text[at..end];
            let value = if ended && self.returns { without_return(value) } else { value };
            match *field {
                Field::Skip => {}
                Field::Label => label = Some(label_of(value)?),
                Field::Dense(column) => {
                    let known = &recipe.dense[column];
                    dense[column] = match short(text, at, value.len(), known) {
                        Some(number) => number,
                        None => number_of(value, known)?,
                    };
                }
                Field::Category(each) => {
                    let (category, remainder) = (&recipe.categories[each], self.remainders[each]);
                    let row = |value: i64| I::of(remainder.of(category.hashed(value)));
                    match &mut self.indices {
                        Indices::One(all) => {
                            let place = &mut all[each * self.count + sample];
                            values(value, category, |value| *place = row(value))?;
                        }
                        Indices::Several(all) => {
                            let (lengths, rows) = &mut all[each];
                            let before = rows.len();
                            values(value, category, |value| rows.push(row(value)))?;
                            lengths.push((rows.len() - before) as i32);
                        }
                    }
                }
            }
            at = end + 1;
        }
        self.labels.extend(label);
        Some(at)
    }

    fn finish(self) -> Columns<I> {
        let (lengths, indices) = match self.indices {
            Indices::One(all) => (Vec::new(), all),
            Indices::Several(all) => {
                let (lengths, rows): (Vec<_>, Vec<_>) = all.into_iter().unzip();
                (lengths.concat(), rows.concat())
            }
        };
        Columns { labels: self.labels, dense: self.dense, lengths, indices }
    }
}

#[inline]
fn label_of(value: &[u8]) -> Option<u8> {
    match value {
        [byte @ (b'0' | b'1')] => Some(byte - b'0'),
        _ => None,
    }
}

/// A line without the CR before its LF.
#[inline]
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether a line has a CR that is not before its LF.
fn has_return(line: &[u8]) -> bool {
    without_return(line).contains(&b'\r')
}

/// A whole number of up to eight digits at `at`, which is the most frequent one; `None` for every
/// other field.
#[inline]
fn short(text: &[u8], at: usize, count: usize, column: &Dense) -> Option<f32> {
    if count == 0 || count > 8 || column.numbers() != Numbers::Whole {
        return None;
    }
    let made = column.whole(digits(*text.get(at..)?.first_chunk::<8>()?, count)?);
    made.is_finite().then_some(made)
}

#[inline]
fn number_of(value: &[u8], column: &Dense) -> Option<f32> {
    let made = match column.numbers() {
        _ if value.is_empty() => column.of_missing(),
        Numbers::Whole => column.whole(whole(value, MOST_WHOLE)?),
        Numbers::Decimal => column.value(decimal(value)?),
    };
    made.is_finite().then_some(made)
}

#[inline]
fn value_of(value: &[u8], kind: Kind) -> Option<i64> {
    match kind {
        Kind::Hexadecimal => hexadecimal(value),
        Kind::Whole => whole(value, MOST_DIGITS),
        Kind::Text if is_quoted(value) => None,
        Kind::Text | Kind::Verbatim => Some(text_value(value)),
    }
}

/// Whether a value begins with a quotation mark, as fields of CSV files that have separators in them
/// (RFC 4180).
#[inline]
fn is_quoted(value: &[u8]) -> bool {
    value.first() == Some(&b'"')
}

/// Gives `to` the values of a field.
#[inline]
fn values(field: &[u8], category: &Category, mut to: impl FnMut(i64)) -> Option<()> {
    match (field.is_empty(), category.missing, category.between) {
        (true, Missing::Skip, _) => {}
        (true, Missing::Value(value), _) => to(value),
        (false, _, None) => to(value_of(field, category.kind)?),
        (false, _, Some(between)) => {
            for part in field.split(|byte| *byte == between) {
                to(value_of(part, category.kind)?);
            }
        }
    }
    Some(())
}

/// Faults of a line that could not be read.
fn explain(text: &[u8], line: usize, recipe: &Recipe) -> Vec<Fault> {
    let fault = |column: &str, message: String, allowed: &str| Fault {
        line,
        column: column.into(),
        message,
        allowed: allowed.into(),
    };
    let verbatim = recipe.is_verbatim();
    if !verbatim && has_return(text) {
        let message = "has a carriage return within the line".into();
        return vec![fault("", message, "lines that end with LF or CRLF")];
    }
    let text = if verbatim { text } else { without_return(text) };
    let fields: Vec<&[u8]> = text.split(|byte| *byte == recipe.separator).collect();
    let (count, expected) = (fields.len(), recipe.fields.len());
    if count != expected {
        let between = match recipe.separator {
            b'\t' => "tabs".into(),
            other => format!("'{}'", char::from(other)),
        };
        let plural = if count == 1 { "" } else { "s" };
        let mut allowed = format!("{expected} with {between} between");
        if !verbatim && fields.iter().any(|field| is_quoted(field)) {
            allowed.push_str(", without quotes around them");
        }
        return vec![fault("", format!("has {count} field{plural}"), &allowed)];
    }
    let wrong = fields.iter().zip(&recipe.fields).filter_map(|(value, field)| match *field {
        Field::Skip => None,
        _ if !verbatim && is_quoted(value) => {
            let message = format!("{} is in quotes, which are not read", shown(value));
            Some(fault(recipe.column(*field), message, "fields without quotes around them"))
        }
        Field::Label if label_of(value).is_none() => {
            Some(fault("label", format!("{} is not a label", shown(value)), "0 or 1"))
        }
        Field::Dense(column) => {
            let column = &recipe.dense[column];
            number_of(value, column).is_none().then(|| {
                let (message, allowed) = wrong_number(value, column);
                fault(column.name(), message, &allowed)
            })
        }
        Field::Category(each) => {
            let category = &recipe.categories[each];
            values(value, category, |_| ()).is_none().then(|| {
                let message = format!("{} is not a category", shown(value));
                fault(&category.name, message, &allowed_values(category))
            })
        }
        _ => None,
    });
    wrong.collect()
}

fn wrong_number(value: &[u8], column: &Dense) -> (String, String) {
    let numbers = match column.numbers() {
        Numbers::Whole => "a whole number of up to 9 digits, or nothing",
        Numbers::Decimal => "a number, or nothing",
    };
    let read = match column.numbers() {
        _ if value.is_empty() => true,
        Numbers::Whole => whole(value, MOST_WHOLE).is_some(),
        Numbers::Decimal => decimal(value).is_some(),
    };
    if read {
        let what = if value.is_empty() { "a missing value".into() } else { shown(value) };
        let message = format!("{what} has no finite result");
        return (message, "values in the domain of the recipe's logarithm, or a clip".into());
    }
    (format!("{} is not a count", shown(value)), numbers.into())
}

fn allowed_values(category: &Category) -> String {
    let one = match category.kind {
        Kind::Hexadecimal => "up to 8 hexadecimal digits",
        Kind::Whole => "a whole number of up to 18 digits",
        Kind::Text | Kind::Verbatim => "text",
    };
    match category.between {
        None => format!("{one}, or nothing"),
        Some(between) => format!("{one}, several with '{}' between, or nothing", between as char),
    }
}

#[cfg(test)]
mod tests;
