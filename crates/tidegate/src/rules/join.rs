//! Merges the files of one domain, and checks the references between rules.

use std::collections::HashMap;

use tidegate_core::rules::{Domain, Lookup};
use tidegate_core::text::did_you_mean;

use super::diagnostic::{Diagnostic, Report};
use super::file::{FileRule, RulesFile, Spanned};
use super::yaml::{Reader, printable};
use super::{LoadOptions, Span, envoy, lint};

/// The domains of these files, in the order in which the files name them.
pub(super) fn join(report: &mut Report, files: Vec<RulesFile>, options: LoadOptions) -> Vec<Domain> {
    let mut joined: Vec<RulesFile> = Vec::new();
    let mut indexes: HashMap<Box<str>, usize> = HashMap::new();
    let mut first_levels: HashMap<usize, FirstLevel> = HashMap::new();
    for file in files {
        match indexes.get(&file.domain.value) {
            Some(at) if options.merge_domains && joined[*at].is_tree() && file.is_tree() => {
                let first = &joined[*at];
                let level = first_levels.entry(*at).or_insert_with(|| FirstLevel::of(first));
                level.merge(report, &file);
                merge_file(report, &mut joined[*at], file, options);
            }
            Some(at) => merge_file(report, &mut joined[*at], file, options),
            None => {
                indexes.insert(file.domain.value.clone(), joined.len());
                joined.push(file);
            }
        }
    }
    for file in &mut joined {
        let RulesFile { rules, limit_names, .. } = file;
        envoy::resolve_replaces(&mut Reader::new(report), rules, limit_names);
    }
    for domain in &joined {
        check(report, domain);
    }
    if !report.has_errors() {
        joined.iter().for_each(|domain| lint::lint(report, domain));
    }
    joined.into_iter().map(domain).collect()
}

/// The descriptors on the first level of a domain for envoyproxy/ratelimit, which are unique there.
struct FirstLevel(HashMap<String, Span>);

impl FirstLevel {
    fn of(file: &RulesFile) -> Self {
        Self(Self::names(file).into_iter().rev().collect())
    }

    /// Adds those of a further file. Reports duplicates.
    fn merge(&mut self, report: &mut Report, file: &RulesFile) {
        let mut own = HashMap::new();
        for (name, span) in Self::names(file) {
            // A descriptor has a rule for itself and for each one below it.
            if own.contains_key(&name) {
                continue;
            }
            if let Some(first) = self.0.get(&name) {
                let message = format!("duplicate descriptor `{}`", printable(&name));
                let diagnostic = Diagnostic::error("duplicate-descriptor", span, message).label("again here");
                let hint =
                    "the files of a domain are merged, and each first-level descriptor is in one of them";
                report.push(diagnostic.related(*first, "first here").hint(hint));
            }
            own.insert(name, span);
        }
        for (name, span) in own {
            self.0.entry(name).or_insert(span);
        }
    }

    fn names(file: &RulesFile) -> Vec<(String, Span)> {
        let first = |rule: &FileRule| {
            let (key, pattern) = rule.rule.entries.as_ref()?.patterns.first()?;
            Some((envoy::level_name(key, pattern), rule.spans.name))
        };
        file.rules.iter().filter_map(first).collect()
    }
}

impl RulesFile {
    fn is_tree(&self) -> bool {
        self.lookup == Lookup::DescriptorTree
    }
}

/// Merges a file into the first file of its domain.
fn merge_file(report: &mut Report, first: &mut RulesFile, mut next: RulesFile, options: LoadOptions) {
    if !options.merge_domains && first.is_tree() && next.is_tree() {
        let message = format!("domain `{}` already has a file", printable(&next.domain.value));
        let diagnostic = Diagnostic::error("duplicate-domain", next.domain.span, message);
        let diagnostic = diagnostic.related(first.domain.span, "the first");
        report
            .push(diagnostic.hint(
                "merge the files, name another domain, or set merge_domain_config to read them as one",
            ));
        return;
    }
    if first.is_tree() != next.is_tree() {
        let message = format!("domain `{}` has files of both kinds", printable(&next.domain.value));
        let diagnostic = Diagnostic::error("contradiction", next.domain.span, message);
        report.push(
            diagnostic
                .related(first.domain.span, "the other kind")
                .hint("write rules of one kind in a domain, or name another domain"),
        );
    }
    match (&first.apply, &next.apply) {
        (Some(first_apply), Some(next_apply)) if first_apply.value != next_apply.value => {
            let message = format!(
                "the files of domain `{}` apply their rules differently",
                printable(&next.domain.value)
            );
            let diagnostic = Diagnostic::error("contradiction", next_apply.span, message);
            report.push(
                diagnostic
                    .related(first_apply.span, "here")
                    .hint("set it once, or to the same value everywhere"),
            );
        }
        (None, Some(_)) => first.apply = next.apply.take(),
        _ => {}
    }
    first.pools.append(&mut next.pools);
    first.rules.append(&mut next.rules);
    first.limit_names.append(&mut next.limit_names);
}

