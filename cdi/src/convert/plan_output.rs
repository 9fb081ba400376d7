//! A plan as text and as JSON.

use crate::plan::{Facts, Output, Plan, ResumeCommand};
use crate::size::human;
use serde::Serialize;
use std::fmt::Write;

/// The plan as JSON; documented in `docs/reference/convert-json.md`.
#[derive(Debug, Serialize)]
pub struct PlanJson {
    schema: &'static str,
    source: String,
    layers: Vec<&'static str>,
    source_format: &'static str,
    target: String,
    target_format: &'static str,
    virtual_size: Option<u64>,
    flow: &'static str,
    threads: usize,
    requests_in_flight: usize,
    memory_bytes: u64,
    spool_bytes: u64,
    resumable: bool,
    not_resumable_because: Option<&'static str>,
    needs_resume_because: Option<&'static str>,
    resumes_at: Option<&'static str>,
    reasons: Vec<String>,
}

pub(super) fn json<S, T>(plan: &Plan<S, T>) -> PlanJson {
    let facts = &plan.facts;
    PlanJson {
        schema: "coracle.plan/v1",
        source: facts.source.name.clone(),
        layers: facts.layers.iter().map(|(l, _)| l.name()).collect(),
        source_format: facts.source_format().name(),
        target: facts.target.to_string(),
        target_format: output_name(facts),
        virtual_size: guest_size(plan),
        flow: plan.flow.name(),
        threads: plan.workers,
        requests_in_flight: plan.readers,
        memory_bytes: plan.memory_total(),
        spool_bytes: plan.spool.unwrap_or(0),
        resumable: plan.resume.is_ok(),
        not_resumable_because: plan.resume.err(),
        needs_resume_because: match plan.resume {
            Ok(ResumeCommand::WithResume(why)) => Some(why),
            _ => None,
        },
        resumes_at: plan.entry(),
        reasons: plan.reasons.clone(),
    }
}

pub(super) fn text<S, T>(plan: &Plan<S, T>) -> String {
    let facts = &plan.facts;
    let mut layers: Vec<_> = facts.layers.iter().map(|(l, _)| l.name()).collect();
    layers.push(facts.source_format().name());
    layers.reverse();
    let size = facts.source.size.map_or("size unknown".into(), human);
    let disk = guest_size(plan).map_or("size known at the end".into(), human);
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        // A String takes any text.
        let _ = writeln!(text, "{name:9} {value}");
    };
    line("source", &format!("{} ({size}, {})", facts.source.name, layers.join(" in ")));
    line("target", &format!("{} ({}, disk of {disk})", facts.target, output_name(facts)));
    line("flow", plan.flow.name());
    plan.reasons.iter().for_each(|reason| line("because", reason));
    let readers =
        if plan.readers > 0 { format!(", up to {} requests in flight", plan.readers) } else { String::new() };
    line("threads", &format!("{}{readers}", plan.workers));
    let account: Vec<_> =
        plan.memory.iter().map(|(what, bytes)| format!("{what} {}", human(*bytes))).collect();
    line("memory", &format!("at most {} ({})", human(plan.memory_total()), account.join(", ")));
    line(
        "disk",
        &plan
            .spool
            .map_or("nothing beside the target".into(), |most| format!("spool of at most {}", human(most))),
    );
    let resume = match plan.resume {
        Ok(ResumeCommand::SameCommand) => {
            let entry = plan.entry().map_or_else(String::new, |entry| format!(": {entry}"));
            format!("yes, from a journal beside the target{entry}")
        }
        Ok(ResumeCommand::WithResume(why)) => {
            format!("with --resume, from a journal beside the target: {why}")
        }
        Err(why) => format!("no: {why}"),
    };
    line("resume", &resume);
    text
}

/// The size that the guest sees, if it is known before the disk is read.
fn guest_size<S, T>(plan: &Plan<S, T>) -> Option<u64> {
    plan.facts.kept.and_then(|kept| kept.virtual_size).or(plan.size)
}

pub(super) fn output_name(facts: &Facts) -> &'static str {
    match (facts.output, facts.kept) {
        (Output::Raw, Some(kept)) => kept.format.name(),
        (Output::Raw, None) => "raw",
        (Output::Qcow2 { .. }, _) => "qcow2",
    }
}
