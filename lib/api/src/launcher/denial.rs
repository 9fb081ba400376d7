//! Refusal of a request by a launcher: its reason, and what each reason means to a client.
//!
//! ```text
//!   launcher ── {"answer": "denied", "code": "NoDisk", "reason": "the VM has no disk 'cd'"} ──► client
//! ```
//!
//! The sentence travels beside the code. A code that the reader does not know is [`DenialReason::Unknown`] with the
//! launcher's own sentence, and so is the answer of a launcher that sends none.

use crate::vmi::ConditionType;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    #[serde(default, rename = "code", skip_serializing_if = "DenialReason::is_unknown")]
    reason: DenialReason,
    #[serde(rename = "reason")]
    message: String,
}

impl Denial {
    /// The refusal for a reason. `names` fill the gaps of its sentence, in order.
    pub fn new(reason: DenialReason, names: &[&dyn fmt::Display]) -> Denial {
        let mut names = names.iter();
        let mut pieces = reason.facts().sentence.split(GAP);
        let mut message = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            if let Some(name) = names.next() {
                message.push_str(&name.to_string());
            }
            message.push_str(piece);
        }
        Denial { reason, message }
    }

    /// Reason that a program branches on.
    pub fn reason(&self) -> DenialReason {
        self.reason
    }

    /// Human-readable message, in the launcher's words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same refusal, with its message changed by `change`.
    #[must_use]
    pub fn map_message(self, change: impl FnOnce(&str) -> String) -> Denial {
        Denial { message: change(&self.message), ..self }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Reason why a launcher refuses a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DenialReason {
    NoVm,
    Starting,
    /// The VMI comes from another launcher, and still runs there.
    Receiving,
    Stopping,
    Ended,
    /// The guest cannot react to the request while its vCPUs are stopped.
    Paused,
    TooManyRequests,
    NotSupported,
    OlderGeneration,
    OtherVm,
    NoDisk,
    NotCdRom,
    DisksUnknown,
    /// The media to insert cannot be read.
    Media,
    NoInterface,
    UserNetwork,
    VirtualFunction,
    BindingSidecar,
    Passt,
    DevicesUnknown,
    /// Another migration is in progress.
    Migrating,
    /// The VMI has gone to another launcher, or may have.
    Moved,
    /// The migration was attempted already.
    MigrationEnded,
    /// A reason of another version of the launcher.
    #[default]
    #[serde(other)]
    Unknown,
}

/// Meaning of a reason to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenialFacts {
    /// HTTP status of the API server's answer, where the request came from a client of it.
    pub status: u16,
    /// Condition of the VMI that has the message.
    pub condition: Option<ConditionType>,
    /// Message. Each `{}` is a name.
    pub sentence: &'static str,
}

const GAP: &str = "{}";

impl DenialReason {
    /// The table of all reasons.
    pub fn facts(self) -> DenialFacts {
        use ConditionType::Synchronized;
        let (status, condition, sentence) = match self {
            DenialReason::NoVm => (409, None, "there is no VM yet"),
            DenialReason::Starting => (409, None, "the VM is being started"),
            DenialReason::Receiving => {
                (409, None, "the VM runs under another launcher, which migrates it here")
            }
            DenialReason::Stopping => (409, None, "the VM is stopping"),
            DenialReason::Ended => (409, None, "the VM has ended; start it first"),
            DenialReason::Paused => {
                (409, None, "the VM is paused, so its guest cannot reboot; unpause it first, or reset it")
            }
            DenialReason::TooManyRequests => (429, None, "{} requests wait already; try again later"),
            DenialReason::NotSupported => (501, None, "{}: not supported yet"),
            DenialReason::OlderGeneration => {
                (409, Some(Synchronized), "generation {} is older than {}, which this launcher has already")
            }
            DenialReason::OtherVm => (409, Some(Synchronized), "this launcher runs {}, not {}"),
            DenialReason::NoDisk => (404, None, "the VM has no disk '{}'"),
            DenialReason::NotCdRom => {
                (409, None, "the disk '{}' is not a CD-ROM: its media cannot be changed")
            }
            DenialReason::DisksUnknown => {
                (409, None, "the locations of the VM's disks are not known; start the VM again")
            }
            DenialReason::Media => (409, None, GAP),
            DenialReason::NoInterface => (404, None, "the VM has no interface '{}'"),
            DenialReason::UserNetwork => {
                (409, None, "the interface '{}' is of a user-mode network, which has no link state")
            }
            DenialReason::VirtualFunction => {
                (409, None, "the interface '{}' is a virtual function, whose link is not the launcher's")
            }
            DenialReason::BindingSidecar => (
                409,
                None,
                "the interface '{}' is of the sidecar of a network binding plugin, which alone knows its device",
            ),
            DenialReason::Passt => {
                (409, None, "the interface '{}' is of passt (passtBinding), whose link is always up")
            }
            DenialReason::DevicesUnknown => {
                (409, None, "the devices of the VM are not known; start the VM again")
            }
            DenialReason::Migrating => (409, None, "the VM is migrating already: {}"),
            DenialReason::Moved => (409, None, "the VM has migrated away from this launcher"),
            DenialReason::MigrationEnded => (409, None, "the migration {} has ended already"),
            DenialReason::Unknown => (409, None, GAP),
        };
        DenialFacts { status, condition, sentence }
    }

