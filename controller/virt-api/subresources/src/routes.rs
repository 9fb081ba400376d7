//! Handling of requests, from path to response.
//!
//! ```text
//!  path ─► document                                                          (unauthenticated)
//!   ├─► uploadtoken ─► requester ─► access ─► a token
//!   └─► Route ─► requester ─► access ─► the action
//!                                        ├─ of a VM: Objects::change(lifecycle::…), Objects::migrate
//!                                        ├─ of a VMI: its object ─► vmi::permits ─► running, ports
//!                                        └─ not served ([`unserved`]): 501, by name
//! ```

use crate::access::Access;
use crate::evacuation::EvacuateCancelOptions;
use crate::handlers::Handlers;
use crate::lifecycle::{RestartOptions, StartOptions, StopOptions, restart, start, stop};
use crate::migration::MigrateOptions;
use crate::objects::Objects;
use crate::ports::Protocol;
use crate::refusal::{Refusal, Result, with_json, with_json_text};
use crate::requester::Aggregation;
use crate::route::Route;
use crate::running::StreamMode;
use crate::stream_limits::{Opened, Streams};
use crate::upload_token::Tokens;
use crate::websocket::{Farewell, UpgradeRequest, carry};
use crate::{body, datagrams, discovery, ports, query, running, sizes, unserved, upload_token, vmi};
use api::duration::Duration;
use api::launcher::{Freeze, LONGEST_FREEZE, Request};
use api::vm::VirtualMachine;
use api::vmi::VirtualMachineInstance;
use cluster_model::subresources::{Action, GROUP, Parent};
use http::{Method, Response, StatusCode};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use serve::settings_version::SettingsVersion;
use serve::token::Signer;
use serve::transport::{HttpResponse, IncomingRequest, Limits, Upgrade, Upgraded};
use std::sync::Arc;

/// Maximum body size of options.
const OPTIONS: usize = 64 << 10;
/// Maximum size of a VM to expand.
const LARGEST: usize = 3 << 20;

/// True if the path belongs to this API.
pub fn is_ours(path: &str) -> bool {
    matches!(path, "/" | "/apis" | "/openapi/v2" | "/openapi/v3")
        || path.starts_with("/openapi/v3/apis/")
        || path.strip_prefix("/apis/").is_some_and(|path| path.starts_with(GROUP))
        || upload_token::is_ours(path)
}

/// Handler of the aggregated API.
pub struct Routes {
    aggregation: Arc<Aggregation>,
    access: Access,
    objects: Objects,
    handlers: Arc<Handlers>,
    streams: Streams,
    tokens: Tokens,
    /// Present version of the cluster's settings.
    settings: Arc<SettingsVersion>,
}

/// Options of a request with no options except `dryRun`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PlainOptions {
    dry_run: Vec<String>,
}

/// Options of a freeze.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FreezeOptions {
    unfreeze_timeout: Option<Duration>,
}

impl FreezeOptions {
    /// The freeze request for the launcher.
    fn freeze(&self) -> Result<Freeze> {
        let Some(asked) = &self.unfreeze_timeout else { return Ok(Freeze::default()) };
        let refused = |why: &str| Refusal::bad_request(format!("unfreezeTimeout is {asked}, and {why}"));
        let after = asked.to_std().ok_or_else(|| refused("may not be below zero"))?;
        if after > LONGEST_FREEZE {
            return Err(refused(
                "may be 1h0m0s at most: programs of a guest hang while its file systems are frozen",
            ));
        }
        // A period below a millisecond must not become 0, which means no limit.
        let ms = after.as_nanos().div_ceil(1_000_000);
        Ok(Freeze { thaw_after_ms: u64::try_from(ms).ok().filter(|ms| *ms > 0) })
    }
}

impl Routes {
    /// A handler for users named by the aggregator. `signer` signs their upload tokens, and `settings` is the
    /// present version of the settings.
    pub fn new(
        client: kube::Client,
        aggregation: Arc<Aggregation>,
        handlers: Arc<Handlers>,
        signer: Arc<Signer>,
        settings: Arc<SettingsVersion>,
    ) -> Routes {
        let streams = Streams::new(Limits::of_server().streams);
        let access = Access::new(client.clone());
        let tokens = Tokens::new(signer);
        Routes { aggregation, access, objects: Objects::new(client), handlers, streams, tokens, settings }
    }

