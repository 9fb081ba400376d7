//! Maps a request to its kind. Pure.

use crate::seats::Mode;
use hyper::Method;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Info,
    Sync,
    State { watch: bool },
    Request,
    Stats,
    Domain,
    DomainStats,
    Monitor,
    Screenshot { wake: bool },
    GuestInfo,
    GuestUsers,
    GuestFilesystems,
    GuestExec,
    GuestFile,
    GuestFreeze,
    GuestThaw,
    GuestPing,
    Console { mode: Mode },
    Vnc { mode: Mode },
    UsbRedir,
}

/// The fault of a request without a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// The path does not exist.
    NotFound,
    /// The path exists, but not for this method.
    Method(&'static str),
}

/// The kind of a request.
pub(super) fn route(method: &Method, path: &str, query: Option<&str>) -> Result<Route, Wrong> {
    let has = |word: &str| {
        query.is_some_and(|query| query.split('&').any(|part| part.split('=').next() == Some(word)))
    };
    let mode = match () {
        // An older client that sends only `take` takes over the typing.
        () if has("take") && has("alone") => Mode::Alone,
        () if has("take") => Mode::Take,
        () if has("write") => Mode::Write,
        () => Mode::Read,
    };
    let (wanted, route) = match path {
        "/v1/info" => (Method::GET, Route::Info),
        "/v1/vm" => (Method::PUT, Route::Sync),
        "/v1/state" => (Method::GET, Route::State { watch: has("watch") }),
        "/v1/requests" => (Method::POST, Route::Request),
        "/v1/stats" => (Method::GET, Route::Stats),
        "/v1/domain" => (Method::GET, Route::Domain),
        "/v1/domain/stats" => (Method::GET, Route::DomainStats),
        "/v1/domain/monitor" => (Method::POST, Route::Monitor),
        "/v1/screenshot" => (Method::GET, Route::Screenshot { wake: has("wake") }),
        "/v1/guest/info" => (Method::GET, Route::GuestInfo),
        "/v1/guest/users" => (Method::GET, Route::GuestUsers),
        "/v1/guest/filesystems" => (Method::GET, Route::GuestFilesystems),
        "/v1/guest/exec" => (Method::POST, Route::GuestExec),
        "/v1/guest/file" => (Method::POST, Route::GuestFile),
        "/v1/guest/freeze" => (Method::POST, Route::GuestFreeze),
        "/v1/guest/thaw" => (Method::POST, Route::GuestThaw),
        "/v1/guest/ping" => (Method::POST, Route::GuestPing),
        "/v1/console" => (Method::GET, Route::Console { mode }),
        "/v1/vnc" => (Method::GET, Route::Vnc { mode }),
        "/v1/usbredir" => (Method::GET, Route::UsbRedir),
        _ => return Err(Wrong::NotFound),
    };
    match wanted {
        _ if wanted == *method => Ok(route),
        Method::GET => Err(Wrong::Method("GET")),
        Method::PUT => Err(Wrong::Method("PUT")),
        _ => Err(Wrong::Method("POST")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_their_routes() {
        assert_eq!(route(&Method::GET, "/v1/state", None), Ok(Route::State { watch: false }));
        assert_eq!(route(&Method::GET, "/v1/state", Some("watch")), Ok(Route::State { watch: true }));
        assert_eq!(route(&Method::GET, "/v1/state", Some("x=watch")), Ok(Route::State { watch: false }));
        assert_eq!(
            route(&Method::GET, "/v1/console", Some("a=b&write=true")),
            Ok(Route::Console { mode: Mode::Write })
        );
        assert_eq!(route(&Method::GET, "/v1/vnc", Some("take&alone")), Ok(Route::Vnc { mode: Mode::Alone }));
        assert_eq!(route(&Method::GET, "/v1/vnc", Some("alone")), Ok(Route::Vnc { mode: Mode::Read }));
        assert_eq!(route(&Method::GET, "/v1/usbredir", None), Ok(Route::UsbRedir));
        assert_eq!(route(&Method::GET, "/v1/vm", None), Err(Wrong::Method("PUT")));
        assert_eq!(route(&Method::GET, "/v2/vm", None), Err(Wrong::NotFound));
    }
}
