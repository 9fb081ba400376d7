//! What goes wrong, and answers that a test prepares.

use http::StatusCode;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Faults {
    status: Option<StatusCode>,
    duration: Duration,
    running: usize,
    most: usize,
}

impl Faults {
    pub(super) fn fails(&mut self, status: Option<StatusCode>) {
        self.status = status;
    }

    pub(super) fn delay_by(&mut self, duration: Duration) {
        self.duration = duration;
    }

    pub(super) fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// Counts a request that begins. Returns its duration.
    pub(super) fn begin(&mut self) -> Duration {
        self.running += 1;
        self.most = self.most.max(self.running);
        self.duration
    }

    pub(super) fn end(&mut self) {
        self.running -= 1;
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }
}

/// Status and body.
type Answer = (u16, String);

/// Prepared answers, by method and target.
#[derive(Default)]
pub(super) struct Prepared {
    always: BTreeMap<String, Answer>,
    once: Vec<(String, Answer)>,
}

impl Prepared {
    pub(super) fn answers(&mut self, request: &str, status: u16, body: String) {
        self.always.insert(request.to_owned(), (status, body));
    }

    pub(super) fn answers_once(&mut self, request: &str, status: u16, body: String) {
        self.once.push((request.to_owned(), (status, body)));
    }

    pub(super) fn forgets(&mut self, request: &str) {
        self.always.remove(request);
    }

    /// The answer to a request with this method and target.
    pub(super) fn find(&mut self, line: &str) -> Option<Answer> {
        let without_query = line.split('?').next().unwrap_or(line);
        match self.once.iter().position(|(request, _)| request == without_query) {
            Some(at) => Some(self.once.remove(at).1),
            None => self.always.get(line).or_else(|| self.always.get(without_query)).cloned(),
        }
    }
}
