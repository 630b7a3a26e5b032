//! Text that is not a limit, and the exact error for it.

use tidegate_core::Limit;

const NOT_A_LIMIT: &str = "write for example `100 per minute`, `10/s burst 20`, `5 per 30s` or \
                           `{algorithm: sliding_window, limit: 100, per: 60s}`";
const WHOLE_NUMBER: &str = "write a whole number like 100";
const WINDOW_RANGE: &str = "windows go from 1ms to 10 years (3650d)";
const UNIT_RANGE: &str = "it goes from 1 to 1099511627775";
const ONE_TOO_MANY: &str = "leave one of them out";
const ZONES: &str = "time zones have names like `Europe/Paris`, `America/New_York` or `UTC`";
const DAYS_OF_MONTH: &str = "it goes from 1 to 31; a month that is too short begins with its last day";
const CALENDAR_WINDOWS: &str = "write `per: day`, `per: week` or `per: month`, or leave `align` out";
const PAIRS: &str = "braces come in pairs: {..., align: {tz: Europe/Paris}}";
const FIELDS: &str = "expected one of: algorithm, limit, per, burst, queue, sub_windows, strict, count_denied, \
                      min_interval, align, ttl, name";
const UNITS: &str = "expected one of: ns, nanosecond, nanoseconds, us, µs, microsecond, microseconds, ms, millisecond, \
                     milliseconds, s, sec, secs, second, seconds, m, min, mins, minute, minutes, h, hour, hours, \
                     d, day, days, w, week, weeks, month, months, y, year, years";

