//! Routes: the VMI of a request, and the question to its launcher. Pure.

use api::launcher::Request;
use http::Method;
use launcher_client::Access;
use std::fmt;

/// VMI in the path of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vmi<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl fmt::Display for Vmi<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A request that is passed on to a launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// Request with one answer.
    Call(Call),
    /// Stream of bytes in both directions.
    Stream(StreamKind),
}

/// A request with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    State,
    Stats,
    /// Screenshot; true wakes the screen first.
    Screenshot(bool),
    GuestInfo,
    Users,
    Filesystems,
    Freeze,
    Thaw,
    Request,
}

/// Kind of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    Console(Access),
    Vnc(Access),
    UsbRedir,
}

/// All requests that are passed on, by the launcher's path and query.
const PASSED_ON: &[(&str, &str, Question)] = &[
    ("GET", "/v1/state", Question::Call(Call::State)),
    ("GET", "/v1/stats", Question::Call(Call::Stats)),
    ("GET", "/v1/screenshot", Question::Call(Call::Screenshot(false))),
    ("GET", "/v1/screenshot?wake", Question::Call(Call::Screenshot(true))),
    ("GET", "/v1/guest/info", Question::Call(Call::GuestInfo)),
    ("GET", "/v1/guest/users", Question::Call(Call::Users)),
    ("GET", "/v1/guest/filesystems", Question::Call(Call::Filesystems)),
    ("POST", "/v1/guest/freeze", Question::Call(Call::Freeze)),
    ("POST", "/v1/guest/thaw", Question::Call(Call::Thaw)),
    ("POST", "/v1/requests", Question::Call(Call::Request)),
    ("GET", "/v1/console", Question::Stream(StreamKind::Console(Access::Read))),
    ("GET", "/v1/console?write", Question::Stream(StreamKind::Console(Access::Write))),
    ("GET", "/v1/console?take", Question::Stream(StreamKind::Console(Access::Take))),
    ("GET", "/v1/console?take&alone", Question::Stream(StreamKind::Console(Access::Alone))),
    ("GET", "/v1/vnc", Question::Stream(StreamKind::Vnc(Access::Read))),
    ("GET", "/v1/vnc?write", Question::Stream(StreamKind::Vnc(Access::Write))),
    ("GET", "/v1/vnc?take", Question::Stream(StreamKind::Vnc(Access::Take))),
    ("GET", "/v1/vnc?take&alone", Question::Stream(StreamKind::Vnc(Access::Alone))),
    ("GET", "/v1/usbredir", Question::Stream(StreamKind::UsbRedir)),
];

/// VMI and question of a request, by its method, path and query; `None` if it is not passed on.
pub(super) fn route<'a>(method: &Method, path: &'a str) -> Option<(Vmi<'a>, Question)> {
    let (namespace, rest) = path.strip_prefix("/v1/namespaces/")?.split_once('/')?;
    let (name, rest) = rest.strip_prefix("virtualmachineinstances/")?.split_once('/')?;
    let (uid, launchers) = rest.split_at_checked(rest.find('/')?)?;
    let is_named = [namespace, name, uid].iter().all(|part| !part.is_empty());
    let passed_on = PASSED_ON.iter().find(|(way, known, _)| method.as_str() == *way && launchers == *known);
    passed_on.filter(|_| is_named).map(|(_, _, question)| (Vmi { namespace, name, uid }, *question))
}

/// True for a request to the VM that is passed on. Other requests are sent by the VMI's keeper only, or would
/// change the VM so that it differs from its spec.
pub(super) fn is_passed_on(request: &Request) -> bool {
    match request {
        Request::Pause | Request::Unpause | Request::Reboot | Request::Reset => true,
        Request::Start
        | Request::Shutdown { .. }
        | Request::Destroy
        | Request::Eject { .. }
        | Request::Insert { .. }
        | Request::Link { .. }
        | Request::Hotplug
        | Request::Snapshot
        | Request::PauseForDiskPressure { .. }
        | Request::ResumeAfterDiskPressure
        | Request::Migrate(_)
        | Request::AbortMigration { .. }
        | Request::Release(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launcher_client::vmi_path;

    #[test]
    fn what_is_on_the_list_is_passed_on_and_nothing_else() {
        let vmi = Vmi { namespace: "n", name: "web", uid: "u" };
        let below = |path: &str| format!("{}{path}", vmi_path("n", "web", "u"));
        for (method, path, question) in PASSED_ON {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(route(&method, &below(path)), Some((vmi, *question)), "{path}");
            assert_eq!(route(&Method::PUT, &below(path)), None, "{path}");
        }
        let others = [
            "",
            "/",
            "/v1/info",
            "/v1/state?watch",
            "/v1/state/",
            "/v1/console?write&take",
            "/v1/vm",
            "/v1/domain",
        ];
        for path in others {
            assert_eq!(route(&Method::GET, &below(path)), None, "{path}");
        }
        for path in ["/v1/guest/exec", "/v1/guest/ping", "/v1/state", "/v1/domain/monitor"] {
            assert_eq!(route(&Method::POST, &below(path)), None, "{path}");
        }
        for path in ["/v1/state", "/healthz", "", "/v1/namespaces/n/virtualmachineinstances/web/v1/state"] {
            assert_eq!(route(&Method::GET, path), None, "{path}");
        }
        for (namespace, name, uid) in [("", "web", "u"), ("n", "", "u"), ("n", "web", ""), ("n", "a/b", "u")]
        {
            let path = vmi_path(namespace, name, uid) + "/v1/state";
            assert_eq!(route(&Method::GET, &path), None, "{path}");
        }
    }
}
