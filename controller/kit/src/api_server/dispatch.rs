//! From a request to its answer.

use super::answer::{Answer, created, not_found, ok, refusal};
use super::request::{Place, Request};
use super::watch::{Lines, whole};
use super::{ApiServer, State};
use http::{Response, StatusCode};
use hyper::body::Body;
use std::time::Duration;

impl ApiServer {
    pub(super) async fn answer<B: Body>(self, request: http::Request<B>) -> Response<Lines> {
        let request = Request::read(request).await;
        self.state().record.add(&request);
        self.tell();
        if request.verb != "watch" {
            let running = Running::begin(&self);
            if !running.duration.is_zero() {
                tokio::time::sleep(running.duration).await;
            }
        }
        let answer = self.state().answer(&request);
        self.tell();
        match answer {
            Answer::Whole(status, text) => whole(status, text),
            Answer::Watch(selection, from) => self.watched(selection, from),
        }
    }
}

/// A request in progress.
struct Running<'a> {
    server: &'a ApiServer,
    duration: Duration,
}

impl Running<'_> {
    fn begin(server: &ApiServer) -> Running<'_> {
        Running { server, duration: server.state().faults.begin() }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.server.state().faults.end();
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Answer {
        if let Some(status) = self.faults.status() {
            return refusal(status, "InternalError", "the API server fails in this test");
        }
        if let Some((status, body)) = self.prepared.find(&request.line) {
            return Answer::Whole(StatusCode::from_u16(status).unwrap(), body);
        }
        let Some(place) = request.place() else { return not_found(request) };
        match request.verb {
            "watch" => match request.number("resourceVersion").unwrap_or(0) {
                from if from < self.etcd.compacted => {
                    refusal(StatusCode::GONE, "Expired", "too old resource version")
                }
                from => Answer::Watch(request.selection(place), from),
            },
            "list" => ok(&self.etcd.list(request, &request.selection(place))),
            "get" => self.etcd.get(&request.path).map_or_else(|| not_found(request), ok),
            "create" if place.part == Some("eviction") => {
                self.etcd.delete(request, &request.body["deleteOptions"])
            }
            "create" => self.create(request, place),
            "patch" => self.etcd.patch(request, place),
            "delete" => self.etcd.delete(request, &request.body),
            _ => refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "no program of ours updates objects",
            ),
        }
    }

    fn create(&mut self, request: &Request, place: &Place) -> Answer {
        if let Some(answered) = self.reviews.answer(&request.body) {
            return created(&answered);
        }
        let object = request.body.clone();
        let admitted = match &self.admission {
            Some(admits) => admits(place.kind, object),
            None => Ok(object),
        };
        match admitted {
            Ok(object) => self.etcd.create(request, place, object),
            Err(why) => refusal(StatusCode::FORBIDDEN, "Forbidden", &why),
        }
    }
}
