//! The schema of rules files.

use crate::check::{assert_fine, tidegate};

#[test]
fn it_is_json_and_knows_rules() {
    let run = tidegate(&["schema"], "");
    assert_fine(&run);
    let schema: serde_json::Value = run.out.parse().expect("it is JSON");
    assert!(schema["$schema"].is_string());
    assert!(schema["properties"]["domain"].is_object(), "{schema}");
    assert!(run.out.ends_with('\n'));
}
