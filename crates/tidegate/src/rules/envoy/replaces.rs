//! Limits that replace others by name.
//!
//! There, several limits may have one name, and nobody minds a name that no limit has. Rules here have names of their
//! own, each once, and replace others by these: so a limit's name stands for the rules of all limits that have it.

use std::collections::HashMap;

use super::super::Span;
use super::super::diagnostic::Diagnostic;
use super::super::file::{FileRule, Spanned};
use super::super::reader::Reader;
use super::super::yaml::{Node, printable};
use super::mapping::{self, Mapping};
use super::scalars;

/// What `replaces` calls a rule, and which ones it replaces.
#[derive(Default)]
pub(super) struct LimitNames {
    pub name: Option<Box<str>>,
    pub replaces: Vec<Spanned<Box<str>>>,
}

/// The most rules that all rules of a file together replace, each as often as it is replaced.
const REPLACEMENTS_MAX: usize = 250_000;

/// The names of a limit's `replaces`.
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

/// No limit replaces itself.
pub(super) fn check_not_itself(reader: &mut Reader<'_>, named: &LimitNames) {
    let own = named.replaces.iter().filter(|replaced| Some(&replaced.value) == named.name.as_ref());
    for replaced in own {
        let message = format!("the limit `{}` replaces itself", printable(&replaced.value));
        let hint = "`replaces` has the names of other limits; leave this one out";
        reader.push(Diagnostic::error("replaces-itself", replaced.span, message).hint(hint));
    }
}

/// Writes into each rule which rules it replaces. `named` has one item for each rule.
pub(super) fn resolve(reader: &mut Reader<'_>, rules: &mut [FileRule], named: &[LimitNames]) {
    let mut by_name: HashMap<&str, Vec<Box<str>>> = HashMap::new();
    for (rule, named) in rules.iter().zip(named) {
        if let Some(name) = &named.name {
            by_name.entry(name).or_default().push(rule.rule.name.clone());
        }
    }
    let mut room = REPLACEMENTS_MAX;
    for (rule, named) in rules.iter_mut().zip(named) {
        for replaced in &named.replaces {
            let Some(names) = by_name.get(&*replaced.value) else {
                warn_unknown_name(reader, replaced);
                continue;
            };
            let Some(left) = room.checked_sub(names.len()) else {
                report_too_many(reader, replaced.span);
                return;
            };
            room = left;
            rule.rule.replaces.extend(names.iter().filter(|name| **name != rule.rule.name).cloned());
            rule.spans.replaces.resize(rule.rule.replaces.len(), replaced.span);
        }
    }
}

fn warn_unknown_name(reader: &mut Reader<'_>, replaced: &Spanned<Box<str>>) {
    let message = format!("no limit of this file has the name `{}`", printable(&replaced.value));
    let hint = "it replaces nothing; give the limit that is meant this name, or leave the item out";
    reader.push(Diagnostic::warning("replaces-nothing", replaced.span, message).hint(hint));
}

fn report_too_many(reader: &mut Reader<'_>, at: Span) {
    let message = format!("the limits of this file replace more than {REPLACEMENTS_MAX} others");
    let hint =
        "a name that many limits have counts for each of them and each that replaces them; use several names";
    reader.push(Diagnostic::error("replaces-too-much", at, message).hint(hint));
}
