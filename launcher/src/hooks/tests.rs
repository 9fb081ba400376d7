//! Hooks as a start meets them: sidecars that speak real HTTP/2 on a socket, good and bad ones, and programs.

use super::wire::{Domain, Empty, HookPoint, Info, Texts};
use super::*;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use std::convert::Infallible;
use std::fs;
use std::future::{Ready, ready};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use tonic::server::{Grpc, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

const XML: &str = "<domain type='kvm'><name>test_web</name><uuid>5d30</uuid><devices/></domain>";

/// A sidecar, and all methods that it was asked.
#[derive(Clone)]
struct Fake {
    info: Info,
    /// What stands in the domain instead of `<devices/>`.
    write: (&'static str, String),
    asked: Arc<Mutex<Vec<String>>>,
}

/// A method with one answer.
struct Unary<F>(F);

impl<Q, A, F: FnMut(Q) -> Result<A, Status>> UnaryService<Q> for Unary<F> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready((self.0)(request.into_inner()).map(Response::new))
    }
}

impl Fake {
    fn new(name: &str, versions: &[&str], points: &[(&str, i32)]) -> Fake {
        let hook_points =
            points.iter().map(|(name, priority)| HookPoint { name: (*name).into(), priority: *priority });
        let info = Info {
            name: name.into(),
            hook_points: hook_points.collect(),
            versions: versions.iter().map(|version| (*version).into()).collect(),
        };
        Fake { info, write: ("<devices/>", format!("<devices/><{name}/>")), asked: Arc::default() }
    }

    fn writes(mut self, from: &'static str, to: impl Into<String>) -> Fake {
        self.write = (from, to.into());
        self
    }

    /// Listens in the folder, until the test ends.
    fn listen(&self, folder: &Path) -> Hook {
        fs::create_dir_all(folder).unwrap();
        let (fake, socket) = (self.clone(), folder.join("any.sock"));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::UnixListener::bind(socket).unwrap();
                tell.send(()).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let fake = fake.clone();
                    let answer = service_fn(move |request| {
                        let fake = fake.clone();
                        async move { Ok::<_, Infallible>(fake.answer(request).await) }
                    });
                    tokio::spawn(
                        hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                            .serve_connection(TokioIo::new(stream), answer),
                    );
                }
            });
        });
        told.recv().unwrap();
        let container = folder.file_name().unwrap().to_str().unwrap().to_owned();
        Hook::Sidecar { container, folder: folder.to_owned() }
    }

    async fn answer(
        self,
        request: http_of_tonic::Request<Incoming>,
    ) -> http_of_tonic::Response<tonic::body::Body> {
        let path = request.uri().path().to_owned();
        self.asked.lock().unwrap().push(path.clone());
        match path.rsplit('/').next().unwrap() {
            "Info" => {
                let info = self.info.clone();
                let codec = ProstCodec::<Info, Empty>::default();
                Grpc::new(codec).unary(Unary(move |_: Empty| Ok(info.clone())), request).await
            }
            "OnDefineDomain" => {
                let (from, to) = self.write.clone();
                let change = move |asked: Domain| {
                    let xml = String::from_utf8(asked.xml).unwrap();
                    assert!(String::from_utf8(asked.vmi).unwrap().contains("\"web\""));
                    if from == "fail" {
                        return Err(Status::internal(format!("no\u{1b}[31m good: {to}")));
                    }
                    Ok(Domain { xml: xml.replace(from, &to).into_bytes(), vmi: vec![] })
                };
                Grpc::new(ProstCodec::<Domain, Domain>::default()).unary(Unary(change), request).await
            }
            "PreCloudInitIso" => {
                let change = |asked: Texts| {
                    let mut data: Value = serde_json::from_slice(&asked.data).unwrap();
                    data["UserData"] = json!(format!("{}\nchanged", data["UserData"].as_str().unwrap()));
                    Ok(Texts { data: data.to_string().into_bytes(), ..Texts::default() })
                };
                Grpc::new(ProstCodec::<Texts, Texts>::default()).unary(Unary(change), request).await
            }
            _ => {
                Grpc::new(ProstCodec::<Empty, Empty>::default())
                    .unary(Unary(|_: Empty| Ok(Empty {})), request)
                    .await
            }
        }
    }
}

/// The types of `http` that tonic speaks.
use tonic::codegen::http as http_of_tonic;

fn vmi() -> Value {
    json!({"metadata": {"name": "web"}})
}

/// The domain after these sidecars, or what is said.
fn domain(fakes: &[Fake]) -> Result<String, String> {
    let place = tempfile::tempdir().unwrap();
    let listening = fakes.iter().enumerate();
    let hooks: Vec<Hook> =
        listening.map(|(n, fake)| fake.listen(&place.path().join(format!("hook-sidecar-{n}")))).collect();
    let hooks = Hooks::collect(&hooks, &vmi()).map_err(|e| e.chain())?;
    hooks.domain(XML.to_owned()).map_err(|e| e.chain())
}

