//! From the parser's events to a tree.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle};

use super::super::diagnostic::{Diagnostic, Report};
use super::super::{FileId, Span};
use super::{DEPTH_MAX, NodeKind, NODES_MAX, Node, Style, errors};

/// The tree of a file that the report holds, if it can be made out. All that is wrong with it is in the report then.
pub(crate) fn read(report: &mut Report, file: FileId) -> Option<Node> {
    let text = report.text(file);
    let builder = TreeBuilder {
        file,
        text: &text,
        report,
        open: Vec::new(),
        root: None,
        nodes: 0,
        anchors: HashMap::new(),
    };
    builder.build()
}

/// A list or a mapping whose end was not seen yet.
struct OpenNode {
    kind: OpenKind,
    start: Span,
    anchor: usize,
    size: NodeSize,
}

enum OpenKind {
    Seq(Vec<Node>),
    Map {
        fields: Vec<(Node, Node)>,
        key: Option<Node>,
        /// Where each key stands first.
        seen: HashMap<Arc<str>, Span>,
        /// What `<<` brings in.
        merged: Option<Node>,
    },
}

/// How much a node is, aliases in full.
#[derive(Clone, Copy)]
struct NodeSize {
    nodes: usize,
    depth: usize,
}

impl NodeSize {
    const ONE: Self = Self { nodes: 1, depth: 1 };
}

struct TreeBuilder<'t> {
    file: FileId,
    text: &'t str,
    report: &'t mut Report,
    open: Vec<OpenNode>,
    root: Option<Node>,
    /// All nodes so far, aliases in full.
    nodes: usize,
    anchors: HashMap<usize, (Node, NodeSize)>,
}

type FatalDiagnostic = Box<Diagnostic>;

/// The key whose value is a mapping to take fields from. Not part of YAML 1.2, and used all the same.
const MERGE_KEY: &str = "<<";