    /// The response to a request.
    pub async fn answer(&self, asked: IncomingRequest) -> HttpResponse {
        self.act(asked).await.unwrap_or_else(|refused| refused.answer())
    }

    async fn act(&self, asked: IncomingRequest) -> Result<HttpResponse> {
        let path = asked.head.uri.path().to_owned();
        if let Some(document) = discovery::document(&path) {
            return match asked.head.method {
                Method::GET | Method::HEAD => Ok(document),
                _ => Err(Refusal::method("GET")),
            };
        }
        if upload_token::is_ours(&path) {
            let place = upload_token::RequestPath::of(&path)?;
            let requester = self.aggregation.requester(&asked.head, asked.client.as_ref())?;
            let attributes = place.attributes(&asked.head.method)?;
            self.access.reviewed(&requester, upload_token::PLURAL, attributes).await?;
            return self.tokens.answer(asked, &place).await;
        }
        let route = Route::of(&path)?;
        let method = &asked.head.method;
        match route.subresource.action {
            Action::Version => return Ok(with_json(StatusCode::OK, &discovery::version_info())),
            Action::Healthz => {
                return Ok(with_json_text(StatusCode::OK, self.settings.answer()));
            }
            _ => {}
        }
        let unserved = unserved::instead(route.subresource);
        if let (Parent::Group, Some(instead)) = (route.subresource.parent, unserved) {
            // virtctl does not parse a Status here.
            return Err(Refusal::not_served(&route.subject_of_api(), instead).into_text());
        }
        self.permits(&asked, &route).await?;
        if method.as_str() != route.subresource.method.name() {
            return Err(Refusal::method(route.subresource.method.name()));
        }
        if let Some(instead) = unserved {
            self.exists(&route).await?;
            return Err(Refusal::not_served(&route.subject_of_api(), instead));
        }
        match route.subresource.parent {
            Parent::VirtualMachine => self.of_vm(asked, &route).await,
            Parent::VirtualMachineInstance => {
                let vmi = self.objects.vmi(route.namespace, route.name).await;
                let vmi = vmi.map_err(|refused| match route.subresource.action {
                    // Upstream's clients parse only text in refusals of these requests.
                    Action::GuestOsInfo | Action::UserList | Action::FilesystemList | Action::Screenshot => {
                        refused.into_guest_text()
                    }
                    _ => refused,
                })?;
                self.of_vmi(asked, &route, &vmi).await
            }
            Parent::Group => {
                let vm = vm_of(body::read::<Value>(asked, LARGEST).await?, &route)?;
                shown(&sizes::expanded(&self.objects, &vm, Refusal::bad_request).await?)
            }
        }
    }

    /// Authenticates the API aggregator, and asks whether the user may use the subresource.
    async fn permits(&self, asked: &IncomingRequest, route: &Route<'_>) -> Result<()> {
        let requester = self.aggregation.requester(&asked.head, asked.client.as_ref())?;
        self.access.permits(&requester, &asked.head.method, route).await
    }

    async fn of_vm(&self, mut asked: IncomingRequest, route: &Route<'_>) -> Result<HttpResponse> {
        let (namespace, name) = (route.namespace, route.name);
        match route.subresource.action {
            Action::Start => {
                let options: StartOptions = body::read(asked, OPTIONS).await?;
                let dry = options.dry_run.clone();
                let decide =
                    |found: &crate::objects::VmWithVmi| start(&found.vm, found.vmi.as_ref(), &options);
                self.objects.change(namespace, name, &dry, decide).await?;
            }
            Action::Stop => {
                let options: StopOptions = body::read(asked, OPTIONS).await?;
                let dry = options.dry_run.clone();
                let decide =
                    |found: &crate::objects::VmWithVmi| stop(&found.vm, found.vmi.as_ref(), &options);
                self.objects.change(namespace, name, &dry, decide).await?;
            }
            Action::Restart => {
                let options: RestartOptions = body::read(asked, OPTIONS).await?;
                let dry = options.dry_run.clone();
                let decide =
                    |found: &crate::objects::VmWithVmi| restart(&found.vm, found.vmi.as_ref(), &options);
                self.objects.change(namespace, name, &dry, decide).await?;
            }
            Action::Migrate => {
                let options: MigrateOptions = body::read(asked, OPTIONS).await?;
                self.objects.migrate(namespace, name, &options).await?;
            }
            Action::ExpandSpec => {
                let vm = self.objects.vm(namespace, name).await?;
                return shown(&sizes::expanded(&self.objects, &vm, |why| Refusal::internal(&why)).await?);
            }
            Action::EvacuateCancel => {
                self.objects.vm(namespace, name).await?;
                return self.cancel_evacuation(asked, route).await;
            }
            Action::PortForward => {
                let found = self.objects.both(namespace, name).await?;
                let Some(vmi) = found.vmi else {
                    return Err(Refusal::conflict(route.subject(), "VMI is not started"));
                };
                return self.port_forward(&mut asked, route, &vmi).await;
            }
            _ => return Err(Refusal::no_such_path()),
        }
        let mut accepted = Response::new(Bytes::new());
        *accepted.status_mut() = StatusCode::ACCEPTED;
        Ok(accepted)
    }

