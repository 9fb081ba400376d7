//! One device plug-in: a gRPC server of its own, registered with the kubelet for as long as that is the same one.

use super::health::Health;
use super::wire::{
    self, AllocateRequest, AllocateResponse, ContainerResponse, DeviceSpec, Devices, Empty, Options,
    REGISTER, RegisterRequest, VERSION,
};
use super::{Device, endpoint};
use crate::blocking::Blocking;
use crate::error::{Error, Result};
use futures_util::stream::BoxStream;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kubernetes::config::node::NodeSettings;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// How often the kubelet is looked at: a new one knows nobody.
const LOOK: Duration = Duration::from_secs(1);
/// How often the device is looked at.
const EXAMINE: Duration = Duration::from_secs(10);
/// How soon what failed is tried again, in seconds.
const AGAIN: [u64; 4] = [1, 2, 5, 10];
/// How long the kubelet may take for an answer, and the node for a look at its files.
const PATIENCE: Duration = Duration::from_secs(10);

/// Offers one device to whichever kubelet is there, for ever.
pub(crate) async fn offer(
    folder: PathBuf,
    device: Device,
    health: Health,
    blocking: Blocking,
    settings: watch::Receiver<Option<NodeSettings>>,
) {
    let (tell, trouble) = watch::channel(examine(&health, &blocking).await);
    let examined = async {
        loop {
            tokio::time::sleep(EXAMINE).await;
            let found = examine(&health, &blocking).await;
            tell.send_if_modified(|known| std::mem::replace(known, found.clone()) != found);
        }
    };
    let offered = async {
        let mut tries = 0;
        loop {
            let told = Told { trouble: trouble.clone(), settings: settings.clone() };
            match once(&folder, device, &told, &mut tries, &blocking).await {
                Ok(()) => tracing::info!("the kubelet is another one; {} is offered again", device.name),
                Err(e) => {
                    let pause = AGAIN[usize::min(tries, AGAIN.len() - 1)];
                    tries += 1;
                    tracing::warn!("{} is not offered: {}; again in {pause} s", device.name, e.chain());
                    tokio::time::sleep(Duration::from_secs(pause)).await;
                }
            }
        }
    };
    tokio::join!(examined, offered);
}

async fn examine(health: &Health, blocking: &Blocking) -> Option<String> {
    let (name, health) = (health.device.name, health.clone());
    let found = blocking.run("looking at a device", PATIENCE, move || Ok(health.trouble())).await;
    let found = found.unwrap_or_else(|e| Some(e.chain()));
    tracing::debug!("{name}: {}", found.as_deref().unwrap_or("healthy"));
    found
}

/// Listens and registers; ends when the kubelet is another one.
async fn once(
    folder: &Path,
    device: Device,
    told: &Told,
    tries: &mut usize,
    blocking: &Blocking,
) -> Result<()> {
    let (own, kubelet) = (folder.join(endpoint(device)), folder.join("kubelet.sock"));
    let cannot = || format!("cannot listen on {}", own.display());
    let both = (own.clone(), kubelet.clone());
    let clean = move || clean(&both.0, &both.1);
    let (before, permissions) = blocking.run("making room for a socket", PATIENCE, clean).await?;
    let listener = UnixListener::bind(&own).map_err(|e| Error::io(cannot(), e))?;
    let _socket = Socket(&own);
    let serving = serve(listener, Plugin { device, permissions, told: told.clone() });
    let registered = async {
        register(&kubelet, device).await?;
        tracing::info!("{} is offered to the kubelet", device.name);
        *tries = 0;
        loop {
            let both = (own.clone(), kubelet.clone());
            let look = move || Ok((which(&both.0), which(&both.1)));
            let (ours, now) = blocking.run("looking at the kubelet's socket", PATIENCE, look).await?;
            if before != now || ours.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = serving => Err(Error::failed(format!("nobody can connect to {}", own.display()))),
        done = registered => done,
    }
}

/// A socket of ours, which goes when nobody listens any more. Should another virt-handler have taken its place, that one sees
/// that it is gone, and offers the device again.
struct Socket<'a>(&'a Path);

impl Drop for Socket<'_> {
    #[expect(
        clippy::disallowed_methods,
        reason = "one name in a folder of the kubelet's, and nobody waits in a drop"
    )]
    fn drop(&mut self) {
        if let Err(e) = std::fs::remove_file(self.0) {
            tracing::debug!("{} is gone already: {e}", self.0.display());
        }
    }
}

/// Takes away what a virt-handler before left at `own`. Which kubelet there is, and what is said of permissions to it.
#[expect(clippy::disallowed_methods, reason = "work of node::blocking")]
fn clean(own: &Path, kubelet: &Path) -> Result<(Option<Which>, &'static str)> {
    match std::fs::remove_file(own) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(format!("cannot listen on {}", own.display()), e));
        }
        _ => {}
    }
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    Ok((which(kubelet), if unified { "rwm" } else { "rw" }))
}

/// Device, number and time of change of a file.
type Which = (u64, u64, i64, i64);

/// Tells one socket from another of the same name.
#[expect(clippy::disallowed_methods, reason = "work of node::blocking")]
fn which(path: &Path) -> Option<Which> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

