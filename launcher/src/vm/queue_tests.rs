//! The queue against a second model: a table of letters and a plain replay.

use super::*;
use api::launcher::{MigrationLimits, MigrationSockets, Release};
use proptest::prelude::*;

fn order() -> Migrate {
    let socket = |name: &str| format!("/run/{name}").into();
    let sockets = MigrationSockets {
        libvirt: socket("l"),
        memory: socket("m"),
        disks: socket("d"),
        release: socket("r"),
    };
    Migrate {
        id: "m".into(),
        sockets,
        copied_disks: Vec::new(),
        whole_disks: false,
        limits: MigrationLimits::default(),
    }
}

fn requests() -> Vec<Request> {
    let disk = || "cd".to_owned();
    vec![
        Request::Start,
        Request::Shutdown { grace: None },
        Request::Shutdown { grace: Some(1) },
        Request::Destroy,
        Request::Reboot,
        Request::Reset,
        Request::Pause,
        Request::Unpause,
        Request::PauseForDiskPressure { message: "the disk is full".into() },
        Request::ResumeAfterDiskPressure,
        Request::Eject { disk: disk() },
        Request::Insert { disk: disk(), path: "/a.iso".into(), format: api::launcher::Format::Raw },
        Request::Link { interface: "net".into(), up: false },
        Request::Hotplug,
        Request::Snapshot,
        Request::Migrate(Box::new(order())),
        Request::AbortMigration { id: "m".into() },
        Request::Release(Release { runs: true }),
    ]
}

const MODES: [Mode; 7] =
    [Mode::Empty, Mode::Preparing, Mode::Running, Mode::Paused, Mode::Stopping, Mode::Ended, Mode::Moved];

/// One row a mode, one letter a request, in the order of [`requests`]: Queued, Ignored, Denied.
///               start shut shut1 destr reboot reset pause unpause full room eject insert link hot snap migr abort release
const TABLE: [&str; 7] = [
    "D DD D DD DD DD DDD DD DDD", // empty
    "I QQ Q DD QD DD DDD DD DII", // preparing
    "I QQ Q QQ QI QI QQQ DD QII", // running
    "I QQ Q DQ IQ IQ QQQ DD QII", // paused
    "Q IQ Q DD DD DD DDD DD DII", // stopping
    "Q II I DD DD DD DDD DD DII", // ended
    "D DD D DD DD DD DDD DD DDD", // moved
];

fn letter(answer: &Answer) -> char {
    match answer {
        Answer::Queued => 'Q',
        Answer::Ignored { .. } => 'I',
        Answer::Denied(_) => 'D',
    }
}

fn expected(mode: Mode, request: usize) -> char {
    let row = MODES.iter().position(|known| *known == mode).unwrap();
    TABLE[row].chars().filter(|c| *c != ' ').nth(request).unwrap()
}

#[test]
fn every_mode_answers_every_request_as_in_the_table() {
    for mode in MODES {
        let row: String = requests().iter().map(|request| letter(&judge(mode, request))).collect();
        let want: String = (0..requests().len()).map(|n| expected(mode, n)).collect();
        assert_eq!(row, want, "{mode:?}");
    }
}

#[test]
fn every_refusal_has_a_reason() {
    for mode in MODES {
        for request in requests() {
            let reason = match judge(mode, &request) {
                Answer::Queued => continue,
                Answer::Ignored { reason } => reason,
                Answer::Denied(denial) => denial.to_string(),
            };
            assert!(reason.len() > 8, "{mode:?} {request:?}: {reason}");
        }
    }
}

#[test]
fn a_restart_is_a_stop_and_a_start() {
    let mut queue = Queue::default();
    queue.now(Mode::Running);
    assert_eq!(queue.admit(Request::Shutdown { grace: None }), Answer::Queued);
    assert_eq!(queue.admit(Request::Start), Answer::Queued);
    assert_eq!(queue.pop(), Some(Next::Do(Request::Shutdown { grace: None })));
    queue.now(Mode::Stopping);
    queue.done();
    assert_eq!(queue.pop(), None, "it waits for the end");
    queue.now(Mode::Ended);
    assert_eq!(queue.pop(), Some(Next::Do(Request::Start)));
}

#[test]
fn destroy_does_not_wait_for_earlier_requests() {
    let mut queue = Queue::default();
    queue.now(Mode::Stopping);
    assert_eq!(queue.admit(Request::Start), Answer::Queued);
    assert_eq!(queue.admit(Request::Destroy), Answer::Queued);
    assert_eq!(queue.pop(), Some(Next::Do(Request::Destroy)));
    queue.now(Mode::Ended);
    queue.done();
    assert_eq!(queue.pop(), None);
}

#[test]
fn a_request_without_a_purpose_is_dropped_with_a_reason() {
    let mut queue = Queue::default();
    queue.now(Mode::Running);
    assert_eq!(queue.admit(Request::Pause), Answer::Queued);
    queue.now(Mode::Ended);
    assert!(matches!(queue.pop(), Some(Next::Drop(Request::Pause, _))));
    assert_eq!(queue.pop(), None);
}

