//! What a launcher or a guest says, made fit for a log, a condition and a terminal. Pure.

use api::launcher::{Answer, Refusal};

/// Characters of a sentence.
pub const SENTENCE: usize = 1024;
/// How a text ends that was longer.
const CUT: &str = "… (truncated)";

/// A text of at most so many characters, none of which does anything on a terminal.
pub fn text(text: &str, most: usize) -> String {
    let plain = |c: char| if is_plain(c) { c } else { ' ' };
    let mut short: String = text.chars().take(most).map(plain).collect();
    if text.chars().nth(most).is_some() {
        let kept = most.saturating_sub(CUT.chars().count());
        short = short.chars().take(kept).chain(CUT.chars()).collect();
    }
    short
}

/// A sentence in one line.
pub fn line(said: &str) -> String {
    text(said, SENTENCE)
}

/// It is seen, and does nothing to what stands beside it: neither ends the line nor turns the text around.
fn is_plain(c: char) -> bool {
    let does_something = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !does_something
}

pub(crate) fn answer(answer: Answer) -> Answer {
    match answer {
        Answer::Queued => Answer::Queued,
        Answer::Ignored { reason } => Answer::Ignored { reason: line(&reason) },
        Answer::Denied { reason } => Answer::Denied { reason: line(&reason) },
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
