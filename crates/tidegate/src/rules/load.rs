//! From files to domains.

mod paths;

pub(super) use paths::{InputFile, read_files};

use std::path::PathBuf;

use tidegate_core::rules::Domain;

use super::diagnostic::{Diagnostic, Report};
use super::file::RulesFile;
use super::reader::Reader;
use super::yaml::{self, FILE_BYTES_MAX, Node};
use super::{FileId, envoy, join, native};

/// The most files of one load.
pub const FILES_MAX: usize = 4_096;
/// The most bytes of the files of one load, give or take the last of them.
pub const BYTES_MAX: usize = 256 << 20;

/// Rules that can be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedRules {
    /// The domains, in the order in which the files name them.
    pub domains: Vec<Domain>,
    /// Warnings, maybe.
    pub report: Report,
}

/// The rules of one file, which messages call `name`.
pub fn parse(name: &str, text: &str) -> Result<LoadedRules, Report> {
    let mut loading = RulesLoader::default();
    loading.add(&InputFile { name: name.to_owned(), content: Ok(text.into()) });
    loading.finish()
}

/// The rules of all these files, and of the `*.yaml` and `*.yml` files right in these directories, in the order of
/// their names. Files of one domain add up. Hidden files and directories in a directory are left out; a link to a
/// file is a file.
pub fn load(paths: &[PathBuf]) -> Result<LoadedRules, Report> {
    load_files(&read_files(paths))
}

/// The rules of files that were read.
pub(super) fn load_files(files: &[InputFile]) -> Result<LoadedRules, Report> {
    let mut loading = RulesLoader::default();
    for file in files {
        loading.add(file);
    }
    if files.is_empty() {
        let none = Diagnostic::file_error("no-files", FileId(0), "there are no files to read");
        add_file_error(&mut loading.report, "", none);
    }
    loading.finish()
}

/// What was read so far.
#[derive(Default)]
struct RulesLoader {
    report: Report,
    files: Vec<RulesFile>,
    /// Of every file that is one, in their order.
    trees: Vec<(FileId, Node)>,
}

impl RulesLoader {
    /// Reads a file's text, whatever kind of rules it holds.
    fn add(&mut self, file: &InputFile) {
        let Some(file) = add_source_text(&mut self.report, file) else { return };
        let Some(root) = yaml::read(&mut self.report, file) else { return };
        let mut reader = Reader::new(&mut self.report);
        self.files.extend(read_rules_file(&mut reader, &root));
        self.trees.push((file, root));
    }

    fn finish(mut self) -> Result<LoadedRules, Report> {
        let domains = join::join(&mut self.report, self.files);
        for (file, root) in &self.trees {
            self.report.fill_field_paths(*file, root);
        }
        self.report.sort();
        if self.report.has_errors() {
            return Err(self.report);
        }
        Ok(LoadedRules { domains, report: self.report })
    }
}

/// The text of a file, if it was read, is text and not too long. What is wrong with it is in the report then.
pub(super) fn add_source_text(report: &mut Report, InputFile { name, content }: &InputFile) -> Option<FileId> {
    let bytes = match content {
        Ok(bytes) => bytes,
        Err(unread) => return add_file_error(report, name, (**unread).clone()),
    };
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has more than {FILE_BYTES_MAX} bytes");
        let found = Diagnostic::file_error("file-too-large", FileId(0), message);
        return add_file_error(report, name, found.hint("split it into several"));
    }
    match str::from_utf8(bytes) {
        Ok(text) => Some(report.add_source(name, text)),
        Err(error) => {
            let at = error.valid_up_to();
            let message = format!("the file is not UTF-8: byte {at} (0x{:02x}) is not", bytes[at]);
            let found = Diagnostic::file_error("not-utf-8", FileId(0), message);
            add_file_error(report, name, found.hint("save it as UTF-8"))
        }
    }
}

/// Notes what is wrong with a file that is not read.
fn add_file_error(report: &mut Report, name: &str, found: Diagnostic) -> Option<FileId> {
    let file = report.add_source(name, "");
    report.push(Diagnostic { file, ..found });
    None
}

/// What a file says. The kind is told by its fields; this is the one place that knows the kinds.
fn read_rules_file(reader: &mut Reader<'_>, root: &Node) -> Option<RulesFile> {
    if envoy::is_envoy_file(root) {
        return envoy::read(reader, root);
    }
    native::read(reader, root)
}
