//! What is wrong with a file before anybody asks what it says.

use granit_parser::{ErrorKind, ScanError};

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::{DEPTH_MAX, NODES_MAX, Node};

pub(super) fn syntax(at: Span, error: &ScanError) -> Diagnostic {
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep(at);
    }
    let found = Diagnostic::error("yaml-syntax", at, format!("this is not YAML: {}", parser_message(error)));
    match error.kind() {
        ErrorKind::UnknownAnchor => {
            found.hint("an anchor (`&name`) has to stand before its aliases (`*name`)")
        }
        ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation | ErrorKind::TabNotAllowed => {
            found.hint("indent with spaces")
        }
        ErrorKind::UnclosedFlowCollection { open: '{' } => found.hint("close it with `}`"),
        ErrorKind::UnclosedFlowCollection { .. } => found.hint("close it with `]`"),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::ExpectedFlowSequenceSeparator => found
            .hint("between braces or brackets, text that has `{`, `}`, `[`, `]` or `,` in it needs quotes"),
        ErrorKind::InvalidIndentation
        | ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry => {
            found.hint("what belongs together begins in the same column; compare with the lines above")
        }
        ErrorKind::MismatchedFlowCollectionEnd { open: '{', .. } => found.hint("close it with `}`"),
        ErrorKind::MismatchedFlowCollectionEnd { .. } => found.hint("close it with `]`"),
        ErrorKind::UnclosedQuotedScalar | ErrorKind::InvalidQuotedScalarIndent => {
            found.hint("close the quotes")
        }
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            found.hint("text that has `: ` in it needs quotes")
        }
        _ => found,
    }
}

/// The parser's own words, without the position, which is shown anyway.
fn parser_message(error: &ScanError) -> String {
    let said = error.info();
    if said.is_empty() { format!("{:?}", error.kind()) } else { said }
}

pub(super) fn empty_file(at: Span) -> Diagnostic {
    Diagnostic::error("empty-file", at, "the file is empty")
        .hint("it begins with `domain: NAME`; remove the file if it is not needed")
}

pub(super) fn second_document(at: Span) -> Diagnostic {
    Diagnostic::error("several-documents", at, "a second document begins here")
        .hint("write one document per file: move this one to a file of its own")
}

pub(super) fn too_deep(at: Span) -> Diagnostic {
    Diagnostic::error("too-deep", at, format!("lists and mappings are nested more than {DEPTH_MAX} deep"))
        .hint("rules need far less; is this the right file?")
}

pub(super) fn too_many_nodes(at: Span, anchors: usize) -> Diagnostic {
    let found =
        Diagnostic::error("too-many-values", at, format!("the file has more than {NODES_MAX} values"));
    if anchors > 0 {
        found.hint("what aliases (`*name`) stand for counts each time; use fewer of them, or several files")
    } else {
        found.hint("split it into several files of the same domain")
    }
}

pub(super) fn alias_of_itself(at: Span) -> Diagnostic {
    Diagnostic::error("yaml-alias", at, "an alias stands inside of what it stands for")
        .hint("use the anchor after the value that it names has ended")
}

pub(super) fn tag_not_allowed(at: Span) -> Diagnostic {
    Diagnostic::error("yaml-tag", at, "tags are not read").hint("leave it out; quotes make a number text")
}

pub(super) fn bad_merge(node: &Node) -> Diagnostic {
    let message = format!("`<<` takes the fields of a mapping, and this is {}", node.kind_name());
    Diagnostic::error("yaml-merge-key", node.span, message)
        .hint("give a mapping an anchor (`&name`) and write `<<: *name`, or `<<: [*one, *other]`")
}

pub(super) fn duplicate_key(at: Span, first: Span, name: &str) -> Diagnostic {
    Diagnostic::error("duplicate-field", at, format!("field `{}` stands twice", super::printable(name)))
        .label("again here")
        .related(first, "first here")
        .hint("leave one of them out")
}

pub(super) fn key_not_text(key: &Node) -> Diagnostic {
    let found = format!("expected the name of a field, found {}", key.kind_name());
    Diagnostic::error("field-not-text", key.span, found).hint("a name is text, for example `domain`")
}
