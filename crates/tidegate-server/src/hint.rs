//! Messages in the manner of this project: `what is wrong (hint: what to do)`.

/// The two parts of a message; the second, if it has one.
pub fn split_hint(message: &str) -> (&str, Option<&str>) {
    match message.strip_suffix(')').and_then(|message| message.rsplit_once(" (hint: ")) {
        Some((problem, hint)) => (problem, Some(hint)),
        None => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_off_the_last_hint() {
        let cases = [
            ("it is empty (hint: leave it out)", ("it is empty", Some("leave it out"))),
            ("it is empty", ("it is empty", None)),
            ("`(hint: x)` is wrong (hint: as in f(x))", ("`(hint: x)` is wrong", Some("as in f(x)"))),
            ("(hint: leave it out)", ("(hint: leave it out)", None)),
            ("", ("", None)),
        ];
        for (message, parts) in cases {
            assert_eq!(split_hint(message), parts);
        }
    }
}
