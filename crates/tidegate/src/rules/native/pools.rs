//! Pools: limits that elastic limits share.

use tidegate_core::Limit;
use tidegate_core::rules::Pool;

use super::super::diagnostic::Diagnostic;
use super::super::file::Spanned;
use super::super::reader::{Fields, Reader};
use super::super::yaml::{NodeKind, Node};
use super::limit;

/// The most pools of a file.
const POOLS_MAX: usize = 1_000;

/// Each with where its name stands.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Spanned<Pool>> {
    let pools = reader.mapping(node).unwrap_or_default();
    if pools.len() > POOLS_MAX {
        let message = format!("{} pools are too many", pools.len());
        let found = Diagnostic::error("too-many-pools", node.span, message);
        reader.push(found.hint(format!("{POOLS_MAX} are the most in a file")));
    }
    pools.iter().take(POOLS_MAX).filter_map(|(key, value)| pool(reader, key, value)).collect()
}

fn pool(reader: &mut Reader<'_>, key: &Node, value: &Node) -> Option<Spanned<Pool>> {
    let name = super::name(reader, key)?.into();
    Some(Spanned { value: Pool { name, limit: pool_limit(reader, value)? }, span: key.span })
}

/// A pool is a limit without the terms on which a rule applies one.
fn pool_limit(reader: &mut Reader<'_>, node: &Node) -> Option<Limit> {
    if let NodeKind::Map(_) = &node.kind {
        let mut fields = Fields::of(reader, node, "a pool")?;
        let limit = limit::read_long_form(reader, &mut fields);
        fields.finish(reader, "a pool");
        return limit;
    }
    limit::read_text_form(reader, node)
}
