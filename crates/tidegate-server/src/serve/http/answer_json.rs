//! An answer as JSON.

use tidegate::rules::{Answer, KeyStatus, LimitAnswer, LimitId};
use tidegate::{Nanos, Wait};

use super::json_writer;
use crate::serve::rounding;

/// Typical size of one limit's answer, in bytes.
pub(super) const LIMIT_BYTES: usize = 256;

/// Writes the fields of an answer, without the braces around them.
pub(super) fn write_fields(out: &mut Vec<u8>, answer: &Answer, waited: Nanos) {
    out.extend_from_slice(br#""decision":""#);
    out.extend_from_slice(answer.kind.as_str().as_bytes());
    match answer.decider() {
        Some(decider) => {
            out.extend_from_slice(br#"","rule":"#);
            json_writer::write_text(out, &decider.rule.name);
            out.extend_from_slice(br#","limit":"#);
            write_id(out, decider.id);
            out.extend_from_slice(br#","remaining":"#);
            json_writer::write_number(out, answer.remaining);
        }
        None => out.extend_from_slice(br#"","rule":null,"limit":null,"remaining":null"#),
    }
    write_wait(out, answer.retry_after);
    write_millis(out, br#","reset_after_ms":"#, answer.reset_after);
    write_millis(out, br#","delay_ms":"#, answer.delay);
    write_millis(out, br#","waited_ms":"#, waited);
    out.extend_from_slice(match answer.degraded {
        false => br#","degraded":false,"limits":"#,
        true => br#","degraded":true,"limits":"#.as_slice(),
    });
    json_writer::write_list(out, answer.limits(), write_limit);
    if answer.unreplicated {
        out.extend_from_slice(br#","unreplicated":true"#);
    }
    if answer.candidates().len() > 0 {
        out.extend_from_slice(br#","candidates":"#);
        json_writer::write_list(out, answer.candidates(), write_limit);
    }
}

fn write_limit(out: &mut Vec<u8>, limit: LimitAnswer<'_>) {
    out.extend_from_slice(br#"{"rule":"#);
    json_writer::write_text(out, &limit.rule.name);
    out.extend_from_slice(br#","limit":"#);
    write_id(out, limit.id);
    out.extend_from_slice(br#","descriptor":"#);
    json_writer::write_number(out, limit.descriptor as u64);
    out.extend_from_slice(br#","decision":""#);
    out.extend_from_slice(limit.kind.as_str().as_bytes());
    out.extend_from_slice(br#"","cost":"#);
    json_writer::write_number(out, limit.cost);
    out.extend_from_slice(br#","remaining":"#);
    json_writer::write_number(out, limit.outcome.remaining);
    write_wait(out, limit.outcome.retry_after);
    write_millis(out, br#","reset_after_ms":"#, limit.outcome.reset_after);
    write_millis(out, br#","delay_ms":"#, limit.outcome.delay);
    if limit.key_status == KeyStatus::Missing {
        out.extend_from_slice(br#","key_missing":true"#);
    }
    out.extend_from_slice(br#","spec":"#);
    json_writer::write_text(out, limit.spec());
    out.push(b'}');
}

/// The limit's name, or its position from 1.
fn write_id(out: &mut Vec<u8>, id: &LimitId) {
    match id {
        LimitId::Name(name) => json_writer::write_text(out, name),
        LimitId::Position(index) => json_writer::write_number(out, *index as u64 + 1),
    }
}

fn write_wait(out: &mut Vec<u8>, wait: Wait) {
    match wait.span() {
        Some(span) => write_millis(out, br#","retry_after_ms":"#, span),
        None => out.extend_from_slice(br#","retry_after_ms":null"#),
    }
}

#[inline]
fn write_millis(out: &mut Vec<u8>, name: &[u8], span: Nanos) {
    out.extend_from_slice(name);
    json_writer::write_number(out, rounding::ceil_millis(span));
}
