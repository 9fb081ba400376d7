//! Metrics of streams to VMIs: number of open streams, and time of the last opening.
//!
//! Open streams are exported by name, and the time of the last one for `LATEST` VMIs, so the page does not
//! grow with the number of past VMIs.

use cluster_client::metrics::Page;
use cluster_model::subresources::Action;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Number of VMIs whose last stream is exported.
const LATEST: usize = 1024;

/// A VMI by namespace and name.
type Vmi = (String, String);

#[derive(Debug)]
struct Sessions {
    open: BTreeMap<(&'static str, Vmi), u64>,
    last: BTreeMap<Vmi, Timestamp>,
}

/// Numbers of open streams (console, VNC, USB, ports) in this process, and the time of each VMI's last one.
static SESSIONS: Mutex<Sessions> = Mutex::new(Sessions { open: BTreeMap::new(), last: BTreeMap::new() });

/// An open stream, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Session(&'static str, Vmi);

impl Session {
    /// Counts an opened stream of this kind.
    pub(crate) fn opened(action: Action, namespace: &str, name: &str) -> Session {
        let session = Session(metric(action), (namespace.to_owned(), name.to_owned()));
        with_sessions(|all| all.begin(&session, Timestamp::now()));
        session
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        with_sessions(|all| all.end(self));
    }
}

fn metric(action: Action) -> &'static str {
    match action {
        Action::Console => "kubevirt_console_active_connections",
        Action::Vnc => "kubevirt_vnc_active_connections",
        Action::UsbRedir => "kubevirt_usbredir_active_connections",
        _ => "kubevirt_portforward_active_tunnels",
    }
}

fn with_sessions<T>(work: impl FnOnce(&mut Sessions) -> T) -> T {
    work(&mut SESSIONS.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Sessions {
    fn begin(&mut self, session: &Session, now: Timestamp) {
        *self.open.entry((session.0, session.1.clone())).or_default() += 1;
        self.last.insert(session.1.clone(), now);
        while self.last.len() > LATEST {
            let Some(oldest) = self.last.iter().min_by_key(|(_, at)| **at).map(|(vmi, _)| vmi.clone()) else {
                return;
            };
            self.last.remove(&oldest);
        }
    }

    fn end(&mut self, session: &Session) {
        let key = (session.0, session.1.clone());
        if let Some(count) = self.open.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(&key);
            }
        }
    }

    fn write(&self, page: &mut Page) {
        for action in [Action::Console, Action::Vnc, Action::UsbRedir, Action::PortForward] {
            let mut family = page.family(metric(action));
            for ((name, (namespace, vmi)), count) in &self.open {
                if *name == metric(action) {
                    family.sample(&[("namespace", namespace), ("vmi", vmi)], *count as f64);
                }
            }
        }
        let mut family = page.family("kubevirt_vmi_last_api_connection_timestamp_seconds");
        for ((namespace, vmi), at) in &self.last {
            family.sample(&[("namespace", namespace), ("vmi", vmi)], at.as_second() as f64);
        }
    }
}

/// Writes the metrics of streams.
pub fn write(page: &mut Page) {
    with_sessions(|all| all.write(page));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sessions: &Sessions) -> String {
        let mut page = Page::default();
        sessions.write(&mut page);
        page.text()
    }

    /// A session that the process does not count.
    fn begun(
        sessions: &mut Sessions,
        action: Action,
        name: &str,
        second: i64,
    ) -> std::mem::ManuallyDrop<Session> {
        let session = Session(metric(action), ("n".to_owned(), name.to_owned()));
        sessions.begin(&session, Timestamp::from_second(second).unwrap());
        std::mem::ManuallyDrop::new(session)
    }

    #[test]
    fn streams_are_counted_while_they_are_open_and_the_last_is_remembered() {
        let mut sessions = Sessions { open: BTreeMap::new(), last: BTreeMap::new() };
        let one = begun(&mut sessions, Action::Vnc, "web", 5);
        let two = begun(&mut sessions, Action::Vnc, "web", 9);
        begun(&mut sessions, Action::PortForward, "web", 7);
        let of = "{namespace=\"n\",vmi=\"web\"}";
        assert!(text(&sessions).contains(&format!("\nkubevirt_vnc_active_connections{of} 2\n")));
        assert!(text(&sessions).contains(&format!("\nkubevirt_portforward_active_tunnels{of} 1\n")));
        sessions.end(&one);
        sessions.end(&two);
        let text = text(&sessions);
        assert!(!text.contains("kubevirt_vnc_active_connections{"), "{text}");
        let last = format!("\nkubevirt_vmi_last_api_connection_timestamp_seconds{of} 7\n");
        assert!(text.contains(&last), "{text}");
    }

    #[test]
    fn of_many_vmis_the_latest_are_remembered() {
        let mut sessions = Sessions { open: BTreeMap::new(), last: BTreeMap::new() };
        for at in 0..LATEST + 5 {
            let session = begun(&mut sessions, Action::Console, &format!("vmi-{at}"), at as i64);
            sessions.end(&session);
        }
        assert_eq!((sessions.last.len(), sessions.open.len()), (LATEST, 0));
        assert!(!sessions.last.contains_key(&("n".to_owned(), "vmi-4".to_owned())));
    }
}
