//! Routes of the server: parsed from path and method alone. Pure.

use super::answer::Refusal;
use super::assets::Asset;
use super::power::Verb;
use crate::virt::target::name;
use http::{Method, StatusCode};

/// Namespace and name of a VM, or of a VMI without a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct VmName {
    pub(super) namespace: String,
    pub(super) name: String,
}

/// Effect on other clients of the console or screen. Another virt-api ignores the mode, and gives both to the
/// newest client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Takes keyboard and mouse from another client.
    Take,
    /// Takes keyboard and mouse if no other client has them.
    Write,
    /// Shows output, and sends no input.
    Read,
}

/// Route of a request, with its parameters.
#[derive(Debug)]
pub(super) enum Route {
    /// The HTML of the page.
    Page,
    /// A file of the page.
    File(&'static Asset),
    /// List of all VMs.
    List,
    /// List of all VMs, and its changes as events.
    Changes,
    /// Details of a VM.
    Vm(VmName),
    /// Reason why a VM waits.
    Why(VmName),
    /// Events of a VM.
    Events(VmName),
    /// Action on a VM.
    Power(Verb, VmName),
    /// Serial console of a VMI.
    Console(Mode, VmName),
    /// Screen of a VMI.
    Screen(Mode, VmName),
    /// Storage classes of the cluster.
    Classes,
    /// Inspection of a disk file by its first bytes.
    Inspect,
    /// List of all uploads.
    Uploads,
    /// Begin, part or end of an upload.
    Upload(Step, VmName),
}

/// Action on an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Begin,
    Part,
    End,
}

impl Mode {
    /// Value of the mode in a query.
    pub(super) fn word(self) -> &'static str {
        match self {
            Mode::Take => "take",
            Mode::Write => "write",
            Mode::Read => "read",
        }
    }
}

impl Route {
    /// Parses method, path and query of a request.
    pub(super) fn parse(method: &Method, path: &str, query: &str) -> Result<Route, Refusal> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let place = |namespace: &str, of: &str| match (name(namespace), name(of)) {
            (Ok(namespace), Ok(name)) => Ok(VmName { namespace, name }),
            (Err(e), _) | (_, Err(e)) => Err(Refusal::new(
                StatusCode::BAD_REQUEST,
                format!("{namespace}/{of} is not the name of a VM: {e}"),
            )),
        };
        let (route, wanted) = match parts.as_slice() {
            [""] => (Route::Page, Method::GET),
            ["api", "vms"] => (Route::List, Method::GET),
            ["api", "changes"] => (Route::Changes, Method::GET),
            ["api", "vms", namespace, name] => (Route::Vm(place(namespace, name)?), Method::GET),
            ["api", "why", namespace, name] => (Route::Why(place(namespace, name)?), Method::GET),
            ["api", "events", namespace, name] => (Route::Events(place(namespace, name)?), Method::GET),
            ["api", "vms", namespace, name, verb] => {
                let place = place(namespace, name)?;
                let verb = Verb::of(verb).ok_or_else(|| absent(path))?;
                (Route::Power(verb, place), Method::POST)
            }
            ["api", "storageclasses"] => (Route::Classes, Method::GET),
            ["api", "disk"] => (Route::Inspect, Method::POST),
            ["api", "uploads"] => (Route::Uploads, Method::GET),
            ["api", "uploads", namespace, name] => {
                let step = match *method {
                    Method::PATCH => Step::Part,
                    Method::DELETE => Step::End,
                    _ => Step::Begin,
                };
                let wanted = if step == Step::Begin { Method::POST } else { method.clone() };
                (Route::Upload(step, place(namespace, name)?), wanted)
            }
            ["ws", "console", namespace, name] => {
                (Route::Console(mode(query)?, place(namespace, name)?), Method::GET)
            }
            ["ws", "vnc", namespace, name] => {
                (Route::Screen(mode(query)?, place(namespace, name)?), Method::GET)
            }
            _ => (Route::File(Asset::at(path).ok_or_else(|| absent(path))?), Method::GET),
        };
        match *method == wanted {
            true => Ok(route),
            false => {
                let sentence = format!("{path} supports {wanted}, not {method}");
                Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, sentence))
            }
        }
    }
}

fn absent(path: &str) -> Refusal {
    let path = printable::text(path, 100);
    Refusal::new(StatusCode::NOT_FOUND, format!("{path} not found; load the page again"))
}

fn mode(query: &str) -> Result<Mode, Refusal> {
    match query {
        "" | "mode=write" => Ok(Mode::Write),
        "mode=take" => Ok(Mode::Take),
        "mode=read" => Ok(Mode::Read),
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "a stream is opened by mode=write, take or read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(line: &str) -> String {
        let (method, path) = line.split_once(' ').unwrap();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        match Route::parse(&method.parse().unwrap(), path, query) {
            Ok(Route::File(asset)) => asset.path.to_owned(),
            Ok(route) => format!("{route:?}"),
            Err(refusal) => refusal.status.as_str().to_owned(),
        }
    }

    #[test]
    fn requests_are_told_apart() {
        let web = "VmName { namespace: \"blue\", name: \"web\" }";
        for (line, wanted) in [
            ("GET /", "Page"),
            ("GET /?x", "Page"),
            ("GET /page.css", "/page.css"),
            ("GET /vendor/novnc/core/rfb.js", "/vendor/novnc/core/rfb.js"),
            ("GET /api/vms", "List"),
            ("GET /api/changes", "Changes"),
            ("GET /api/vms/blue/web", &format!("Vm({web})")),
            ("GET /api/why/blue/web", &format!("Why({web})")),
            ("GET /api/events/blue/web", &format!("Events({web})")),
            ("POST /api/vms/blue/web/soft-reboot", &format!("Power(SoftReboot, {web})")),
            ("GET /ws/console/blue/web?mode=take", &format!("Console(Take, {web})")),
            ("GET /ws/console/blue/web", &format!("Console(Write, {web})")),
            ("GET /ws/vnc/blue/web", &format!("Screen(Write, {web})")),
            ("GET /ws/vnc/blue/web?mode=read", &format!("Screen(Read, {web})")),
            ("GET /api/storageclasses", "Classes"),
            ("POST /api/disk", "Inspect"),
            ("GET /api/disk", "405"),
            ("GET /api/uploads", "Uploads"),
            ("POST /api/uploads/blue/web", &format!("Upload(Begin, {web})")),
            ("PATCH /api/uploads/blue/web", &format!("Upload(Part, {web})")),
            ("DELETE /api/uploads/blue/web", &format!("Upload(End, {web})")),
            ("GET /api/uploads/blue/web", "405"),
            ("POST /api/uploads/blue/..", "400"),
            ("PUT /api/uploads/blue/web", "405"),
            ("GET /index.html", "404"),
            ("GET /vendor/../vendor.sh", "404"),
            ("GET /vendor.sh", "404"),
            ("GET /api/vms/blue", "404"),
            ("GET /api/vms/../web", "400"),
            ("GET /api/vms/blue/WEB", "400"),
            ("GET /api/vms/blue/a%2Fb", "400"),
            ("GET /api/vms/blue/", "400"),
            ("POST /api/vms/blue/web/delete", "404"),
            ("GET /api/vms/blue/web/stop", "405"),
            ("POST /api/vms", "405"),
            ("HEAD /", "405"),
            ("GET /ws/console/blue/web?mode=all", "400"),
            ("GET /ws/vnc/blue/web?preserveSession=true", "400"),
        ] {
            assert_eq!(route(line), wanted, "{line}");
        }
    }
}
