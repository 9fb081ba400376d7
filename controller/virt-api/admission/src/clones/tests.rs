//! Permission checks of clones, against an API server in memory.

use super::*;
use crate::evictions::tests::peer;
use crate::review_queue::{AT_ONCE, WAITING};
use crate::rules::clone::{wanted, whose};
use crate::rules::{Request, RequestContext, judge};
use cluster_model::objects::Plain;
use cluster_model::webhooks::Webhook;
use kit::ApiServer;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const TOKEN: &str = "cdi.kubevirt.io/storage.clone.token";
const CONTROLLER: &str = "system:serviceaccount:kubevirt:kubevirt-controller";

/// A server on which these users may clone, each with the namespace.
fn server_of(may: &[(&'static str, &'static str)]) -> ApiServer {
    let (server, may) = (ApiServer::default(), may.to_owned());
    server.permits(move |spec| {
        let attributes = &spec["resourceAttributes"];
        let of = |name: &str| attributes[name].as_str().unwrap_or_default().to_owned();
        assert_eq!((of("verb"), of("group")), ("create".into(), "cdi.kubevirt.io".into()));
        assert_eq!((of("resource"), of("subresource")), ("datavolumes".into(), "source".into()));
        may.iter().any(|(user, namespace)| spec["user"] == *user && of("namespace") == *namespace)
    });
    server
}

fn clones_of(may: &[(&'static str, &'static str)]) -> Clones {
    Clones::new(server_of(may).client())
}

/// The same, with objects.
fn clones_with(
    objects: impl IntoIterator<Item = (String, Value)>,
    may: &[(&'static str, &'static str)],
) -> Clones {
    let server = server_of(may);
    objects.into_iter().for_each(|(path, object)| server.put(&path, object));
    Clones::new(server.client())
}

fn source(namespace: &str, name: &str, spec: Value) -> (String, Value) {
    let key = Key::new(Kind::DataSource, namespace, name);
    let mut object = json!({"metadata": {"namespace": namespace, "name": name}});
    object["spec"]["source"] = spec;
    (key.path(), object)
}

fn pvc(namespace: &str) -> Value {
    json!({"source": {"pvc": {"namespace": namespace, "name": "golden"}}})
}

fn named(namespace: &str) -> Value {
    json!({"sourceRef": {"kind": "DataSource", "namespace": namespace, "name": "os"}})
}

fn review(path: &str, user: &str, object: &Value, is_dry: bool) -> (&'static Webhook, Request) {
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "1", "operation": "CREATE", "namespace": "t", "dryRun": is_dry, "object": object,
            "userInfo": {"username": user, "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
        },
    });
    (Webhook::find_by_path(path).unwrap(), Request::read(review.to_string().as_bytes()).unwrap())
}

fn volume(spec: &Value) -> Value {
    json!({"metadata": {"namespace": "t", "name": "disk", "annotations": {TOKEN: "mine", "a": "b"}}, "spec": spec})
}

