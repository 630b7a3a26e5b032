//! Tidegate's own rules files, as `docs/rules.md` says they are.
//!
//! Every reader takes what it can make out and notes what is wrong, so that one mistake does not hide the next.

mod action;
mod cost;
mod entries;
mod key;
mod limit;
mod descriptor_settings;
mod limits;
mod conditions;
mod style_warnings;
mod pattern;
mod pools;
mod rule;
mod store_settings;
mod limit_settings;
mod tiers;

pub(super) use descriptor_settings::DescriptorSettings;
pub use limits::LIMITS_PER_RULE_MAX;
pub(super) use store_settings::StoreSettings;

use tidegate_core::rules::{Apply, Lookup};

use super::diagnostic::Diagnostic;
use super::file::{RulesFile, Spanned};
use super::reader::{Fields, Reader};
use super::yaml::{Node, printable};

/// The longest name of a domain, a rule or a pool, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// What a file says, as far as it can be made out. All that is wrong with it is noted.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node) -> Option<RulesFile> {
    let mut fields = Fields::of(reader, root, "a rules file")?;
    let domain = fields.required(reader, "domain", "name what the rules belong to: `domain: api`");
    let domain = domain.and_then(|node| Some(Spanned { value: name(reader, node)?.into(), span: node.span }));
    let apply = fields.value("apply").and_then(|node| {
        let value =
            reader.keyword("way to apply rules", node, &[("all", Apply::All), ("first", Apply::First)])?;
        Some(Spanned { value, span: node.span })
    });
    let pools = fields.value("pools").map(|node| pools::read(reader, node)).unwrap_or_default();
    let rules = fields.required(reader, "rules", "add `rules:` and a list of them");
    let rules = rules.and_then(|node| reader.list(node)).unwrap_or_default();
    let rules = rules.iter().filter_map(|node| rule::read(reader, node)).collect();
    fields.finish(reader, "a rules file");
    Some(RulesFile { domain: domain?, apply, lookup: Lookup::Conditions, pools, rules })
}

/// The name of a domain, a rule or a pool.
fn name<'n>(reader: &mut Reader<'_>, node: &'n Node) -> Option<&'n str> {
    let text = reader.name(node)?;
    if text.len() > NAME_BYTES_MAX || text.trim() != text || text.chars().any(char::is_control) {
        let message = format!("`{}` is not a name", printable(text));
        let hint =
            format!("names are on one line, without spaces at the ends, and {NAME_BYTES_MAX} bytes at most");
        reader.push(Diagnostic::error("bad-name", node.span, message).hint(hint));
        return None;
    }
    Some(text)
}
