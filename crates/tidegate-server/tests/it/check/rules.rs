//! Rules without problems, with warnings and with errors.

use crate::check::{Directory, assert_success, json, tidegate};

const API: &str = "domain: api\nrules:\n  - { name: a, key: [user], limit: 5 per second }\n  - { name: b, match: { x: y }, limit: 9 per second }\n";
const WEB: &str = "domain: web\nrules: [ { name: a, key: [user], limit: 5 per second } ]\n";
/// An unknown field and an invalid limit.
const WRONG: &str = "domain: api\nrules:\n  - { nme: a, name: b, limit: 5 per sekond }\n";
/// Two rules match the same requests, so the second never applies.
const ODD: &str = "domain: api\napply: first\nrules:\n  - { name: a, limit: 5 per second }\n  - { name: b, limit: 9 per second }\n";

#[test]
fn valid_rules() {
    let directory = Directory::new();
    let api = directory.write("api.yaml", API);
    let run = tidegate(&["check", &api], "");
    assert_success(&run);
    let worst_cases = "at most, for each key:\n  api a limit 1: 9 in any 1s: 5 at once and 4 more within 800ms\n  \
                       api b limit 1: 17 in any 1s: 9 at once and 8 more within 888.9ms\n";
    assert_eq!(run.out, format!("{worst_cases}ok: 1 file, 1 domain, 2 rules, 0 warnings\n"));
    directory.write("web.yml", WEB);
    directory.write("notes.txt", "not rules");
    let run = tidegate(&["check", "--deny-warnings", directory.path()], "");
    assert!(run.out.ends_with("\nok: 2 files, 2 domains, 3 rules, 0 warnings\n"), "{}", run.out);
    let notes = format!("{}/notes.txt", directory.path());
    let reason = "rules files are named *.yaml or *.yml";
    assert_eq!((run.code, &*run.err), (Some(0), &*format!("note: not loaded: {notes}: {reason}\n\n")));
    let run = tidegate(&["check", "--format", "json", directory.path()], "");
    assert_success(&run);
    let mut document = json(&run);
    let limits = document.as_object_mut().unwrap().remove("limits").unwrap();
    let expected = serde_json::json!({
        "ok": true, "files": 2, "domains": 2, "rules": 3, "errors": 0, "warnings": 0, "diagnostics": [],
        "skipped": [{ "path": notes, "reason": reason }],
    });
    assert_eq!(document, expected);
    let worst_case = serde_json::json!({
        "units": 9, "window_ns": 1_000_000_000, "text": "9 in any 1s: 5 at once and 4 more within 800ms", "remark": null,
    });
    let bound = serde_json::json!({
        "nodes": 1, "units": 9, "window_ns": 1_000_000_000, "excess": null,
        "text": "9 in any 1s: 5 at once and 4 more within 800ms",
    });
    let expected = serde_json::json!({
        "domain": "api", "rule": "a", "plan": null, "limit": 1, "worst_case": worst_case, "mode": "strict", "bound": bound,
    });
    assert_eq!(limits[0], expected);
}