/// The answer to a review. A token is replaced by the source that it would be signed for.
async fn answered(
    clones: &Clones,
    (hook, request): (&'static Webhook, Request),
) -> Result<(Vec<String>, Vec<Value>)> {
    let mut context = RequestContext::new("kubevirt", Some(&Plain::default()));
    let wanted = wanted(hook.question, &request);
    if !wanted.is_empty() {
        let whose = whose(hook.question, &request, CONTROLLER);
        let asked = CloneCheck { wanted: &wanted, namespace: "t", whose, subject: &request.who.subject };
        context.clones = clones.found(&asked, peer(1)).await?;
        match context.clones.first() {
            Some(Some(CloneResult::Permitted(namespace, name))) => {
                context.token = Some(format!("for {namespace}/{name}"));
            }
            Some(Some(CloneResult::PermittedLater(namespace, name))) => {
                context.token = Some(format!("for DataSource {namespace}/{name}"));
            }
            _ => {}
        }
    }
    let answer = judge(hook, &request, &context);
    Ok((
        answer.faults.iter().map(|fault| format!("{}: {}", fault.field, fault.message)).collect(),
        answer.patch,
    ))
}

async fn of_volume(clones: &Clones, user: &str, object: &Value) -> (Vec<String>, Vec<Value>) {
    answered(clones, review("/datavolume-mutate", user, object, false)).await.unwrap()
}

fn token(patch: &[Value]) -> &Value {
    let step = patch.iter().find(|step| step["path"].as_str().unwrap().contains("clone.token")).unwrap();
    if step["op"] == "remove" { &Value::Null } else { &step["value"] }
}

#[tokio::test]
async fn whoever_may_clone_there_gets_a_token_in_the_place_of_what_they_wrote() {
    let server = server_of(&[("alice", "s")]);
    let clones = Clones::new(server.client());
    let (faults, patch) = of_volume(&clones, "alice", &volume(&pvc("s"))).await;
    assert_eq!((faults.len(), token(&patch)), (0, &json!("for s/golden")));
    let asked = server.reviews()[0].clone();
    assert_eq!((&asked["groups"], &asked["extra"]), (&json!(["system:authenticated"]), &json!({"a": ["b"]})));
    assert_eq!(asked["resourceAttributes"]["name"], "golden");
    // A user without the right is refused, and the message names the right.
    for (user, namespace) in [("bob", "s"), ("alice", "other"), (CONTROLLER, "s")] {
        let (faults, patch) = of_volume(&clones, user, &volume(&pvc(namespace))).await;
        assert_eq!((faults.len(), patch.len()), (1, 0), "{user} {namespace}");
        assert!(user == CONTROLLER || faults[0].contains("create datavolumes/source"), "{faults:?}");
    }
}

#[tokio::test]
async fn in_the_own_namespace_nobody_is_asked_and_no_token_stays() {
    let server = server_of(&[]);
    let clones = Clones::new(server.client());
    for spec in [pvc("t"), pvc(""), json!({"source": {"blank": {}}}), named("t")] {
        let (faults, patch) = of_volume(&clones, "bob", &volume(&spec)).await;
        assert_eq!((faults.len(), token(&patch)), (0, &Value::Null), "{spec}");
    }
    assert!(server.reviews().is_empty());
}

#[tokio::test]
async fn a_data_source_is_followed_to_the_namespace_of_its_pvc() {
    let objects = [
        source("g", "os", json!({"dataSource": {"name": "os-2"}})),
        source("g", "os-2", json!({"pvc": {"name": "golden"}})),
        source("t", "os", json!({"pvc": {"namespace": "s", "name": "golden"}})),
        source("far", "os", json!({"dataSource": {"namespace": "g", "name": "os-2"}})),
    ];
    let clones = clones_with(objects, &[("alice", "g")]);
    let (faults, patch) = of_volume(&clones, "alice", &volume(&named("g"))).await;
    assert_eq!((faults.len(), token(&patch)), (0, &json!("for g/golden")));
    let (faults, _) = of_volume(&clones, "alice", &volume(&named("t"))).await;
    assert!(faults[0].contains("namespace s"), "the DataSource is her own, and the PVC is not: {faults:?}");
    // Without a PVC there is no token: the clone is made within the DataSource's namespace, or not at all.
    for nowhere in ["none", "far", "../g"] {
        let (faults, patch) = of_volume(&clones, "alice", &volume(&named(nowhere))).await;
        assert_eq!((faults.len(), token(&patch)), (0, &Value::Null), "{nowhere}");
    }
}

/// The PVC is not known yet. The token requires the right to clone all PVCs there, and the DataVolume is not
/// refused without it.
#[tokio::test]
async fn of_a_data_source_that_leads_nowhere_yet_all_of_its_namespace_is_asked_about() {
    let objects = [
        source("g", "os", json!({})),
        source("g", "far", json!({"dataSource": {"namespace": "s", "name": "os"}})),
    ];
    let server = server_of(&[("alice", "g")]);
    objects.into_iter().for_each(|(path, object)| server.put(&path, object));
    let clones = Clones::new(server.client());
    for name in ["os", "none", "far"] {
        let spec = json!({"sourceRef": {"kind": "DataSource", "namespace": "g", "name": name}});
        let (faults, patch) = of_volume(&clones, "alice", &volume(&spec)).await;
        assert_eq!((faults.len(), token(&patch)), (0, &json!(format!("for DataSource g/{name}"))));
        let asked = server.reviews().last().unwrap()["resourceAttributes"].clone();
        assert_eq!(
            (&asked["namespace"], &asked["name"]),
            (&json!("g"), &Value::Null),
            "a right to some PVCs is not enough"
        );
        let (faults, patch) = of_volume(&clones, "bob", &volume(&spec)).await;
        assert_eq!((faults.len(), token(&patch)), (0, &Value::Null), "{name}");
    }
    let spec = json!({"sourceRef": {"kind": "DataSource", "namespace": "g", "name": "../a"}});
    assert_eq!(token(&of_volume(&clones, "alice", &volume(&spec)).await.1), &Value::Null);
}

/// virt-controller's own rights cover all namespaces, so those of the VM's service account count.
#[tokio::test]
async fn for_a_vm_its_service_account_is_asked_about() {
    let vm = |uid: &str, volumes: Value| {
        let spec = json!({"template": {"spec": {"domain": {"devices": {}}, "volumes": volumes}}});
        let object = json!({"metadata": {"namespace": "t", "name": "web", "uid": uid}, "spec": spec});
        (Key::new(Kind::VirtualMachine, "t", "web").path(), object)
    };
    let mut made = volume(&pvc("s"));
    made["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": "1", "controller": true},
    ]);
    let of_account = json!([{"name": "a", "serviceAccount": {"serviceAccountName": "builder"}}]);
    for (vm, may, is_permitted) in [
        (vm("1", json!([])), "system:serviceaccount:t:default", true),
        (vm("1", json!([])), CONTROLLER, false),
        (vm("1", of_account.clone()), "system:serviceaccount:t:builder", true),
        (vm("1", of_account), "system:serviceaccount:t:default", false),
        (vm("2", json!([])), "system:serviceaccount:t:default", false),
    ] {
        let clones = clones_with([vm.clone()], &[(may, "s")]);
        let (faults, _) = of_volume(&clones, CONTROLLER, &made).await;
        assert_eq!(faults.is_empty(), is_permitted, "{vm:?} {may}: {faults:?}");
        // A user who names a VM as the owner of the DataVolume is still checked as that user.
        let (faults, _) = of_volume(&clones, "bob", &made).await;
        assert_eq!(faults.len(), 1, "{vm:?} {may}");
    }
}