fn domain(file: RulesFile) -> Domain {
    Domain {
        name: file.domain.value,
        apply: file.apply.map(|apply| apply.value).unwrap_or_default(),
        pools: file.pools.into_iter().map(|pool| pool.value).collect(),
        rules: file.rules.into_iter().map(|rule| rule.rule).collect(),
        lookup: file.lookup,
        count_denied: file.count_denied,
        is_shadow: false,
    }
}

fn check(report: &mut Report, file: &RulesFile) {
    let pools = file.pools.iter().map(|pool| Spanned { value: &*pool.value.name, span: pool.span });
    let pools = check_unique_names(report, "pool", pools);
    let names = file.rules.iter().map(|rule| Spanned { value: &*rule.rule.name, span: rule.spans.name });
    let names = check_unique_names(report, "rule", names);
    let mut was = HashMap::new();
    for rule in &file.rules {
        check_was(report, rule, &names, &mut was);
        check_replaces(report, rule, &names);
        for (pool, at) in rule.pools() {
            if !pools.contains_key(pool) {
                let hint = suggest_name(report, pool, &pools).unwrap_or_else(|| match file.lookup {
                    Lookup::DescriptorTree => {
                        "files with descriptors have no pools; use a `signal`, or native rules".to_owned()
                    }
                    Lookup::Conditions => {
                        format!("add it to the file: `pools: {{ {}: 1000 per second }}`", printable(pool))
                    }
                });
                let message = format!("there is no pool `{}`", printable(pool));
                report.push(Diagnostic::error("unknown-pool", at, message).hint(hint));
            }
        }
    }
}

/// The position of each name. Reports duplicates.
fn check_unique_names<'a>(
    report: &mut Report,
    what: &str,
    names: impl Iterator<Item = Spanned<&'a str>>,
) -> HashMap<&'a str, Span> {
    let mut first_spans: HashMap<&str, Span> = HashMap::new();
    for name in names {
        match first_spans.get(name.value) {
            None => _ = first_spans.insert(name.value, name.span),
            Some(first) => {
                let message = format!("two {what}s are named `{}`", printable(name.value));
                let diagnostic = Diagnostic::error("duplicate-name", name.span, message).label("again here");
                report.push(diagnostic.related(*first, "first here").hint("choose another name"));
            }
        }
    }
    first_spans
}

/// Reports a former name that another rule uses: two rules would share their counters.
fn check_was<'a>(
    report: &mut Report,
    rule: &'a FileRule,
    names: &HashMap<&str, Span>,
    was: &mut HashMap<&'a str, Span>,
) {
    for (name, at) in rule.rule.was.iter().zip(&rule.spans.was) {
        let message = format!("the name `{}` is in use", printable(name));
        let diagnostic = Diagnostic::error("name-in-use", *at, message);
        if let Some(user) = names.get(&**name) {
            let hint = if *user == rule.spans.name {
                "`was` is for former names; leave it out"
            } else {
                "two rules cannot have the same counters; leave `was` out, or rename the other rule"
            };
            report.push(diagnostic.related(*user, "by this rule").hint(hint));
        } else if let Some(user) = was.insert(name, *at) {
            report.push(
                diagnostic.related(user, "here already").hint("two rules cannot have the same counters"),
            );
        }
    }
}

fn check_replaces(report: &mut Report, rule: &FileRule, names: &HashMap<&str, Span>) {
    for (name, at) in rule.rule.replaces.iter().zip(&rule.spans.replaces) {
        if *name == rule.rule.name {
            let diagnostic = Diagnostic::error("replaces-itself", *at, "a rule cannot replace itself");
            report.push(diagnostic.hint("name the rules that this one replaces"));
        } else if !names.contains_key(&**name) {
            let hint =
                suggest_name(report, name, names).unwrap_or_else(|| "name a rule of this domain".to_owned());
            let message = format!("there is no rule `{}`", printable(name));
            report.push(Diagnostic::error("unknown-rule", *at, message).hint(hint));
        }
    }
}

/// Suggests a similar name. Not for errors that the report drops, nor among more names than people write by
/// hand: a file may have a hundred thousand rules, and as many errors.
fn suggest_name(report: &Report, name: &str, names: &HashMap<&str, Span>) -> Option<String> {
    const NAMES_COMPARED_MAX: usize = 1_000;
    if report.has_max_errors() || names.len() > NAMES_COMPARED_MAX {
        return None;
    }
    let mut names: Vec<&str> = names.keys().copied().collect();
    names.sort_unstable();
    did_you_mean(name, &names)
}
