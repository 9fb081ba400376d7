//! A device plug-in: a gRPC server that is registered with the kubelet, and registers again after the kubelet
//! has restarted.

use super::wire::{
    AllocateRequest, AllocateResponse, Devices, Empty, Options, REGISTER, RegisterRequest, VERSION,
};
use crate::blocking::Blocking;
use crate::error::{Error, Result};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use http::uri::PathAndQuery;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Time between two checks of the kubelet's socket: a restarted kubelet knows no plug-in.
const LOOK: Duration = Duration::from_secs(1);
/// Pauses in seconds before retries after errors.
const AGAIN: [u64; 4] = [1, 2, 5, 10];
/// Time limit for an answer of the kubelet, and for a look at files of the node.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Answer for a container, possibly after a wait.
pub(super) type AllocateFuture = BoxFuture<'static, Result<AllocateResponse, Status>>;
/// Makes the answer for the devices that the kubelet has chosen. The text is the permissions (`r`, `w`, `m`)
/// of the container.
pub(super) type Allocate = Arc<dyn Fn(AllocateRequest, &'static str) -> AllocateFuture + Send + Sync>;

/// A resource that is offered to the kubelet.
#[derive(Clone)]
pub(super) struct Offer {
    /// Name of the extended resource, such as `devices.kubevirt.io/kvm`.
    pub(super) resource: String,
    /// Name of its socket beside the kubelet's.
    pub(super) endpoint: String,
    /// Current list of the devices.
    pub(super) list: watch::Receiver<Devices>,
    pub(super) allocate: Allocate,
}

/// Offers devices to the current kubelet. Never returns.
pub(super) async fn offer(folder: PathBuf, offer: Offer, blocking: Blocking) {
    let mut tries = 0;
    loop {
        let resource = &offer.resource;
        match serve_until_restart(&folder, &offer, &mut tries, &blocking).await {
            Ok(()) => tracing::info!("the kubelet was restarted; registering {resource} again"),
            Err(e) => {
                let pause = AGAIN[usize::min(tries, AGAIN.len() - 1)];
                tries += 1;
                tracing::warn!(
                    "cannot offer {resource} to the kubelet: {}; retrying in {pause} s",
                    e.chain()
                );
                tokio::time::sleep(Duration::from_secs(pause)).await;
            }
        }
    }
}

/// Listens and registers; returns when the kubelet has restarted.
async fn serve_until_restart(
    folder: &Path,
    offer: &Offer,
    tries: &mut usize,
    blocking: &Blocking,
) -> Result<()> {
    let (own, kubelet) = (folder.join(&offer.endpoint), folder.join("kubelet.sock"));
    let cannot = || format!("cannot listen on {}", own.display());
    let both = (own.clone(), kubelet.clone());
    let clean = move || clean(&both.0, &both.1);
    let (before, permissions) = blocking.run("making room for a socket", PATIENCE, clean).await?;
    let listener = UnixListener::bind(&own).map_err(|e| Error::io(cannot(), e))?;
    let _socket = Socket(&own);
    let serving = serve(listener, Plugin { offer: offer.clone(), permissions });
    let registered = async {
        register(&kubelet, offer).await?;
        tracing::info!("{} is offered to the kubelet", offer.resource);
        *tries = 0;
        loop {
            let both = (own.clone(), kubelet.clone());
            let look = move || Ok((file_identity(&both.0), file_identity(&both.1)));
            let (ours, now) = blocking.run("looking at the kubelet's socket", PATIENCE, look).await?;
            if before != now || ours.is_none() {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        () = serving => Err(Error::failed(format!("the listener on {} has ended", own.display()))),
        done = registered => done,
    }
}

/// A socket of ours, which is removed at the end. If it was the socket of another virt-handler that has taken
/// its place, that one notices and offers the device again.
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

/// Removes a socket that an earlier virt-handler left at `own`. Returns the identity of the kubelet's socket,
/// and the permissions for device files under the node's version of cgroups.
#[expect(clippy::disallowed_methods, reason = "work of virt_handler::blocking")]
fn clean(own: &Path, kubelet: &Path) -> Result<(Option<FileIdentity>, &'static str)> {
    match std::fs::remove_file(own) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(format!("cannot listen on {}", own.display()), e));
        }
        _ => {}
    }
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    Ok((file_identity(kubelet), if unified { "rwm" } else { "rw" }))
}

/// Identity of a file: device, inode, and time of change.
type FileIdentity = (u64, u64, i64, i64);

/// Identity of a socket, which differs after a restart with the same name.
#[expect(clippy::disallowed_methods, reason = "work of virt_handler::blocking")]
fn file_identity(path: &Path) -> Option<FileIdentity> {
    let found = std::fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

async fn register(kubelet: &Path, offer: &Offer) -> Result<()> {
    let what = || format!("cannot register {} with the kubelet on {}", offer.resource, kubelet.display());
    let request = RegisterRequest {
        version: VERSION.into(),
        endpoint: offer.endpoint.clone(),
        resource_name: offer.resource.clone(),
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

/// Serves the kubelet's connections until the plug-in ends.
async fn serve(listener: UnixListener, plugin: Plugin) {
    // Connections end with the plug-in.
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
    offer: Offer,
    /// Permissions of a pod for the device.
    permissions: &'static str,
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
                let codec = ProstCodec::<AllocateResponse, AllocateRequest>::default();
                Grpc::new(codec).unary(self.clone(), request).await
            }
            // The two methods that our options disable.
            _ => Status::unimplemented("this plug-in has no such method").into_http(),
        }
    }
}

impl ServerStreamingService<Empty> for Plugin {
    type Response = Devices;
    type ResponseStream = BoxStream<'static, Result<Devices, Status>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    /// Sends all devices now, and again at each change.
    fn call(&mut self, _: Request<Empty>) -> Self::Future {
        let mut list = self.offer.list.clone();
        list.mark_changed();
        let devices = futures_util::stream::unfold(list, |mut list| async move {
            list.changed().await.ok()?;
            let devices = list.borrow_and_update().clone();
            Some((Ok(devices), list))
        });
        ready(Ok(Response::new(Box::pin(devices))))
    }
}

impl UnaryService<AllocateRequest> for Plugin {
    type Response = AllocateResponse;
    type Future = BoxFuture<'static, Result<Response<AllocateResponse>, Status>>;

    fn call(&mut self, asked: Request<AllocateRequest>) -> Self::Future {
        let given = (self.offer.allocate)(asked.into_inner(), self.permissions);
        Box::pin(async move { given.await.map(Response::new) })
    }
}

/// A method that answers at once.
struct Unary<F>(F);

impl<Q, A, F: FnMut(Q) -> A> UnaryService<Q> for Unary<F> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready(Ok(Response::new((self.0)(request.into_inner()))))
    }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