/// Text that is not a limit, the problem, and the hint.
const INVALID: &[(&str, &str, &str)] = &[
    // Not a limit at all.
    ("", "`` is not a limit", NOT_A_LIMIT),
    ("hello", "`hello` is not a limit", NOT_A_LIMIT),
    ("5", "`5` is not a limit", "per how long? Write for example `5 per minute`"),
    ("10k", "`10k` is not a limit", "per how long? Write for example `10000 per minute`"),
    ("5 per", "`5 per` is not a limit", NOT_A_LIMIT),
    ("per minute", "`per minute` is not a limit", NOT_A_LIMIT),
    ("/", "`/` is not a limit", NOT_A_LIMIT),
    // The number.
    ("-5 per second", "limit `-5` is not a whole number", "limit cannot be negative"),
    ("1.5 per second", "limit `1.5` is not a whole number", "did you mean `3 per 2s`?"),
    ("10k per second", "limit `10k` is not a whole number", "did you mean `10000 per second`?"),
    ("{limit: 10k, per: 1s}", "limit `10k` is not a whole number", "did you mean `10000`?"),
    ("100r/m", "limit `100r` is not a whole number", "did you mean `100 per minute`?"),
    ("1e3 per second", "limit `1e3` is not a whole number", WHOLE_NUMBER),
    ("{limit: -5, per: 1s}", "limit `-5` is not a whole number", "limit cannot be negative"),
    ("{limit: , per: 1s}", "limit `` is not a whole number", WHOLE_NUMBER),
    (
        "1099511627776 per second",
        "limit 1099511627776 is too large",
        "the largest is 1099511627775; count in larger units",
    ),
    (
        "99999999999999999999 per second",
        "limit `99999999999999999999` is too large",
        "numbers here fit 64 bits",
    ),
    // The window.
    ("5 per fortnight", "unknown unit of time `fortnight`", UNITS),
    ("5 per minuet", "unknown unit of time `minuet`", "did you mean `minute`?"),
    (
        "5 per 30",
        "duration `30` has no unit",
        "write for example 500ms, 30s, 1m, 2h, 30d or a word like minute",
    ),
    ("5 per 0s", "a window of 0ns is out of range", WINDOW_RANGE),
    ("5 per 999999ns", "a window of 999999ns is out of range", WINDOW_RANGE),
    ("5 per 3651d", "a window of 315446400000000000ns is out of range", WINDOW_RANGE),
    ("5 per 1000000000000 years", "duration `1000000000000 years` is too long", WINDOW_RANGE),
    (
        "5 per 99999999999999999999s",
        "duration `99999999999999999999` is too large",
        "numbers here fit 64 bits",
    ),
    // Burst and queue.
    ("10/s burst 0", "burst 0 is out of range", UNIT_RANGE),
    ("10/s burst", "burst `` is not a whole number", WHOLE_NUMBER),
    ("10/s burst -1", "burst `-1` is not a whole number", "burst cannot be negative"),
    ("10/s burst 1099511627776", "burst 1099511627776 is out of range", UNIT_RANGE),
    ("{limit: 5, per: 1s, burst: 0}", "burst 0 is out of range", UNIT_RANGE),
    ("{algorithm: leaky_bucket, limit: 5, per: 1s, queue: 0}", "queue 0 is out of range", UNIT_RANGE),
    // The syntax of the long form.
    ("{limit: 5, per: 1s", "the long form has no closing `}`", "end the limit with }"),
    ("{limit: 5, per: 1s, burst}", "`burst` is not a field", "write `name: value`"),
    ("{}", "field `limit` is missing", "add for example `limit: 100`"),
    ("{per: 1s}", "field `limit` is missing", "add for example `limit: 100`"),
    ("{limit: 5}", "field `per` is missing", "add for example `per: 1m`"),
    ("{limit: 5, per: 1s, limit: 6}", "field `limit` is given twice", ONE_TOO_MANY),
    ("{limit: 5, per: 1s, per: 1s}", "field `per` is given twice", ONE_TOO_MANY),
    ("{limit: 10/s burst 20, burst: 3}", "burst is given twice", ONE_TOO_MANY),
    // Unknown words.
    ("{limit: 5, per: 1s, brust: 3}", "unknown field `brust`", "did you mean `burst`?"),
    (
        "{limit: 5, per: 1s, min_intervall: 3s}",
        "unknown field `min_intervall`",
        "did you mean `min_interval`?",
    ),
    ("{limit: 5, per: 1s, colour: red}", "unknown field `colour`", FIELDS),
    ("{limit: 5, per: 1s, algorithm: gcar}", "unknown algorithm `gcar`", "did you mean `gcra`?"),
    (
        "{limit: 5, per: 1s, algorithm: slidingwindow}",
        "unknown algorithm `slidingwindow`",
        "did you mean `sliding_window`?",
    ),
    (
        "{limit: 5, per: 1s, algorithm: magic}",
        "unknown algorithm `magic`",
        "expected one of: gcra, token_bucket, leaky_bucket, fixed_window, sliding_log, sliding_window, sub_windows, \
         concurrency",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 1s, align: calendar}",
        "unknown align `calendar`",
        "windows of a calendar need a time zone: `per: month, align: {tz: Europe/Paris}`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 1s, align: Europe/Berlin}",
        "unknown align `Europe/Berlin`",
        "a time zone is written `align: {tz: Europe/Berlin}`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 1s, align: midnight}",
        "unknown align `midnight`",
        "expected one of: epoch, first_hit, {tz: Europe/Paris}",
    ),
    // Leases.
    (
        "{algorithm: concurrency, limit: 5}",
        "a concurrency limit has no ttl",
        "add for example `ttl: 30s`, longer than any unit is held",
    ),
    (
        "{algorithm: concurrency, limit: 5, per: 1s}",
        "`per` does not go with algorithm concurrency",
        "write ttl instead of per",
    ),
    (
        "{algorithm: concurrency, limit: 5, ttl: 1us}",
        "a ttl of 1000ns is out of range",
        "it goes from 1ms to 10 years (3650d)",
    ),
    (
        "{algorithm: concurrency, limit: 5, ttl: 1m, burst: 2}",
        "`burst` does not go with algorithm concurrency",
        "leave it out, or use algorithm: gcra or token_bucket",
    ),
    (
        "{limit: 5, per: 1s, ttl: 1m}",
        "`ttl` does not go with algorithm gcra",
        "leave it out, or use algorithm: concurrency",
    ),
    (
        "{algorithm: sub_windows, limit: 5, per: 1s, strict: yes}",
        "strict `yes` is neither true nor false",
        "write true or false",
    ),
    // Calendars.
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Europe/Pari}}",
        "unknown time zone `Europe/Pari`",
        "did you mean `Europe/Paris`?",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: new york}}",
        "unknown time zone `new york`",
        "did you mean `America/New_York`?",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Middle/Earth}}",
        "unknown time zone `Middle/Earth`",
        ZONES,
    ),
    ("{algorithm: fixed_window, limit: 5, per: day, align: {tz: }}", "unknown time zone ``", ZONES),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: +02:00}}",
        "unknown time zone `+02:00`",
        ZONES,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: Etc/Unknown}}",
        "unknown time zone `Etc/Unknown`",
        ZONES,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: week, align: {week_start: sunday}}",
        "unknown field of align `week_start`",
        "did you mean `week_starts`?",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {hemisphere: north}}",
        "unknown field of align `hemisphere`",
        "expected one of: tz, week_starts, day_of_month",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: UTC, tz: UTC}}",
        "field `tz` is given twice",
        ONE_TOO_MANY,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {UTC}}",
        "`UTC` is not a field",
        "write `name: value`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: week, align: {week_starts: Sunday}}",
        "unknown weekday `Sunday`",
        "did you mean `sunday`?",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: week, align: {week_starts: 7}}",
        "unknown weekday `7`",
        "expected one of: monday, tuesday, wednesday, thursday, friday, saturday, sunday",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: month, align: {day_of_month: 0}}",
        "day_of_month 0 is out of range",
        DAYS_OF_MONTH,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: month, align: {day_of_month: 32}}",
        "day_of_month 32 is out of range",
        DAYS_OF_MONTH,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: month, align: {day_of_month: 257}}",
        "day_of_month 257 is out of range",
        DAYS_OF_MONTH,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: month, align: {day_of_month: last}}",
        "day_of_month `last` is not a whole number",
        WHOLE_NUMBER,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {week_starts: sunday}}",
        "`week_starts` does not go with per: day",
        "leave it out, or write `per: week`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: week, align: {day_of_month: 15}}",
        "`day_of_month` does not go with per: week",
        "leave it out, or write `per: month`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: month, align: {week_starts: monday, day_of_month: 15}}",
        "`week_starts` does not go with per: month",
        "leave it out, or write `per: week`",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 2h, align: {tz: UTC}}",
        "a calendar has no windows of 2h",
        CALENDAR_WINDOWS,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 2d, align: {tz: UTC}}",
        "a calendar has no windows of 2d",
        CALENDAR_WINDOWS,
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: year, align: {}}",
        "a calendar has no windows of 365d",
        CALENDAR_WINDOWS,
    ),
    (
        "{algorithm: sliding_log, limit: 5, per: day, align: {tz: UTC}}",
        "`align` does not go with algorithm sliding_log",
        "leave it out, or use algorithm: fixed_window",
    ),
    (
        "{limit: 5, per: day, align: {tz: UTC}}",
        "`align` does not go with algorithm gcra",
        "leave it out, or use algorithm: fixed_window",
    ),
    // Braces.
    ("{algorithm: fixed_window, limit: 5, per: day, align: {tz: UTC}", "missing `}`", PAIRS),
    ("{algorithm: fixed_window, limit: 5, per: day, align: {tz: UTC}}}", "unexpected `}`", PAIRS),
    ("{algorithm: fixed_window, limit: 5, per: day, align: tz: UTC}}", "unexpected `}`", PAIRS),
    ("{algorithm: fixed_window, limit: 5, per: day, align: {{tz: UTC}}}", "unexpected `{`", PAIRS),
    (
        "{algorithm: fixed_window, limit: 5, per: day, align: {tz: UTC} exactly}",
        "unknown align `{tz: UTC} exactly`",
        "expected one of: epoch, first_hit, {tz: Europe/Paris}",
    ),
    ("{limit: {5}, per: day}", "limit `{5}` is not a whole number", WHOLE_NUMBER),
    // Options of another algorithm.
    (
        "{limit: 5, per: 1s, queue: 3}",
        "`queue` does not go with algorithm gcra",
        "leave it out, or use algorithm: leaky_bucket",
    ),
    (
        "{algorithm: fixed_window, limit: 5, per: 1s, burst: 3}",
        "`burst` does not go with algorithm fixed_window",
        "leave it out, or use algorithm: gcra or token_bucket",
    ),
    (
        "{algorithm: sliding_window, limit: 5, per: 1s, count_denied: true}",
        "`count_denied` does not go with algorithm sliding_window",
        "leave it out, or use algorithm: fixed_window or sliding_log",
    ),
    // Options out of range.
    (
        "{algorithm: sliding_log, limit: 5, per: 1s, min_interval: 2s}",
        "a min_interval of 2000000000ns is out of range",
        "it goes from 1ns to the window, 1000000000ns",
    ),
    (
        "{algorithm: sliding_log, limit: 5, per: 1s, min_interval: 0s}",
        "a min_interval of 0ns is out of range",
        "it goes from 1ns to the window, 1000000000ns",
    ),
    (
        "{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 0}",
        "0 sub_windows are out of range",
        "a window has 1 to 65536 of them",
    ),
    (
        "{algorithm: sub_windows, limit: 5, per: 1s, sub_windows: 65537}",
        "65537 sub_windows are out of range",
        "a window has 1 to 65536 of them",
    ),
    (
        "{limit: 5, per: 1s, name: a/b}",
        "`a/b` is not a name",
        "names have 1 to 128 letters, digits, `-`, `_`, `.` and spaces between them",
    ),
];

#[test]
fn errors_name_the_problem_and_a_fix() {
    for (text, problem, hint) in INVALID {
        let Err(error) = text.parse::<Limit>() else { panic!("`{text}` is read as a limit") };
        assert_eq!((error.problem(), error.hint()), (*problem, *hint), "{text}");
        assert_eq!(error.to_string(), format!("{problem} (hint: {hint})"));
    }
}

#[test]
fn text_that_is_too_long_is_not_parsed() {
    let error = "5 per minute ".repeat(154).parse::<Limit>().expect_err("2002 bytes");
    assert_eq!(error.problem(), "a limit of 2002 bytes is too long");
    assert_eq!(error.hint(), "1024 bytes are enough for every option");
}
