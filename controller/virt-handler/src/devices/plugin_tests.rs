use super::super::shared;
use super::super::wire::ContainerRequest;
use super::super::{Device, health::Health};
use super::*;
use tokio::sync::mpsc;

const TUN: Device = Device { name: "tun", path: "/dev/null" };

/// A fake kubelet that accepts registrations.
fn kubelet(folder: &Path) -> (tokio::task::JoinHandle<()>, mpsc::UnboundedReceiver<RegisterRequest>) {
    let socket = folder.join("kubelet.sock");
    drop(std::fs::remove_file(&socket));
    let listener = UnixListener::bind(socket).unwrap();
    let (tell, told) = mpsc::unbounded_channel();
    let serving = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tell = tell.clone();
            let answer = service_fn(move |request: http::Request<Incoming>| {
                let tell = tell.clone();
                async move {
                    assert_eq!(request.uri().path(), REGISTER);
                    let take = Unary(move |asked: RegisterRequest| {
                        tell.send(asked).unwrap();
                        Empty {}
                    });
                    let codec = ProstCodec::<Empty, RegisterRequest>::default();
                    Ok::<_, Infallible>(Grpc::new(codec).unary(take, request).await)
                }
            });
            tokio::spawn(
                hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    (serving, told)
}

async fn client(folder: &Path, name: &str) -> tonic::client::Grpc<tonic::transport::Channel> {
    let address = format!("unix://{}", folder.join(name).display());
    let channel = tonic::transport::Endpoint::try_from(address).unwrap().connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    client
}

#[tokio::test]
async fn a_device_is_offered_watched_given_and_offered_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, mut told) = kubelet(folder.path());
    let (tell, list) = watch::channel(shared::devices(true, 1000));
    let offer = shared::offer(TUN, list);
    let path = folder.path().to_owned();
    let offering = tokio::spawn(async move {
        loop {
            drop(serve_until_restart(&path, &offer, &mut 0, &Blocking::new("the test", 1)).await);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let registered = told.recv().await.unwrap();
    assert_eq!(
        (registered.version.as_str(), registered.resource_name.as_str()),
        ("v1beta1", "devices.kubevirt.io/tun")
    );

    let mut client = client(folder.path(), &registered.endpoint).await;
    let codec = ProstCodec::<Empty, Devices>::default();
    let list = PathAndQuery::from_static("/v1beta1.DevicePlugin/ListAndWatch");
    let mut lists = client.server_streaming(Request::new(Empty {}), list, codec).await.unwrap().into_inner();
    let health = |devices: Devices| (devices.devices.len(), devices.devices[0].health.clone());
    assert_eq!(health(lists.message().await.unwrap().unwrap()), (1000, "Healthy".into()));
    tell.send(shared::devices(false, 1000)).unwrap();
    assert_eq!(health(lists.message().await.unwrap().unwrap()), (1000, "Unhealthy".into()));
    tell.send(shared::devices(false, 7)).unwrap();
    assert_eq!(health(lists.message().await.unwrap().unwrap()), (7, "Unhealthy".into()));

    let asked = AllocateRequest { containers: vec![ContainerRequest { ids: vec!["007".into()] }; 2] };
    let path = PathAndQuery::from_static("/v1beta1.DevicePlugin/Allocate");
    client.ready().await.unwrap();
    let codec = ProstCodec::<AllocateRequest, AllocateResponse>::default();
    let given = client.unary(Request::new(asked), path, codec).await.unwrap().into_inner();
    assert_eq!(given.containers.len(), 2);
    assert_eq!(given.containers[0].devices[0].container_path, "/dev/null");

    // The kubelet restarts: it empties the folder and knows no plug-ins.
    first.abort();
    drop(std::fs::remove_file(folder.path().join(&registered.endpoint)));
    let (_second, mut told) = kubelet(folder.path());
    assert_eq!(told.recv().await.unwrap(), registered);
    let socket = folder.path().join(&registered.endpoint);
    assert!(socket.exists());
    offering.abort();
    drop(offering.await);
    assert!(!socket.exists(), "nothing of a virt-handler that ends is left with the kubelet");
}

#[test]
fn kvm_is_healthy_only_where_the_probe_ran_a_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let findings = folder.path().to_owned();
    // A device that any user may open.
    let kvm = Health { device: Device { name: "kvm", path: "/dev/null" }, findings: findings.clone() };
    assert!(kvm.trouble().unwrap().contains("was not probed"));
    for (verdict, healthy) in [("none", false), ("limited", false), ("full", true)] {
        let node = serde_json::json!({
            "kvm": {"verdict": verdict, "reason": "cmpxchg16b"}, "arch": "amd64", "libvirt": null, "qemu": null,
            "accelerators": [], "machineTypes": [],
            "cpu": {"vendor": null, "hostModel": null, "models": [], "features": [], "count": 2},
            "devices": [], "hugepages": [], "firmware": [], "missing": []
        });
        std::fs::write(findings.join("node.json"), node.to_string()).unwrap();
        assert_eq!(kvm.trouble().is_none(), healthy, "{verdict}: {:?}", kvm.trouble());
    }
    let absent = Health { device: Device { name: "tun", path: "/dev/no-such-device" }, findings };
    assert!(absent.trouble().unwrap().contains("/dev/no-such-device"));
}
