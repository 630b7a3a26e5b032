//! Tidegate's own rules files, as described in `docs/rules.md`.
//!
//! Every reader takes what it can read and reports what is wrong, so one mistake does not hide the next.

mod action;
mod conditions;
mod cost;
mod descriptor_settings;
mod entries;
mod key;
mod limit;
mod limit_settings;
mod limits;
mod mode;
mod pattern;
mod pools;
mod rule;
mod spelling;
mod store_settings;
mod style_warnings;
mod tiers;

use tidegate_core::algorithm::CountDenied;
use tidegate_core::rules::{Apply, Lookup};

use super::diagnostic::Diagnostic;
use super::file::{RulesFile, Spanned};
use super::yaml::{Fields, Node, Reader, printable};

pub(super) use descriptor_settings::DescriptorSettings;
pub use limits::LIMITS_PER_RULE_MAX;
pub(super) use store_settings::StoreSettings;

/// The name of a domain, a rule or a pool at most, in bytes.
pub const NAME_BYTES_MAX: usize = 128;

/// The content of a file, as far as it can be read. Errors are added to the report.
pub(super) fn read(reader: &mut Reader<'_>, root: &Node) -> Option<RulesFile> {
    let mut fields =
        Fields::of_hint(reader, root, "a rules file", "start the file with `domain: NAME` and `rules:`")?;
    let domain = fields.required(reader, "domain", "name the domain of the rules: `domain: api`");
    let domain = domain.and_then(|node| Some(Spanned { value: name(reader, node)?.into(), span: node.span }));
    let apply = fields.value("apply").and_then(|node| {
        let value =
            reader.keyword("way to apply rules", node, &[("all", Apply::All), ("first", Apply::First)])?;
        Some(Spanned { value, span: node.span })
    });
    let pools = fields.value("pools").map(|node| pools::read(reader, node)).unwrap_or_default();
    let rules = fields.required(reader, "rules", "add `rules:` and a list of rules");
    let rules = rules.and_then(|node| reader.list(node)).unwrap_or_default();
    let rules = rules.iter().filter_map(|node| rule::read(reader, node)).collect();
    fields.finish(reader, "a rules file");
    Some(RulesFile {
        domain: domain?,
        apply,
        lookup: Lookup::Conditions,
        count_denied: CountDenied::Never,
        pools,
        rules,
        limit_names: Vec::new(),
    })
}

/// The name of a domain, a rule or a pool.
fn name<'n>(reader: &mut Reader<'_>, node: &'n Node) -> Option<&'n str> {
    let text = reader.name(node)?;
    if text.len() > NAME_BYTES_MAX || text.trim() != text || text.chars().any(char::is_control) {
        let message = format!("`{}` is not a name", printable(text));
        let hint =
            format!("a name is one line without spaces at the ends, with at most {NAME_BYTES_MAX} bytes");
        reader.push(Diagnostic::error("bad-name", node.span, message).hint(hint));
        return None;
    }
    Some(text)
}
