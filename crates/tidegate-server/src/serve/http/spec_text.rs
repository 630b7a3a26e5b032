//! What a limit is, as text: written once, and not for every answer.
//!
//! Found by where the limit is, and only if it is still that limit: rules are replaced, and others may take their place
//! in memory.

use std::cell::RefCell;

use tidegate::Limit;

use super::json;

/// The most limits whose text a thread keeps.
const KEPT_MAX: usize = 256;

struct Kept {
    limit: Limit,
    /// As JSON has it, with its quotes.
    text: Box<[u8]>,
}

thread_local! {
    static TEXTS: RefCell<Vec<Option<Kept>>> = const { RefCell::new(Vec::new()) };
}

/// Writes what a limit is, as a JSON string.
pub(super) fn write(out: &mut Vec<u8>, limit: &Limit) {
    TEXTS.with_borrow_mut(|texts| {
        if texts.is_empty() {
            texts.resize_with(KEPT_MAX, || None);
        }
        let place = &mut texts[place(limit)];
        match place {
            Some(kept) if kept.limit == *limit => out.extend_from_slice(&kept.text),
            _ => {
                let start = out.len();
                json::text(out, &limit.to_string());
                *place = Some(Kept { limit: limit.clone(), text: out[start..].into() });
            }
        }
    });
}

/// Where the text of a limit is kept.
fn place(limit: &Limit) -> usize {
    let address = std::ptr::from_ref(limit).addr();
    // A prime, so that limits which lie evenly apart do not all come to the same place.
    const PLACES: usize = 251;
    const { assert!(PLACES <= KEPT_MAX) };
    (address / align_of::<Limit>()) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(limit: &Limit) -> String {
        let mut out = Vec::new();
        write(&mut out, limit);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn another_limit_in_the_same_place_has_its_own_text() {
        let mut limit: Limit = "5 per minute".parse().unwrap();
        for text in ["5 per minute", "5 per minute", "6 per minute", "5 per hour", "5 per minute burst 9"] {
            limit = text.parse().unwrap();
            assert_eq!(written(&limit), format!("\"{limit}\""));
        }
        let named: Limit = r#"{ name: 'say "x"', limit: 5 per minute }"#.parse().unwrap_or(limit);
        assert_eq!(serde_json::from_str::<String>(&written(&named)).unwrap(), named.to_string());
    }

    #[test]
    fn more_limits_than_are_kept() {
        let limits: Vec<Limit> =
            (1..2000).map(|number| format!("{number} per hour").parse().unwrap()).collect();
        for _ in 0..2 {
            for limit in &limits {
                assert_eq!(written(limit), format!("\"{limit}\""));
            }
        }
    }
}
