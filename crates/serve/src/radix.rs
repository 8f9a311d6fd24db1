//! A tree of prefixes, as SGLang keeps them (RadixAttention; Zheng et al. 2024, arXiv 2312.07104).
//!
//! A node has a run of tokens. Its path from the root is a prefix whose keys and values are kept.
//! A search that ends inside a node cuts the node there. All nodes on the way are used now. A
//! request holds the nodes of its path, and nodes that are held stay. Where room is needed, the
//! leaf that was used longest ago goes, whole. Sizes are pages of tokens, and only whole pages are
//! kept; with pages of one token these are tokens. `tests/python/serve/reference_radix_cache.py`
//! has the same rules token by token. A test compares with a table of all prefixes, as the test of
//! that file does.

use crate::content::{Piece, mix, output_of};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The node without tokens.
pub(crate) const ROOT: u32 = 0;

/// Tokens `from..from + length` of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    content: u64,
    from: u32,
    length: u32,
}

/// A row of tokens. Runs that go on with each other are one, so equal rows are equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text(Vec<Run>);

impl Text {
    /// The tokens of a prompt.
    pub fn of(pieces: &[Piece]) -> Text {
        let mut text = Text::default();
        pieces.iter().for_each(|piece| text.push(piece.content, 0, piece.length));
        text
    }

    /// With `count` tokens of the output of a request.
    pub fn with_output(&self, request: u32, count: u32) -> Text {
        let mut text = self.clone();
        text.push(output_of(request), 0, count);
        text
    }

    fn push(&mut self, content: u64, from: u32, length: u32) {
        if length == 0 {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.content == content && last.from + last.length == from => {
                last.length += length;
            }
            _ => self.0.push(Run { content, from, length }),
        }
    }

    /// Cuts off and returns what is behind `at` tokens.
    fn split_off(&mut self, at: u32) -> Text {
        let mut left = at;
        let mut place = 0;
        while place < self.0.len() && self.0[place].length <= left {
            left -= self.0[place].length;
            place += 1;
        }
        let mut rest = self.0.split_off(place);
        if left > 0 {
            let run = rest[0];
            self.0.push(Run { length: left, ..run });
            rest[0] = Run { from: run.from + left, length: run.length - left, ..run };
        }
        Text(rest)
    }
}

/// The rest of a text, behind some of its tokens.
#[derive(Clone, Copy, Debug)]
struct Ahead<'a> {
    runs: &'a [Run],
    /// Tokens of the first run that are behind.
    skipped: u32,
    left: u32,
}

impl<'a> Ahead<'a> {
    fn of(text: &'a Text, tokens: u32) -> Ahead<'a> {
        Ahead { runs: &text.0, skipped: 0, left: tokens }
    }

    /// The next run, as far as it counts.
    fn run(&self) -> Option<Run> {
        let run = self.runs.first().filter(|_| self.left > 0)?;
        Some(Run {
            content: run.content,
            from: run.from + self.skipped,
            length: (run.length - self.skipped).min(self.left),
        })
    }

    fn skip(&mut self, tokens: u32) {
        let mut more = tokens.min(self.left);
        self.left -= more;
        while more > 0 {
            let rest = self.runs[0].length - self.skipped;
            if more < rest {
                self.skipped += more;
                return;
            }
            more -= rest;
            self.skipped = 0;
            self.runs = &self.runs[1..];
        }
    }

    /// Tokens in common with another row, from here on.
    fn common(mut self, mut other: Ahead) -> u32 {
        let mut length = 0;
        while let (Some(one), Some(two)) = (self.run(), other.run()) {
            if (one.content, one.from) != (two.content, two.from) {
                break;
            }
            let step = one.length.min(two.length);
            length += step;
            self.skip(step);
            other.skip(step);
        }
        length
    }

    /// A hash of the next page; `None` where less is left.
    fn page(mut self, page: u32) -> Option<u64> {
        if self.left < page {
            return None;
        }
        self.left = page;
        let mut hash = 0;
        while let Some(run) = self.run() {
            let place = u64::from(run.from) << 32 | u64::from(run.length);
            hash = mix(hash ^ mix(run.content ^ mix(place)));
            self.skip(run.length);
        }
        Some(hash)
    }

    fn text(mut self) -> Text {
        let mut text = Text::default();
        while let Some(run) = self.run() {
            text.push(run.content, run.from, run.length);
            self.skip(run.length);
        }
        text
    }
}

#[derive(Clone, Debug, Default)]
struct Node {
    text: Text,
    pages: u32,
    parent: u32,
    /// By the first page.
    children: FxHashMap<u64, u32>,
    holders: u32,
    /// Number of the last search that came here.
    used: u64,
}

/// The prefixes that are kept.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    page: u32,
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    /// Leaves that nothing holds, by their last use.
    leaves: BTreeSet<(u64, u32)>,
    searches: u64,
    size: u32,
    held: u32,
}

