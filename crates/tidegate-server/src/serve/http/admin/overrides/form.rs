//! An override as JSON. Fields that it does not set are left out, and what is returned can be sent back.

use serde_json::{Map, Value, json};
use tidegate::Timestamp;
use tidegate::overrides::{EditedOverride, KeyName};
use tidegate::rules::{Access, BlockStatus, Override};
use tidegate_core::text::{write_date, write_duration};

/// An override with its key.
pub(super) fn override_json(name: &KeyName, version: u64, one: &Override) -> Value {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value);
        }
    };
    put("id", Some(id(name, one.limit_name.as_deref()).into()));
    put("version", Some(version.into()));
    put("domain", Some((&*name.domain).into()));
    put("rule", Some((&*name.rule).into()));
    let key = name.parts.iter().map(|(name, value)| (name.to_string(), json!(value.to_string())));
    put("key", Some(Value::Object(key.collect())));
    let text = |text: &Option<Box<str>>| text.as_deref().map(Value::from);
    put("limit_name", text(&one.limit_name));
    put("limit", one.values.limit.map(Value::from));
    put("per", one.values.per_ns.map(|per_ns| write_duration(per_ns).into()));
    put("burst", one.values.burst.map(Value::from));
    put("sub_windows", one.values.sub_windows.map(Value::from));
    put("tier", text(&one.tier));
    match one.access {
        Access::Limited => {}
        Access::Allowed => put("allow", Some(true.into())),
        Access::Unlimited => put("unlimited", Some(true.into())),
        Access::Blocked(status) => {
            put("blocked", Some(true.into()));
            put("status", (status == BlockStatus::Forbidden).then(|| status.code().into()));
        }
    }
    put("expires_at", one.expires_at.map(|at| write_date(at).into()));
    put("set_at", Some(write_date(one.set_at).into()));
    put("author", text(&one.author));
    put("note", text(&one.note));
    Value::Object(fields)
}

/// The override before or after an edit. There is a warning if the record was damaged, or if a block of the key stays: a ban is
/// lifted by unbanning only.
pub(super) fn edited_json(edited: &EditedOverride, shown: Option<&Override>, now: Timestamp) -> Value {
    let name = &edited.name;
    let mut json = match shown {
        Some(one) => override_json(name, edited.version, one),
        None => {
            let mut json = override_json(name, edited.version, &Override::default());
            if let Some(fields) = json.as_object_mut() {
                fields.remove("set_at");
            }
            json
        }
    };
    if edited.was_damaged {
        json["warning"] = "the record of the key was damaged: all overrides that it had are gone".into();
    }
    let is_block_shown = shown.is_some_and(Override::is_block);
    let mut blocks = edited.kept_blocks.iter().filter(|block| !is_block_shown && block.is_active(now));
    if let Some(block) = blocks.next() {
        let until = block.expires_at.map(|at| format!(" until {}", write_date(at))).unwrap_or_default();
        let by = block.author.as_ref().map(|author| format!(", by {author}")).unwrap_or_default();
        let key: Vec<String> = name.parts.iter().map(|(name, value)| format!("{name}={value}")).collect();
        json["warning"] = format!(
            "the key stays blocked{until}{by} (hint: `tidegate unban {} --domain {} --rule {}` lifts the block)",
            key.join(" "),
            name.domain,
            name.rule,
        )
        .into();
    }
    json
}

/// The key as operators read it, with the name of the limit if it has one.
fn id(name: &KeyName, limit_name: Option<&str>) -> String {
    match limit_name {
        Some(limit) => format!("{name}#{limit}"),
        None => name.to_string(),
    }
}
