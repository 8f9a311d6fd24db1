//! Names without their numbers. Reports put operations of equal names in one row.

/// `name` with a star for each number in it: `*.layer*.norm`.
pub(crate) fn pattern(name: &str) -> String {
    let mut found = String::new();
    pattern_into(name, &mut found);
    found
}

/// Like [`pattern`], written into an existing text.
pub(crate) fn pattern_into(name: &str, found: &mut String) {
    found.clear();
    for letter in name.chars() {
        if !letter.is_ascii_digit() {
            found.push(letter);
        } else if !found.ends_with('*') {
            found.push('*');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_stars() {
        assert_eq!(pattern("layer12.attn3x04"), "layer*.attn*x*");
        assert_eq!(pattern(""), "");
    }
}
