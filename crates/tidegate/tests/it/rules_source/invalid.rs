//! Every problem with files is reported once, and so is its end.

use super::*;

#[test]
fn invalid_then_repaired() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.write("api.yaml", rules("api", "5 per sekond"));
    let report = assert_invalid(&mut source, "bad-limit");
    assert!(report.to_string().contains("did you mean `second`?"), "{report}");
    directory.write("api.yaml", rules("api", "6 per sekond"));
    assert_invalid(&mut source, "bad-limit");
    directory.write("api.yaml", rules("api", "6 per second"));
    assert_changed(&mut source, &["api 6"]);
}

#[test]
fn restored_to_the_last_valid_content() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.write("api.yaml", "domain: [");
    assert_invalid(&mut source, "yaml-syntax");
    directory.write("api.yaml", rules("api", "5 per second"));
    assert_changed(&mut source, &["api 5"]);
}

#[test]
fn half_written() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    let whole = rules("api", "6 per second");
    directory.write("api.yaml", "");
    assert_invalid(&mut source, "empty-file");
    directory.write("api.yaml", &whole[..whole.len() / 2]);
    assert_invalid(&mut source, "yaml-syntax");
    directory.write("api.yaml", whole);
    assert_changed(&mut source, &["api 6"]);
}

#[test]
fn removed_and_restored() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.remove("api.yaml");
    let report = assert_invalid(&mut source, "no-such-file");
    assert!(report.to_string().contains("api.yaml"), "{report}");
    directory.write("api.yaml", rules("api", "5 per second"));
    assert_changed(&mut source, &["api 5"]);
}

#[test]
fn a_directory_that_becomes_empty() {
    let directory = RulesDirectory::new();
    directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([directory.path()]);
    assert_changed(&mut source, &["api 5"]);
    directory.remove("api.yaml");
    assert_invalid(&mut source, "empty-directory");
    directory.write("api.yaml", rules("api", "6 per second"));
    assert_changed(&mut source, &["api 6"]);
}

#[test]
fn one_of_several_invalid() {
    let directory = RulesDirectory::new();
    directory.write("a.yaml", rules("a", "1 per second"));
    directory.write("b.yaml", rules("b", "1 per second"));
    let mut source = source([directory.path()]);
    assert_changed(&mut source, &["a 1", "b 1"]);
    directory.write("b.yaml", [0xff, 0xfe, 0]);
    directory.write("a.yaml", rules("a", "2 per second"));
    assert_invalid(&mut source, "not-utf-8");
    directory.write("b.yaml", rules("b", "1 per second"));
    assert_changed(&mut source, &["a 2", "b 1"]);
}

#[test]
fn unreadable() {
    let directory = RulesDirectory::new();
    // A process with all permissions cannot read these either.
    directory.link("dangling.yaml", "nowhere");
    assert_invalid(&mut source([directory.path()]), "unreadable");
    directory.link("loop.yaml", "loop.yaml");
    assert_invalid(&mut source([directory.file("loop.yaml")]), "unreadable");
    assert_invalid(&mut source(["/dev/null".into()]), "not-a-file");
    let mut source = source([directory.file("dangling.yaml")]);
    assert_invalid(&mut source, "no-such-file");
    directory.write("nowhere", rules("api", "5 per second"));
    assert_changed(&mut source, &["api 5"]);
}

#[test]
fn a_missing_file_differs_from_a_file_with_the_error_text() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", "unread");
    let mut source = source([path]);
    assert_invalid(&mut source, "wrong-type");
    directory.remove("api.yaml");
    assert_invalid(&mut source, "no-such-file");
    directory.write("api.yaml", "there is no such file or directory");
    assert_invalid(&mut source, "wrong-type");
}

#[test]
fn too_large() {
    let directory = RulesDirectory::new();
    let large = "#".repeat(tidegate::rules::FILE_BYTES_MAX + 1);
    let path = directory.write("api.yaml", large);
    assert_invalid(&mut source([path]), "file-too-large");
}

#[test]
fn no_paths() {
    assert_invalid(&mut source([]), "no-files");
}
