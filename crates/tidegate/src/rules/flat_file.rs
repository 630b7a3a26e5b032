//! A flat file of names and values, such as settings: read with the same YAML, positions and messages as
//! rules.

use super::diagnostic::Diagnostic;
use super::load::{InputFile, add_source_text};
use super::yaml::{self, Node, NodeKind, Reader, printable};
use super::{FileId, Report, Span};

/// A file that maps names to a value or a list of values, and the errors in it.
///
/// ```
/// use tidegate::rules::FlatFile;
///
/// let mut file = FlatFile::read("app.yaml", b"port: 80\nhosts: [a, b]\n", &["password"]).unwrap();
/// let port = file.fields()[0].clone();
/// assert_eq!((&*port.name, &*port.values[0].text), ("port", "80"));
/// assert_eq!(file.fields()[1].values.len(), 2);
///
/// file.add_error("port-taken", port.values[0].span, "the port is taken", Some("use another"));
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

/// A name with its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatField {
    /// The name.
    pub name: String,
    /// The position of the name.
    pub span: Span,
    /// One value, or all values of a list. Empty if they could not be read, which is reported already.
    pub values: Vec<FlatValue>,
}

/// A value, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlatValue {
    /// The text.
    pub text: String,
    /// Its position.
    pub span: Span,
}

impl FlatFile {
    /// Reads the bytes of a file, which messages call `name`. An empty file, or one with only comments, has
    /// no fields. Returns the report if the file cannot be parsed at all. Errors in single fields are
    /// reported at the [end](Self::finish). No message shows the value of a field that is one of the
    /// `secrets`.
    pub fn read(name: &str, bytes: &[u8], secrets: &[&str]) -> Result<Self, Report> {
        let mut report = Report::default();
        let input = InputFile { name: name.to_owned(), content: Ok(bytes.to_owned()) };
        let Some(file) = add_source_text(&mut report, &input) else { return Err(report) };
        let text = report.text(file);
        let is_blank = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with('#');
        if text.lines().all(is_blank) {
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

    /// The fields in the order of the file, without duplicates.
    pub fn fields(&self) -> &[FlatField] {
        &self.fields
    }

    /// Adds an error. The code is a short name that never changes.
    pub fn add_error(
        &mut self,
        code: &'static str,
        at: Span,
        message: impl Into<String>,
        hint: Option<&str>,
    ) {
        let diagnostic = Diagnostic::error(code, at, message);
        self.report.push(match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    /// The report, if there are errors.
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

/// The text with stars in place of the values of these names: the rest of the line, and the following lines
/// that are indented further or belong to a list. It works by lines and not on the tree, because a file that
/// cannot be parsed has no tree.
fn mask_secrets(text: &str, secrets: &[&str]) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut is_hidden = false;
    for line in text.split_inclusive('\n') {
        is_hidden &= line.starts_with([' ', '-', '\t', '\n', '\r']);
        let value_start = if is_hidden { 0 } else { secret_value_start(line, secrets).unwrap_or(line.len()) };
        is_hidden |= value_start < line.len();
        masked.push_str(&line[..value_start]);
        for c in line[value_start..].chars() {
            if c.is_whitespace() {
                masked.push(c);
            } else {
                masked.extend(std::iter::repeat_n('*', c.len_utf8()));
            }
        }
    }
    masked
}

/// Where the value of one of these names starts in a line.
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
            let (rendered, json) = (report.to_string(), report.to_json());
            assert!(!rendered.contains("s3cret") && !json.contains("s3cret"), "{text}\n{rendered}\n{json}");
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
