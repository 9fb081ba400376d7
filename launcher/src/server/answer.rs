//! Carries out each request.

use super::body::{read, read_or_default};
use super::route::{Route, Wrong, route};
use super::{Service, stream};
use crate::error::{Error, ErrorKind};
use crate::threads::Slots;
use crate::vm::SyncError;
use crate::vm::guest::{Guest, Progress};
use crate::vm::thaw;
use crate::{hypervisor, screen};
use api::launcher::{Exec, Executed, Freeze, GuestFile, MonitorCommand, Refusal, Request, State, Sync};
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::{Response, StatusCode};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use transport::AnswerBody;

type HttpResponse = Response<AnswerBody>;
/// A refusal, with its status.
pub(super) type HttpRefusal = (StatusCode, Refusal);

/// Answers one request; a refusal is an answer with a JSON body.
pub(super) async fn answer(service: &Service, request: hyper::Request<Incoming>) -> HttpResponse {
    let uri = request.uri();
    match route(request.method(), uri.path(), uri.query()) {
        Ok(route) => {
            done(service, route, request).await.unwrap_or_else(|(status, refusal)| say(status, &refusal))
        }
        Err(Wrong::NotFound) => {
            let why = format!("no such path: {}", uri.path().chars().take(200).collect::<String>());
            say(StatusCode::NOT_FOUND, &refusal(why))
        }
        Err(Wrong::Method(method)) => {
            let mut answer =
                say(StatusCode::METHOD_NOT_ALLOWED, &refusal(format!("{} wants {method}", uri.path())));
            answer.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static(method));
            answer
        }
    }
}

async fn done(
    service: &Service,
    route: Route,
    request: hyper::Request<Incoming>,
) -> Result<HttpResponse, HttpRefusal> {
    let handle = &service.handle;
    match route {
        Route::Info => Ok(say(StatusCode::OK, &*service.info)),
        Route::Sync => {
            let sync: Sync = read(request.into_body()).await.map_err(|e| ours(&e))?;
            match handle.sync(sync).await {
                Ok(answer) => Ok(say(StatusCode::OK, &answer)),
                Err(error) => Err(not_taken(error)),
            }
        }
        Route::State { watch: false } => {
            let state = handle.state().borrow().clone();
            Ok(say(StatusCode::OK, &state))
        }
        Route::State { watch: true } => Ok(watched(handle.state())),
        Route::Request => {
            let wanted: Request = read(request.into_body()).await.map_err(|e| ours(&e))?;
            match handle.request(wanted).await {
                Ok(answer) => Ok(say(StatusCode::OK, &answer)),
                Err(refusal) => Err((StatusCode::SERVICE_UNAVAILABLE, refusal)),
            }
        }
        Route::Stats => {
            let stats = ask(service, &service.calls, "read the statistics of", |hypervisor, name| {
                hypervisor.stats(name).map_err(|e| theirs(&e))
            })
            .await?;
            Ok(say(StatusCode::OK, &stats))
        }
        Route::Domain => {
            let domain = ask(service, &service.calls, "describe", |hypervisor, name| {
                hypervisor.domain(name).map_err(|e| theirs(&e))
            })
            .await?;
            Ok(say(StatusCode::OK, &domain))
        }
        Route::DomainStats => {
            let records = ask(service, &service.calls, "read the records of", |hypervisor, name| {
                hypervisor.records(name).map_err(|e| theirs(&e))
            })
            .await?;
            Ok(say(StatusCode::OK, &records))
        }
        Route::Monitor => {
            let command: MonitorCommand = read(request.into_body()).await.map_err(|e| ours(&e))?;
            tracing::info!(
                "QEMU's monitor is asked: {}",
                command.command.chars().take(200).collect::<String>()
            );
            let ask_monitor = move |hypervisor: &dyn hypervisor::Hypervisor, name: &str| {
                hypervisor.monitor(name, &command).map_err(|e| theirs(&e))
            };
            Ok(say(StatusCode::OK, &ask(service, &service.calls, "ask the monitor of", ask_monitor).await?))
        }
        Route::Screenshot { wake } => screenshot(service, wake).await,
        Route::GuestInfo => {
            guest(service, "ask the guest agent for guest info of", |guest| guest.info()).await
        }
        Route::GuestUsers => guest(service, "ask the guest agent for users of", |guest| guest.users()).await,
        Route::GuestFilesystems => {
            guest(service, "ask the guest agent for file systems of", |guest| guest.filesystems()).await
        }
        Route::GuestExec => {
            let exec: Exec = read(request.into_body()).await.map_err(|e| ours(&e))?;
            Ok(say(StatusCode::OK, &run(service, exec).await?))
        }
        Route::GuestFile => {
            let wanted: GuestFile = read(request.into_body()).await.map_err(|e| ours(&e))?;
            guest(service, "use a file of", move |guest| guest.file(&wanted)).await
        }
        Route::GuestFreeze => {
            let freeze: Freeze = read_or_default(request.into_body()).await.map_err(|e| ours(&e))?;
            let (thaw, after) = (service.thaw.clone(), thaw::after(&freeze).map_err(|e| ours(&e))?);
            guest(service, "freeze file systems of", move |guest| {
                thaw.freeze(guest, after).map(|count| json!({"frozen": count}))
            })
            .await
        }
        Route::GuestThaw => {
            let thaw = service.thaw.clone();
            guest(service, "thaw file systems of", move |guest| {
                thaw.thaw(guest).map(|count| json!({"thawed": count}))
            })
            .await
        }
        Route::GuestPing => {
            guest(service, "ping the guest agent of", |guest| guest.ping().map(|()| json!({}))).await
        }
        Route::Console { mode } => stream::console(service, request, mode),
        Route::Vnc { mode } => stream::vnc(service, request, mode).await,
        Route::UsbRedir => stream::usbredir(service, request).await,
    }
}

