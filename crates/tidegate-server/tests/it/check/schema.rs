//! The schema of rules files.

use crate::check::{assert_success, tidegate};

#[test]
fn the_schema_is_json() {
    let run = tidegate(&["schema"], "");
    assert_success(&run);
    let schema: serde_json::Value = run.out.parse().expect("it is JSON");
    assert!(schema["$schema"].is_string());
    assert!(schema["properties"]["domain"].is_object(), "{schema}");
    assert!(run.out.ends_with('\n'));
}