#[test]
fn bounds_of_modes_with_several_nodes() {
    let directory = Directory::new();
    let path = directory.write(
        "api.yaml",
        "domain: api
rules:
  - { name: strict, limit: 6000 per minute burst 100 }
  - { name: leased, limit: 6000 per minute burst 100, mode: leased }
  - { name: window, limit: { limit: 6000, per: 1m, algorithm: fixed_window }, mode: leased, lease_time: 200ms }
  - { name: eventual, limit: 6000 per minute burst 100, mode: eventual }
  - { name: local, limit: 6000 per minute burst 100, mode: local }
  - { name: dry, limit: 6000 per minute, action: shadow, mode: leased }
",
    );
    let run = tidegate(&["check", &path, "--nodes", "4"], "");
    assert_success(&run);
    let expected = "at most, for each key, by 4 nodes that share a store:
  api strict limit 1: 6099 in any 1m: 100 at once and 5999 more within 60s
  api leased limit 1 mode leased: 6199 in any 1m, 200 of them at once: 100 more than with mode strict, because units may be used up to 1s after they were counted
  api window limit 1 mode leased: 12000 in any 1m, around the end of a window; 6000 in each window, as with mode strict: a lease ends with its window
  api eventual limit 1 mode eventual: 6099 in any 1m: 100 at once and 5999 more within 60s; when an overload begins, up to 600 more for each 1000 units per second that arrive at each node (3 x 2 x 100ms) and what arrives at a node in 3 round trips to the store, but not more than 24396 in all; the excess is paid back afterwards
  api local limit 1 mode local: 24396 in any 1m: 4 nodes, each with 6099 in any 1m: 100 at once and 5999 more within 60s
ok: 1 file, 1 domain, 6 rules, 0 warnings
";
    assert_eq!(run.out, expected);
    let document = json(&tidegate(&["check", &path, "--nodes", "4", "--format", "json"], ""));
    let limits = &document["limits"];
    let bound = &limits[3]["bound"];
    assert_eq!(
        (&limits[3]["mode"], &bound["nodes"], &bound["units"]),
        (&"eventual".into(), &4.into(), &6_099.into())
    );
    let excess = serde_json::json!({
        "units_per_1000_per_second_and_node": 600, "round_trips": 3, "units_in_all_max": 24_396, "paid_back": true,
    });
    assert_eq!(bound["excess"], excess);
    assert_eq!((&limits[1]["mode"], &limits[1]["bound"]["units"]), (&"leased".into(), &6_199.into()));
    assert_eq!(tidegate(&["check", &path, "--nodes", "0"], "").code, Some(2));
}

/// Tests that lie beside the rules do not keep the rules from being checked.
#[test]
fn tests_beside_rules_are_skipped_with_a_note() {
    let directory = Directory::new();
    directory.write("api.yaml", API);
    let tests = "tests: [ { name: t, steps: [ { request: { user: ann }, times: 9, expect: allowed } ] } ]\n";
    let path = directory.write("api-tests.yaml", tests);
    let run = tidegate(&["check", directory.path(), "--deny-warnings"], "");
    assert!(run.out.ends_with("\nok: 1 file, 1 domain, 2 rules, 0 warnings\n"), "{run:?}");
    let note =
        format!("note: not loaded: {path}: it has tests of rules, which `tidegate check --tests` runs\n");
    assert!(run.err.starts_with(&note), "{run:?}");
    let run = tidegate(&["check", directory.path(), "--tests", &path], "");
    assert_eq!((run.code, &*run.out), (Some(1), "0 passed, 1 failed\n"), "{run:?}");
}

#[test]
fn worst_cases_of_plans_actions_and_months() {
    let directory = Directory::new();
    let path = directory.write(
        "api.yaml",
        "domain: api
rules:
  - { name: month, key: [user], limit: 1000 per month }
  - { name: calendar, limit: { limit: 1000, per: month, algorithm: fixed_window, align: { tz: Europe/Paris } } }
  - name: plan
    tiers: { by: plan, plans: { free: [ { name: fast, limit: 1 per second } ], staff: unlimited }, default: deny }
  - { name: soft, limit: 10 per minute burst 10, action: { soft: { margin: 50% } } }
  - { name: dry, limit: 5 per minute, action: shadow }
",
    );
    let run = tidegate(&["check", &path], "");
    assert_success(&run);
    let expected = "at most, for each key:
  api month limit 1: 1999 in any 30d: 1000 at once and 999 more within 30d (30 days, not a calendar month; that is \
                    `fixed_window` with `align: {tz: Europe/Paris}`)
  api calendar limit 1: 2000 around the end of a month; 1000 in each month
  api plan plan free limit fast: 1 in any 1s, all at once
  api plan plan default limit 1: nothing
  api soft limit 1: 29 in any 1m: 15 at once and 14 more within 56s
ok: 1 file, 1 domain, 5 rules, 0 warnings
";
    assert_eq!(run.out, expected);
    let rules: String = (0..150)
        .map(|n| format!("  - {{ name: r{n}, match: {{ a: b{n} }}, limit: 5 per minute }}\n"))
        .collect();
    let path = directory.write("many.yaml", format!("domain: many\nrules:\n{rules}"));
    let run = tidegate(&["check", &path], "");
    assert!(run.out.contains("\n  and 50 more limits\nok: "), "{}", run.out);
}

