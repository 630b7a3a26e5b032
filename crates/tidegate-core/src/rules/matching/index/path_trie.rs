//! The shapes of paths, as a tree of segments.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use smallvec::SmallVec;

use super::table::TableEntry;
use super::token::{TokenHasher, Token, IdentityHasher};
use crate::rules::pattern::path_segments;
use crate::rules::{PathPattern, Segment};

/// Places in the tree that a path is at once, without memory of their own.
const NODES_INLINE: usize = 8;

/// A node.
pub(super) type NodeId = u32;

/// All shapes that rules are found by, those of different slots under different roots.
#[derive(Debug)]
pub(super) struct PathTrie {
    nodes: Vec<TrieNode>,
    literals: HashMap<TrieEdge, NodeId, BuildHasherDefault<IdentityHasher>>,
    hasher: TokenHasher,
}

#[derive(Debug, Default)]
struct TrieNode {
    /// Where `*` and `{name}` lead.
    any: Option<NodeId>,
    /// Whether any text leads anywhere.
    has_literals: bool,
    /// Shapes that end here, and that end here with `**`.
    closed: Option<TableEntry>,
    open: Option<TableEntry>,
}

#[derive(Debug, PartialEq, Eq)]
struct TrieEdge {
    from: NodeId,
    text: Token,
}

impl PathTrie {
    pub(super) fn new(minter: &TokenHasher) -> Self {
        Self { nodes: Vec::new(), literals: HashMap::default(), hasher: minter.for_kind("segments", 0) }
    }

    pub(super) fn add_root(&mut self) -> NodeId {
        self.nodes.push(TrieNode::default());
        NodeId::try_from(self.nodes.len() - 1).unwrap_or(NodeId::MAX)
    }

    /// Adds a shape and what is found by it; every pattern of the shape has to lead to the same.
    pub(super) fn insert(&mut self, root: NodeId, pattern: &PathPattern, found: TableEntry) {
        let mut at = root;
        for segment in pattern.segments() {
            at = match segment {
                Segment::Any(_) => match self.nodes[at as usize].any {
                    Some(next) => next,
                    None => {
                        let next = self.add_root();
                        self.nodes[at as usize].any = Some(next);
                        next
                    }
                },
                Segment::Literal(text) => {
                    let edge = TrieEdge { from: at, text: self.hasher.token(text.as_bytes()) };
                    match self.literals.get(&edge) {
                        Some(next) => *next,
                        None => {
                            let next = self.add_root();
                            self.literals.insert(edge, next);
                            self.nodes[at as usize].has_literals = true;
                            next
                        }
                    }
                }
            };
        }
        let node = &mut self.nodes[at as usize];
        *(if pattern.is_open_ended() { &mut node.open } else { &mut node.closed }) = Some(found);
    }

    /// All that is found by a path. Takes a step for each segment and each node that it has led to, of which there
    /// are no more than the rules have made, and none beyond the longest shape.
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
