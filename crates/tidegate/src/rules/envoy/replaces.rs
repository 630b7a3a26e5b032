//! Limits that replace others by name.
//!
//! In envoyproxy/ratelimit several limits may have the same name, and a name that no limit has is allowed.
//! Rules have unique names, and replace others by these. So a limit's name stands for the rules of all limits
//! with that name.

use std::collections::HashMap;

use super::mapping::{self, Mapping};
use super::scalars;
use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::{FileRule, LimitNames, Spanned};
use crate::rules::yaml::{Node, Reader, printable};

/// Replacements of all rules of a domain at most. A rule counts each time that it is replaced.
const REPLACEMENTS_MAX: usize = 250_000;

/// The names in a limit's `replaces`.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Spanned<Box<str>>> {
    let items = mapping::list(reader, node, "name: per-user");
    items.iter().filter_map(|item| read_item(reader, item)).collect()
}

fn read_item(reader: &mut Reader<'_>, item: &Node) -> Option<Spanned<Box<str>>> {
    let hint = "write for example `- name: per-user`, the name of another limit";
    let mut fields = Mapping::ReplacesItem.fields(reader, item)?;
    let node = fields.value("name");
    Mapping::ReplacesItem.finish(reader, fields);
    let at = node.map_or(item.span, |node| node.span);
    let name = match node {
        Some(node) => scalars::text(reader, node)?,
        None => "",
    };
    if name.is_empty() {
        let message = "`replaces` has an item without a name";
        reader.push(Diagnostic::error("empty-replaces", at, message).hint(hint));
        return None;
    }
    Some(Spanned { value: name.into(), span: at })
}

/// Reports a limit that replaces itself.
pub(super) fn check_not_itself(reader: &mut Reader<'_>, limit_names: &LimitNames) {
    let self_references =
        limit_names.replaces.iter().filter(|replaced| Some(&replaced.value) == limit_names.name.as_ref());
    for replaced in self_references {
        let message = format!("the limit `{}` replaces itself", printable(&replaced.value));
        let hint = "`replaces` has the names of other limits; leave this one out";
        reader.push(Diagnostic::error("replaces-itself", replaced.span, message).hint(hint));
    }
}

/// Writes into each rule of a domain which rules it replaces. `limit_names` has one item for each rule.
pub(crate) fn resolve(reader: &mut Reader<'_>, rules: &mut [FileRule], limit_names: &[LimitNames]) {
    let mut by_name: HashMap<&str, Vec<Box<str>>> = HashMap::new();
    for (rule, limit_names) in rules.iter().zip(limit_names) {
        if let Some(name) = &limit_names.name {
            by_name.entry(name).or_default().push(rule.rule.name.clone());
        }
    }
    let mut replacements_left = REPLACEMENTS_MAX;
    for (rule, limit_names) in rules.iter_mut().zip(limit_names) {
        for replaced in &limit_names.replaces {
            let Some(names) = by_name.get(&*replaced.value) else {
                warn_unknown_name(reader, replaced);
                continue;
            };
            let Some(left) = replacements_left.checked_sub(names.len()) else {
                report_too_many(reader, replaced.span);
                return;
            };
            replacements_left = left;
            rule.rule.replaces.extend(names.iter().filter(|name| **name != rule.rule.name).cloned());
            rule.spans.replaces.resize(rule.rule.replaces.len(), replaced.span);
        }
    }
}

fn warn_unknown_name(reader: &mut Reader<'_>, replaced: &Spanned<Box<str>>) {
    let message = format!("no limit of this domain has the name `{}`", printable(&replaced.value));
    let hint = "it replaces nothing; give the intended limit this name, or remove the item";
    reader.push(Diagnostic::warning("replaces-nothing", replaced.span, message).hint(hint));
}

fn report_too_many(reader: &mut Reader<'_>, at: Span) {
    let message = format!("the limits of this domain have more than {REPLACEMENTS_MAX} replacements");
    let hint = "a name of several limits counts once for each of them and for each limit that replaces them; use more names";
    reader.push(Diagnostic::error("replaces-too-much", at, message).hint(hint));
}