#[test]
fn invalid_rules() {
    let directory = Directory::new();
    let path = directory.write("api.yaml", WRONG);
    let run = tidegate(&["check", &path], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    for text in [
        "error[unknown-field]: a rule has no field `nme`",
        &format!("--> {path}:3:7"),
        "^^^",
        "did you mean `second`?",
        "2 errors, 0 warnings",
    ] {
        assert!(run.err.contains(text), "{text}: {}", run.err);
    }
    assert!(!run.err.contains('\u{1b}'), "no colours outside a terminal: {}", run.err);

    let run = tidegate(&["check", &path, "--format", "json"], "");
    assert_eq!((run.code, run.err.as_str()), (Some(1), ""), "{run:?}");
    let document = json(&run);
    assert_eq!(
        (&document["ok"], &document["errors"], &document["domains"]),
        (&false.into(), &2.into(), &0.into())
    );
    let diagnostic = &document["diagnostics"][0];
    assert_eq!(
        (&diagnostic["line"], &diagnostic["column"], &diagnostic["file"]),
        (&3.into(), &7.into(), &path.into())
    );
}

#[test]
fn warnings_and_deny_warnings() {
    let directory = Directory::new();
    let path = directory.write("api.yaml", ODD);
    let run = tidegate(&["check", &path], "");
    assert_eq!((run.code, run.out.as_str()), (Some(0), run.out.as_str()), "{run:?}");
    assert!(run.out.ends_with("\nok: 1 file, 1 domain, 2 rules, 1 warning\n"), "{run:?}");
    assert!(run.err.starts_with("warning[") && run.err.contains("0 errors, 1 warning"), "{}", run.err);
    let run = tidegate(&["check", &path, "--deny-warnings"], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains("warnings are denied (hint: "), "{}", run.err);
    let run = tidegate(&["check", &path, "--deny-warnings", "--format", "json"], "");
    assert_eq!((run.code, run.err.as_str()), (Some(1), ""), "{run:?}");
    assert_eq!((&json(&run)["ok"], &json(&run)["warnings"]), (&false.into(), &1.into()));
    let fine = directory.write("fine.yaml", API);
    assert_eq!(tidegate(&["check", &fine, "--deny-warnings"], "").code, Some(0));
}

#[test]
fn conflicting_files() {
    let directory = Directory::new();
    let (one, two) = (directory.write("a.yaml", API), directory.write("b.yaml", API));
    assert_eq!(tidegate(&["check", &one], "").code, Some(0));
    let run = tidegate(&["check", &one, &two], "");
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
    assert!(run.err.contains(&one) && run.err.contains(&two), "{}", run.err);
}

#[test]
fn a_changed_name_is_shown_as_it_appears() {
    let directory = Directory::new();
    let file = "domain: e\ndescriptors:\n  - { key: a, rate_limit: { unit: day, requests_per_unit: 1, name: 'x\"y' } }\n";
    let path = directory.write("e.yaml", file);
    let run = tidegate(&["check", &path], "");
    let expected = "warning[name-changed]: the limit is called `x-y` in headers and metrics, and `x%22y` in `current_limit.name`";
    assert!(run.err.contains(expected), "{run:?}");
}

#[test]
fn a_mapping_in_place_of_a_list_has_a_hint() {
    let directory = Directory::new();
    let path = directory.write("api.yaml", "domain: api\nrules:\n  a: { limit: 1 per second }\n");
    let run = tidegate(&["check", &path], "");
    assert!(run.err.contains("expected a list, found a mapping"), "{run:?}");
    assert!(run.err.contains("= help: write each item of a list with `- ` in front of it"), "{run:?}");
}
