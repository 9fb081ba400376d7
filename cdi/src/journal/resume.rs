//! Whether an earlier run may be continued: a pure decision over what it left behind.

use super::{Before, Job, Mark};

/// What the user asked for (`--resume`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Go on where the source proves that it is the same, start anew otherwise.
    #[default]
    Auto,
    /// Go on, also where the source is only likely the same; refuse where that cannot be done.
    Always,
    /// Start anew.
    Never,
}

/// The decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// Go on from here.
    Go(Mark),
    /// Start from the beginning; the reason where an earlier run is thrown away.
    Anew(Option<String>),
    /// The user asked to go on and there is nothing to go on from; why.
    Refuse(String),
}

/// Decides from what was found, what is to be done now, and what the user wants.
pub fn may_resume(before: &Before, now: &Job, mode: Mode) -> Resume {
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
        Before::Useless(why) => return anew(mode, why.clone()),
        Before::Run(then, mark) => (then, mark),
    };
    if then.source != now.source && then.identity.as_ref().is_none_or(|id| !id.proof) {
        return anew(mode, format!("the earlier run read {}, not {}", then.source, now.source));
    }
    if then.plan != now.plan {
        return anew(
            mode,
            "the earlier run was started with other options or for another target size".to_owned(),
        );
    }
    match (&then.identity, &now.identity) {
        (Some(a), Some(b)) if a != b => {
            return anew(mode, format!("{} has changed since the earlier run", now.source));
        }
        (Some(a), Some(_)) if a.proof || mode == Mode::Always => {}
        (Some(_), Some(_)) => {
            let why =
                format!("nothing proves that {} is unchanged; --resume takes it as it looks", now.source);
            return anew(mode, why);
        }
        _ => return anew(mode, format!("nothing shows that {} is still the same", now.source)),
    }
    match mark {
        Some(mark) => Resume::Go(mark.clone()),
        None => anew(mode, "the earlier run ended before its first mark".to_owned()),
    }
}

fn anew(mode: Mode, why: String) -> Resume {
    if mode == Mode::Always { Resume::Refuse(why) } else { Resume::Anew(Some(why)) }
}

#[cfg(test)]
mod tests {
    use super::super::Position;
    use super::*;
    use crate::source::Identity;

    fn job(source: &str, plan: &str, identity: Option<(&str, bool)>) -> Job {
        let identity = identity.map(|(value, proof)| Identity { value: value.to_owned(), proof });
        Job { source: source.to_owned(), identity, plan: plan.to_owned() }
    }

    type Case = (&'static str, Before, Job, Mode, Result<Resume, &'static str>);

    #[test]
    fn table() {
        let mark = Mark { position: Position::Linear { offset: 7 }, written: 5, sum: None };
        let go = || Resume::Go(mark.clone());
        let proof = Some(("etag:\"x\"", true));
        let likely = Some(("mtime:1", false));
        let same = job("a", "p", proof);
        let run = |job: &Job| Before::Run(job.clone(), Some(mark.clone()));

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
            ("no mark yet", Before::Run(same.clone(), None), same.clone(), Mode::Auto, Err("first mark")),
            (
                "no mark, always",
                Before::Run(same.clone(), None),
                same.clone(),
                Mode::Always,
                Err("first mark"),
            ),
            (
                "the same bytes by another name",
                run(&job("b", "p", proof)),
                same.clone(),
                Mode::Auto,
                Ok(go()),
            ),
            (
                "changed",
                run(&job("a", "p", Some(("etag:\"y\"", true)))),
                same.clone(),
                Mode::Auto,
                Err("has changed"),
            ),
            (
                "a weak and a strong proof of equal value",
                run(&job("a", "p", Some(("etag:\"x\"", false)))),
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
        ];
        for (name, before, now, mode, want) in cases {
            let got = may_resume(before, now, *mode);
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
