//! A report as JSON.

use serde_json::{Value, json};

use super::super::Span;
use super::{Diagnostic, Report};

pub(super) fn report_to_json(report: &Report) -> Value {
    let diagnostics: Vec<Value> = report.diagnostics().iter().map(|found| diagnostic_to_json(report, found)).collect();
    json!({
        "errors": report.errors(),
        "warnings": report.warnings(),
        "diagnostics": diagnostics,
    })
}

fn diagnostic_to_json(report: &Report, found: &Diagnostic) -> Value {
    let mut value = json!({
        "severity": found.severity.as_str(),
        "code": found.code,
        "message": found.message,
        "file": report.file_name(found.file),
        "line": null,
        "column": null,
        "end_line": null,
        "end_column": null,
        "field": found.field,
        "label": found.label,
        "hint": found.hint,
        "related": [],
    });
    if let Some(span) = found.span {
        write_position(&mut value, report, &span);
    }
    value["related"] = found
        .related
        .iter()
        .map(|related| {
            let mut value = json!({ "file": report.file_name(related.span.file), "label": related.label });
            write_position(&mut value, report, &related.span);
            value
        })
        .collect();
    value
}

fn write_position(value: &mut Value, report: &Report, span: &Span) {
    let text = report.text(span.file);
    let within = text.get(span.bytes()).unwrap_or_default();
    let (mut end_line, mut end_column) = (span.line as usize, span.column as usize);
    for c in within.chars() {
        (end_line, end_column) = if c == '\n' { (end_line + 1, 1) } else { (end_line, end_column + 1) };
    }
    value["line"] = span.line.into();
    value["column"] = span.column.into();
    value["end_line"] = end_line.into();
    value["end_column"] = end_column.into();
}