impl Tree {
    /// Without prefixes, in pages of `page` tokens.
    pub fn new(page: u32) -> Tree {
        Tree {
            page,
            nodes: vec![Node::default()],
            vacant: Vec::new(),
            leaves: BTreeSet::new(),
            searches: 0,
            size: 0,
            held: 0,
        }
    }

    /// Pages that nothing holds.
    pub fn evictable(&self) -> u32 {
        self.size - self.held
    }

    /// The node of the longest kept beginning of `tokens` tokens of a text, and its pages.
    pub fn search(&mut self, text: &Text, tokens: u32) -> (u32, u32) {
        self.searches += 1;
        let mut ahead = Ahead::of(text, tokens);
        let (mut at, mut pages) = (ROOT, 0);
        while let Some(child) = self.child(at, ahead) {
            let common = self.common(child, ahead);
            self.touch(child);
            pages += common;
            if common < self.nodes[child as usize].pages {
                return (self.cut(child, common), pages);
            }
            ahead.skip(common * self.page);
            at = child;
        }
        (at, pages)
    }

    /// Pages of the longest kept beginning; uses nothing.
    pub fn peek(&self, text: &Text, tokens: u32) -> u32 {
        let mut ahead = Ahead::of(text, tokens);
        let (mut at, mut pages) = (ROOT, 0);
        while let Some(child) = self.child(at, ahead) {
            let common = self.common(child, ahead);
            pages += common;
            if common < self.nodes[child as usize].pages {
                break;
            }
            ahead.skip(common * self.page);
            at = child;
        }
        pages
    }

    /// Keeps the whole pages of `tokens` tokens. The node of their end, and pages that were kept
    /// before.
    pub fn insert(&mut self, text: &Text, tokens: u32) -> (u32, u32) {
        let whole = tokens / self.page;
        let (node, before) = self.search(text, whole * self.page);
        if before == whole {
            return (node, before);
        }
        self.searches += 1;
        let mut ahead = Ahead::of(text, whole * self.page);
        ahead.skip(before * self.page);
        let key = ahead.page(self.page).expect("a whole page is missing");
        let leaf = self.place(Node {
            text: ahead.text(),
            pages: whole - before,
            parent: node,
            used: self.searches,
            ..Node::default()
        });
        self.no_leaf(node);
        self.nodes[node as usize].children.insert(key, leaf);
        self.size += whole - before;
        self.leaves.insert((self.searches, leaf));
        (leaf, before)
    }

    /// A request holds a path.
    pub fn hold(&mut self, node: u32) {
        let mut at = node;
        while at != ROOT {
            self.no_leaf(at);
            let node = &mut self.nodes[at as usize];
            self.held += if node.holders == 0 { node.pages } else { 0 };
            node.holders += 1;
            at = node.parent;
        }
    }

    /// A request no longer holds a path.
    pub fn let_go(&mut self, node: u32) {
        let mut at = node;
        while at != ROOT {
            let node = &mut self.nodes[at as usize];
            node.holders -= 1;
            self.held -= if node.holders == 0 { node.pages } else { 0 };
            let parent = node.parent;
            self.maybe_leaf(at);
            at = parent;
        }
    }

