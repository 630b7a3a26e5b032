//! Deciding a request where a fleet counts.

use tidegate_core::PlanFull;
use tidegate_core::rules::Request;

use super::turn::{Turn, View};
use super::waiting::Waiting;
use super::{Asker, Shared, Want};
use crate::Timer;
use crate::engine::waiting::span;
use crate::engine::{Decided, Engine, StageTimes};

/// What a decision takes.
pub(in crate::engine) struct Parts<'a, C, F> {
    pub engine: &'a Engine<C>,
    pub shared: &'a Shared,
    pub request: Request<'a>,
    /// What is made of the answer.
    pub answered: F,
    pub want: Want,
    /// How long its stages take, if somebody wants to know.
    pub stages: Option<StageTimes>,
}

/// Decides a request, and holds it while nothing but limits with the action `delay` keep it from passing.
pub(in crate::engine) async fn decide<C, R, F>(parts: Parts<'_, C, F>) -> Result<R, PlanFull>
where
    C: Timer,
    F: FnOnce(Decided<'_>) -> R,
{
    let Parts { engine, shared, request, answered, want, mut stages } = parts;
    let mut waiting = Waiting::new(engine);
    loop {
        let changes = engine.changes();
        let rules = engine.rules.load_full();
        let mut asker = Asker::new(engine, shared, stages);
        let touches = asker.touched_by(&rules, &request);
        let view = View::of(&touches, want, changes);
        let turn = if view.delays.is_empty() {
            // The rule is gone that it stood in line for, if it did.
            waiting.leave();
            let at = engine.clock.now();
            Some(Turn { answer: asker.settle(&touches, at, want).await?, at, refusal: None })
        } else {
            // In a box of its own, for it is large, and most have nothing to wait for.
            Box::pin(waiting.turn(&mut asker, &view)).await?
        };
        let Some(Turn { mut answer, at, refusal }) = turn else {
            stages = asker.stages;
            continue;
        };
        waiting.leave();
        // Once, not each time that it asks.
        asker.try_candidates(&touches, &mut answer, Want::Charge).await;
        let (waited, lease) = (span(waiting.arrived, at), asker.lease);
        return Ok(answered(Decided { answer, waited, refusal, lease, stages: asker.stages }));
    }
}