#[test]
fn the_number_of_waiting_requests_is_limited() {
    let mut queue = Queue::default();
    queue.now(Mode::Running);
    let mut answers = (0..40).map(|_| queue.admit(Request::Reset));
    assert_eq!(answers.by_ref().take(16).filter(|a| *a == Answer::Queued).count(), 16);
    assert!(answers.all(|a| matches!(a, Answer::Denied(_))));
}

/// A client in a loop cannot keep a VM from its end.
#[test]
fn the_end_of_a_vm_is_not_refused_for_want_of_room() {
    let full = || {
        let mut queue = Queue::default();
        queue.now(Mode::Running);
        while queue.admit(Request::Reset) == Answer::Queued {}
        queue
    };
    let mut queue = full();
    for grace in [None, Some(30), Some(600), Some(5), Some(10)] {
        assert_eq!(queue.admit(Request::Shutdown { grace }), Answer::Queued, "{grace:?}");
    }
    assert!(matches!(queue.admit(Request::Shutdown { grace: None }), Answer::Ignored { .. }));
    let ends: Vec<&Request> = queue.outstanding().skip(MOST).collect();
    assert_eq!(ends, [&Request::Shutdown { grace: None }, &Request::Shutdown { grace: Some(5) }]);
    assert!(matches!(queue.admit(Request::Start), Answer::Denied(_)), "it is full");
    assert_eq!(queue.admit(Request::Destroy), Answer::Queued);
    assert_eq!(queue.outstanding().collect::<Vec<_>>(), [&Request::Destroy]);

    // The shutdown before a restart is not the one that a client wants now.
    let mut queue = Queue::default();
    queue.now(Mode::Running);
    assert_eq!(queue.admit(Request::Shutdown { grace: Some(600) }), Answer::Queued);
    assert_eq!(queue.admit(Request::Start), Answer::Queued);
    while queue.admit(Request::Pause) == Answer::Queued
        || queue.admit(Request::Eject { disk: "cd".into() }) == Answer::Queued
    {}
    let waiting = queue.outstanding().count();
    assert_eq!(queue.admit(Request::Shutdown { grace: Some(5) }), Answer::Queued);
    assert_eq!(queue.outstanding().count(), waiting + 1);
}

/// The second model: it remembers all queued requests and replays them from the mode each time.
#[derive(Default)]
struct Model {
    mode: Option<Mode>,
    accepted: Vec<usize>,
}

impl Model {
    fn mode(&self) -> Mode {
        self.mode.unwrap_or(Mode::Empty)
    }

    fn then(&self) -> Mode {
        let mut mode = self.mode();
        for n in &self.accepted {
            mode = match n {
                0 => Mode::Preparing,
                1 | 2 => Mode::Stopping,
                3 => Mode::Ended,
                4 | 7 | 9 => Mode::Running,
                6 | 8 => Mode::Paused,
                _ => mode,
            };
        }
        mode
    }
}

proptest! {
    #[test]
    fn the_queue_answers_like_the_second_model(steps in prop::collection::vec((0_u8..4, 0_usize..17), 1..60)) {
        let all = requests();
        let (mut queue, mut model, mut busy) = (Queue::default(), Model::default(), false);
        for (what, n) in steps {
            match what {
                // The driver sees a mode.
                0 => {
                    let mode = MODES[n % MODES.len()];
                    queue.now(mode);
                    model.mode = Some(mode);
                }
                // A client sends a request.
                1 | 2 => {
                    let answer = queue.admit(all[n].clone());
                    let mut want = expected(model.then(), n);
                    if n == 3 && want == 'Q' {
                        model.accepted.truncate(usize::from(busy));
                        want = expected(model.then(), n);
                    }
                    let waiting = model.accepted.len() - usize::from(busy);
                    let is_full = waiting >= MOST;
                    if want == 'Q' && is_full && !matches!(n, 1 | 2) {
                        want = 'D';
                    }
                    prop_assert_eq!(letter(&answer), want);
                    let of_life = model.accepted.iter().skip(usize::from(busy)).rev().take_while(|n| **n != 0);
                    let is_known = is_full && n == 2 && of_life.into_iter().any(|n| *n == 2);
                    if want == 'Q' && !is_known {
                        model.accepted.push(n);
                    }
                }
                // The driver goes on.
                _ => {
                    if busy {
                        queue.done();
                        model.accepted.remove(0);
                        busy = false;
                    }
                    let next = queue.pop();
                    let waits_for_end = model.mode() == Mode::Stopping && model.accepted.first() == Some(&0);
                    if model.mode() == Mode::Preparing || waits_for_end || model.accepted.is_empty() {
                        prop_assert_eq!(next, None);
                    } else {
                        let first = model.accepted[0];
                        if expected(model.mode(), first) == 'Q' {
                            prop_assert_eq!(next, Some(Next::Do(all[first].clone())));
                            busy = true;
                        } else {
                            prop_assert!(matches!(next, Some(Next::Drop(..))));
                            model.accepted.remove(0);
                        }
                    }
                }
            }
        }
    }
}