#[test]
fn sidecars_of_all_versions_change_the_domain_in_the_order_of_their_priority() {
    let point = "OnDefineDomain";
    let fakes = [
        Fake::new("last", &["v1alpha1"], &[(point, 0)]),
        Fake::new("b", &["v1alpha1", "v1alpha2"], &[(point, 10)]),
        Fake::new("a", &["v1alpha3", "v1alpha2"], &[(point, 10), ("Shutdown", 1)]),
        Fake::new("silent", &["v1alpha3"], &[]),
    ];
    let changed = domain(&fakes).unwrap();
    // Each puts its element behind the devices, so the last is the first.
    assert!(changed.contains("<devices/><last/><b/><a/></domain>"), "{changed}");
    let asked = |n: usize| fakes[n].asked.lock().unwrap().clone();
    assert_eq!(asked(0).last().unwrap(), "/kubevirt.hooks.v1alpha1.Callbacks/OnDefineDomain");
    assert_eq!(asked(1).last().unwrap(), "/kubevirt.hooks.v1alpha2.Callbacks/OnDefineDomain");
    assert_eq!(asked(2).last().unwrap(), "/kubevirt.hooks.v1alpha3.Callbacks/OnDefineDomain");
    assert_eq!(asked(3), ["/kubevirt.hooks.info.Info/Info"]);
}