#[tokio::test]
async fn a_vm_learns_of_its_templates_when_it_is_written() {
    let mut vm: Value = json!({
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": {"namespace": "t", "name": "web"},
        "spec": {"runStrategy": "Halted", "template": {"spec": {
            "domain": {"firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"}, "memory": {"guest": "64Mi"}, "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}}]}},
            "volumes": [{"name": "root", "dataVolume": {"name": "disk"}}],
        }}},
    });
    let mut spec = pvc("s");
    spec["storage"] = json!({});
    vm["spec"]["dataVolumeTemplates"] = json!([{"metadata": {"name": "disk"}, "spec": spec}]);
    for (may, is_permitted) in [("system:serviceaccount:t:default", true), ("bob", false)] {
        let clones = clones_of(&[(may, "s")]);
        let asked = review("/virtualmachines-validate", "bob", &vm, false);
        let (faults, _) = answered(&clones, asked).await.unwrap();
        assert_eq!(faults.is_empty(), is_permitted, "{faults:?}");
        let said = "spec.dataVolumeTemplates[0]: Authorization failed, message is: User system:serviceaccount:t:default has \
                    insufficient permissions in clone source namespace s";
        assert!(is_permitted || faults[0].starts_with(said), "{faults:?}");
    }
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_is_no_yes() {
    let server = server_of(&[("alice", "s")]);
    server.fails(Some(http::StatusCode::SERVICE_UNAVAILABLE));
    let clones = Clones::new(server.client());
    let asked = review("/datavolume-mutate", "alice", &volume(&pvc("s")), false);
    assert!(answered(&clones, asked).await.is_err());
}

/// Asks about a clone into this namespace. All requests come from one address, as from an API server.
async fn asks(clones: &Clones, namespace: &str) -> Result<Vec<Option<CloneResult>>> {
    let wanted = [Some(CloneSource::Claim("s".to_owned(), "golden".to_owned()))];
    let subject = json!({"user": "alice"});
    let asked = CloneCheck { wanted: &wanted, namespace, whose: CloneSubject::Requester, subject: &subject };
    clones.found(&asked, peer(1)).await
}

#[tokio::test]
async fn reviews_of_one_api_server_are_looked_at_beside_each_other_and_not_too_many() {
    let server = server_of(&[]);
    server.delay_by(Duration::from_millis(20));
    let clones = Clones::new(server.client());
    let all = futures_util::future::join_all((0..3 * AT_ONCE).map(|_| asks(&clones, "t"))).await;
    assert!(all.iter().all(Result::is_ok));
    assert_eq!(server.most_at_once(), AT_ONCE);
}

/// The API server does not answer in this test, so no review ends.
#[tokio::test]
async fn a_flood_of_one_namespace_does_not_refuse_those_of_another() {
    let server = server_of(&[]);
    server.delay_by(Duration::from_secs(86_400));
    let clones = Clones::new(server.client());
    let mut flood: Vec<_> = (0..2 * WAITING).map(|_| Box::pin(asks(&clones, "t"))).collect();
    let mut refused = 0;
    for review in &mut flood {
        if let std::task::Poll::Ready(answer) = futures_util::poll!(review) {
            let why = answer.err().unwrap().to_string();
            assert!(why.contains("reviews of the namespace t wait"), "{why}");
            refused += 1;
        }
    }
    assert!(refused > WAITING, "{refused}");
    let mut others: Vec<_> = (0..WAITING / 4).map(|_| Box::pin(asks(&clones, "u"))).collect();
    for review in &mut others {
        assert!(futures_util::poll!(review).is_pending(), "it has a place");
    }
}

#[tokio::test]
async fn reviews_of_one_namespace_do_not_wait_for_all_that_another_sent_before() {
    const FLOOD: usize = 60;
    let server = server_of(&[]);
    server.delay_by(Duration::from_millis(5));
    let clones = Clones::new(server.client());
    let (done, before) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let flood = futures_util::future::join_all((0..FLOOD).map(|_| async {
        assert!(asks(&clones, "t").await.is_ok());
        done.fetch_add(1, Ordering::SeqCst);
    }));
    // These reviews arrive when all others have their places.
    let others = futures_util::future::join_all((0..5).map(|_| async {
        assert!(asks(&clones, "u").await.is_ok());
        before.fetch_max(done.load(Ordering::SeqCst), Ordering::SeqCst);
    }));
    futures_util::future::join(flood, others).await;
    let before = before.load(Ordering::SeqCst);
    assert!(before <= 4 * AT_ONCE, "{before} of {FLOOD} of the flood were answered before");
}