    async fn of_vmi(
        &self,
        mut asked: IncomingRequest,
        route: &Route<'_>,
        vmi: &VirtualMachineInstance,
    ) -> Result<HttpResponse> {
        let action = route.subresource.action;
        if action == Action::PortForward {
            return self.port_forward(&mut asked, route, vmi).await;
        }
        let query = asked.head.uri.query().map(str::to_owned);
        let query = query.as_deref();
        let wanted = UpgradeRequest::of(&asked.head);
        asked.drop_head();
        let launcher = || self.handlers.launcher_of(vmi);
        let send = async |request| running::request(&launcher()?, vmi, request).await;
        match action {
            Action::Pause | Action::Unpause => {
                let options: PlainOptions = body::read(asked, OPTIONS).await?;
                vmi::permits(vmi, action)?;
                if !options.dry_run.is_empty() {
                    return Ok(Response::new(Bytes::new()));
                }
                send(if action == Action::Pause { Request::Pause } else { Request::Unpause }).await
            }
            Action::Reset | Action::SoftReboot => {
                vmi::permits(vmi, action)?;
                send(if action == Action::Reset { Request::Reset } else { Request::Reboot }).await
            }
            Action::Freeze => {
                let options: FreezeOptions = body::read(asked, OPTIONS).await?;
                vmi::permits(vmi, action)?;
                running::freeze(&launcher()?, vmi, &options.freeze()?).await
            }
            Action::Unfreeze => {
                vmi::permits(vmi, action)?;
                running::unfreeze(&launcher()?, vmi).await
            }
            Action::GuestOsInfo | Action::UserList | Action::FilesystemList => {
                vmi::permits(vmi, action)?;
                running::guest(&launcher()?, vmi, action).await
            }
            Action::Stats => {
                vmi::permits(vmi, action)?;
                running::stats(&launcher()?, vmi).await
            }
            Action::Screenshot => {
                vmi::permits(vmi, action)?;
                let wakes = query::is(query, "moveCursor");
                running::screenshot(&launcher()?, vmi, wakes).await
            }
            Action::Console | Action::Vnc | Action::UsbRedir => {
                let wanted = wanted?;
                vmi::permits(vmi, action)?;
                let way = StreamMode::of(action, query)?;
                let begun = self.streams.begin(action, route.namespace, route.name)?;
                let upgrade = match asked.upgrade() {
                    Ok(upgrade) => upgrade,
                    Err(answer) => return Ok(answer),
                };
                let stream = running::stream(&launcher()?, vmi, action, way).await?;
                Ok(leave(upgrade, begun.opened(), &wanted, move |client| async move {
                    let ends = client.ends();
                    carry(client, stream, ends, way.farewell()).await;
                }))
            }
            Action::EvacuateCancel => self.cancel_evacuation(asked, route).await,
            _ => Err(Refusal::no_such_path()),
        }
    }

    /// Cancels an evacuation. If none is requested, the request succeeds.
    async fn cancel_evacuation(&self, asked: IncomingRequest, route: &Route<'_>) -> Result<HttpResponse> {
        let options: EvacuateCancelOptions = body::read(asked, OPTIONS).await?;
        self.objects.cancel_evacuation(route.namespace, route.name, &options).await?;
        Ok(Response::new(Bytes::new()))
    }

