//! A report as JSON.

use serde_json::{Value, json};

use super::{Diagnostic, Report};
use crate::rules::Span;

pub(super) fn report_to_json(report: &Report) -> Value {
    let diagnostics: Vec<Value> =
        report.diagnostics().iter().map(|diagnostic| diagnostic_to_json(report, diagnostic)).collect();
    json!({
        "errors": report.errors(),
        "warnings": report.warnings(),
        "diagnostics": diagnostics,
        "skipped": report.skipped().iter().map(|file| json!({ "path": file.path, "reason": file.reason })).collect::<Value>(),
    })
}

fn diagnostic_to_json(report: &Report, diagnostic: &Diagnostic) -> Value {
    let mut value = json!({
        "severity": diagnostic.severity.as_str(),
        "code": diagnostic.code,
        "message": diagnostic.message,
        "file": report.file_name(diagnostic.file),
        "line": null,
        "column": null,
        "end_line": null,
        "end_column": null,
        "field": diagnostic.field,
        "label": diagnostic.label,
        "hint": diagnostic.hint,
        "related": [],
    });
    if let Some(span) = diagnostic.span {
        write_position(&mut value, report, &span);
    }
    value["related"] = diagnostic
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
    let covered = text.get(span.bytes()).unwrap_or_default();
    let (mut end_line, mut end_column) = (span.line as usize, span.column as usize);
    for c in covered.chars() {
        (end_line, end_column) = if c == '\n' { (end_line + 1, 1) } else { (end_line, end_column + 1) };
    }
    value["line"] = span.line.into();
    value["column"] = span.column.into();
    value["end_line"] = end_line.into();
    value["end_column"] = end_column.into();
}
