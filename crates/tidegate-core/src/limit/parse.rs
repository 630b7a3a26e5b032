//! Reads the two forms of a limit.
//!
//! ```text
//! text form   100 per minute      10/s burst 20      5 per 30s
//!             deny                0
//! long form   {algorithm: gcra, limit: 7, per: 1s, burst: 3}
//!             {algorithm: fixed_window, limit: 1000, per: month, align: {tz: Europe/Paris, day_of_month: 15}}
//! ```

use super::{AlgorithmName, LimitError, LimitSpec, calendar_text, duration, suggest};
use crate::algorithm::Align;

/// A longer text is not a limit.
const TEXT_BYTES_MAX: usize = 1024;

/// The form of a calendar, for hints.
const CALENDAR_FORM: &str = if cfg!(feature = "calendar") {
    "{tz: Europe/Paris}"
} else {
    "{tz: Europe/Paris} with the feature `calendar`"
};

/// Reads either form.
pub(super) fn spec(text: &str) -> Result<LimitSpec, LimitError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(LimitError::new(
            format!("a limit of {} bytes is too long", text.len()),
            format!("{TEXT_BYTES_MAX} bytes are enough for every option"),
        ));
    }
    match text.trim().strip_prefix('{') {
        Some(rest) => match rest.strip_suffix('}') {
            Some(inside) => long_form(inside),
            None => Err(LimitError::new("the long form has no closing `}`", "end the limit with }")),
        },
        None => text_form(text),
    }
}

/// Reads a whole number that is not negative; `1_000` is accepted. `field` is the name of the number in errors.
pub fn number(field: &str, text: &str) -> Result<u64, LimitError> {
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return digits.parse().map_err(|_| {
            LimitError::new(format!("{field} `{text}` is too large"), "numbers here fit 64 bits")
        });
    }
    let hint = match (digits.strip_prefix('-'), suggest::whole_number(&digits)) {
        (Some(positive), _) if positive.parse::<u64>().is_ok() => format!("{field} cannot be negative"),
        (_, Some(meant)) => format!("did you mean `{meant}`?"),
        _ => "write a whole number like 100".to_owned(),
    };
    Err(LimitError::new(format!("{field} `{text}` is not a whole number"), hint))
}

/// The names and values of `name: value, name: value`.
pub(super) fn fields(text: &str) -> Result<Vec<(&str, &str)>, LimitError> {
    let mut fields: Vec<(&str, &str)> = Vec::new();
    for field in split_fields(text)?.into_iter().map(str::trim).filter(|field| !field.is_empty()) {
        let Some((name, value)) = field.split_once(':') else {
            return Err(LimitError::new(format!("`{field}` is not a field"), "write `name: value`"));
        };
        let (name, value) = (unquoted(name), unquoted(value));
        if fields.iter().any(|(earlier, _)| *earlier == name) {
            return Err(LimitError::new(format!("field `{name}` is given twice"), "leave one of them out"));
        }
        fields.push((name, value));
    }
    Ok(fields)
}

/// `L per W [burst B]`, `L/W [burst B]`, or `deny` or `0`, which need no window.
fn text_form(text: &str) -> Result<LimitSpec, LimitError> {
    if matches!(text.trim(), "deny" | "0") {
        return Ok(LimitSpec::deny());
    }
    strict_text_form(text).map_err(|error| match suggest::hint(text) {
        Some(hint) => LimitError::new(error.problem(), hint),
        None => error,
    })
}

fn strict_text_form(text: &str) -> Result<LimitSpec, LimitError> {
    let not_a_limit = || {
        let hint = match suggest::whole_number(text) {
            Some(units) => format!("per how long? Write for example `{units} per minute`"),
            None => "write for example `100 per minute`, `10/s burst 20`, `5 per 30s` or \
                     `{algorithm: sliding_window, limit: 100, per: 60s}`"
                .to_owned(),
        };
        LimitError::new(format!("`{}` is not a limit", text.trim()), hint)
    };
    let lower = text.to_lowercase();
    let (rate, burst) = match lower.split_once("burst") {
        Some((rate, burst)) => (rate, Some(number("burst", burst.trim())?)),
        None => (lower.as_str(), None),
    };
    let (limit, per) = match rate.split_once('/') {
        Some(parts) => parts,
        None => rate.split_once("per").ok_or_else(not_a_limit)?,
    };
    if limit.trim().is_empty() || per.trim().is_empty() {
        return Err(not_a_limit());
    }
    let spec = LimitSpec::new(number("limit", limit.trim())?, duration::parse(per)?);
    Ok(LimitSpec { burst, ..spec })
}

