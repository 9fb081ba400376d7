//! The decision to continue an earlier run: a pure function of the state that it left.

use super::{Before, Conversion, Mark};
use crate::source::EvidenceStrength;

/// The user's choice (`--resume`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Continue if the source proves that it is the same, start anew otherwise.
    #[default]
    Auto,
    /// Continue also if the source is only likely the same; refuse if that is impossible.
    Always,
    /// Always begin at the first byte.
    Never,
}

/// The reason for a new start where the earlier run has not come far enough.
pub(crate) const NO_MARK: &str = "the earlier run ended before its first mark";

/// The decision about an earlier run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// The run continues from this mark.
    Go(Mark),
    /// Start from the beginning; with the reason if an earlier run is dropped.
    Anew(Option<String>),
    /// The user demands to continue, and that is impossible for this reason.
    Refuse(String),
}

/// Decides from the found state, the present conversion, and the user's choice. `doubt`: the reason why the
/// found files may be another user's, as the end of a sentence.
pub fn decide_resume(before: &Before, now: &Conversion, mode: Mode, doubt: Option<&str>) -> Resume {
    if mode == Mode::Never {
        return match before {
            Before::Nothing => Resume::Anew(None),
            _ => Resume::Anew(Some("that is what was asked for".to_owned())),
        };
    }
    let (then, mark) = match before {
        Before::Nothing if mode == Mode::Always => {
            return Resume::Refuse("no earlier run left a .partial file and a journal".to_owned());
        }
        Before::Nothing => return Resume::Anew(None),
        Before::Useless(why) => return begin_anew(mode, why.clone()),
        Before::Run(then, mark) => (then, mark),
    };
    if then.owner != now.owner {
        return begin_anew(mode, "the earlier run was for another owner of this place".to_owned());
    }
    // Another source is reported before other options: it is the larger mistake.
    if let Err(why) = same_name(then, now, mode) {
        return begin_anew(mode, why);
    }
    if then.plan != now.plan {
        return begin_anew(
            mode,
            "the earlier run was started with other options or for another target size".to_owned(),
        );
    }
    if let Err(why) = same_bytes(then, now, mode) {
        return begin_anew(mode, why);
    }
    match (mark, doubt) {
        (Some(_), Some(why)) if mode != Mode::Always => Resume::Anew(Some(why.to_owned())),
        (Some(mark), _) => Resume::Go(mark.clone()),
        (None, _) => begin_anew(mode, NO_MARK.to_owned()),
    }
}

/// Compares the names of the sources, where a name matters. Names that differ in their query alone (signed
/// URLs do, and so may URLs of two disks) are the same only if the user says so.
fn same_name(then: &Conversion, now: &Conversion, mode: Mode) -> Result<(), String> {
    let other = || Err(format!("the earlier run read {}, not {}", then.source, now.source));
    let (Some(a), Some(b)) = (&then.identity, &now.identity) else {
        return if then.source == now.source { Ok(()) } else { other() };
    };
    if a.says == EvidenceStrength::Content && b.says == EvidenceStrength::Content {
        return if a.agrees(b) || then.source == now.source { Ok(()) } else { other() };
    }
    if a.name == b.name && then.source == now.source {
        return Ok(());
    }
    if without_query(&then.source) != without_query(&now.source) || a.name.is_empty() || b.name.is_empty() {
        return other();
    }
    if mode != Mode::Always {
        return Err(format!(
            "the address of {} has another query than in the earlier run; --resume takes it as the same disk where \
             its size and its version agree",
            now.source
        ));
    }
    if a.agrees(b) && !a.is_proof() {
        return Err(format!(
            "the address of {} has another query than in the earlier run, and no strong ETag shows that it is the \
             same disk",
            now.source
        ));
    }
    Ok(())
}

/// Compares the evidence of two sources of one name: it must prove equal bytes, or the user must accept it
/// without proof.
fn same_bytes(then: &Conversion, now: &Conversion, mode: Mode) -> Result<(), String> {
    match (&then.identity, &now.identity) {
        (Some(a), Some(b)) if !a.agrees(b) => {
            Err(format!("{} has changed since the earlier run", now.source))
        }
        (Some(a), Some(_)) if a.is_proof() || mode == Mode::Always => Ok(()),
        (Some(_), Some(_)) => {
            Err(format!("nothing proves that {} is unchanged; --resume takes it as it looks", now.source))
        }
        _ => Err(format!("nothing shows that {} is still the same", now.source)),
    }
}

/// A shown name without the sign that it had a query.
fn without_query(shown: &str) -> &str {
    shown.strip_suffix("?…").unwrap_or(shown)
}

