//! Loads files into domains.

use std::path::PathBuf;

use tidegate_core::rules::Domain;

use super::diagnostic::{Diagnostic, Report};
use super::file::RulesFile;
use super::yaml::{self, FILE_BYTES_MAX, Node, Reader};
use super::{FileId, LoadOptions, envoy, join, native};

pub(super) use super::paths::{InputFile, InputFiles, read_files};

/// Files of one load at most.
pub const FILES_MAX: usize = 4_096;
/// Bytes of all files of one load at most, apart from the last file.
pub const BYTES_MAX: usize = 256 << 20;

/// Rules that can be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadedRules {
    /// The domains, in the order in which the files name them.
    pub domains: Vec<Domain>,
    /// The warnings, if any.
    pub report: Report,
}

/// A rules file: its name and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesText {
    /// The name, for messages.
    pub name: Box<str>,
    /// The text.
    pub text: Box<str>,
}

/// The rules of one file, which messages call `name`.
pub fn parse(name: &str, text: &str) -> Result<LoadedRules, Report> {
    parse_with(name, text, LoadOptions::default())
}

/// Like [`parse`], with options.
pub fn parse_with(name: &str, text: &str, options: LoadOptions) -> Result<LoadedRules, Report> {
    let mut loader = RulesLoader { options, ..RulesLoader::default() };
    loader.add(&InputFile { name: name.to_owned(), content: Ok(text.into()) });
    loader.finish()
}

/// The rules of all these files, and of the `*.yaml` and `*.yml` files in these directories, by name. Files
/// of one domain are merged. Hidden files and subdirectories are ignored. A link to a file counts as a file.
///
/// Of a directory without native rules, the files with `descriptors` are read whatever their names, also in
/// subdirectories and if their names begin with a dot. The [report](Report::skipped) lists what was not loaded.
pub fn load(paths: &[PathBuf]) -> Result<LoadedRules, Report> {
    load_with(paths, LoadOptions::default())
}

/// Like [`load`], with options.
pub fn load_with(paths: &[PathBuf], options: LoadOptions) -> Result<LoadedRules, Report> {
    load_files(&read_files(paths, options), options)
}

/// The files of these paths, as [`load_with`] would read them. Their rules are not looked at.
pub fn read_all(paths: &[PathBuf], options: LoadOptions) -> Result<Vec<RulesText>, Report> {
    let mut report = Report::default();
    let mut texts = Vec::new();
    for file in read_files(paths, options).files {
        if add_source_text(&mut report, &file).is_some()
            && let Ok(text) = file.content.map(String::from_utf8)
        {
            texts.extend(text.map(|text| RulesText { name: file.name.into(), text: text.into() }));
        }
    }
    if report.has_errors() { Err(report) } else { Ok(texts) }
}

/// The rules of these files. Without files there are no rules.
pub fn parse_all(files: &[RulesText], options: LoadOptions) -> Result<LoadedRules, Report> {
    let mut loader = RulesLoader { options, ..RulesLoader::default() };
    for RulesText { name, text } in files {
        loader.add(&InputFile { name: name.to_string(), content: Ok(text.as_bytes().into()) });
    }
    loader.finish()
}

/// The rules of files that were read.
pub(super) fn load_files(input: &InputFiles, options: LoadOptions) -> Result<LoadedRules, Report> {
    let mut loader = RulesLoader { options, ..RulesLoader::default() };
    for file in &input.files {
        loader.add(file);
    }
    if input.files.is_empty() {
        let error = Diagnostic::file_error("no-files", FileId(0), "there are no files to read");
        add_file_error(&mut loader.report, "", error);
    }
    input.skipped.iter().for_each(|file| loader.report.skip(file.clone()));
    loader.finish()
}

/// What was loaded so far.
#[derive(Default)]
struct RulesLoader {
    options: LoadOptions,
    report: Report,
    files: Vec<RulesFile>,
    /// The trees of the files that could be parsed, in order.
    trees: Vec<(FileId, Node)>,
}

impl RulesLoader {
    /// Reads a file of either language.
    fn add(&mut self, file: &InputFile) {
        let Some(file) = add_source_text(&mut self.report, file) else { return };
        let Some(root) = yaml::read(&mut self.report, file) else { return };
        let mut reader = Reader::new(&mut self.report);
        self.files.extend(read_rules_file(&mut reader, &root, self.options));
        self.trees.push((file, root));
    }

    fn finish(mut self) -> Result<LoadedRules, Report> {
        let mut domains = join::join(&mut self.report, self.files, self.options);
        domains.iter_mut().for_each(|domain| domain.is_shadow = self.options.global_shadow);
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

/// Adds the text of a file, if it was read, is UTF-8 and not too long. Otherwise adds an error.
pub(super) fn add_source_text(
    report: &mut Report,
    InputFile { name, content }: &InputFile,
) -> Option<FileId> {
    let bytes = match content {
        Ok(bytes) => bytes,
        Err(error) => return add_file_error(report, name, (**error).clone()),
    };
    if bytes.len() > FILE_BYTES_MAX {
        let message = format!("the file has more than {FILE_BYTES_MAX} bytes");
        let diagnostic = Diagnostic::file_error("file-too-large", FileId(0), message);
        return add_file_error(report, name, diagnostic.hint("split it into several files"));
    }
    match str::from_utf8(bytes) {
        Ok(text) => Some(report.add_source(name, text)),
        Err(error) => {
            let at = error.valid_up_to();
            let message = format!("the file is not UTF-8: invalid byte 0x{:02x} at offset {at}", bytes[at]);
            let diagnostic = Diagnostic::file_error("not-utf-8", FileId(0), message);
            add_file_error(report, name, diagnostic.hint("save it as UTF-8"))
        }
    }
}

/// Adds the error of a file that is not read.
fn add_file_error(report: &mut Report, name: &str, diagnostic: Diagnostic) -> Option<FileId> {
    let file = report.add_source(name, "");
    report.push(Diagnostic { file, ..diagnostic });
    None
}

/// The content of a file. Its fields show the language; only this function knows both languages.
fn read_rules_file(reader: &mut Reader<'_>, root: &Node, options: LoadOptions) -> Option<RulesFile> {
    if envoy::is_envoy_file(root) {
        return envoy::read(reader, root, options.counting);
    }
    if root.get("tests").is_some() && root.get("rules").is_none() {
        let message = "the file has tests of rules, and no rules";
        let hint = "run the tests with `tidegate check RULES --tests FILE`";
        reader.push(Diagnostic::error("tests-file", root.span, message).hint(hint));
        return None;
    }
    native::read(reader, root)
}
