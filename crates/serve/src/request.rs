//! A request, and how far an engine is with it.

use crate::content::{Chain, Piece, output_of};
use crate::radix::{ROOT, Text};

/// A request as it arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Smaller is more urgent, where the scheduler looks at it.
    pub priority: i64,
    /// Pieces of the prompt.
    pub prompt: Vec<Piece>,
    /// Tokens that are generated.
    pub output: u32,
}

impl Request {
    /// Tokens of the prompt.
    pub fn prompt_tokens(&self) -> u32 {
        self.prompt.iter().map(|piece| piece.length).sum()
    }
}

/// Pages of a request in an engine whose cache is a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    /// The prompt, with a cache of prefixes.
    pub text: Text,
    /// The node that it holds.
    pub node: u32,
    /// Tokens on the path of that node.
    pub kept: u32,
    /// Pages that the tree does not have.
    pub own: u32,
}

impl Slots {
    /// It holds nothing of the tree. What it held.
    pub fn leave(&mut self) -> u32 {
        self.kept = 0;
        std::mem::replace(&mut self.node, ROOT)
    }
}

/// A request in an engine.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Index among all requests.
    pub request: u32,
    pub priority: i64,
    /// Place in the order of arrival.
    pub arrived: u64,
    pub prompt: u32,
    /// Tokens that it generates in all.
    pub output: u32,
    /// Tokens that it has generated.
    pub produced: u32,
    /// Tokens whose keys and values are in the cache once all batches have run.
    pub computed: u32,
    /// Tokens that batches in flight generate.
    pub expected: u32,
    /// Tokens that are drafted for the next step.
    pub drafts: u32,
    pub blocks: Vec<u32>,
    /// Blocks of it that the cache of prefixes knows.
    pub known: u32,
    /// Hashes of its full blocks, with a cache of prefixes.
    pub chain: Option<Chain>,
    /// Tokens of the prompt whose keys and values came from another engine.
    pub brought: u32,
    /// How often it lost its blocks.
    pub starts: u32,
    /// Whether it runs.
    pub runs: bool,
    /// Whether its prompt is computed, or will be by the steps in flight.
    pub generates: bool,
    /// Steps in flight that it is in.
    pub flying: u32,
    pub slots: Slots,
}

impl State {
    /// A request of at most `longest` tokens, with hashes of its blocks where these have `block`
    /// tokens.
    pub fn new(
        request: u32,
        arrived: u64,
        of: &Request,
        block: Option<u32>,
        longest: u32,
    ) -> State {
        let prompt = of.prompt_tokens();
        State {
            request,
            priority: of.priority,
            arrived,
            prompt,
            output: of.output.min(longest.saturating_sub(prompt)).max(1),
            produced: 0,
            computed: 0,
            expected: 0,
            drafts: 0,
            blocks: Vec::new(),
            known: 0,
            chain: block.map(|block| Chain::of(block, &of.prompt)),
            brought: 0,
            starts: 0,
            runs: false,
            generates: false,
            flying: 0,
            slots: Slots::default(),
        }
    }

    /// Tokens that are known.
    pub fn tokens(&self) -> u32 {
        self.prompt + self.produced
    }

    /// Generates `count` more tokens.
    pub fn produce(&mut self, count: u32) {
        if let Some(chain) = &mut self.chain {
            chain.push(output_of(self.request), self.produced, count);
        }
        self.produced += count;
    }

    /// Whether it has generated all its tokens.
    pub fn is_done(&self) -> bool {
        self.produced >= self.output
    }

    /// Hash of one of its full blocks.
    pub fn hash(&self, at: u32) -> Option<u64> {
        self.chain.as_ref().and_then(|chain| chain.hashes().get(at as usize).copied())
    }
}
