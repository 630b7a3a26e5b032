//! What is no pattern, and the hint that comes with it.

use tidegate_core::rules::{
    Case, Net, NetSet, PATH_SEGMENTS_MAX, PATTERN_TEXT_BYTES_MAX, PathPattern, PathSet, Pattern,
    PatternError, REGEX_NESTING_MAX, SET_ENTRIES_MAX, Wildcard,
};

/// What an error has to say in its problem and in its hint.
struct Says(&'static str, &'static str);

fn check(error: &PatternError, Says(problem, hint): &Says) {
    assert!(error.problem().contains(problem), "`{}` in {error}", problem);
    assert!(error.hint().contains(hint), "`{}` in {error}", hint);
    assert!(error.to_string().len() < 600, "as long as what is wrong: {error}");
}

#[test]
fn paths() {
    let table = [
        ("", Says("does not begin with `/`", "`/`")),
        ("users/{id}", Says("does not begin with `/`", "`/users/{id}`")),
        ("/a?b", Says("has a `?`", "`/a`")),
        ("/a/b#c", Says("has a `#`", "`/a/b`")),
        ("/**/b", Says("`**` before its end", "last segment")),
        ("/a/**/**", Says("`**` before its end", "last segment")),
        ("/a/b*", Says("within the segment `b*`", "wildcard")),
        ("/a/b**", Says("within the segment `b**`", "wildcard")),
        ("/***", Says("within the segment `***`", "wildcard")),
        ("/{}", Says("an empty name", "`*`")),
        ("/{a}/{a}", Says("`{a}` twice", "of its own")),
        ("/{a", Says("braces within the segment `{a`", "whole segment")),
        ("/a}", Says("braces within the segment `a}`", "whole segment")),
        ("/x{a}", Says("braces within the segment `x{a}`", "whole segment")),
        ("/{a}{b}", Says("a name with other characters", "`{id}`")),
        ("/{{a}}", Says("a name with other characters", "`{id}`")),
        ("/{a b}", Says("a name with other characters", "`{id}`")),
        ("/{1}", Says("begins with a digit", "`{id}`")),
        ("/{*rest}", Says("star", "`**`")),
    ];
    for (text, says) in &table {
        check(&PathPattern::parse(text).expect_err(text), says);
    }
    assert!(PathPattern::parse(&"/a".repeat(PATH_SEGMENTS_MAX)).is_ok());
    let error = PathPattern::parse(&"/a".repeat(PATH_SEGMENTS_MAX + 1)).unwrap_err();
    check(&error, &Says("more than 128 segments", "`**`"));

    check(&PathSet::new([]).unwrap_err(), &Says("empty list", "at least one"));
    let one = PathPattern::parse("/a/*").unwrap();
    assert!(PathSet::new(std::iter::repeat_n(one.clone(), SET_ENTRIES_MAX)).is_ok());
    check(&PathSet::new(std::iter::repeat(one)).unwrap_err(), &Says("more than 100000 paths", "split"));
}

#[test]
fn blocks_of_addresses() {
    let table = [
        ("", Says("not an address", "10.0.0.0/8")),
        ("10.0.0", Says("not an address", "10.0.0.0/8")),
        ("10.0.*", Says("not an address", "10.0.0.0/8")),
        ("10.0.0.1:80", Says("not an address", "10.0.0.0/8")),
        ("localhost", Says("not an address", "10.0.0.0/8")),
        ("10.0.0.0/", Says("no number of bits", "0 to 32")),
        ("10.0.0.0/33", Says("`33` is no number of bits", "0 to 32")),
        ("10.0.0.0/+8", Says("no number of bits", "0 to 32")),
        ("10.0.0.0/8/8", Says("no number of bits", "0 to 32")),
        ("2001:db8::/129", Says("no number of bits", "0 to 128")),
        ("10.0.0.1/8", Says("within a block", "`10.0.0.0/8`")),
        ("10.0.0.1/8", Says("within a block", "alone is `10.0.0.1`")),
        ("10.0.0.1/0", Says("within a block", "`0.0.0.0/0`")),
        ("2001:db8::1/32", Says("within a block", "`2001:db8::/32`")),
        ("::ffff:10.0.0.1/104", Says("within a block", "`10.0.0.0/8`")),
        ("::ffff:10.0.0.0/64", Says("within a block", "`::/64`")),
    ];
    for (text, says) in &table {
        check(&Net::parse(text).expect_err(text), says);
    }
    check(&NetSet::new([]).unwrap_err(), &Says("empty list", "at least one"));
    let one = Net::parse("10.0.0.0/8").unwrap();
    let error = NetSet::new(std::iter::repeat_n(one, SET_ENTRIES_MAX + 1)).unwrap_err();
    check(&error, &Says("more than 100000", "split"));
}

#[test]
fn regular_expressions() {
    let table = [
        ("(", Says("not a regular expression", "`\\`")),
        ("a)|(b", Says("not a regular expression", "`\\`")),
        ("*", Says("not a regular expression", "`\\`")),
        ("(?=a)", Says("look-around", "not: ...")),
        ("(?<!a)b", Says("look-around", "not: ...")),
        (r"(a)\1", Says("backreference", "referred to")),
        (r"\p{Klingonese}", Says("Unicode", "[a-z]")),
        ("(a{1000}){1000}", Says("bytes", "repetitions")),
        ("(?x)a # and so on", Says("comment", "leave out")),
    ];
    for (text, says) in &table {
        check(&Pattern::regex(text, Case::Kept).expect_err(text), says);
    }
    let nested = |depth: usize| format!("{}{}", "(".repeat(depth), ")".repeat(depth));
    let depth = REGEX_NESTING_MAX as usize;
    check(&Pattern::regex(&nested(depth + 1), Case::Kept).unwrap_err(), &Says("too deep", "64"));
    assert!(Pattern::regex(&nested(depth), Case::Kept).is_ok());
}

#[test]
fn the_rest() {
    check(&Wildcard::new("abc").unwrap_err(), &Says("`abc` has no `*`", "plain value"));
    check(&Pattern::prefix("").unwrap_err(), &Says("nothing", "exists: true"));
    let none: [&str; 0] = [];
    check(&Pattern::one_of(none).unwrap_err(), &Says("empty list", "exists: false"));
    let many = std::iter::repeat_n("a", SET_ENTRIES_MAX + 1);
    check(&Pattern::one_of(many).unwrap_err(), &Says("more than 100000", "split"));
    // A list without end is given up as soon as it is too long.
    check(&Pattern::one_of(std::iter::repeat("a")).unwrap_err(), &Says("more than 100000", "split"));
}

#[test]
fn long_text() {
    let just = "/".repeat(PATTERN_TEXT_BYTES_MAX - 1);
    assert!(Pattern::exact(&format!("{just}*")).is_ok());
    assert!(Pattern::wildcard(&format!("{just}*")).is_ok());
    let long = format!("/{}*", "é".repeat(1_000_000));
    let says = Says("2000002 bytes long", "at most 4096");
    for refused in [
        Pattern::exact(&long),
        Pattern::prefix(&long),
        Pattern::wildcard(&long),
        Pattern::regex(&long, Case::Kept),
        Pattern::path(&long),
        Pattern::one_of([long.as_str()]),
        Net::parse(&long).and_then(|net| Pattern::nets([net])),
    ] {
        check(&refused.unwrap_err(), &says);
    }
}
