//! From a file for envoyproxy/ratelimit to native rules that give the same answers.
//!
//! There a descriptor goes down the levels and never comes back. Here rules stand in a list and the first that matches
//! applies. So each level is written in the order in which it is tried, a descriptor's own rule before those below
//! it; and where a later rule of the same level could match what found nothing on the way down, a rule without limits
//! stands before it and ends the search.

mod names;
mod rule;
mod tree;

use std::fmt::Write as _;

use tidegate_core::rules::{Domain, Lookup, Pattern};
use tidegate_core::text::YamlText;

use super::super::diagnostic::{Diagnostic, Report};
use super::super::{FileId, LoadedRules, load};
use super::rule_name;
use names::RuleNames;
use tree::DescriptorNode;

/// A file for envoyproxy/ratelimit, in the native language.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertedRules {
    /// The native file.
    pub text: String,
    /// Warnings about the file it is made from, maybe.
    pub report: Report,
}

/// Writes a file for envoyproxy/ratelimit, which messages call `name`, in the native language. The rules give the same
/// answers; metrics are not told apart by the values of entries.
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
///     key: [remote_address]
///     limit: { algorithm: fixed_window, limit: 100, per: 1m }
/// "));
/// # Ok::<(), tidegate::rules::Report>(())
/// ```
pub fn convert(name: &str, text: &str) -> Result<ConvertedRules, Report> {
    let LoadedRules { domains, mut report } = load::parse(name, text)?;
    let file = FileId::default();
    let Some(domain) = domains.first().filter(|domain| domain.lookup == Lookup::DescriptorTree) else {
        let found =
            Diagnostic::file_error("not-an-envoy-file", file, "this is not a file for envoyproxy/ratelimit");
        report.push(found.hint("such files have `descriptors`; native rules need no conversion"));
        return Err(report);
    };
    let text = write_domain(domain);
    // Native files have bounds of their own, on names and keys for example.
    match load::parse(name, &text) {
        Ok(_) => Ok(ConvertedRules { text, report }),
        Err(refused) => {
            let (message, hint) = match refused.diagnostics().first() {
                Some(first) => (first.message.as_str(), first.hint.clone()),
                None => ("it is refused", None),
            };
            let message = format!("this cannot be written as native rules: {message}");
            report.push(Diagnostic { hint, ..Diagnostic::file_error("not-convertible", file, message) });
            Err(report)
        }
    }
}

const HEADER_COMMENT: &str = "\
# Converted from a file for envoyproxy/ratelimit. The first rule that matches a descriptor applies, and rules stand in the
# order in which descriptors are looked up there. Rules whose names end with `/...` end the search where it ends there.
# A request that is denied is charged nowhere; there, it is. Limits with `count_denied: true` count it.
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
    fn write_level<'a>(&mut self, path: &EntryPath<'a>, places: &[DescriptorNode<'a>]) {
        for (place, later) in tree::with_later_siblings(places) {
            let path = [path, &[(place.key, place.pattern)]].concat();
            if let Some(rule) = place.rule {
                rule::write_rule(&mut self.text, &mut self.names, rule);
            }
            self.write_level(&path, &place.children);
            if later.iter().any(|later| place.falls_through_to(later)) {
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
