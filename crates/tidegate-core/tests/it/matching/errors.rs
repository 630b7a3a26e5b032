//! Text that is not a pattern, and the hint for it.

use tidegate_core::rules::{
    CaseSensitivity, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_NESTING_MAX, SET_ENTRIES_MAX, Wildcard,
};

/// Parts of the problem and of the hint that an error must contain.
struct ExpectedError(&'static str, &'static str);

fn check(error: &PatternError, ExpectedError(problem, hint): &ExpectedError) {
    assert!(error.problem().contains(problem), "`{}` in {error}", problem);
    assert!(error.hint().contains(hint), "`{}` in {error}", hint);
    assert!(error.to_string().len() < 600, "the message repeats a long input: {error}");
}

#[test]
fn invalid_paths_are_refused_with_a_hint() {
    let table = [
        ("", ExpectedError("does not begin with `/`", "`/`")),
        ("users/{id}", ExpectedError("does not begin with `/`", "`/users/{id}`")),
        ("/a?b", ExpectedError("has a `?`", "`/a`")),
        ("/a/b#c", ExpectedError("has a `#`", "`/a/b`")),
        ("/**/b", ExpectedError("`**` before its end", "last segment")),
        ("/a/**/**", ExpectedError("`**` before its end", "last segment")),
        ("/a/b*", ExpectedError("within the segment `b*`", "wildcard")),
        ("/a/b**", ExpectedError("within the segment `b**`", "wildcard")),
        ("/***", ExpectedError("within the segment `***`", "wildcard")),
        ("/{}", ExpectedError("an empty name", "`*`")),
        ("/{a}/{a}", ExpectedError("`{a}` twice", "of its own")),
        ("/{a", ExpectedError("braces within the segment `{a`", "whole segment")),
        ("/a}", ExpectedError("braces within the segment `a}`", "whole segment")),
        ("/x{a}", ExpectedError("braces within the segment `x{a}`", "whole segment")),
        ("/{a}{b}", ExpectedError("a name with other characters", "`{id}`")),
        ("/{{a}}", ExpectedError("a name with other characters", "`{id}`")),
        ("/{a b}", ExpectedError("a name with other characters", "`{id}`")),
        ("/{1}", ExpectedError("begins with a digit", "`{id}`")),
        ("/{*rest}", ExpectedError("star", "`**`")),
    ];
    for (text, expected) in &table {
        check(&PathPattern::parse(text).expect_err(text), expected);
    }
    assert!(PathPattern::parse(&"/a".repeat(PATH_SEGMENTS_MAX)).is_ok());
    let error = PathPattern::parse(&"/a".repeat(PATH_SEGMENTS_MAX + 1)).unwrap_err();
    check(&error, &ExpectedError("more than 128 segments", "`**`"));

    check(&PathSet::new([]).unwrap_err(), &ExpectedError("empty list", "at least one"));
    let one = PathPattern::parse("/a/*").unwrap();
    assert!(PathSet::new(std::iter::repeat_n(one.clone(), SET_ENTRIES_MAX)).is_ok());
    check(
        &PathSet::new(std::iter::repeat(one)).unwrap_err(),
        &ExpectedError("more than 100000 paths", "split"),
    );
}

