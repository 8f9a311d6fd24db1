//! Circles in graphs.

/// A circle in a graph, if there is one.
pub(super) fn circle(after: &[Vec<u32>]) -> Option<Vec<u32>> {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; after.len()];
    for root in 0..after.len() as u32 {
        if state[root as usize] != NEW {
            continue;
        }
        // Nodes on the way from the root, and how many of their followers were looked at.
        let mut way: Vec<(u32, usize)> = vec![(root, 0)];
        state[root as usize] = OPEN;
        while let Some((node, looked)) = way.last_mut() {
            let Some(&next) = after[*node as usize].get(*looked) else {
                state[*node as usize] = DONE;
                way.pop();
                continue;
            };
            *looked += 1;
            match state[next as usize] {
                NEW => {
                    state[next as usize] = OPEN;
                    way.push((next, 0));
                }
                OPEN => {
                    let from = way.iter().position(|&(node, _)| node == next)?;
                    return Some(way[from..].iter().map(|&(node, _)| node).collect());
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_found_and_trees_have_none() {
        assert_eq!(circle(&[vec![1, 2], vec![2], vec![3], vec![]]), None);
        assert_eq!(circle(&[vec![1], vec![2], vec![3], vec![1]]), Some(vec![1, 2, 3]));
    }
}