/// Drops the earlier run for this reason, or refuses to if the user demands to continue it.
pub(crate) fn begin_anew(mode: Mode, why: String) -> Resume {
    if mode == Mode::Always { Resume::Refuse(why) } else { Resume::Anew(Some(why)) }
}

#[cfg(test)]
mod tests {
    use super::super::Position;
    use super::*;
    use crate::source::Identity;

    fn job(source: &str, plan: &str, identity: Option<(&str, EvidenceStrength)>) -> Conversion {
        let identity = identity.map(|(value, says)| {
            let name =
                if says == EvidenceStrength::Content { String::new() } else { format!("digest of {source}") };
            Identity { value: value.to_owned(), size: Some(7), name, says }
        });
        Conversion { source: source.to_owned(), identity, plan: plan.to_owned(), owner: None }
    }

    /// The same, with a query of which only the digest is known.
    fn asked(source: &str, query: &str, value: &str, says: EvidenceStrength, size: u64) -> Conversion {
        let name = format!("digest of {source}?{query}");
        let identity = Identity { value: value.to_owned(), size: Some(size), name, says };
        Conversion {
            source: format!("{source}?…"),
            identity: Some(identity),
            plan: "p".to_owned(),
            owner: None,
        }
    }

    type Case = (&'static str, Before, Conversion, Mode, Result<Resume, &'static str>);