    fn is_unknown(&self) -> bool {
        *self == DenialReason::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher::Answer;
    use serde_json::{Value, from_value, json, to_value};

    /// Code, status, number of names, and message with the names `a` and `b`, as users have seen it.
    const TABLE: [(&str, u16, usize, &str); 23] = [
        ("NoVm", 409, 0, "there is no VM yet"),
        ("Starting", 409, 0, "the VM is being started"),
        ("Receiving", 409, 0, "the VM runs under another launcher, which migrates it here"),
        ("Stopping", 409, 0, "the VM is stopping"),
        ("Ended", 409, 0, "the VM has ended; start it first"),
        ("Paused", 409, 0, "the VM is paused, so its guest cannot reboot; unpause it first, or reset it"),
        ("TooManyRequests", 429, 1, "a requests wait already; try again later"),
        ("NotSupported", 501, 1, "a: not supported yet"),
        ("OlderGeneration", 409, 2, "generation a is older than b, which this launcher has already"),
        ("OtherVm", 409, 2, "this launcher runs a, not b"),
        ("NoDisk", 404, 1, "the VM has no disk 'a'"),
        ("NotCdRom", 409, 1, "the disk 'a' is not a CD-ROM: its media cannot be changed"),
        ("DisksUnknown", 409, 0, "the locations of the VM's disks are not known; start the VM again"),
        ("Media", 409, 1, "a"),
        ("NoInterface", 404, 1, "the VM has no interface 'a'"),
        ("UserNetwork", 409, 1, "the interface 'a' is of a user-mode network, which has no link state"),
        (
            "VirtualFunction",
            409,
            1,
            "the interface 'a' is a virtual function, whose link is not the launcher's",
        ),
        (
            "BindingSidecar",
            409,
            1,
            "the interface 'a' is of the sidecar of a network binding plugin, which alone knows its device",
        ),
        ("Passt", 409, 1, "the interface 'a' is of passt (passtBinding), whose link is always up"),
        ("DevicesUnknown", 409, 0, "the devices of the VM are not known; start the VM again"),
        ("Migrating", 409, 1, "the VM is migrating already: a"),
        ("Moved", 409, 0, "the VM has migrated away from this launcher"),
        ("MigrationEnded", 409, 1, "the migration a has ended already"),
    ];

    fn reason(code: &str) -> DenialReason {
        from_value(json!(code)).unwrap()
    }

    #[test]
    fn every_reason_has_a_status_a_sentence_and_a_code_on_the_wire() {
        let names: [&dyn fmt::Display; 2] = [&"a", &"b"];
        for (code, status, gaps, message) in TABLE {
            let reason = reason(code);
            let facts = reason.facts();
            let found = (facts.status, facts.sentence.matches(GAP).count());
            assert_eq!(found, (status, gaps), "{code}");
            let denial = Denial::new(reason, &names[..gaps]);
            assert_eq!(denial.message(), message);
            let wire = json!({"answer": "denied", "code": code, "reason": message});
            let answer = Answer::Denied(denial);
            assert_eq!(to_value(&answer).unwrap(), wire);
            assert_eq!(from_value::<Answer>(wire).unwrap(), answer);
        }
    }

    /// The handover of a VMI is refused for these alone; virt-handler tells them in the condition.
    #[test]
    fn the_refusals_of_a_handover_are_told_in_the_condition_synchronized() {
        let told = TABLE.iter().filter(|row| reason(row.0).facts().condition.is_some());
        let told: Vec<&str> = told.map(|row| row.0).collect();
        assert_eq!(told, ["OlderGeneration", "OtherVm"]);
    }

    #[test]
    fn a_name_may_look_like_a_gap() {
        let denial = Denial::new(DenialReason::OtherVm, &[&"{}", &"b"]);
        assert_eq!(denial.message(), "this launcher runs {}, not b");
    }

    /// Form of the answers before there were codes.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(tag = "answer", rename_all = "lowercase")]
    enum OldAnswer {
        Queued,
        Ignored { reason: String },
        Denied { reason: String },
    }

    #[test]
    fn an_older_launcher_and_a_newer_one_are_understood_by_their_sentences() {
        let sentence = "the VM is stopping";
        let read = |wire: Value| match from_value(wire) {
            Ok(Answer::Denied(denial)) => denial,
            other => panic!("{other:?}"),
        };
        let old = to_value(OldAnswer::Denied { reason: sentence.into() }).unwrap();
        let newer = json!({"answer": "denied", "code": "NotInvented", "reason": sentence, "disk": "a"});
        for wire in [old.clone(), newer] {
            let denial = read(wire);
            assert_eq!((denial.reason(), denial.message()), (DenialReason::Unknown, sentence));
            assert_eq!(denial.reason().facts().status, 409);
            assert_eq!(to_value(Answer::Denied(denial)).unwrap(), old, "it is passed on as it came");
        }
        // A known code keeps the sentence of the launcher, too.
        let reworded = read(json!({"answer": "denied", "code": "Stopping", "reason": "it stops"}));
        assert_eq!((reworded.reason(), reworded.message()), (DenialReason::Stopping, "it stops"));
    }

    #[test]
    fn an_older_client_reads_the_sentence() {
        let new = to_value(Answer::Denied(Denial::new(DenialReason::NoDisk, &[&"cd"]))).unwrap();
        let reason = "the VM has no disk 'cd'".to_owned();
        assert_eq!(from_value::<OldAnswer>(new).unwrap(), OldAnswer::Denied { reason });
    }
}