#[test]
fn invalid_address_blocks_are_refused_with_a_hint() {
    let table = [
        ("", ExpectedError("not an address", "10.0.0.0/8")),
        ("10.0.0", ExpectedError("not an address", "10.0.0.0/8")),
        ("10.0.*", ExpectedError("not an address", "10.0.0.0/8")),
        ("10.0.0.1:80", ExpectedError("not an address", "10.0.0.0/8")),
        ("localhost", ExpectedError("not an address", "10.0.0.0/8")),
        ("10.0.0.0/", ExpectedError("not a number of prefix bits", "0 to 32")),
        ("10.0.0.0/33", ExpectedError("`33` is not a number of prefix bits", "0 to 32")),
        ("10.0.0.0/+8", ExpectedError("not a number of prefix bits", "0 to 32")),
        ("10.0.0.0/8/8", ExpectedError("not a number of prefix bits", "0 to 32")),
        ("2001:db8::/129", ExpectedError("not a number of prefix bits", "0 to 128")),
        ("10.0.0.1/8", ExpectedError("within a block", "`10.0.0.0/8`")),
        ("10.0.0.1/8", ExpectedError("within a block", "alone is `10.0.0.1`")),
        ("10.0.0.1/0", ExpectedError("within a block", "`0.0.0.0/0`")),
        ("2001:db8::1/32", ExpectedError("within a block", "`2001:db8::/32`")),
        ("::ffff:10.0.0.1/104", ExpectedError("within a block", "`10.0.0.0/8`")),
        ("::ffff:10.0.0.0/64", ExpectedError("within a block", "`::/64`")),
    ];
    for (text, expected) in &table {
        check(&Net::parse(text).expect_err(text), expected);
    }
    check(&NetSet::new([]).unwrap_err(), &ExpectedError("empty list", "at least one"));
    let one = Net::parse("10.0.0.0/8").unwrap();
    let error = NetSet::new(std::iter::repeat_n(one, SET_ENTRIES_MAX + 1)).unwrap_err();
    check(&error, &ExpectedError("more than 100000", "split"));
}

#[test]
fn invalid_regular_expressions_are_refused_with_a_hint() {
    let table = [
        ("(", ExpectedError("not a regular expression", "`\\`")),
        ("a)|(b", ExpectedError("not a regular expression", "`\\`")),
        ("*", ExpectedError("not a regular expression", "`\\`")),
        ("(?=a)", ExpectedError("look-around", "not: ...")),
        ("(?<!a)b", ExpectedError("look-around", "not: ...")),
        (r"(a)\1", ExpectedError("backreference", "referred to")),
        (r"\p{Klingonese}", ExpectedError("Unicode", "[a-z]")),
        ("(a{1000}){1000}", ExpectedError("bytes", "repetitions")),
        ("(?x)a # and so on", ExpectedError("comment", "leave out")),
    ];
    for (text, expected) in &table {
        check(&Pattern::regex(text, CaseSensitivity::Sensitive).expect_err(text), expected);
    }
    let nested = |depth: usize| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
    let depth = REGEX_NESTING_MAX as usize;
    check(
        &Pattern::regex(&nested(depth + 1), CaseSensitivity::Sensitive).unwrap_err(),
        &ExpectedError("too deep", "64"),
    );
    assert!(Pattern::regex(&nested(depth), CaseSensitivity::Sensitive).is_ok());
}

#[test]
fn invalid_wildcards_prefixes_and_sets_are_refused_with_a_hint() {
    check(&Wildcard::new("abc").unwrap_err(), &ExpectedError("`abc` has no `*`", "plain value"));
    check(&Pattern::prefix("").unwrap_err(), &ExpectedError("nothing", "exists: true"));
    let none: [&str; 0] = [];
    check(&Pattern::one_of(none).unwrap_err(), &ExpectedError("empty list", "exists: false"));
    let many = std::iter::repeat_n("a", SET_ENTRIES_MAX + 1);
    check(&Pattern::one_of(many).unwrap_err(), &ExpectedError("more than 100000", "split"));
    // An endless list is refused as soon as it is too long.
    check(&Pattern::one_of(std::iter::repeat("a")).unwrap_err(), &ExpectedError("more than 100000", "split"));
}

#[test]
fn text_that_is_too_long_is_refused() {
    let longest = "/".repeat(PATTERN_TEXT_BYTES_MAX - 1);
    assert!(Pattern::exact(&format!("{longest}*")).is_ok());
    assert!(Pattern::wildcard(&format!("{longest}*")).is_ok());
    let long = format!("/{}*", "é".repeat(1_000_000));
    let expected = ExpectedError("2000002 bytes long", "at most 4096");
    for result in [
        Pattern::exact(&long),
        Pattern::prefix(&long),
        Pattern::wildcard(&long),
        Pattern::regex(&long, CaseSensitivity::Sensitive),
        Pattern::path(&long),
        Pattern::one_of([long.as_str()]),
        Net::parse(&long).and_then(|net| Pattern::nets([net])),
    ] {
        check(&result.unwrap_err(), &expected);
    }
}