    #[test]
    fn table() {
        let mark = Mark { position: Position::Table { window: 7, done: 0 }, written: 5, sum: None };
        let go = || Resume::Go(mark.clone());
        let proof = Some(("etag:\"x\"", EvidenceStrength::Version));
        let likely = Some(("mtime:1", EvidenceStrength::Likely));
        let digest = Some(("sha256:00", EvidenceStrength::Content));
        let same = job("a", "p", proof);
        let run = |job: &Conversion| Before::Run(Box::new(job.clone()), Some(mark.clone()));

        let cases: &[Case] = &[
            ("proved", run(&same), same.clone(), Mode::Auto, Ok(go())),
            ("proved, always", run(&same), same.clone(), Mode::Always, Ok(go())),
            ("never", run(&same), same.clone(), Mode::Never, Err("asked for")),
            ("never, nothing there", Before::Nothing, same.clone(), Mode::Never, Ok(Resume::Anew(None))),
            ("first run", Before::Nothing, same.clone(), Mode::Auto, Ok(Resume::Anew(None))),
            ("nothing to go on", Before::Nothing, same.clone(), Mode::Always, Err("no earlier run")),
            ("broken", Before::Useless("it is odd".into()), same.clone(), Mode::Auto, Err("it is odd")),
            (
                "broken, always",
                Before::Useless("it is odd".into()),
                same.clone(),
                Mode::Always,
                Err("it is odd"),
            ),
            (
                "no mark yet",
                Before::Run(Box::new(same.clone()), None),
                same.clone(),
                Mode::Auto,
                Err("first mark"),
            ),
            (
                "no mark, always",
                Before::Run(Box::new(same.clone()), None),
                same.clone(),
                Mode::Always,
                Err("first mark"),
            ),
            (
                "the same content by another name",
                run(&job("b", "p", digest)),
                job("a", "p", digest),
                Mode::Auto,
                Ok(go()),
            ),
            (
                "for another owner of the volume, always",
                run(&Conversion { owner: Some("one".to_owned()), ..same.clone() }),
                Conversion { owner: Some("other".to_owned()), ..same.clone() },
                Mode::Always,
                Err("was for another owner"),
            ),
            (
                "for nobody, where there is an owner now",
                run(&same),
                Conversion { owner: Some("other".to_owned()), ..same.clone() },
                Mode::Auto,
                Err("was for another owner"),
            ),
            (
                "other content by another name",
                run(&job("b", "p", Some(("sha256:01", EvidenceStrength::Content)))),
                job("a", "p", digest),
                Mode::Always,
                Err("read b, not a"),
            ),
            (
                "an equal ETag of another name",
                run(&job("b", "p", proof)),
                same.clone(),
                Mode::Auto,
                Err("read b, not a"),
            ),
            (
                "an equal ETag of another name, always",
                run(&job("b", "p", proof)),
                same.clone(),
                Mode::Always,
                Err("read b, not a"),
            ),
            (
                "an equal query",
                run(&asked("a", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=1", "e", EvidenceStrength::Version, 7),
                Mode::Auto,
                Ok(go()),
            ),
            (
                "another query",
                run(&asked("a", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=2", "e", EvidenceStrength::Version, 7),
                Mode::Auto,
                Err("another query"),
            ),
            (
                "another query, always",
                run(&asked("a", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=2", "e", EvidenceStrength::Version, 7),
                Mode::Always,
                Ok(go()),
            ),
            (
                "a query where there was none, always",
                run(&same),
                asked("a", "s=2", "etag:\"x\"", EvidenceStrength::Version, 7),
                Mode::Always,
                Ok(go()),
            ),
            (
                "another query and a weak ETag, always",
                run(&asked("a", "s=1", "e", EvidenceStrength::Likely, 7)),
                asked("a", "s=2", "e", EvidenceStrength::Likely, 7),
                Mode::Always,
                Err("no strong ETag"),
            ),
            (
                "another query and size, always",
                run(&asked("a", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=2", "e", EvidenceStrength::Version, 8),
                Mode::Always,
                Err("has changed"),
            ),
            (
                "another size",
                run(&asked("a", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=1", "e", EvidenceStrength::Version, 8),
                Mode::Auto,
                Err("has changed"),
            ),
            (
                "another path with a query, always",
                run(&asked("b", "s=1", "e", EvidenceStrength::Version, 7)),
                asked("a", "s=1", "e", EvidenceStrength::Version, 7),
                Mode::Always,
                Err("read b?…, not a?…"),
            ),
            (
                "changed",
                run(&job("a", "p", Some(("etag:\"y\"", EvidenceStrength::Version)))),
                same.clone(),
                Mode::Auto,
                Err("has changed"),
            ),
            (
                "a weak and a strong proof of equal value",
                run(&job("a", "p", Some(("etag:\"x\"", EvidenceStrength::Likely)))),
                same.clone(),
                Mode::Always,
                Err("has changed"),
            ),
            ("other plan", run(&job("a", "q", proof)), same.clone(), Mode::Auto, Err("other options")),
            ("likely", run(&job("a", "p", likely)), job("a", "p", likely), Mode::Auto, Err("--resume takes")),
            ("likely, always", run(&job("a", "p", likely)), job("a", "p", likely), Mode::Always, Ok(go())),
            (
                "likely by another name",
                run(&job("b", "p", likely)),
                job("a", "p", likely),
                Mode::Always,
                Err("read b"),
            ),
            ("no evidence", run(&job("-", "p", None)), job("-", "p", None), Mode::Auto, Err("nothing shows")),
            (
                "no evidence, always",
                run(&job("-", "p", None)),
                job("-", "p", None),
                Mode::Always,
                Err("nothing shows"),
            ),
            ("evidence is gone", run(&same), job("a", "p", None), Mode::Always, Err("nothing shows")),
            (
                "no evidence by another name",
                run(&job("b", "p", None)),
                job("a", "p", None),
                Mode::Always,
                Err("read b"),
            ),
            (
                "other content by the same name",
                run(&job("a", "p", Some(("sha256:01", EvidenceStrength::Content)))),
                job("a", "p", digest),
                Mode::Always,
                Err("has changed"),
            ),
            (
                "content where there was a version",
                run(&same),
                job("a", "p", digest),
                Mode::Always,
                Err("read a"),
            ),
            (
                "a version where there was content",
                run(&job("a", "p", digest)),
                same.clone(),
                Mode::Always,
                Err("read a"),
            ),
            (
                "another shown name",
                run(&Conversion { source: "b".to_owned(), ..same.clone() }),
                same.clone(),
                Mode::Always,
                Err("read b"),
            ),
            (
                "another query and another weak ETag, always",
                run(&asked("a", "s=1", "e", EvidenceStrength::Likely, 7)),
                asked("a", "s=2", "f", EvidenceStrength::Likely, 7),
                Mode::Always,
                Err("has changed"),
            ),
        ];
        let doubted = |mode| decide_resume(&run(&same), &same, mode, Some("one owner for all"));
        assert_eq!(doubted(Mode::Auto), Resume::Anew(Some("one owner for all".into())));
        assert_eq!(doubted(Mode::Always), go());
        for (name, before, now, mode, want) in cases {
            let got = decide_resume(before, now, *mode, None);
            match (want, &got) {
                (Ok(want), got) => assert_eq!(got, want, "{name}"),
                (Err(part), Resume::Anew(Some(why))) if *mode != Mode::Always => {
                    assert!(why.contains(part), "{name}: {why}");
                }
                (Err(part), Resume::Refuse(why)) if *mode == Mode::Always => {
                    assert!(why.contains(part), "{name}: {why}");
                }
                _ => panic!("{name}: {got:?}"),
            }
        }
    }
}
