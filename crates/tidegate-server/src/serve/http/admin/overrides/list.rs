//! One override, or pages of all. Overrides that have expired are left out.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tidegate::overrides::{KeyName, OverrideCache, OverrideEditor, OverridePlace};
use tidegate::rules::{KeyOverrides, Ruleset};
use tidegate::{Clock as _, Timestamp};
use tidegate_core::text::percent_encode;

use super::{cache, edit_error_reply, form, refused};
use crate::serve::App;
use crate::serve::http::admin::rules::number_parameter;
use crate::serve::http::connection::HttpRequest;
use crate::serve::http::reply::{self, ContentType, ErrorReply, Problem, Reply};
use crate::serve::http::routes;

/// Default number of keys per page.
const KEYS_PER_PAGE: usize = 100;
/// Maximum number of keys per page.
const KEYS_PER_PAGE_MAX: usize = 1_000;
/// A page of at least this many bytes gets no further key.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Where the next page of an export begins.
const NEXT_HEADER: HeaderName = HeaderName::from_static("x-tidegate-next");

/// Which overrides are requested.
struct ListQuery {
    domain: Option<String>,
    rule: Option<String>,
    /// The beginning of the first attribute and its value.
    key_prefix: String,
    after: Option<String>,
    keys_max: usize,
}

/// A page, as lines of JSON.
struct Page {
    lines: Vec<String>,
    unusable: Vec<String>,
    next: Option<String>,
}

/// The overrides of `?key.name=value`, or a page of all.
pub(in super::super) async fn get(app: &App, request: &HttpRequest) -> Result<Reply, ErrorReply> {
    let key = key_parameters(request);
    if key.is_empty() {
        let page = page(app, &ListQuery::new(request)?).await?;
        let out = format!(
            r#"{{"overrides":[{}],"unusable":{},"next":{}}}"#,
            page.lines.join(","),
            json!(page.unusable),
            json!(page.next)
        );
        return Ok(reply::reply(StatusCode::OK, ContentType::Json, out));
    }
    let needed = |name: &str| {
        let hint = "name the domain, the rule and each attribute: ?domain=api&rule=per-user&key.user=42";
        routes::text_parameter(request, name)
            .ok_or_else(|| refused(format!("the parameter `{name}` is missing (hint: {hint})")))
    };
    let limit_name = routes::text_parameter(request, "limit_name");
    let place = OverridePlace {
        domain: needed("domain")?.into(),
        rule: needed("rule")?.into(),
        limit_name: limit_name.map(Into::into),
        key,
    };
    let rules = app.engine.rules();
    let found = OverrideEditor::new(cache(app)?, &rules).get(&place).await;
    let found = found.map_err(|error| edit_error_reply(&error, StatusCode::NOT_FOUND))?;
    let now = app.engine.clock().now();
    let overrides: Vec<Value> = found.map_or_else(Vec::new, |(name, overrides)| {
        let is_meant = |one: &Value| match &place.limit_name {
            Some(limit_name) => one["limit_name"] == **limit_name,
            None => true,
        };
        active(&name, &overrides, now).filter(is_meant).collect()
    });
    if overrides.is_empty() {
        let message = "this key has no override (hint: a wildcard may apply to it; POST /v1/explain on the HTTP listener \
                       names the override)";
        return Err(Problem::new(StatusCode::NOT_FOUND, message).into_error_reply());
    }
    Ok(reply::json(&json!({ "overrides": overrides, "unusable": [], "next": null })))
}

/// A page of all overrides as JSON lines. A header says where the next page begins.
pub(in super::super) async fn export(app: &App, request: &HttpRequest) -> Result<Reply, ErrorReply> {
    let mut page = page(app, &ListQuery::new(request)?).await?;
    page.lines.push(String::new());
    let mut reply = reply::reply(StatusCode::OK, ContentType::JsonLines, page.lines.join("\n"));
    let next = page.next.and_then(|next| HeaderValue::try_from(next).ok());
    if let Some(next) = next {
        reply.headers_mut().insert(NEXT_HEADER, next);
    }
    Ok(reply)
}

impl ListQuery {
    fn new(request: &HttpRequest) -> Result<Self, ErrorReply> {
        let text = |name: &str| routes::text_parameter(request, name);
        let keys_max = number_parameter(request, "max", 1..=KEYS_PER_PAGE_MAX)?.unwrap_or(KEYS_PER_PAGE);
        let after = text("after").map(|after| cursor(&after)).transpose()?;
        Ok(Self {
            domain: text("domain"),
            rule: text("rule"),
            key_prefix: text("prefix").unwrap_or_default(),
            after,
            keys_max,
        })
    }

    /// The rule as keys in the config store name it: by its oldest name.
    fn rule_identity(&self, rules: &Ruleset) -> Option<String> {
        let rule = self.rule.as_deref()?;
        let domain = self.domain.as_deref().and_then(|domain| rules.domain(domain));
        let known = domain.and_then(|domain| domain.overridable_rules().find(|one| *one.rule.name == *rule));
        Some(known.map_or_else(|| rule.to_owned(), |known| known.identity.to_owned()))
    }

