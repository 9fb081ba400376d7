//! End of a VMI, as its launcher reports it in the termination message of its container. The kubelet keeps
//! that message in the status of the pod, also when nothing else of the launcher is left.
//!
//! A launcher runs for a tenant and may report anything about its own VMI. The report has no effect beyond
//! that VMI.

use super::{Life, State};
use crate::termination;
use serde::{Deserialize, Serialize};

/// Maximum length of a reason, in characters.
const WORD: usize = 64;

/// End of a VMI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Final phase of the life: [`Life::Succeeded`] or [`Life::Failed`].
    pub life: Life,
    /// CamelCase reason of the last state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable message of the last state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Ending {
    /// The ending of a VMI in this state; `None` if the VMI has not ended.
    pub fn from_state(state: &State) -> Option<Ending> {
        let State { life, reason, message, .. } = state;
        let (life, reason, message) = (*life, reason.clone(), message.clone());
        life.is_final().then_some(Ending { life, reason, message })
    }

    /// The ending of a VMI whose launcher failed.
    pub fn failed(message: impl Into<String>) -> Ending {
        Ending { life: Life::Failed, reason: None, message: Some(message.into()) }
    }

    /// The termination message: JSON of at most [`termination::LONGEST`] bytes, with a shortened message if
    /// it is longer.
    pub fn termination(&self) -> String {
        let rest = |ending: &mut Ending| ending.reason.take().is_some();
        termination::shortened(self, |ending| ending.message.get_or_insert_default(), rest)
    }

    /// Parses a termination message; `None` if it is from another program, or does not report on the VMI. A
    /// reason that is not a word is dropped, and the message is reduced to one line.
    pub fn of_termination(text: &str) -> Option<Ending> {
        if text.len() > termination::LONGEST {
            return None;
        }
        let said: Ending = serde_json::from_str(text).ok()?;
        let is_word = |reason: &String| {
            (1..=WORD).contains(&reason.len()) && reason.bytes().all(|letter| letter.is_ascii_alphanumeric())
        };
        let line = |text: String| text.replace(|letter: char| letter.is_control(), " ").trim().to_owned();
        let message = said.message.map(line).filter(|message| !message.is_empty());
        let ending = Ending { life: said.life, reason: said.reason.filter(is_word), message };
        ending.life.is_final().then_some(ending)
    }

    /// A termination message for users: the message of an ending, or the text of another program as it is.
    pub fn readable(text: &str) -> String {
        match Ending::of_termination(text) {
            Some(ending) => ending.message.or(ending.reason).unwrap_or_default(),
            None => text.trim().to_owned(),
        }
    }

    /// The last state of the VMI, with the fields that an ending has.
    pub fn state(self) -> State {
        let Ending { life, reason, message } = self;
        State { life, reason, message, ..State::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_read_as_it_was_left_and_fits_what_the_kubelet_keeps() {
        let ending = |life, message: &str| {
            let (reason, message) = (Some("GuestPanicked".to_owned()), Some(message.to_owned()));
            Ending { life, reason, message }
        };
        for life in [Life::Succeeded, Life::Failed] {
            let left = ending(life, "the guest panicked");
            assert_eq!(Ending::from_state(&left.clone().state()), Some(left.clone()));
            assert_eq!(Ending::of_termination(&left.termination()), Some(left));
            let long = ending(life, &"ä\"\u{1}".repeat(3000)).termination();
            assert!(long.len() <= termination::LONGEST, "{}", long.len());
            let read = Ending::of_termination(&long).expect("an ending");
            assert_eq!((read.life, read.reason.as_deref()), (life, Some("GuestPanicked")));
            assert!(read.message.unwrap().starts_with("ä\""));
        }
        assert_eq!(Ending::from_state(&State::default()), None);
    }

    #[test]
    fn what_is_not_an_ending_ends_nothing() {
        for text in [
            "",
            "panicked at …",
            "{}",
            r#"{"life":"Running"}"#,
            r#"{"life":"Empty","message":"x"}"#,
            r#"{"life":"Succeeded""#,
            r#"{"stage":"Done","message":"the disk is whole"}"#,
            &format!(r#"{{"life":"Succeeded"{}}}"#, " ".repeat(termination::LONGEST)),
        ] {
            assert_eq!(Ending::of_termination(text), None, "{text}");
        }
        assert_eq!(Ending::readable(" panicked at …\n"), "panicked at …");
    }

    #[test]
    fn a_reason_is_one_word_and_a_message_one_line() {
        let read = |reason: &str, message: &str| {
            let text =
                serde_json::json!({"life": "Failed", "reason": reason, "message": message}).to_string();
            let read = Ending::of_termination(&text).unwrap();
            (read.reason, read.message)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(read("Crashed", "a\nINFO b\u{1b}[2J"), (some("Crashed"), some("a INFO b [2J")));
        for odd in ["", "two words", "a\nb", &"x".repeat(WORD + 1)] {
            assert_eq!(read(odd, "\n"), (None, None), "{odd}");
        }
        assert_eq!(Ending::readable(r#"{"life":"Failed","message":"no disk"}"#), "no disk");
        assert_eq!(Ending::readable(r#"{"life":"Failed","reason":"Crashed"}"#), "Crashed");
    }
}