    /// Forgets leaves until `pages` pages are free, or the rest is held. Returns how many are.
    pub fn evict(&mut self, pages: u32) -> u32 {
        let mut gone = 0;
        while gone < pages {
            let Some((_, leaf)) = self.leaves.pop_first() else { break };
            let node = std::mem::take(&mut self.nodes[leaf as usize]);
            let key = Ahead::of(&node.text, self.page).page(self.page).expect("a node has a page");
            self.nodes[node.parent as usize].children.remove(&key);
            self.vacant.push(leaf);
            self.size -= node.pages;
            gone += node.pages;
            self.maybe_leaf(node.parent);
        }
        gone
    }

    fn child(&self, at: u32, ahead: Ahead) -> Option<u32> {
        self.nodes[at as usize].children.get(&ahead.page(self.page)?).copied()
    }

    /// Pages that a node and a row have in common.
    fn common(&self, node: u32, ahead: Ahead) -> u32 {
        let node = &self.nodes[node as usize];
        ahead.common(Ahead::of(&node.text, node.pages * self.page)) / self.page
    }

    fn touch(&mut self, at: u32) {
        let node = &mut self.nodes[at as usize];
        let before = (node.used, at);
        node.used = self.searches;
        if self.leaves.remove(&before) {
            self.leaves.insert((self.searches, at));
        }
    }

    /// Cuts a node behind `pages` pages. The first part is new.
    fn cut(&mut self, at: u32, pages: u32) -> u32 {
        let page = self.page;
        let node = &mut self.nodes[at as usize];
        let rest = node.text.split_off(pages * page);
        let first = Node {
            text: std::mem::replace(&mut node.text, rest),
            pages,
            parent: node.parent,
            holders: node.holders,
            used: node.used,
            children: FxHashMap::default(),
        };
        node.pages -= pages;
        let key = |node: &Node| Ahead::of(&node.text, page).page(page).expect("a node has a page");
        let (above, upper, lower) = (first.parent, key(&first), key(node));
        let new = self.place(first);
        self.nodes[at as usize].parent = new;
        self.nodes[new as usize].children.insert(lower, at);
        self.nodes[above as usize].children.insert(upper, new);
        new
    }

