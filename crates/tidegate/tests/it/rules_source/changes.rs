//! Every kind of change of files is seen once.

use std::fs;

use super::*;

#[test]
fn edited_in_place() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.write("api.yaml", rules("api", "50 per second"));
    assert_changed(&mut source, &["api 50"]);
}

#[test]
fn edited_in_place_with_the_same_length_and_time() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let mut source = source([path.clone()]);
    assert_changed(&mut source, &["api 5"]);
    directory.write("api.yaml", rules("api", "6 per second"));
    fs::File::options().write(true).open(&path).unwrap().set_modified(written).unwrap();
    assert_changed(&mut source, &["api 6"]);
}

#[test]
fn touched_and_not_changed() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.write("api.yaml", rules("api", "5 per second"));
    assert_unchanged(&mut source);
    directory.replace("api.yaml", rules("api", "5 per second"));
    assert_unchanged(&mut source);
}

#[test]
fn replaced_by_a_rename() {
    let directory = RulesDirectory::new();
    let path = directory.write("api.yaml", rules("api", "5 per second"));
    let mut source = source([path]);
    assert_changed(&mut source, &["api 5"]);
    directory.replace("api.yaml", rules("api", "6 per second"));
    assert_changed(&mut source, &["api 6"]);
}

#[test]
fn a_config_map_is_swapped_as_a_whole() {
    let directory = RulesDirectory::new();
    directory.write("..2026_1/a.yaml", rules("a", "1 per second"));
    directory.write("..2026_1/b.yaml", rules("b", "1 per second"));
    directory.link("..data", "..2026_1");
    directory.link("a.yaml", "..data/a.yaml");
    directory.link("b.yaml", "..data/b.yaml");
    let mut source = source([directory.path()]);
    assert_changed(&mut source, &["a 1", "b 1"]);

    directory.write("..2026_2/a.yaml", rules("a", "2 per second"));
    directory.write("..2026_2/b.yaml", rules("b", "2 per second"));
    assert_unchanged(&mut source);
    directory.relink("..data", "..2026_2");
    fs::remove_dir_all(directory.file("..2026_1")).unwrap();
    assert_changed(&mut source, &["a 2", "b 2"]);

    // The same, named as a file.
    let mut source = super::source([directory.file("a.yaml")]);
    assert_changed(&mut source, &["a 2"]);
    directory.write("..2026_3/a.yaml", rules("a", "3 per second"));
    directory.relink("..data", "..2026_3");
    assert_changed(&mut source, &["a 3"]);
}

#[test]
fn files_come_and_go() {
    let directory = RulesDirectory::new();
    directory.write("b.yaml", rules("b", "1 per second"));
    let mut source = source([directory.path()]);
    assert_changed(&mut source, &["b 1"]);
    directory.write("a.yml", rules("a", "1 per second"));
    assert_changed(&mut source, &["a 1", "b 1"]);
    directory.remove("b.yaml");
    assert_changed(&mut source, &["a 1"]);
    directory.write(".c.yaml.swp", "what an editor leaves");
    directory.write(".c.yaml", rules("c", "1 per second"));
    directory.write("notes.txt", "not rules");
    directory.write("more.yaml/c.yaml", rules("c", "1 per second"));
    assert_unchanged(&mut source);
}

#[test]
fn content_that_moves_from_one_file_to_another() {
    let directory = RulesDirectory::new();
    directory.write("a.yaml", rules("a", "1 per second"));
    directory.write("b.yaml", rules("b", "1 per second"));
    let mut source = source([directory.path()]);
    assert_changed(&mut source, &["a 1", "b 1"]);
    fs::rename(directory.file("a.yaml"), directory.file("c.yaml")).unwrap();
    assert_changed(&mut source, &["b 1", "a 1"]);
}
