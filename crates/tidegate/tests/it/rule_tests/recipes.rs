//! The recipes of `docs/recipes.md`: every one loads without a warning and passes its own test.

use std::fs;
use std::path::Path;

use tidegate::rules::{self, RuleTests};

/// The recipes of the page: the title, the rules and the tests.
fn recipes(page: &str) -> Vec<(&str, &str, &str)> {
    let blocks_of = |text| -> Vec<&str> {
        let after_fences = str::split(text, "```yaml\n").skip(1);
        after_fences.map(|rest| rest.split("```").next().expect("a block")).collect()
    };
    let recipe = |text| match blocks_of(text)[..] {
        [rules, tests] => (str::lines(text).next().expect("a title"), rules, tests),
        _ => panic!("a recipe has rules and tests: {text}"),
    };
    page.split("\n## ").skip(1).map(recipe).collect()
}

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes.md");
    fs::read_to_string(page).expect("the page")
}

/// The rules of one recipe.
pub(super) fn recipe_rules(title: &str) -> String {
    let page = page();
    let found = recipes(&page).into_iter().find(|(one, ..)| *one == title);
    found.expect("a recipe").1.to_owned()
}

#[test]
fn every_recipe_passes_its_test() {
    let page = page();
    let recipes = recipes(&page);
    assert_eq!(recipes.len(), 8);
    for (title, rules, tests) in recipes {
        let loaded = rules::parse("rules.yaml", rules).unwrap_or_else(|report| panic!("{title}: {report}"));
        assert_eq!(loaded.report.warnings(), 0, "{title}: {}", loaded.report);
        let tests =
            RuleTests::parse("tests.yaml", tests).unwrap_or_else(|report| panic!("{title}: {report}"));
        let results = tests.run(&loaded.domains);
        assert_eq!(results.failed(), 0, "{title}: {}", results.report());
        // A test that passes without the rules would show nothing.
        let without = rules::parse("rules.yaml", "domain: api\nrules: []\n").expect("a domain");
        assert!(tests.run(&without.domains).failed() > 0, "{title}");
    }
}
