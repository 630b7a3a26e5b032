//! Builds a tree from the events of the parser.

use std::collections::HashMap;
use std::sync::Arc;

use granit_parser::{Event, Parser, ScalarStyle};

use super::unclosed::find_unclosed_bracket;
use super::{DEPTH_MAX, NODES_MAX, Node, NodeKind, Style, errors};
use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::{FileId, Span};

/// The tree of a file in the report, if it can be parsed. Errors are added to the report.
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
        /// The first position of each key.
        key_spans: HashMap<Arc<str>, Span>,
        /// The value of `<<`.
        merged: Option<Node>,
    },
}

/// The size of a node, where each alias counts as a full copy.
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
    /// All nodes so far, where each alias counts as a full copy.
    nodes: usize,
    anchors: HashMap<usize, (Node, NodeSize)>,
}

type FatalDiagnostic = Box<Diagnostic>;

/// The key whose value is a mapping to take fields from. It is not part of YAML 1.2, but widely used.
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
            // One more than is allowed, so that the better message below is used.
            flow_nesting_limit: DEPTH_MAX + 1,
            block_nesting_limit: DEPTH_MAX + 1,
        };
        let mut documents = 0;
        for event in Parser::new_from_str_with_options(self.text, options) {
            let (event, position) = match event {
                Ok(event) => event,
                Err(error) => return Err(self.syntax_error(&error).into()),
            };
            let span = self.span(&position);
            match event {
                Event::DocumentStart(..) => {
                    documents += 1;
                    if documents > 1 {
                        return Err(errors::second_document(span).into());
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &position);
                    let node = scalar(&text, style, span);
                    self.add(node, NodeSize::ONE, anchor)?;
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &position);
                    self.begin(OpenKind::Seq(Vec::new()), span, anchor)?;
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.reject_tag(tag.is_some(), &position);
                    let kind = OpenKind::Map {
                        fields: Vec::new(),
                        key: None,
                        key_spans: HashMap::new(),
                        merged: None,
                    };
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
            OpenKind::Map { mut fields, mut key_spans, merged, .. } => {
                if let Some(merged) = merged {
                    self.merge(&mut fields, &mut key_spans, &merged);
                }
                NodeKind::Map(fields.into())
            }
        };
        let span = Span { end: self.last_byte(&open.start, end.end), ..open.start };
        self.attach(Node { span, kind }, open.size, open.anchor);
        Ok(())
    }

    /// The parser ends a block where the next token starts, maybe several lines later. This is its last
    /// character.
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

    fn count_nodes(&mut self, nodes: usize, position: Span) -> Result<(), FatalDiagnostic> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > NODES_MAX {
            return Err(errors::too_many_nodes(position, self.anchors.len()).into());
        }
        Ok(())
    }

    /// Adds a complete node to its parent.
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
            OpenKind::Map { fields, key, key_spans, merged } => {
                let Some(key) = key.take() else { return };
                match check_key(&key, key_spans) {
                    Ok(()) if key.plain() == Some(MERGE_KEY) => *merged = Some(node),
                    Ok(()) => fields.push((key, node)),
                    Err(diagnostic) => self.report.push(*diagnostic),
                }
            }
        }
    }

    /// Adds the missing fields of one mapping, or of several. A field's own value has precedence, then that
    /// of the first mapping. All of them were counted when they were merged.
    fn merge(
        &mut self,
        fields: &mut Vec<(Node, Node)>,
        key_spans: &mut HashMap<Arc<str>, Span>,
        merged: &Node,
    ) {
        let mappings = match &merged.kind {
            NodeKind::Seq(mappings) => mappings,
            _ => std::slice::from_ref(merged),
        };
        for mapping in mappings {
            let NodeKind::Map(merged_fields) = &mapping.kind else {
                self.report.push(errors::bad_merge(mapping));
                continue;
            };
            fields.extend(merged_fields.iter().filter(|(key, _)| check_key(key, key_spans).is_ok()).cloned());
        }
    }

    fn reject_tag(&mut self, tagged: bool, position: &granit_parser::Span) {
        if tagged {
            let span = position.tag_span().unwrap_or(*position);
            let span = self.span(&span);
            self.report.push(errors::tag_not_allowed(span));
        }
    }

    fn start_span(&self) -> Span {
        Span { file: self.file, start: 0, end: 0, line: 1, column: 1 }
    }

    fn span(&self, position: &granit_parser::Span) -> Span {
        let start = self.span_of_marker(position.start);
        let end = position.end.byte_offset().map_or(start.start, to_u32);
        Span { end: end.max(start.start), ..start }
    }

    fn syntax_error(&self, error: &granit_parser::ScanError) -> Diagnostic {
        let at = self.span_of_marker(*error.marker());
        match find_unclosed_bracket(self.text, self.file, at) {
            Some(open) => errors::unclosed(open, at),
            None => errors::syntax(at, error),
        }
    }

    fn span_of_marker(&self, position: granit_parser::Marker) -> Span {
        let start = to_u32(position.byte_offset().unwrap_or(self.text.len()).min(self.text.len()));
        Span {
            file: self.file,
            start,
            end: start,
            line: to_u32(position.line()),
            column: to_u32(position.col() + 1),
        }
    }
}

/// A key must be text, and must not occur twice.
fn check_key(key: &Node, key_spans: &mut HashMap<Arc<str>, Span>) -> Result<(), FatalDiagnostic> {
    let NodeKind::Scalar { text, .. } = &key.kind else {
        return Err(errors::key_not_text(key).into());
    };
    if let Some(first) = key_spans.get(text) {
        return Err(errors::duplicate_key(key.span, *first, text).into());
    }
    key_spans.insert(text.clone(), key.span);
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