    /// Whether a key is meant. Those that the prefix in the config store excludes are not read.
    fn includes(&self, name: &KeyName, rule: Option<&str>) -> bool {
        let first = name.parts.first().map(|(name, value)| format!("{name}={value}")).unwrap_or_default();
        self.domain.as_deref().is_none_or(|domain| *name.domain == *domain)
            && rule.is_none_or(|rule| *name.rule == *rule)
            && first.starts_with(&self.key_prefix)
    }

    /// The beginning of the keys in the config store.
    fn store_prefix(&self, rule: Option<&str>, wildcards: bool) -> String {
        let mut prefix = KeyName::prefix(self.domain.as_deref(), rule, wildcards);
        let is_escaped = self.key_prefix.contains(|c: char| c.is_control() || "%*".contains(c));
        if self.domain.is_some() && rule.is_some() && !is_escaped {
            prefix.push_str(&self.key_prefix);
        }
        prefix
    }
}

/// Reads where a page begins. Clients may have encoded it once more.
fn cursor(text: &str) -> Result<String, ErrorReply> {
    let is_cursor =
        |text: &str| [false, true].iter().any(|kind| text.starts_with(&KeyName::prefix(None, None, *kind)));
    let decoded = [text.to_owned(), routes::percent_decode(text)].into_iter().find(|text| is_cursor(text));
    decoded.ok_or_else(|| {
        let message = "`after` is not the end of a page (hint: send `next` of the last page)";
        Problem::new(StatusCode::NOT_FOUND, message).into_error_reply()
    })
}

/// Exact keys come first, then wildcards.
async fn page(app: &App, query: &ListQuery) -> Result<Page, ErrorReply> {
    let (cache, rules, now) = (cache(app)?, app.engine.rules(), app.engine.clock().now());
    let mut page = Page { lines: Vec::new(), unusable: Vec::new(), next: None };
    let rule = query.rule_identity(&rules);
    let (mut keys, mut bytes) = (0, 0);
    let mut last: Option<String> = None;
    for wildcards in [false, true] {
        let prefix = query.store_prefix(rule.as_deref(), wildcards);
        let kind = &KeyName::prefix(None, None, wildcards);
        let after = query.after.as_deref();
        if !wildcards && after.is_some_and(|after| !after.starts_with(kind)) {
            continue;
        }
        let mut after = after.filter(|after| after.starts_with(kind)).map(Box::<str>::from);
        loop {
            if keys >= query.keys_max && last.is_some() {
                page.next = last;
                return Ok(page);
            }
            let keys_left = query.keys_max.saturating_sub(keys).max(1);
            let listed = list(cache, &rules, &prefix, after.as_deref(), keys_left).await?;
            // They count, so that a page does not grow without bound.
            keys += listed.unusable.len();
            page.unusable.extend(listed.unusable);
            for (name, overrides) in listed.entries {
                keys += 1;
                last = Some(encode_cursor(&overrides.id));
                if !query.includes(&name, rule.as_deref()) {
                    continue;
                }
                let lines = active(&name, &overrides, now).map(|one| one.to_string());
                for line in lines {
                    bytes += line.len();
                    page.lines.push(line);
                }
                if bytes >= PAGE_BYTES_MAX {
                    page.next = last;
                    return Ok(page);
                }
            }
            after = listed.next;
            match &after {
                // Records that cannot be used have a place in the order too.
                Some(after) => last = Some(encode_cursor(after)),
                None => break,
            }
        }
    }
    Ok(page)
}

async fn list(
    cache: &OverrideCache,
    rules: &Ruleset,
    prefix: &str,
    after: Option<&str>,
    keys_max: usize,
) -> Result<tidegate::overrides::ListedOverrides, ErrorReply> {
    let listed = OverrideEditor::new(cache, rules).list(prefix, after, keys_max).await;
    listed.map_err(|error| edit_error_reply(&error, StatusCode::BAD_REQUEST))
}

fn encode_cursor(id: &str) -> String {
    percent_encode(id, |c| c.is_ascii_alphanumeric() || "-_.~=".contains(c))
}

/// The overrides of a key that apply.
fn active<'a>(
    name: &'a KeyName,
    overrides: &'a KeyOverrides,
    now: Timestamp,
) -> impl Iterator<Item = Value> + 'a {
    let active = overrides.overrides.iter().filter(move |one| one.is_active(now));
    active.map(|one| form::override_json(name, overrides.version, one))
}

/// The attributes of a key: the parameters `key.name=value`.
fn key_parameters(request: &HttpRequest) -> Vec<(Box<str>, Box<str>)> {
    let pairs = request.uri().query().unwrap_or_default().split('&');
    let decode = |text: &str| routes::percent_decode(&text.replace('+', " "));
    pairs
        .filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = decode(name);
            Some((name.strip_prefix("key.")?.into(), decode(value).into()))
        })
        .collect()
}