#[test]
fn a_sidecar_that_does_what_it_may_not_is_named() {
    let fake = || Fake::new("evil", &["v1alpha2"], &[("OnDefineDomain", 0)]);
    for (fake, said) in [
        (fake().writes("test_web", "other"), "changed the name of the domain from \"test_web\" to \"other\""),
        (fake().writes("<uuid>5d30</uuid>", ""), "changed the uuid of the domain from \"5d30\" to none"),
        (fake().writes("5d30", "5d31"), "changed the uuid of the domain from \"5d30\" to \"5d31\""),
        (
            fake().writes("<devices/>", "<devices><vsock><cid address='9'/></vsock></devices>"),
            "changed the VSOCK context ID of the domain from none to \"address=9\"",
        ),
        (
            fake().writes("<devices/>", "<devices><vsock/></devices>"),
            "changed the VSOCK context ID of the domain from none to \"chosen by libvirt\"",
        ),
        (fake().writes(XML, " "), "answered OnDefineDomain with no domain"),
        (fake().writes("<devices/>", "x".repeat(LONGEST + 8192)), "failed at OnDefineDomain"),
        (fake().writes("fail", "the disk"), "Internal: no [31m good: the disk"),
    ] {
        let error = domain(&[fake]).unwrap_err();
        assert!(error.starts_with("the hook sidecar hook-sidecar-0 (evil) "), "{error}");
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_sidecar_that_wants_what_there_is_not_is_refused() {
    for (versions, point, said) in [
        (&["v1beta1"][..], "OnDefineDomain", "supports none of the versions v1alpha3, v1alpha2, v1alpha1"),
        (&["v1alpha3"], "PreMigration", "the hook point PreMigration, which is not known"),
        (&["v1alpha1"], "PreCloudInitIso", "which its version v1alpha1 does not have"),
        (&["v1alpha2"], "Shutdown", "which its version v1alpha2 does not have"),
    ] {
        let error = domain(&[Fake::new("new", versions, &[(point, 0)])]).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_sidecar_that_does_not_listen_is_waited_for_and_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("hook-sidecar-0");
    let find = |milliseconds| {
        let until = Instant::now() + Duration::from_millis(milliseconds);
        Sidecar::find("hook-sidecar-0", &folder, until).map_err(|e| e.chain())
    };
    let error = find(100).unwrap_err();
    assert!(error.contains("hook-sidecar-0 is not ready in time: no socket appeared in"), "{error}");
    // A link that it made leads the launcher nowhere.
    fs::create_dir(&folder).unwrap();
    symlink("/run/other.sock", folder.join("link.sock")).unwrap();
    assert!(find(100).unwrap_err().contains("no socket"));
    let late = {
        let folder = folder.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            Fake::new("late", &["v1alpha3"], &[]).listen(&folder)
        })
    };
    assert_eq!(find(30_000).unwrap().name, "late");
    late.join().unwrap();
    let _second = std::os::unix::net::UnixListener::bind(folder.join("second.sock")).unwrap();
    assert!(find(100).unwrap_err().contains("there are 2 sockets"));
}

#[test]
fn a_sidecar_changes_the_texts_of_cloud_init_and_hears_the_end() {
    let place = tempfile::tempdir().unwrap();
    let fake = Fake::new("seed", &["v1alpha3"], &[("PreCloudInitIso", 0), ("Shutdown", 0)]);
    let hook = fake.listen(&place.path().join("hook-sidecar-0"));
    let hooks = Hooks::collect(std::slice::from_ref(&hook), &vmi()).unwrap();
    assert_eq!(hooks.domain(XML.to_owned()).unwrap(), XML, "it was not asked");
    let identity = Identity { name: "web", namespace: "test", uuid: "5d30", hostname: "web", devices: &[] };
    let given = CloudInitData { user_data: Some(b"#cloud-config".to_vec()), ..CloudInitData::default() };
    let changed = hooks.cloud_init("seed", SeedFormat::NoCloud, &identity, given).unwrap();
    assert_eq!(changed.user_data.as_deref(), Some(&b"#cloud-config\nchanged"[..]));

    farewell(&[hook]);
    let asked = fake.asked.lock().unwrap().clone();
    assert_eq!(asked.last().unwrap(), "/kubevirt.hooks.v1alpha3.Callbacks/Shutdown");
}

/// The domain after a program with these lines, or what is said.
fn scripted(lines: &str) -> Result<String, String> {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("hook");
    // By another process: one that a test beside forks meanwhile would hold the file open, and nobody could
    // run it.
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let written = Command::new("sh").args(["-c", write, "sh"]).arg(&path).arg(lines).status().unwrap();
    assert!(written.success());
    let hooks = Hooks::collect(&[Hook::Script { path: path.clone() }], &vmi()).unwrap();
    hooks.domain(XML.to_owned()).map_err(|e| e.chain().replace(&path.display().to_string(), "HOOK"))
}

#[test]
fn a_program_changes_the_domain() {
    let changed = scripted(
        r#"test "$1 $3" = "--vmi --domain" && echo "$2" | grep -q web && echo "$4" | sed 's|<devices/>|<x/>|'"#,
    );
    assert_eq!(changed.unwrap().trim(), XML.replace("<devices/>", "<x/>"));
}

/// What it leaves behind holds both pipes open.
#[test]
fn a_program_is_not_waited_for_beyond_its_end() {
    let changed = scripted(r#"sleep 100 & echo "$4" | sed "s|<devices/>|<left>$!</left>|""#).unwrap();
    let (_, rest) = changed.split_once("<left>").unwrap();
    let left = rest.split_once("</left>").unwrap().0;
    assert!(Path::new("/proc").join(left).exists(), "{left} has ended: nothing is shown");
    Command::new("kill").arg(left).status().unwrap();
    let error = scripted("sleep 100 & echo \"left $!\" >&2; exit 3").unwrap_err();
    let (said, left) = error.rsplit_once("left ").unwrap();
    assert_eq!(said, "the hook HOOK ended with exit status: 3: ");
    Command::new("kill").arg(left).status().unwrap();
}

#[test]
fn a_domain_larger_than_a_pipe_is_read_to_its_end() {
    let changed = scripted(r#"echo "$4"; head -c 900000 /dev/zero | tr '\0' ' '"#).unwrap();
    assert_eq!((changed.trim_end(), changed.len()), (XML, XML.len() + 1 + 900_000));
}

#[test]
fn a_program_that_fails_is_told_with_its_last_words() {
    for (lines, said) in [
        ("echo it is broken >&2; exit 3", "the hook HOOK ended with exit status: 3: it is broken"),
        ("exit 0", "the hook HOOK wrote no domain XML to its standard output"),
        ("printf '\\377'", "the hook HOOK wrote output that is not UTF-8"),
        ("yes", "the hook HOOK wrote more than 1048576 bytes"),
        ("echo '<domain/>'", "the hook HOOK changed the name of the domain from \"test_web\" to none"),
    ] {
        let error = scripted(lines).unwrap_err();
        assert!(error.starts_with(said), "{lines}: {error}");
    }
    let nobody = Hook::Script { path: "/nonexistent/hook".into() };
    let error = Hooks::collect(&[nobody], &vmi()).unwrap().domain(XML.to_owned()).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/hook cannot be started"), "{error}");
}

#[test]
fn a_vmi_that_fits_no_argument_is_refused_with_its_size() {
    let large = json!({"metadata": {"name": "web", "annotations": {"a": "x".repeat(140_000)}}});
    let hook = Hook::Script { path: "/bin/true".into() };
    let error = Hooks::collect(&[hook], &large).unwrap().domain(XML.to_owned()).unwrap_err().to_string();
    assert!(error.contains("cannot be given the VMI, which has 1400"), "{error}");
}

#[test]
fn sidecars_are_told_of_the_networks_where_one_wants_to_know() {
    let place = tempfile::tempdir().unwrap();
    tell_networks(None, place.path()).unwrap();
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    for info in [r#"{"interfaces":[]}"#, r#"{"interfaces":[{"network":"blue"}]}"#] {
        tell_networks(Some(info), place.path()).unwrap();
        assert_eq!(fs::read_to_string(place.path().join("network-info/network-info")).unwrap(), info);
    }
    let nowhere = tell_networks(Some("{}"), Path::new("/proc/nowhere")).unwrap_err().to_string();
    assert!(nowhere.contains("/proc/nowhere/network-info"), "{nowhere}");
}
