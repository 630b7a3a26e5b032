//! Recognizes rates as other tools write them, to suggest the right spelling.

use super::duration;

/// The rate that `text` most likely means, and a remark, as a hint.
pub(super) fn hint(text: &str) -> Option<String> {
    let text = text.trim();
    let (text, key) = strip_key(text);
    let (rate, burst) = split_burst(text)?;
    let (amount, window) = split_rate(rate)?;
    let amount = Amount::parse(amount)?;
    let window_ns = duration::parse(window).ok()?;
    let (units, window) = match (amount.denominator, window_ns) {
        (1, _) => (amount.numerator, word(window).to_owned()),
        (parts, window_ns) => (amount.numerator, duration::write(window_ns.checked_mul(parts)?)),
    };
    let burst = burst.map(|burst| format!(" burst {burst}")).unwrap_or_default();
    let meant = format!("did you mean `{units} per {window}{burst}`?");
    Some(match key {
        Some(key) => format!("{meant} The rule's key says what has a counter of its own: `key: [{key}]`"),
        None => meant,
    })
}

/// The word for an abbreviated unit.
fn word(window: &str) -> &str {
    match window {
        "s" | "sec" => "second",
        "m" | "min" => "minute",
        "h" | "hr" => "hour",
        "d" => "day",
        _ => window,
    }
}

/// The whole number that `10k` or `1.5M` means.
pub(super) fn whole_number(text: &str) -> Option<u64> {
    let amount = Amount::parse(text.trim())?;
    (amount.denominator == 1).then_some(amount.numerator)
}

/// `100 per second per ip` without the key, and the key.
fn strip_key(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(" per ") {
        Some((rate, key)) if duration::parse(key).is_err() && rate.contains(['/', ' ']) => {
            (rate.trim_end(), Some(key.trim()))
        }
        _ => (text, None),
    }
}

/// `100 per minute, burst 20`, `burst=20` and `burst: 20`.
fn split_burst(text: &str) -> Option<(&str, Option<u64>)> {
    let Some((rate, burst)) = text.split_once("burst") else { return Some((text, None)) };
    let rate = rate.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '+'));
    let burst = burst.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '=' | ':'));
    Some((rate, Some(whole_number(burst)?)))
}

/// The amount and the window of `100r/m`, `100 requests per minute`, `5 a minute` and `100rps`.
fn split_rate(rate: &str) -> Option<(&str, &str)> {
    const SHORT: [(&str, &str); 6] = [
        ("rps", "second"),
        ("qps", "second"),
        ("rpm", "minute"),
        ("qpm", "minute"),
        ("rph", "hour"),
        ("rpd", "day"),
    ];
    if let Some((amount, window)) =
        SHORT.iter().find_map(|(suffix, window)| Some((rate.strip_suffix(suffix)?, *window)))
    {
        return Some((amount.trim_end(), window));
    }
    let separators = [" per ", "/", " a ", " an ", " every ", " each ", " in "];
    let (amount, window) = separators.iter().find_map(|separator| rate.split_once(separator))?;
    Some((strip_noun(amount.trim()), window.trim()))
}

/// `100 requests` without the noun.
fn strip_noun(amount: &str) -> &str {
    const NOUNS: [&str; 15] = [
        "requests", "request", "reqs", "req", "rq", "r", "hits", "hit", "calls", "call", "times", "tokens",
        "messages", "queries", "x",
    ];
    let noun = NOUNS.iter().find_map(|noun| amount.strip_suffix(noun));
    noun.map_or(amount, str::trim_end)
}

/// A positive amount, as a fraction in lowest terms.
struct Amount {
    numerator: u64,
    denominator: u64,
}

impl Amount {
    /// `100`, `10k`, `2M`, `0.5`, `1.5k`.
    fn parse(text: &str) -> Option<Self> {
        let (digits, factor) = match text.as_bytes().last()? {
            b'k' | b'K' => (&text[..text.len() - 1], 1_000),
            b'M' => (&text[..text.len() - 1], 1_000_000),
            _ => (text, 1),
        };
        let (whole, decimals) = digits.trim_end().split_once('.').unwrap_or((digits.trim_end(), ""));
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || b == b'_');
        if whole.is_empty() || !is_number(whole) || !is_number(decimals) {
            return None;
        }
        let digits: String = whole.chars().chain(decimals.chars()).filter(|c| *c != '_').collect();
        let numerator = digits.parse::<u64>().ok()?.checked_mul(factor)?;
        let denominator = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
        let divisor = greatest_common_divisor(numerator, denominator);
        (numerator > 0).then(|| Self { numerator: numerator / divisor, denominator: denominator / divisor })
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn other_spellings() {
        for (text, meant) in [
            ("100r/m", "100 per minute"),
            ("100 r/s", "100 per second"),
            ("100 requests per minute", "100 per minute"),
            ("100 req/min", "100 per minute"),
            ("10k per minute", "10000 per minute"),
            ("1.5k/s", "1500 per second"),
            ("2M per day", "2000000 per day"),
            ("0.5 per second", "1 per 2s"),
            ("1.5 per second", "3 per 2s"),
            ("0.25/m", "1 per 4m"),
            ("100rps", "100 per second"),
            ("60 rpm", "60 per minute"),
            ("5 times a minute", "5 per minute"),
            ("5 every 30s", "5 per 30s"),
            ("100 per minute, burst 20", "100 per minute burst 20"),
            ("100/m burst=20", "100 per minute burst 20"),
        ] {
            assert_eq!(hint(text), Some(format!("did you mean `{meant}`?")), "{text}");
        }
        let with_key = hint("100 per second per ip").unwrap();
        assert!(with_key.starts_with("did you mean `100 per second`? ") && with_key.contains("`key: [ip]`"));
    }

    #[test]
    fn no_suggestion() {
        for text in
            ["", "5", "5 par minute", "per minute", "many per minute", "5 per fortnight", "-5 per minute"]
        {
            assert_eq!(hint(text), None, "{text}");
        }
    }
}
