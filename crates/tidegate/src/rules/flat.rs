//! A file of names and values, such as settings are: read with the same YAML, positions and messages as rules.

use super::diagnostic::Diagnostic;
use super::load::{InputFile, add_source_text};
use super::reader::Reader;
use super::yaml::{self, NodeKind, Node, printable};
use super::{FileId, Report, Span};

/// A file that is one mapping of names to a value or a list of values each, and what is wrong with it.
///
/// ```
/// use tidegate::rules::FlatFile;
///
/// let mut file = FlatFile::read("app.yaml", b"port: 80\nhosts: [a, b]\n", &["password"]).unwrap();
/// let port = file.fields()[0].clone();
/// assert_eq!((&*port.name, &*port.values[0].text), ("port", "80"));
/// assert_eq!(file.fields()[1].values.len(), 2);
///
/// file.refuse("port-taken", port.values[0].at, "the port is taken", Some("use another"));
/// let report = file.finish().unwrap_err().to_string();
/// assert!(report.contains("app.yaml:1:7") && report.contains("help: use another"), "{report}");
/// ```
#[derive(Clone, Debug)]
pub struct FlatFile {
    report: Report,
    file: FileId,
    root: Option<Node>,
    fields: Vec<FlatField>,
}

/// A name and what stands behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatField {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// One value, or all of a list. Of one that could not be read, which is said already, there are none.
    pub values: Vec<FlatValue>,
}

/// A value, as it is written without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatValue {
    /// The text.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

impl FlatFile {
    /// Reads what a file holds; messages call it `name`. A file with nothing in it, or only comments, has no fields.
    /// The report is what is wrong with a file that cannot be made out at all; what is wrong with single fields is said
    /// at the [end](Self::finish). No message shows what stands behind a name that is one of the `secrets`.
    pub fn read(name: &str, bytes: &[u8], secrets: &[&str]) -> Result<Self, Report> {
        let mut report = Report::default();
        let read = InputFile { name: name.to_owned(), content: Ok(bytes.to_owned()) };
        let Some(file) = add_source_text(&mut report, &read) else { return Err(report) };
        let text = report.text(file);
        let nothing = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(nothing) {
            return Ok(Self { report, file, root: None, fields: Vec::new() });
        }
        let root = yaml::read(&mut report, file);
        report.replace_text(file, &mask_secrets(&text, secrets));
        let Some(root) = root else { return Err(report) };
        let mut reader = Reader::new(&mut report);
        let Some(mapping) = reader.mapping(&root) else { return Err(report) };
        let fields = mapping.iter().map(|(key, value)| flat_field(&mut reader, key, value)).collect();
        Ok(Self { report, file, root: Some(root), fields })
    }

    /// The names and their values, in the order of the file. No name is there twice.
    pub fn fields(&self) -> &[FlatField] {
        &self.fields
    }

    /// Takes note of something that is wrong with the file. The code is a few words that do not change.
    pub fn add_error(&mut self, code: &'static str, at: Span, message: impl Into<String>, hint: Option<&str>) {
        let found = Diagnostic::error(code, at, message);
        self.report.push(match hint {
            Some(hint) => found.hint(hint),
            None => found,
        });
    }

    /// All that is wrong with it, if anything is.
    pub fn finish(mut self) -> Result<(), Report> {
        if let Some(root) = &self.root {
            self.report.fill_field_paths(self.file, root);
        }
        self.report.sort();
        if self.report.has_errors() { Err(self.report) } else { Ok(()) }
    }
}

fn flat_field(reader: &mut Reader<'_>, key: &Node, value: &Node) -> FlatField {
    let name = key.text().unwrap_or_default().to_owned();
    let values = match &value.kind {
        NodeKind::Seq(items) => items.iter().filter_map(|item| flat_value(reader, &name, item)).collect(),
        _ => flat_value(reader, &name, value).into_iter().collect(),
    };
    FlatField { name, span: key.span, values }
}

fn flat_value(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<FlatValue> {
    match node.text() {
        Some(text) => Some(FlatValue { text: text.to_owned(), span: node.span }),
        None => {
            let hint = format!("give `{}` a value, or leave it out", printable(name));
            reader.wrong_type_hint(node, "a value", hint);
            None
        }
    }
}

/// The text with stars for what stands behind these names: the rest of the line, and the lines after it that are further in or of a list.
/// It goes by lines and not by the tree, for a file that cannot be read has none.
fn mask_secrets(text: &str, secrets: &[&str]) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut hiding = false;
    for line in text.split_inclusive('\n') {
        hiding &= line.starts_with([' ', '-', '\t', '\n', '\r']);
        let open = if hiding { 0 } else { secret_value_start(line, secrets).unwrap_or(line.len()) };
        hiding |= open < line.len();
        shown.push_str(&line[..open]);
        for c in line[open..].chars() {
            if c.is_whitespace() {
                shown.push(c);
            } else {
                shown.extend(std::iter::repeat_n('*', c.len_utf8()));
            }
        }
    }
    shown
}

/// Where the value of one of these names begins in a line.
fn secret_value_start(line: &str, names: &[&str]) -> Option<usize> {
    let value_of = |name: &&str| {
        let after = line.find(*name)? + name.len();
        let rest = line[after..].trim_start_matches(['"', '\'', ' ', '\t']);
        rest.starts_with(':').then(|| line.len() - rest.len() + 1)
    };
    names.iter().filter_map(value_of).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_shows_a_secret() {
        let files = [
            "token: s3cret\ntoken: s3cret\n",
            "token: s3cret: s3cret\n",
            "\"token\" : [s3cret, {s3cret: 1}]\n",
            "{ port: [, token: s3cret\n",
            "port: {}\ntoken: |\n  s3cret\n\n  s3cret\nport: 1\n",
            "token:\n- s3cret\n- {}\n",
        ];
        for text in files {
            let report = match FlatFile::read("app.yaml", text.as_bytes(), &["token"]) {
                Err(report) => report,
                Ok(file) => file.finish().unwrap_err(),
            };
            let (shown, json) = (report.to_string(), report.to_json());
            assert!(!shown.contains("s3cret") && !json.contains("s3cret"), "{text}\n{shown}\n{json}");
            assert!(report.errors() > 0);
        }
    }

    #[test]
    fn other_lines_are_shown_as_they_are() {
        let file = FlatFile::read("app.yaml", b"token_file: x\nport: {}\n", &["token"]).unwrap();
        let report = file.finish().unwrap_err().to_string();
        assert!(report.contains("app.yaml:2:7") && report.contains("port: {}"), "{report}");
    }

    #[test]
    fn a_file_of_comments_has_no_fields() {
        let file = FlatFile::read("app.yaml", b"# port: 80\n\n", &[]).unwrap();
        assert!(file.fields().is_empty() && file.finish().is_ok());
    }
}