/// The state at once, and after every change; a slow watcher misses the states in between.
fn watched(mut state: watch::Receiver<State>) -> HttpResponse {
    let (lines, out) = mpsc::channel(4);
    tokio::spawn(async move {
        state.mark_changed();
        while state.changed().await.is_ok() {
            let mut line = serde_json::to_vec(&*state.borrow_and_update()).unwrap_or_default();
            line.push(b'\n');
            if lines.send(Ok(Bytes::from(line))).await.is_err() {
                return;
            }
        }
    });
    transport::response(StatusCode::OK, "application/x-ndjson", AnswerBody::Pieces(out, None))
}

/// Calls the hypervisor on a separate thread.
async fn ask<T: Send + 'static>(
    service: &Service,
    places: &Slots,
    doing: &str,
    question: impl FnOnce(&dyn hypervisor::Hypervisor, &str) -> Result<T, HttpRefusal> + Send + 'static,
) -> Result<T, HttpRefusal> {
    let name = service.handle.name().map(str::to_owned);
    let name = name.ok_or_else(|| (StatusCode::CONFLICT, refusal("there is no VM yet".into())))?;
    let doing = format!("{doing} {name}");
    let hypervisor = service.handle.hypervisor.clone();
    places.ask(&doing, move || question(&*hypervisor, &name)).await.map_err(|e| theirs(&e))?
}

/// Calls the guest agent.
async fn call<T: Send + 'static>(
    service: &Service,
    doing: &str,
    question: impl FnOnce(&Guest<'_>) -> hypervisor::Result<T> + Send + 'static,
) -> Result<T, HttpRefusal> {
    let question = move |hypervisor: &dyn hypervisor::Hypervisor, name: &str| {
        question(&Guest { hypervisor, name }).map_err(|e| theirs(&e))
    };
    ask(service, &service.agent, doing, question).await
}

async fn guest<T: Serialize + Send + 'static>(
    service: &Service,
    doing: &str,
    question: impl FnOnce(&Guest<'_>) -> hypervisor::Result<T> + Send + 'static,
) -> Result<HttpResponse, HttpRefusal> {
    Ok(say(StatusCode::OK, &call(service, doing, question).await?))
}

/// Runs a program in the guest. Between two polls it does not occupy a slot, however long it runs.
async fn run(service: &Service, exec: Exec) -> Result<Executed, HttpRefusal> {
    let mut program = call(service, "start a program in", move |guest| guest.begin(&exec)).await?;
    loop {
        let asked = call(service, "wait for a program in", move |guest| {
            let progress = guest.progress(&mut program)?;
            Ok((program, progress))
        });
        let (next, progress) = asked.await?;
        match progress {
            Progress::Done(done) => return Ok(done),
            Progress::Runs(pause) => tokio::time::sleep(pause).await,
        }
        program = next;
    }
}

async fn screenshot(service: &Service, wake: bool) -> Result<HttpResponse, HttpRefusal> {
    if wake {
        service.screen.wake().await.map_err(|e| ours(&e))?;
    }
    let png = ask(service, &service.calls, "take a screenshot of", |hypervisor, name| {
        let mut picture = Vec::new();
        hypervisor.screenshot(name, &mut picture).map_err(|e| theirs(&e))?;
        match picture.starts_with(b"\x89PNG\r\n\x1a\n") {
            true => Ok(picture),
            false => screen::png::from_ppm(&picture).map_err(|e| ours(&e)),
        }
    });
    Ok(transport::response(StatusCode::OK, "image/png", AnswerBody::whole(png.await?)))
}

fn say(status: StatusCode, what: &impl Serialize) -> HttpResponse {
    let mut text = serde_json::to_vec(what).unwrap_or_default();
    text.push(b'\n');
    transport::response(status, "application/json", AnswerBody::whole(text))
}

pub(super) fn refusal(error: String) -> Refusal {
    Refusal { error, faults: Vec::new(), hint: None }
}

/// The answer for a VM that was refused: faults of its spec have their own status, since only they are final.
fn not_taken(SyncError { faults, error }: SyncError) -> HttpRefusal {
    match faults.is_empty() {
        true => ours(&error),
        false => (StatusCode::UNPROCESSABLE_ENTITY, Refusal { error: error.to_string(), faults, hint: None }),
    }
}

/// An error of the launcher, with its status.
pub(super) fn ours(e: &Error) -> HttpRefusal {
    let status = match e.kind() {
        ErrorKind::Refused => StatusCode::BAD_REQUEST,
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::Busy => StatusCode::CONFLICT,
        ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorKind::Ending => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, refusal(e.chain()))
}

/// An error of the hypervisor, with its status.
fn theirs(e: &hypervisor::Error) -> HttpRefusal {
    use hypervisor::ErrorKind;
    let status = match e.kind() {
        ErrorKind::NotFound => StatusCode::NOT_FOUND,
        ErrorKind::NotNow | ErrorKind::Busy => StatusCode::CONFLICT,
        ErrorKind::NoSpace | ErrorKind::NoMemory => StatusCode::INSUFFICIENT_STORAGE,
        ErrorKind::Denied => StatusCode::FORBIDDEN,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::NoAgent | ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::TimedOut => StatusCode::GATEWAY_TIMEOUT,
        ErrorKind::Ended | ErrorKind::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (
        status,
        Refusal { error: e.sentence().to_owned(), faults: Vec::new(), hint: e.hint().map(str::to_owned) },
    )
}
