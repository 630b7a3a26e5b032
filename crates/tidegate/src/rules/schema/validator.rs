//! A validator for the part of JSON Schema that the schema uses. It panics on unknown keywords, so every
//! keyword in the schema is checked.

use serde_json::Value;
use tidegate_core::rules::{Attribute, CaseSensitivity, Condition, Descriptor, Entry, Pattern};

/// The first error of a value: its path and the keyword that it fails.
pub fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    Validator { root: schema }.check(schema, value, "")
}

struct Validator<'s> {
    root: &'s Value,
}

impl Validator<'_> {
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("no schema: {schema}"));
        for (keyword, rule) in keywords {
            if !self.holds(schema, keyword, rule, value, at)? {
                return Err(format!("`{at}`: {keyword} {rule} does not hold for {value}"));
            }
        }
        Ok(())
    }

    fn holds(
        &self,
        schema: &Value,
        keyword: &str,
        rule: &Value,
        value: &Value,
        at: &str,
    ) -> Result<bool, String> {
        let any_of =
            |rules: &Value| list(rules).iter().filter(|one| self.check(one, value, at).is_ok()).count();
        let length = value.as_str().map(|text| text.chars().count() as u64);
        let items = value.as_array().map(|items| items.len() as u64);
        let fields = value.as_object().map(|fields| fields.len() as u64);
        Ok(match keyword {
            "$schema" | "title" | "description" | "examples" | "$defs" => true,
            "$ref" => {
                let name =
                    rule.as_str().and_then(|name| name.strip_prefix("#/$defs/")).expect("a local reference");
                let target = self.root["$defs"].get(name).unwrap_or_else(|| panic!("no definition {name}"));
                return self.check(target, value, at).map(|()| true);
            }
            "type" if rule.is_array() => list(rule).iter().any(|one| has_type(one, value)),
            "type" => has_type(rule, value),
            "enum" => list(rule).contains(value),
            "const" => rule == value,
            "anyOf" => any_of(rule) > 0,
            "oneOf" => any_of(rule) == 1,
            "not" => self.check(rule, value, at).is_err(),
            "required" => {
                let has = |name: &Value| value.get(name.as_str().expect("a name")).is_some();
                !value.is_object() || list(rule).iter().all(has)
            }
            "properties" | "additionalProperties" | "propertyNames" => {
                return self.fields(schema, keyword, rule, value, at).map(|()| true);
            }
            "items" => {
                for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                    self.check(rule, item, &format!("{at}[{number}]"))?;
                }
                true
            }
            "minimum" => value.as_f64().is_none_or(|number| number >= rule.as_f64().expect("a number")),
            "maximum" => value.as_f64().is_none_or(|number| number <= rule.as_f64().expect("a number")),
            "minLength" => length.is_none_or(|length| length >= count(rule)),
            "maxLength" => length.is_none_or(|length| length <= count(rule)),
            "minItems" => items.is_none_or(|items| items >= count(rule)),
            "maxItems" => items.is_none_or(|items| items <= count(rule)),
            "minProperties" => fields.is_none_or(|fields| fields >= count(rule)),
            "maxProperties" => fields.is_none_or(|fields| fields <= count(rule)),
            "pattern" => value.as_str().is_none_or(|text| matches(rule.as_str().expect("a pattern"), text)),
            _ => panic!("keyword {keyword} is not known here; teach the validator"),
        })
    }

    fn fields(
        &self,
        schema: &Value,
        keyword: &str,
        rule: &Value,
        value: &Value,
        at: &str,
    ) -> Result<(), String> {
        for (name, field) in value.as_object().into_iter().flatten() {
            let below = format!("{at}.{name}");
            let own = schema.get("properties").and_then(|properties| properties.get(name));
            match (keyword, own) {
                ("properties", Some(own)) => self.check(own, field, &below)?,
                ("propertyNames", _) => self.check(rule, &Value::String(name.clone()), &below)?,
                ("additionalProperties", None) if *rule == Value::Bool(false) => {
                    return Err(format!("`{below}` is not a field"));
                }
                ("additionalProperties", None) => self.check(rule, field, &below)?,
                _ => {}
            }
        }
        Ok(())
    }
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("type {other} is not known here"),
    }
}

/// A JSON Schema pattern matches anywhere. The patterns of this schema are anchored.
fn matches(pattern: &str, text: &str) -> bool {
    let whole =
        pattern.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')).expect("an anchored pattern");
    let pattern = Pattern::regex(whole, CaseSensitivity::Sensitive).expect("a pattern");
    let condition = Condition { attribute: Attribute::from_name("text"), pattern };
    condition.mismatch(&Descriptor::new(&[Entry { key: "text", value: text }], 1)).is_none()
}

fn list(rule: &Value) -> &[Value] {
    rule.as_array().expect("a list")
}

fn count(rule: &Value) -> u64 {
    rule.as_u64().expect("a number")
}
