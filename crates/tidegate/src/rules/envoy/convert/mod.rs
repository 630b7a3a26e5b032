//! Converts a file for envoyproxy/ratelimit to native rules that give the same answers.
//!
//! envoyproxy/ratelimit walks down the levels of a descriptor and never backtracks. Native rules are a list,
//! and the first that matches applies. So each level is written in lookup order, and a descriptor's own rule
//! before those below it. A later rule of the same level could match a request that found nothing on the way
//! down. In that case a rule without limits precedes it and ends the search.

mod names;
mod rule;
mod tree;

use std::fmt::Write as _;

use tidegate_core::rules::{Domain, Lookup, Pattern};
use tidegate_core::text::YamlText;

use super::rule_name;
use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::yaml::printable;
use crate::rules::{FileId, LoadOptions, LoadedRules, load};
use names::RuleNames;
use tree::DescriptorNode;

/// A file for envoyproxy/ratelimit, converted to native rules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertedRules {
    /// The native file.
    pub text: String,
    /// The warnings about the original file, if any.
    pub report: Report,
}

/// Converts a file for envoyproxy/ratelimit, which messages call `name`, to native rules. The rules give the
/// same answers, but metrics do not distinguish the values of entries.
///
/// ```
/// let text = "
/// domain: edge
/// descriptors:
///   - key: remote_address
///     rate_limit: { unit: minute, requests_per_unit: 100 }
/// ";
/// let converted = tidegate::rules::envoy::convert("edge.yaml", text)?;
/// assert!(converted.text.contains("
///   - name: remote_address
///     entries: [{ remote_address: }]
///     key: [entry.1]
///     limit: { algorithm: fixed_window, limit: 100, per: 1m, count_denied: true }
/// "));
/// # Ok::<(), tidegate::rules::Report>(())
/// ```
pub fn convert(name: &str, text: &str) -> Result<ConvertedRules, Report> {
    convert_with(name, text, LoadOptions::default())
}

/// Like [`convert`], for a file that is loaded with options.
pub fn convert_with(name: &str, text: &str, options: LoadOptions) -> Result<ConvertedRules, Report> {
    let LoadedRules { domains, mut report } = load::parse_with(name, text, options)?;
    let file = FileId::default();
    let Some(domain) = domains.first().filter(|domain| domain.lookup == Lookup::DescriptorTree) else {
        let diagnostic =
            Diagnostic::file_error("not-an-envoy-file", file, "this is not a file for envoyproxy/ratelimit");
        report.push(diagnostic.hint("such files have `descriptors`; native rules need no conversion"));
        return Err(report);
    };
    let keys = domain.rules.iter().flat_map(|rule| rule.entries.iter().flat_map(|entries| &entries.patterns));
    let mut wildcard_keys = keys.filter(|(key, pattern)| *pattern == Pattern::Any && key.ends_with('*'));
    if let Some((key, _)) = wildcard_keys.next() {
        let message =
            format!("this cannot be written as native rules: the key `{}` ends in `*`", printable(key));
        let diagnostic = Diagnostic::file_error("not-convertible", file, message);
        report.push(diagnostic.hint("write one descriptor for each key, or use the file as it is"));
        return Err(report);
    }
    let text = write_domain(domain);
    // Native files have other bounds, on names and keys for example.
    match load::parse(name, &text) {
        Ok(_) => Ok(ConvertedRules { text, report }),
        Err(errors) => {
            let (message, hint) = match errors.diagnostics().first() {
                Some(first) => (first.message.as_str(), first.hint.clone()),
                None => ("the rules are refused", None),
            };
            let message = format!("this cannot be written as native rules: {message}");
            report.push(Diagnostic { hint, ..Diagnostic::file_error("not-convertible", file, message) });
            Err(report)
        }
    }
}

const HEADER_COMMENT: &str = "\
# Converted from a file for envoyproxy/ratelimit. The first rule that matches a descriptor applies. The rules are in the order
# of the lookup in envoyproxy/ratelimit. Rules whose names end with `/...` end the lookup where it ends there.
# Limits with `count_denied: true` count every hit, also beyond the limit and of requests that another limit denies.
";

fn write_domain(domain: &Domain) -> String {
    let mut writer = NativeWriter::default();
    writer.write_level(&[], &tree::from_rules(&domain.rules));
    let rules = match &*writer.text {
        "" => "rules: []\n".to_owned(),
        rules => format!("rules:\n{rules}"),
    };
    format!("{HEADER_COMMENT}domain: {}\napply: first\n{rules}", YamlText(&domain.name))
}

#[derive(Default)]
struct NativeWriter {
    text: String,
    names: RuleNames,
}

type EntryPath<'a> = [(&'a str, &'a Pattern)];

impl NativeWriter {
    fn write_level<'a>(&mut self, path: &EntryPath<'a>, nodes: &[DescriptorNode<'a>]) {
        for (node, later) in tree::with_later_siblings(nodes) {
            let path = [path, &[(node.key, node.pattern)]].concat();
            if let Some(rule) = node.rule {
                rule::write_rule(&mut self.text, &mut self.names, rule);
            }
            self.write_level(&path, &node.children);
            if later.iter().any(|later| node.falls_through_to(later)) {
                self.write_end_of_search(&path);
            }
        }
    }

    fn write_end_of_search(&mut self, path: &EntryPath<'_>) {
        let name = rule_name::of_subtree(&rule_name::of_path(path.iter().copied()));
        let name = YamlText(self.names.name_for(&name));
        let entries = rule::entries_text(path.iter().copied());
        let text = &mut self.text;
        _ = write!(text, "  - name: {name}\n    entries: [{entries}, \"...\"]\n    limit: unlimited\n");
    }
}
