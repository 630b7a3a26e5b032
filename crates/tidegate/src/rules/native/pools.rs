//! Reads pools: limits that elastic limits share.

use tidegate_core::Limit;
use tidegate_core::rules::Pool;

use super::limit;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::Spanned;
use crate::rules::yaml::{Fields, Node, NodeKind, Reader};

/// Pools of a file at most.
const POOLS_MAX: usize = 1_000;

/// The pools, each with the position of its name.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Spanned<Pool>> {
    let pools = reader.mapping(node).unwrap_or_default();
    if pools.len() > POOLS_MAX {
        let message = format!("{} pools are too many", pools.len());
        let diagnostic = Diagnostic::error("too-many-pools", node.span, message);
        reader.push(diagnostic.hint(format!("a file can have at most {POOLS_MAX}")));
    }
    pools.iter().take(POOLS_MAX).filter_map(|(key, value)| pool(reader, key, value)).collect()
}

fn pool(reader: &mut Reader<'_>, key: &Node, value: &Node) -> Option<Spanned<Pool>> {
    let name = super::name(reader, key)?.into();
    Some(Spanned { value: Pool { name, limit: pool_limit(reader, value)? }, span: key.span })
}

/// A pool is a limit without the settings that a rule adds.
fn pool_limit(reader: &mut Reader<'_>, node: &Node) -> Option<Limit> {
    if let NodeKind::Map(_) = &node.kind {
        let mut fields = Fields::of(reader, node, "a pool")?;
        let limit = limit::read_long_form(reader, &mut fields);
        fields.finish(reader, "a pool");
        return limit;
    }
    limit::read_text_form(reader, node)
}
