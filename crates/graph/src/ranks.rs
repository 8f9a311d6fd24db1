//! Lists of ranks as reports and messages write them.

/// `0-7,16`, and `0-56:8` for every eighth.
pub fn ranges(ranks: &[u32]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = ranks;
    while let [first, ..] = rest {
        let stride = rest.get(1).map_or(1, |second| second - first);
        let length = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == stride).count();
        // Two ranks far apart do not make a row: the second may begin one.
        let taken = if stride > 1 && length < 3 { 1 } else { length };
        let last = rest[taken - 1];
        parts.push(match (taken, stride) {
            (1, _) => first.to_string(),
            (_, 1) => format!("{first}-{last}"),
            _ => format!("{first}-{last}:{stride}"),
        });
        rest = &rest[taken..];
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn ranks_at_equal_distances_are_one_range() {
        let cases: [(&[u32], &str); 8] = [
            (&[], ""),
            (&[5], "5"),
            (&[0, 1, 2, 3], "0-3"),
            (&[0, 8, 16, 24], "0-24:8"),
            (&[0, 8], "0,8"),
            (&[0, 8, 9, 10], "0,8-10"),
            (&[0, 1, 8, 9], "0-1,8-9"),
            (&[1, 4, 7, 8, 20], "1-7:3,8,20"),
        ];
        cases.iter().for_each(|(ranks, text)| assert_eq!(ranges(ranks), *text));
    }
}
