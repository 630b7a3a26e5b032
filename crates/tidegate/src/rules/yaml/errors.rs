//! Errors in the YAML itself, before its meaning matters.

use granit_parser::{ErrorKind, ScanError};

use super::unclosed::UnclosedBracket;
use super::{DEPTH_MAX, NODES_MAX, Node};
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;

pub(super) fn syntax(at: Span, error: &ScanError) -> Diagnostic {
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep(at);
    }
    let diagnostic = Diagnostic::error("yaml-syntax", at, format!("invalid YAML: {}", parser_message(error)));
    match error.kind() {
        ErrorKind::UnknownAnchor => {
            diagnostic.hint("an anchor (`&name`) must be written before its aliases (`*name`)")
        }
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation | ErrorKind::TabNotAllowed => {
            diagnostic.hint("indent with spaces")
        }
        ErrorKind::UnclosedFlowCollection { open: '{' } => diagnostic.hint("close it with `}`"),
        ErrorKind::UnclosedFlowCollection { .. } => diagnostic.hint("close it with `]`"),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => diagnostic
            .hint("inside braces or brackets, put quotes around text with `{`, `}`, `[`, `]` or `,` in it"),
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => diagnostic
            .hint("start items of one list or mapping in the same column; compare with the lines above"),
        ErrorKind::MismatchedFlowCollectionEnd { open: '{', .. } => diagnostic.hint("close it with `}`"),
        ErrorKind::MismatchedFlowCollectionEnd { .. } => diagnostic.hint("close it with `]`"),
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            diagnostic.hint("close the quotes")
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            diagnostic.hint("quote text that contains `: `")
        }
        _ => diagnostic,
    }
}

/// A bracket that is never closed, which the parser noticed only at `noticed`.
pub(super) fn unclosed(bracket: UnclosedBracket, noticed: Span) -> Diagnostic {
    let UnclosedBracket { span, open, close } = bracket;
    let diagnostic =
        Diagnostic::error("yaml-syntax", span, format!("invalid YAML: unclosed bracket '{open}'"));
    diagnostic.related(noticed, "noticed here").hint(format!("close it with `{close}`"))
}

/// The parser's message without its position, which the report shows anyway.
fn parser_message(error: &ScanError) -> String {
    let info = error.info();
    if info.is_empty() { format!("{:?}", error.kind()) } else { info }
}

pub(super) fn empty_file(at: Span) -> Diagnostic {
    Diagnostic::error("empty-file", at, "the file is empty")
        .hint("start it with `domain: NAME`, or remove the file")
}

pub(super) fn second_document(at: Span) -> Diagnostic {
    Diagnostic::error("several-documents", at, "a second document begins here")
        .hint("write one document per file: move this one to its own file")
}

pub(super) fn too_deep(at: Span) -> Diagnostic {
    Diagnostic::error("too-deep", at, format!("lists and mappings are nested more than {DEPTH_MAX} deep"))
        .hint("rules need far fewer levels; is this the right file?")
}

pub(super) fn too_many_nodes(at: Span, anchors: usize) -> Diagnostic {
    let diagnostic =
        Diagnostic::error("too-many-values", at, format!("the file has more than {NODES_MAX} values"));
    if anchors > 0 {
        diagnostic.hint("each alias (`*name`) counts as a full copy; use fewer aliases, or several files")
    } else {
        diagnostic.hint("split it into several files of the same domain")
    }
}

pub(super) fn alias_of_itself(at: Span) -> Diagnostic {
    Diagnostic::error("yaml-alias", at, "an alias is inside the value of its own anchor")
        .hint("use the alias after the end of that value")
}

pub(super) fn tag_not_allowed(at: Span) -> Diagnostic {
    Diagnostic::error("yaml-tag", at, "tags are not supported")
        .hint("remove it; quote a number to make it text")
}

pub(super) fn bad_merge(node: &Node) -> Diagnostic {
    let message = format!("`<<` needs a mapping, found {}", node.kind_name());
    Diagnostic::error("yaml-merge-key", node.span, message)
        .hint("give a mapping an anchor (`&name`) and write `<<: *name`, or `<<: [*one, *other]`")
}

pub(super) fn duplicate_key(at: Span, first: Span, name: &str) -> Diagnostic {
    Diagnostic::error("duplicate-field", at, format!("duplicate field `{}`", super::printable(name)))
        .label("again here")
        .related(first, "first here")
        .hint("remove one of them")
}

pub(super) fn key_not_text(key: &Node) -> Diagnostic {
    let message = format!("expected a field name, found {}", key.kind_name());
    Diagnostic::error("field-not-text", key.span, message).hint("a name is text, for example `domain`")
}
