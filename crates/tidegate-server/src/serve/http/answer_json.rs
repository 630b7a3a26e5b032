//! An answer as JSON.

use tidegate::overrides::provenance_json;
use tidegate::rules::{Answer, KeyStatus, LimitAnswer, LimitId};
use tidegate::{Nanos, Wait};

use super::connection::HttpRequest;
use super::{json_writer, routes};
use crate::serve::rounding;

/// Typical size of one limit's answer, in bytes.
pub(super) const LIMIT_BYTES: usize = 256;

/// Whether answers name the overrides that limits came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Provenance {
    Hidden,
    Shown,
}

impl Provenance {
    /// As `?override=true` says.
    #[inline]
    pub fn requested(request: &HttpRequest) -> Self {
        match request.uri().query() {
            None => Self::Hidden,
            Some(_) => match routes::parameter(request, "override") {
                Some("" | "true" | "1") => Self::Shown,
                _ => Self::Hidden,
            },
        }
    }
}

/// Writes the fields of an answer, without the braces around them.
pub(super) fn write_fields(out: &mut String, answer: &Answer, waited: Nanos, provenance: Provenance) {
    out.push_str(r#""decision":""#);
    out.push_str(answer.kind.as_str());
    match answer.decider() {
        Some(decider) => {
            out.push_str(r#"","rule":"#);
            json_writer::write_text(out, &decider.rule.name);
            out.push_str(r#","limit":"#);
            write_id(out, decider.id);
            out.push_str(r#","remaining":"#);
            json_writer::write_number(out, answer.remaining);
        }
        None => out.push_str(r#"","rule":null,"limit":null,"remaining":null"#),
    }
    write_wait(out, answer.retry_after);
    write_millis(out, r#","reset_after_ms":"#, answer.reset_after);
    write_millis(out, r#","delay_ms":"#, answer.delay);
    write_millis(out, r#","waited_ms":"#, waited);
    out.push_str(match answer.degraded {
        false => r#","degraded":false,"limits":"#,
        true => r#","degraded":true,"limits":"#,
    });
    json_writer::write_list(out, answer.limits(), |out, limit| {
        write_limit(out, limit);
        if let (Provenance::Shown, Some(applied)) = (provenance, limit.applied_override) {
            // In the object of the limit.
            out.pop();
            out.push_str(r#","override":"#);
            out.push_str(&provenance_json(applied, answer.rules()).to_string());
            out.push('}');
        }
    });
    if provenance == Provenance::Shown && answer.lifted().len() > 0 {
        write_lifted(out, answer);
    }
    if answer.unreplicated {
        out.push_str(r#","unreplicated":true"#);
    }
    if answer.candidates().len() > 0 {
        out.push_str(r#","candidates":"#);
        json_writer::write_list(out, answer.candidates(), write_limit);
    }
}

/// The limits that do not apply, because overrides make their keys unlimited.
#[cold]
fn write_lifted(out: &mut String, answer: &Answer) {
    out.push_str(r#","overrides":"#);
    json_writer::write_list(out, answer.lifted(), |out, (rule, lifted)| {
        out.push_str(r#"{"rule":"#);
        json_writer::write_text(out, &rule.name);
        out.push_str(r#","limit":"#);
        write_id(out, answer.rules().resolve_position(lifted.position).limit.id());
        out.push_str(r#","descriptor":"#);
        json_writer::write_number(out, u64::from(lifted.descriptor));
        out.push_str(r#","override":"#);
        out.push_str(&provenance_json(&lifted.applied, answer.rules()).to_string());
        out.push('}');
    });
}

fn write_limit(out: &mut String, limit: LimitAnswer<'_>) {
    out.push_str(r#"{"rule":"#);
    json_writer::write_text(out, &limit.rule.name);
    out.push_str(r#","limit":"#);
    write_id(out, limit.id);
    out.push_str(r#","descriptor":"#);
    json_writer::write_number(out, limit.descriptor as u64);
    out.push_str(r#","decision":""#);
    out.push_str(limit.kind.as_str());
    out.push_str(r#"","cost":"#);
    json_writer::write_number(out, limit.cost);
    out.push_str(r#","remaining":"#);
    json_writer::write_number(out, limit.outcome.remaining);
    write_wait(out, limit.outcome.retry_after);
    write_millis(out, r#","reset_after_ms":"#, limit.outcome.reset_after);
    write_millis(out, r#","delay_ms":"#, limit.outcome.delay);
    if limit.key_status == KeyStatus::Missing {
        out.push_str(r#","key_missing":true"#);
    }
    out.push_str(r#","spec":"#);
    json_writer::write_text(out, limit.spec());
    out.push('}');
}

/// The limit's name, or its position from 1.
fn write_id(out: &mut String, id: &LimitId) {
    match id {
        LimitId::Name(name) => json_writer::write_text(out, name),
        LimitId::Position(index) => json_writer::write_number(out, *index as u64 + 1),
    }
}

fn write_wait(out: &mut String, wait: Wait) {
    match wait.span() {
        Some(span) => write_millis(out, r#","retry_after_ms":"#, span),
        None => out.push_str(r#","retry_after_ms":null"#),
    }
}

#[inline]
fn write_millis(out: &mut String, name: &str, span: Nanos) {
    out.push_str(name);
    json_writer::write_number(out, rounding::ceil_millis(span));
}