    /// Checks that the object of a path exists.
    async fn exists(&self, route: &Route<'_>) -> Result<()> {
        match route.subresource.parent {
            Parent::VirtualMachine => self.objects.vm(route.namespace, route.name).await.map(drop),
            _ => self.objects.vmi(route.namespace, route.name).await.map(drop),
        }
    }

    async fn port_forward(
        &self,
        asked: &mut IncomingRequest,
        route: &Route<'_>,
        vmi: &VirtualMachineInstance,
    ) -> Result<HttpResponse> {
        let wanted = UpgradeRequest::of(&asked.head)?;
        vmi::permits(vmi, Action::PortForward)?;
        let (port, protocol) = ports::port(route.rest)?;
        let address = vmi::address(vmi)?;
        let begun = self.streams.begin(Action::PortForward, route.namespace, route.name)?;
        let upgrade = match asked.upgrade() {
            Ok(upgrade) => upgrade,
            Err(answer) => return Ok(answer),
        };
        asked.drop_head();
        Ok(match protocol {
            Protocol::Tcp => {
                let stream = ports::dial(address, port).await?;
                leave(upgrade, begun.opened(), &wanted, |client| async move {
                    let ends = client.ends();
                    carry(client, stream, ends, Farewell::Frame).await;
                })
            }
            Protocol::Udp => {
                let socket = ports::dial_udp(address, port).await?;
                leave(upgrade, begun.opened(), &wanted, |client| async move {
                    let ends = client.ends();
                    datagrams::carry(client, socket, ends).await;
                })
            }
        })
    }
}

/// Responds 101, and then carries the stream of the connection.
fn leave<F: Future<Output = ()> + Send>(
    upgrade: Upgrade,
    place: Opened,
    wanted: &UpgradeRequest,
    carry: impl FnOnce(Upgraded) -> F + Send + 'static,
) -> HttpResponse {
    tokio::spawn(async move {
        match upgrade.begin().await {
            Ok(upgraded) => carry(upgraded).await,
            Err(error) => tracing::debug!("{error}"),
        }
        drop(place);
    });
    wanted.answer()
}

/// The VM in the body of `expand-vm-spec`.
fn vm_of(object: Value, route: &Route<'_>) -> Result<VirtualMachine> {
    if object.is_null() {
        return Err(Refusal::bad_request("empty request body"));
    }
    let is_vm = object["kind"].as_str().is_none_or(|kind| kind == "VirtualMachine");
    let vm = api::wire::read::<VirtualMachine>(object).ok().filter(|_| is_vm);
    let Some(mut vm) = vm else {
        return Err(Refusal::bad_request("Object is not a valid VirtualMachine"));
    };
    match vm.metadata.namespace.as_deref() {
        None | Some("") => vm.metadata.namespace = Some(route.namespace.to_owned()),
        Some(namespace) if namespace == route.namespace => {}
        Some(_) => {
            return Err(Refusal::bad_request(format!("VM namespace must be empty or {}", route.namespace)));
        }
    }
    Ok(vm)
}

fn shown(vm: &VirtualMachine) -> Result<HttpResponse> {
    let mut object = api::wire::Wire::write(vm);
    object["apiVersion"] = json!(api::vm::API_VERSION);
    object["kind"] = json!("VirtualMachine");
    Ok(with_json(StatusCode::OK, &object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freeze_has_a_time_that_is_bounded() {
        let of = |text: &str| {
            let options: FreezeOptions = serde_json::from_value(json!({"unfreezeTimeout": text})).unwrap();
            options.freeze().map(|freeze| freeze.thaw_after_ms).map_err(|refused| refused.message)
        };
        assert_eq!(FreezeOptions::default().freeze(), Ok(Freeze::default()));
        for (text, ms) in [("5m", Some(300_000)), ("0s", None), ("1h", Some(3_600_000)), ("1ns", Some(1))] {
            assert_eq!(of(text), Ok(ms), "{text}");
        }
        for (text, why) in [("-1s", "may not be below zero"), ("1h1ns", "may be 1h0m0s at most")] {
            let message = of(text).unwrap_err();
            assert!(message.starts_with(&format!("unfreezeTimeout is {text}, and {why}")), "{message}");
        }
        assert!(serde_json::from_value::<FreezeOptions>(json!({"unfreezeTimeout": "soon"})).is_err());
    }
}
