//! Texts of a launcher or a guest, made safe for a log, a condition and a terminal. Pure.

use api::launcher::{Answer, Refusal};
pub use printable::{SENTENCE, line, text};

pub(crate) fn answer(answer: Answer) -> Answer {
    match answer {
        Answer::Queued => Answer::Queued,
        Answer::Ignored { reason } => Answer::Ignored { reason: line(&reason) },
        Answer::Denied(denial) => Answer::Denied(denial.map_message(line)),
    }
}

pub(crate) fn refusal(said: Refusal) -> Refusal {
    let mut faults = said.faults;
    for fault in &mut faults {
        (fault.field, fault.message) = (line(&fault.field), line(&fault.message));
        fault.hint = fault.hint.as_deref().map(line);
    }
    Refusal { error: line(&said.error), faults, hint: said.hint.as_deref().map(line) }
}