    fn place(&mut self, node: Node) -> u32 {
        match self.vacant.pop() {
            Some(at) => {
                self.nodes[at as usize] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn no_leaf(&mut self, at: u32) {
        self.leaves.remove(&(self.nodes[at as usize].used, at));
    }

    fn maybe_leaf(&mut self, at: u32) {
        let node = &self.nodes[at as usize];
        if at != ROOT && node.children.is_empty() && node.holders == 0 {
            self.leaves.insert((node.used, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    /// A page: its tokens, each a content and a place in it.
    type Page = Vec<(u64, u32)>;

    /// The same rules without a tree, as in `tests/python/serve/test_reference_radix_cache.py`:
    /// each prefix has the number of its last use. `cuts` are prefixes where a node ends.
    #[derive(Default)]
    struct Table {
        used: HashMap<Vec<Page>, u64>,
        cuts: HashSet<Vec<Page>>,
        searches: u64,
    }

    impl Table {
        fn search(&mut self, pages: &[Page]) -> usize {
            self.searches += 1;
            let length =
                (0..pages.len()).take_while(|&at| self.used.contains_key(&pages[..=at])).count();
            let mut end = pages[..length].to_vec();
            let mut uses: Vec<Vec<Page>> = (1..=length).map(|at| pages[..at].to_vec()).collect();
            while !end.is_empty() && !self.cuts.contains(&end) {
                let rest = |each: &&Vec<Page>| each.split_last().is_some_and(|(_, up)| up == end);
                end = self.used.keys().find(rest).unwrap().clone();
                uses.push(end.clone());
            }
            self.used.extend(uses.into_iter().map(|each| (each, self.searches)));
            if length > 0 {
                self.cuts.insert(pages[..length].to_vec());
            }
            length
        }

        fn insert(&mut self, pages: &[Page]) -> usize {
            let before = self.search(pages);
            self.searches += u64::from(before < pages.len());
            for at in before..pages.len() {
                self.used.insert(pages[..=at].to_vec(), self.searches);
            }
            if !pages.is_empty() {
                self.cuts.insert(pages.to_vec());
            }
            before
        }

        fn evict(&mut self, slots: u32, held: &[Vec<Page>]) -> u32 {
            let mut gone = 0;
            while gone < slots {
                let inner: HashSet<&[Page]> =
                    self.used.keys().map(|each| &each[..each.len() - 1]).collect();
                let free = self.used.iter().filter(|(each, _)| {
                    !inner.contains(&each[..]) && !held.iter().any(|path| path.starts_with(each))
                });
                let Some((oldest, _)) = free.min_by_key(|(_, used)| **used) else { break };
                let mut oldest = oldest.clone();
                self.cuts.remove(&oldest);
                loop {
                    self.used.remove(&oldest);
                    gone += 1;
                    oldest.pop();
                    if oldest.is_empty() || self.cuts.contains(&oldest) {
                        break;
                    }
                }
            }
            gone
        }
    }

    fn tokens(pieces: &[Piece]) -> Page {
        pieces.iter().flat_map(|piece| (0..piece.length).map(|at| (piece.content, at))).collect()
    }

    fn pages(tokens: &Page, page: u32) -> Vec<Page> {
        tokens.chunks_exact(page as usize).map(<[_]>::to_vec).collect()
    }

    /// Something that happens: what, which earlier prompt it begins as, how far, more pieces, size.
    type Event = (u8, usize, usize, Vec<(u64, u32)>, u32);

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let more = prop::collection::vec((0u64..3, 1u32..6), 0..4);
        prop::collection::vec((0u8..10, any::<usize>(), any::<usize>(), more, 1u32..12), 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

        /// Searches, inserts, holders and evictions: lengths, sizes and what is kept.
        #[test]
        fn the_tree_is_the_table_of_its_prefixes(events in events(), page in 1u32..4) {
            let (mut tree, mut table) = (Tree::new(page), Table::default());
            let mut known: Vec<Vec<Piece>> = vec![vec![]];
            let mut held: Vec<(u32, Vec<Page>)> = Vec::new();
            for (what, like, far, more, size) in events {
                let mut pieces = known[like % known.len()].clone();
                pieces.truncate(far % (pieces.len() + 1));
                pieces.extend(more.iter().map(|&(content, length)| Piece { content, length }));
                let (text, row) = (Text::of(&pieces), tokens(&pieces));
                let count = row.len() as u32;
                let row = pages(&row, page);
                known.push(pieces);
                match what {
                    0..3 => prop_assert_eq!(tree.search(&text, count).1, table.search(&row) as u32),
                    3..6 => prop_assert_eq!(tree.insert(&text, count).1, table.insert(&row) as u32),
                    6 | 7 => {
                        let (node, found) = tree.search(&text, count);
                        prop_assert_eq!(found, table.search(&row) as u32);
                        tree.hold(node);
                        held.push((node, row[..found as usize].to_vec()));
                    }
                    8 if !held.is_empty() => tree.let_go(held.swap_remove(like % held.len()).0),
                    _ => {
                        let paths: Vec<_> = held.iter().map(|(_, path)| path.clone()).collect();
                        prop_assert_eq!(tree.evict(size), table.evict(size, &paths));
                    }
                }
                let paths: HashSet<&[Page]> =
                    held.iter().flat_map(|(_, path)| (1..=path.len()).map(|at| &path[..at])).collect();
                prop_assert_eq!(tree.size, table.used.len() as u32);
                prop_assert_eq!(tree.held, paths.len() as u32);
            }
            for pieces in known {
                let row = tokens(&pieces);
                let count = row.len() as u32;
                let row = pages(&row, page);
                let kept = (0..row.len()).take_while(|&at| table.used.contains_key(&row[..=at])).count();
                prop_assert_eq!(tree.peek(&Text::of(&pieces), count), kept as u32);
            }
        }
    }
}