/// Reads the text between the braces.
fn long_form(text: &str) -> Result<LimitSpec, LimitError> {
    let mut spec = LimitSpec::default();
    let (mut limit, mut per_ns) = (None, None);
    for (name, value) in fields(text)? {
        match name {
            "algorithm" => spec.algorithm = Some(value.parse()?),
            "limit" => limit = Some(value),
            "per" => per_ns = Some(duration::parse(value)?),
            "burst" => spec.burst = Some(number(name, value)?),
            "queue" => spec.queue = Some(number(name, value)?),
            "sub_windows" => spec.sub_windows = Some(number(name, value)?),
            "strict" => spec.strict = Some(boolean(name, value)?),
            "count_denied" => spec.count_denied = Some(value.parse()?),
            "min_interval" => spec.min_interval_ns = Some(duration::parse(value)?),
            "align" => spec.align = Some(align(value)?),
            "ttl" => spec.ttl_ns = Some(duration::parse(value)?),
            "name" => spec.name = Some(value.to_owned()),
            _ => return Err(LimitError::unknown("field", name, &LimitSpec::FIELDS)),
        }
    }
    match (limit, per_ns) {
        (Some(limit), Some(per_ns)) => {
            (spec.limit, spec.per_ns) = (number("limit", limit)?, per_ns);
        }
        // A limit without a window. `build` checks the rest.
        (Some(limit), None) if spec.algorithm == Some(AlgorithmName::Concurrency) && is_digits(limit) => {
            spec.limit = number("limit", limit)?;
        }
        // The rate may be in one field, as in `limit: 5 per minute`.
        (Some(limit), None) if limit == "0" || !is_digits(limit) => {
            let rate = text_form(limit)?;
            if rate.burst.is_some() && spec.burst.is_some() {
                return Err(LimitError::new("burst is given twice", "leave one of them out"));
            }
            (spec.limit, spec.per_ns) = (rate.limit, rate.per_ns);
            spec.burst = rate.burst.or(spec.burst);
        }
        (Some(_), None) => {
            return Err(LimitError::new("field `per` is missing", "add for example `per: 1m`"));
        }
        (None, _) => return Err(LimitError::new("field `limit` is missing", "add for example `limit: 100`")),
    }
    Ok(spec)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

fn boolean(field: &str, value: &str) -> Result<bool, LimitError> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(LimitError::new(
            format!("{field} `{value}` is neither true nor false"),
            "write true or false",
        )),
    }
}

fn align(value: &str) -> Result<Align, LimitError> {
    if let Some(fields) = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return Ok(Align::Calendar(calendar_text::parse(fields)?));
    }
    match value {
        "epoch" => Ok(Align::Epoch),
        "first_hit" => Ok(Align::FirstHit),
        _ => Err(LimitError::new(format!("unknown align `{value}`"), align_hint(value))),
    }
}

/// How to write an alignment that is neither `epoch` nor `first_hit`.
pub fn align_hint(value: &str) -> String {
    match value {
        "day" | "week" | "month" | "calendar" => {
            format!("windows of a calendar need a time zone: `per: month, align: {CALENDAR_FORM}`")
        }
        zone if zone.contains('/') || ["UTC", "GMT"].contains(&zone) => {
            format!("a time zone is written `align: {{tz: {zone}}}`")
        }
        _ => {
            let known = ["epoch", "first_hit", CALENDAR_FORM];
            super::did_you_mean(value, &known)
                .unwrap_or_else(|| format!("expected one of: {}", known.join(", ")))
        }
    }
}

/// Splits at commas, except inside braces.
fn split_fields(text: &str) -> Result<Vec<&str>, LimitError> {
    const EXAMPLE: &str = "braces come in pairs: {..., align: {tz: Europe/Paris}}";
    let (mut parts, mut start, mut in_braces) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match (c, in_braces) {
            ('{', false) => in_braces = true,
            ('}', true) => in_braces = false,
            ('{', true) => return Err(LimitError::new("unexpected `{`", EXAMPLE)),
            ('}', false) => return Err(LimitError::new("unexpected `}`", EXAMPLE)),
            (',', false) => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if in_braces {
        return Err(LimitError::new("missing `}`", EXAMPLE));
    }
    parts.push(&text[start..]);
    Ok(parts)
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inside = |quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}