async fn register(kubelet: &Path, device: Device) -> Result<()> {
    let what = || format!("the kubelet on {} does not take the device", kubelet.display());
    let request = RegisterRequest {
        version: VERSION.into(),
        endpoint: endpoint(device).display().to_string(),
        resource_name: format!("devices.kubevirt.io/{}", device.name),
        options: Some(Options::default()),
    };
    let call = async {
        let address = format!("unix://{}", kubelet.display());
        let channel = tonic::transport::Endpoint::try_from(address)
            .map_err(|e| Error::failed(what()).because(e))?
            .connect()
            .await
            .map_err(|e| Error::failed(what()).because(e))?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|e| Error::failed(what()).because(e))?;
        let codec = ProstCodec::<RegisterRequest, Empty>::default();
        let path = PathAndQuery::from_static(REGISTER);
        client.unary(Request::new(request), path, codec).await.map_err(|e| Error::failed(what()).because(e))
    };
    let done = tokio::time::timeout(PATIENCE, call).await;
    done.map_err(|_| Error::failed(format!("{} within {} s", what(), PATIENCE.as_secs())))?.map(drop)
}

/// Answers the kubelet.
async fn serve(listener: UnixListener, plugin: Plugin) {
    // What a connection of a plug-in that ended still does, ends with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let plugin = plugin.clone();
        let answer = service_fn(move |request| {
            let plugin = plugin.clone();
            async move { Ok::<_, Infallible>(plugin.answer(request).await) }
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), answer);
        connections.spawn(async move { drop(connection.await) });
        while connections.try_join_next().is_some() {}
    }
}

#[derive(Clone)]
struct Plugin {
    device: Device,
    /// What a pod may do with the device.
    permissions: &'static str,
    told: Told,
}

/// What decides how often a device is advertised, and as what.
#[derive(Clone)]
struct Told {
    /// Why it cannot be used.
    trouble: watch::Receiver<Option<String>>,
    /// What the cluster says of nodes, as soon as that is known.
    settings: watch::Receiver<Option<NodeSettings>>,
}

impl Told {
    /// The devices, each time they are others.
    async fn next(&mut self) -> Option<Devices> {
        tokio::select! {
            changed = self.trouble.changed() => changed.ok()?,
            changed = self.settings.changed() => changed.ok()?,
        }
        let times = self.settings.borrow_and_update().as_ref().map(|settings| settings.vmis);
        let healthy = self.trouble.borrow_and_update().is_none();
        Some(devices(healthy, times.unwrap_or_else(|| NodeSettings::default().vmis)))
    }
}

impl Plugin {
    async fn answer(&self, request: http::Request<Incoming>) -> http::Response<Body> {
        match request.uri().path() {
            "/v1beta1.DevicePlugin/GetDevicePluginOptions" => {
                Grpc::new(ProstCodec::<Options, Empty>::default())
                    .unary(Unary(|_: Empty| Options::default()), request)
                    .await
            }
            "/v1beta1.DevicePlugin/ListAndWatch" => {
                Grpc::new(ProstCodec::<Devices, Empty>::default())
                    .server_streaming(self.clone(), request)
                    .await
            }
            "/v1beta1.DevicePlugin/Allocate" => {
                let (device, permissions) = (self.device, self.permissions);
                let codec = ProstCodec::<AllocateResponse, AllocateRequest>::default();
                Grpc::new(codec)
                    .unary(Unary(move |asked| allocate(device, permissions, &asked)), request)
                    .await
            }
            // The two that our options say we do not have.
            _ => Status::unimplemented("this plug-in has no such method").into_http(),
        }
    }
}

impl ServerStreamingService<Empty> for Plugin {
    type Response = Devices;
    type ResponseStream = BoxStream<'static, Result<Devices, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    /// All devices now, and again whenever their health or their number changes.
    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        let mut told = self.told.clone();
        told.trouble.mark_changed();
        let devices = futures_util::stream::unfold(told, |mut told| async move {
            let devices = told.next().await?;
            Some((Ok(devices), told))
        });
        ready(Ok(Response::new(Box::pin(devices))))
    }
}

/// A method that needs no waiting.
struct Unary<F>(F);

impl<Q, A, F: FnMut(Q) -> A> UnaryService<Q> for Unary<F> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready(Ok(Response::new((self.0)(request.into_inner()))))
    }
}

/// One device so many times: it is shared.
fn devices(healthy: bool, times: usize) -> Devices {
    let health = if healthy { "Healthy" } else { "Unhealthy" };
    let device = |number| wire::Device { id: format!("{number:03}"), health: health.into() };
    Devices { devices: (0..times).map(device).collect() }
}

fn allocate(device: Device, permissions: &str, asked: &AllocateRequest) -> AllocateResponse {
    let spec = DeviceSpec {
        container_path: device.path.into(),
        host_path: device.path.into(),
        permissions: permissions.into(),
    };
    let given = ContainerResponse { devices: vec![spec], ..ContainerResponse::default() };
    AllocateResponse { containers: asked.containers.iter().map(|_| given.clone()).collect() }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
