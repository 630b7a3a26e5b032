//! A trie of path patterns.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use smallvec::SmallVec;

use super::table::TableEntry;
use super::token::{IdentityHasher, Token, TokenHasher};
use crate::rules::pattern::path_segments;
use crate::rules::{PathPattern, Segment};

/// Up to this many nodes at a time need no allocation.
const NODES_INLINE: usize = 8;

/// The index of a node.
pub(super) type NodeId = u32;

/// All path patterns that rules are found by. Each slot has its own root.
#[derive(Debug)]
pub(super) struct PathTrie {
    nodes: Vec<TrieNode>,
    literals: HashMap<TrieEdge, NodeId, BuildHasherDefault<IdentityHasher>>,
    hasher: TokenHasher,
}

#[derive(Debug, Default)]
struct TrieNode {
    /// The child for `*` and `{name}`.
    any: Option<NodeId>,
    /// Whether there are children for literal text.
    has_literals: bool,
    /// What is found by patterns that end here, and by those that end here with `**`.
    closed: Option<TableEntry>,
    open: Option<TableEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct TrieEdge {
    from: NodeId,
    text: Token,
}

impl PathTrie {
    pub(super) fn new(hasher: &TokenHasher) -> Self {
        Self { nodes: Vec::new(), literals: HashMap::default(), hasher: hasher.for_kind("segments", 0) }
    }

    pub(super) fn add_node(&mut self) -> NodeId {
        self.nodes.push(TrieNode::default());
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    /// Adds a pattern and what is found by it. Patterns that differ only in names must have the same entry.
    pub(super) fn insert(&mut self, root: NodeId, pattern: &PathPattern, entry: TableEntry) {
        let mut at = root;
        for segment in pattern.segments() {
            at = match segment {
                Segment::Any(_) => match self.nodes[at as usize].any {
                    Some(next) => next,
                    None => {
                        let next = self.add_node();
                        self.nodes[at as usize].any = Some(next);
                        next
                    }
                },
                Segment::Literal(text) => {
                    let edge = TrieEdge { from: at, text: self.hasher.token(text.as_bytes()) };
                    match self.literals.get(&edge) {
                        Some(next) => *next,
                        None => {
                            let next = self.add_node();
                            self.literals.insert(edge, next);
                            self.nodes[at as usize].has_literals = true;
                            next
                        }
                    }
                }
            };
        }
        let node = &mut self.nodes[at as usize];
        *(if pattern.is_open_ended() { &mut node.open } else { &mut node.closed }) = Some(entry);
    }

    /// Calls `then` for everything that is found by a path. Takes one step for each segment and each node that the path
    /// has led to. The rules bound the number of nodes, and there are no steps beyond the longest pattern.
    pub(super) fn walk(&self, root: NodeId, path: &str, mut then: impl FnMut(TableEntry)) {
        let Some(segments) = path_segments(path) else { return };
        let mut at: SmallVec<[NodeId; NODES_INLINE]> = SmallVec::from_slice(&[root]);
        let mut next: SmallVec<[NodeId; NODES_INLINE]> = SmallVec::new();
        for segment in segments {
            let mut token = None;
            for id in at.drain(..) {
                let node = &self.nodes[id as usize];
                if let Some(open) = node.open {
                    then(open);
                }
                if node.has_literals {
                    let text = *token.get_or_insert_with(|| self.hasher.token(segment.as_bytes()));
                    next.extend(self.literals.get(&TrieEdge { from: id, text }).copied());
                }
                next.extend(node.any.filter(|_| !segment.is_empty()));
            }
            std::mem::swap(&mut at, &mut next);
            if at.is_empty() {
                return;
            }
        }
        for id in at {
            let node = &self.nodes[id as usize];
            node.closed.into_iter().chain(node.open).for_each(&mut then);
        }
    }
}

impl Hash for TrieEdge {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(u64::from(self.from));
        self.text.hash(state);
    }
}