impl TreeBuilder<'_> {
    fn build(mut self) -> Option<Node> {
        match self.read_events() {
            Ok(root) => Some(root),
            Err(fatal) => {
                self.report.push(*fatal);
                None
            }
        }
    }

    fn read_events(&mut self) -> Result<Node, FatalDiagnostic> {
        let options = granit_parser::options! {
            emit_comments: false,
            // One more than is allowed, so that it is found here, where there is a better message.
            flow_nesting_limit: DEPTH_MAX + 1,
            block_nesting_limit: DEPTH_MAX + 1,
        };
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, at) = match event {
                Ok(event) => event,
                Err(error) => {
                    return Err(errors::syntax(self.span_of_marker(*error.marker()), &error).into());
                }
            };
            let span = self.span(&at);
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(errors::second_document(span).into());
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &at);
                    let node = scalar(&text, style, span);
                    self.add(node, NodeSize::ONE, anchor)?;
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &at);
                    self.begin(OpenKind::Seq(Vec::new()), span, anchor)?;
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &at);
                    let kind =
                        OpenKind::Map { fields: Vec::new(), key: None, seen: HashMap::new(), merged: None };
                    self.begin(kind, span, anchor)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end(span)?,
                Event::Alias(anchor) => self.alias(span, anchor)?,
                _ => {}
            }
        }
        match self.root.take() {
            Some(Node { kind: NodeKind::Null, span }) => Err(errors::empty_file(span).into()),
            Some(root) => Ok(root),
            None => Err(errors::empty_file(self.start_span()).into()),
        }
    }

    fn begin(&mut self, kind: OpenKind, start: Span, anchor: usize) -> Result<(), FatalDiagnostic> {
        if self.open.len() >= DEPTH_MAX {
            return Err(errors::too_deep(start).into());
        }
        self.count_nodes(1, start)?;
        self.open.push(OpenNode { kind, start, anchor, size: NodeSize::ONE });
        Ok(())
    }

    fn end(&mut self, end: Span) -> Result<(), FatalDiagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        let kind = match open.kind {
            OpenKind::Seq(items) => NodeKind::Seq(items.into()),
            OpenKind::Map { mut fields, mut seen, merged, .. } => {
                if let Some(merged) = merged {
                    self.merge(&mut fields, &mut seen, &merged);
                }
                NodeKind::Map(fields.into())
            }
        };
        let span = Span { end: self.last_byte(&open.start, end.end), ..open.start };
        self.attach(Node { span, kind }, open.size, open.anchor);
        Ok(())
    }

    /// A block ends where the next token begins, several lines later maybe: its own end is its last character.
    fn last_byte(&self, start: &Span, end: u32) -> u32 {
        let text = self.text.get(start.start as usize..end as usize).unwrap_or_default();
        let blanks = text.len() - text.trim_end().len();
        end.max(start.start) - to_u32(blanks)
    }

    fn alias(&mut self, span: Span, anchor: usize) -> Result<(), FatalDiagnostic> {
        let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
            return Err(errors::alias_of_itself(span).into());
        };
        if self.open.len() + size.depth > DEPTH_MAX + 1 {
            return Err(errors::too_deep(span).into());
        }
        self.count_nodes(size.nodes, span)?;
        self.attach(node, size, 0);
        Ok(())
    }

    fn add(&mut self, node: Node, size: NodeSize, anchor: usize) -> Result<(), FatalDiagnostic> {
        self.count_nodes(size.nodes, node.span)?;
        self.attach(node, size, anchor);
        Ok(())
    }

    fn count_nodes(&mut self, nodes: usize, at: Span) -> Result<(), FatalDiagnostic> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX {
            return Err(errors::too_many_nodes(at, self.anchors.len()).into());
        }
        Ok(())
    }

    /// Puts a node that is complete where it belongs.
    fn attach(&mut self, node: Node, size: NodeSize, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(parent) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        parent.size.nodes = parent.size.nodes.saturating_add(size.nodes);
        parent.size.depth = parent.size.depth.max(size.depth + 1);
        match &mut parent.kind {
            OpenKind::Seq(items) => items.push(node),
            OpenKind::Map { key: key @ None, .. } => *key = Some(node),
            OpenKind::Map { fields, key, seen, merged } => {
                let Some(key) = key.take() else { return };
                match check_key(&key, seen) {
                    Ok(()) if key.plain() == Some(MERGE_KEY) => *merged = Some(node),
                    Ok(()) => fields.push((key, node)),
                    Err(diagnostic) => self.report.push(*diagnostic),
                }
            }
        }
    }

    /// Adds the fields of a mapping, or of several, that are not there: a field's own value comes first, then that of the
    /// first that has it. All of them were counted where they were brought in.
    fn merge(&mut self, fields: &mut Vec<(Node, Node)>, seen: &mut HashMap<Arc<str>, Span>, merged: &Node) {
        let mappings = match &merged.kind {
            NodeKind::Seq(mappings) => mappings,
            _ => std::slice::from_ref(merged),
        };
        for mapping in mappings {
            let NodeKind::Map(brought) = &mapping.kind else {
                self.report.push(errors::bad_merge(mapping));
                continue;
            };
            fields.extend(brought.iter().filter(|(key, _)| check_key(key, seen).is_ok()).cloned());
        }
    }

    fn reject_tag(&mut self, tagged: bool, at: &granit_parser::Span) {
        if tagged {
            let span = at.tag_span().unwrap_or(*at);
            let span = self.span(&span);
            self.report.push(errors::tag_not_allowed(span));
        }
    }

    fn start_span(&self) -> Span {
        Span { file: self.file, start: 0, end: 0, line: 1, column: 1 }
    }

    fn span(&self, at: &granit_parser::Span) -> Span {
        let start = self.span_of_marker(at.start);
        let end = at.end.byte_offset().map_or(start.start, to_u32);
        Span { end: end.max(start.start), ..start }
    }

    fn span_of_marker(&self, at: granit_parser::Marker) -> Span {
        let start = to_u32(at.byte_offset().unwrap_or(self.text.len()).min(self.text.len()));
        Span { file: self.file, start, end: start, line: to_u32(at.line()), column: to_u32(at.col() + 1) }
    }
}

/// A key has to be text, and to stand once.
fn check_key(key: &Node, seen: &mut HashMap<Arc<str>, Span>) -> Result<(), FatalDiagnostic> {
    let NodeKind::Scalar { text, .. } = &key.kind else {
        return Err(errors::key_not_text(key).into());
    };
    if let Some(first) = seen.get(text) {
        return Err(errors::duplicate_key(key.span, *first, text).into());
    }
    seen.insert(text.clone(), key.span);
    Ok(())
}

fn scalar(text: &str, style: ScalarStyle, span: Span) -> Node {
    let kind = match (style, text) {
        (ScalarStyle::Plain, "" | "~" | "null" | "Null" | "NULL") => NodeKind::Null,
        (ScalarStyle::Plain, text) => NodeKind::Scalar { text: text.into(), style: Style::Plain },
        (_, text) => NodeKind::Scalar { text: text.into(), style: Style::Quoted },
    };
    Node { span, kind }
}

/// A file is far smaller than 4 GiB.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
