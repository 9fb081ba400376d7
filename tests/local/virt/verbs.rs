//! Verbs for people and scripts that `main.rs` does not cover: their requests and their output.

use super::server::status;
use super::{Cluster, PARTS_OF_VM, PARTS_OF_VMI, VM, VMI};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;

const VMIS: &str = "/apis/kubevirt.io/v1/namespaces/blue/virtualmachineinstances";
const SECRETS: &str = "/api/v1/namespaces/blue/secrets";
const KUBEVIRT: &str = "/apis/kubevirt.io/v1/namespaces/kubevirt/kubevirts/kubevirt";
const VERSION: &str = "/apis/subresources.kubevirt.io/v1/version";

fn running(name: &str) -> Value {
    json!({
        "metadata": {"namespace": "blue", "name": name},
        "spec": {"domain": {"cpu": {"cores": 2}}},
        "status": {"phase": "Running", "nodeName": "n1"},
    })
}

fn stats(resident: u64) -> Value {
    json!({
        "metadata": {"uid": "u"}, "cpuNanoseconds": 5, "memory": {"domain": 2_147_483_648_u64, "resident": resident},
        "disks": {"root": {"readBytes": 1, "writtenBytes": 2}}, "interfaces": {},
    })
}

/// The body of the first request of this kind.
#[track_caller]
fn body(asked: &[String], request: &str) -> Value {
    let found = asked.iter().find_map(|one| one.strip_prefix(&format!("{request} ")));
    serde_json::from_str(found.unwrap_or_else(|| panic!("no {request}: {asked:?}"))).unwrap()
}

#[test]
fn what_vmis_use_is_a_table_and_json() {
    let cluster = Cluster::new();
    let late = json!({"metadata": {"namespace": "blue", "name": "late"}, "status": {"phase": "Scheduling"}});
    cluster.server.has(VMIS, &json!({"items": [running("web"), running("db"), late]}));
    cluster.server.has(&format!("{PARTS_OF_VMI}/stats"), &stats(1 << 30));
    let db = PARTS_OF_VMI.replace("/web", "/db");
    cluster.server.has(&format!("{db}/stats"), &stats(2 << 30));
    let told = cluster.run("top --interval 0.01 --sort memory -o json").ok().json();
    let names: Vec<&str> =
        told["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["db", "web", "late"]);
    let web = &told["items"][1];
    assert_eq!((&web["memoryBytes"], &web["vcpus"], &web["cpu"]), (&json!(1 << 30), &json!(2), &json!(0.0)));
    assert_eq!(told["items"][2]["cpu"], Value::Null);
    let asked = cluster.server.asked();
    assert!(!asked.iter().any(|one| one.contains("/late/")), "{asked:?}");
    assert_eq!(asked.iter().filter(|one| one.ends_with("/web/stats")).count(), 2, "{asked:?}");

    // A VMI that does not answer delays no other.
    cluster.server.answers(&format!("GET {db}/stats"), 500, status(500, "virt-handler of n1 is away"));
    let table = cluster.text("top --interval=0.01 --once");
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(line("web").ends_with("n1") && line("web").contains(" 0% "), "{table}");
    assert!(line("db").ends_with("virt-handler of n1 is away"), "{table}");

    cluster.server.has(VMI, &running("web"));
    cluster.server.asked();
    assert_eq!(cluster.text("top web --interval=0.01").lines().count(), 2);
    assert!(!cluster.server.asked().iter().any(|one| one.contains("/db/")));
}

#[test]
fn numbers_that_a_user_may_not_see_or_that_are_not_there_are_told_once() {
    let cluster = Cluster::new();
    cluster.server.has(VMIS, &json!({"items": [running("web"), running("db")]}));
    let db = PARTS_OF_VMI.replace("/web", "/db");
    for (code, message, exit, said) in [
        (401, "User \"me\" cannot get resource \"virtualmachineinstances/stats\"", 5, "cannot get resource"),
        (404, "the server could not find the requested resource", 3, "read the metrics (kubevirt_vmi_*)"),
    ] {
        for part in [PARTS_OF_VMI, &db] {
            cluster.server.answers(&format!("GET {part}/stats"), code, status(code, message));
        }
        cluster.run("top --interval=0.01").refused(exit, said);
    }
}

#[test]
fn a_manifest_is_printed_without_a_cluster() {
    let cluster = Cluster::new();
    std::fs::remove_file(cluster.place.path(".kube/config")).unwrap();
    let printed =
        cluster.text("create vm --name=web -n blue --volume-containerdisk=src:r.example/debian:12 --user=me");
    let wanted = r##"apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: web
  namespace: blue
spec:
  runStrategy: Always
  template:
    metadata: {}
    spec:
      domain:
        devices: {}
        memory:
          guest: "512Mi"
        resources: {}
      terminationGracePeriodSeconds: 180
      volumes:
      - containerDisk:
          image: "r.example/debian:12"
        name: web-containerdisk-0
      - cloudInitNoCloud:
          userData: |-
            #cloud-config
            user: me
        name: cloudinitdisk
"##;
    assert_eq!(printed, wanted);

    let ran = cluster.run("create instancetype --name=t --cpu=2 --memory=1Gi").ok();
    assert_eq!(ran.err, "");
    let text = String::from_utf8(ran.out).unwrap();
    assert!(
        text.contains("kind: VirtualMachineClusterInstancetype\n") && text.contains("    guest: 2\n"),
        "{text}"
    );
    assert!(cluster.text("create clone --source-name=web").contains("kind: VirtualMachineClone\n"));
    assert!(cluster.text("create preference --machine-type=q35").contains("preferredMachineType: q35\n"));

    cluster.run("create vm --volume-import=type:snapshot,src:gold/s").refused(3, "--volume-import");
    cluster.run("create vm --volume-pvc=src:n/a").refused(2, "failed to parse \"--volume-pvc\" flag");
}

fn with_credentials(credentials: &Value) -> Value {
    json!({
        "metadata": {"name": "web", "uid": "u1", "resourceVersion": "7"},
        "spec": {"template": {"spec": {"accessCredentials": credentials}}},
    })
}

fn keys_of(secret: &str, way: &Value) -> Value {
    json!({"sshPublicKey": {"source": {"secret": {"secretName": secret}}, "propagationMethod": way}})
}

fn secret(data: &Value) -> Value {
    let owner = json!({"kind": "VirtualMachine", "name": "web", "uid": "u1"});
    json!({"metadata": {"resourceVersion": "3", "ownerReferences": [owner]}, "data": data})
}

#[test]
fn a_key_is_added_to_the_secret_that_the_vm_names_and_taken_from_it() {
    let cluster = Cluster::new();
    let way = json!({"qemuGuestAgent": {"users": ["me"]}});
    cluster.server.has(VM, &with_credentials(&json!([keys_of("s", &way)])));
    // "ssh-rsa A" and "ssh-rsa B" in a file, "ssh-rsa A" in another.
    let data = json!({"one": "c3NoLXJzYSBBCnNzaC1yc2EgQg==", "two": "c3NoLXJzYSBB"});
    cluster.server.has(&format!("{SECRETS}/s"), &secret(&data));
    let patch = format!("PATCH {SECRETS}/s");
    cluster.server.answers(&patch, 200, "{}");
    std::fs::write(cluster.place.path("key.pub"), "ssh-rsa C\n").unwrap();

    let said = cluster.text("credentials add-ssh-key -u me --file key.pub web");
    assert_eq!(said, "Successfully added the key to secret \"s\"\n");
    let changes = body(&cluster.server.asked(), &patch);
    assert_eq!(changes["metadata"]["resourceVersion"], "3");
    let (file, value) = changes["data"].as_object().unwrap().iter().next().unwrap();
    assert!(file.starts_with("ssh-key-") && value == "c3NoLXJzYSBD", "{changes}");

    std::fs::write(cluster.place.path("a.pub"), "ssh-rsa A\n").unwrap();
    let said = cluster.text("credentials add-ssh-key -u me --file a.pub web");
    assert_eq!(said, "Secret \"s\" already contains this SSH key.\n");
    assert!(!cluster.server.asked().iter().any(|one| one.starts_with("PATCH")));

    assert_eq!(cluster.text("credentials remove-ssh-key -u me --file a.pub web"), "");
    let changes = body(&cluster.server.asked(), &patch);
    assert_eq!(changes["data"], json!({"one": "c3NoLXJzYSBC", "two": null}));
    let said = cluster.text("credentials remove-ssh-key -u you --file a.pub web");
    assert_eq!(said, "No secrets associated with user you\n");

    cluster.server.has(&format!("{SECRETS}/s"), &json!({"metadata": {"resourceVersion": "3"}}));
    let line = "credentials add-ssh-key -u me --file a.pub web";
    cluster.run(line).refused(1, "secret s does not have an owner reference pointing to VM web");
    cluster.text(&format!("{line} --force"));
    cluster.run("credentials add-ssh-key -u me web").refused(2, "one of --file, or --value");
}

#[test]
fn a_vm_that_the_cluster_refuses_gets_no_secret() {
    let cluster = Cluster::new();
    cluster.server.has(VM, &with_credentials(&json!([keys_of("c", &json!({"noCloud": {}}))])));
    let field = "spec.template.spec.accessCredentials[1].sshPublicKey.propagationMethod.qemuGuestAgent";
    let refusal = status(422, &format!("{field}: not supported yet"));
    cluster.server.answers(&format!("PATCH {VM}?dryRun=All"), 422, refusal);
    std::fs::write(cluster.place.path("key.pub"), "ssh-rsa C\n").unwrap();
    let line = "credentials add-ssh-key -u me --file key.pub web";
    let ran = cluster.run(line).refused(3, field);
    assert!(ran.err.contains("say --secret c"), "{}", ran.err);
    assert!(!cluster.server.asked().iter().any(|one| one.starts_with("POST")));

    // Cloud-init's Secret is changed if the flag names it.
    cluster.server.has(&format!("{SECRETS}/c"), &secret(&json!({})));
    cluster.server.answers(&format!("PATCH {SECRETS}/c"), 200, "{}");
    let ran = cluster.run(&format!("{line} --secret c")).ok();
    assert!(ran.err.contains("cloud-init reads Secret c at the next start"), "{}", ran.err);

    cluster.server.answers(&format!("PATCH {VM}"), 200, "{}");
    cluster.server.answers(&format!("PATCH {VM}?dryRun=All"), 200, "{}");
    cluster.server.answers(&format!("POST {SECRETS}"), 201, "{}");
    cluster.server.asked();
    assert_eq!(cluster.text(line), "");
    let asked = cluster.server.asked();
    let made = body(&asked, &format!("POST {SECRETS}"));
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(
        name.starts_with("web-ssh-key-") && made["metadata"]["ownerReferences"][0]["uid"] == "u1",
        "{made}"
    );
    let all = &body(&asked, &format!("PATCH {VM}"))["spec"]["template"]["spec"]["accessCredentials"];
    assert_eq!(all[1]["sshPublicKey"]["source"]["secret"]["secretName"], name);

    // A running VM is changed with --force alone.
    cluster.server.has(VMI, &running("web"));
    cluster.run(line).refused(1, "web is running");
    cluster.run("credentials set-password -u me -p x web").refused(4, "set the password with cloud-init");
}

#[test]
fn a_password_is_set_in_the_secret_of_the_vm() {
    let cluster = Cluster::new();
    let source = json!({"secret": {"secretName": "p"}});
    let password = json!({"userPassword": {"source": source, "propagationMethod": {"qemuGuestAgent": {}}}});
    cluster.server.has(VM, &with_credentials(&json!([password])));
    cluster.server.has(&format!("{SECRETS}/p"), &secret(&Value::Null));
    cluster.server.answers(&format!("PATCH {SECRETS}/p"), 200, "{}");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "secret\n").unwrap();
    for given in ["-p secret".to_owned(), format!("--password-file {}", file.path().display())] {
        let said = cluster.text(&format!("credentials set-password -u me {given} web"));
        assert_eq!(said, "Successfully set password in secret \"p\"\n");
    }
    let asked = cluster.server.asked();
    let changes = asked.iter().filter(|one| one.starts_with(&format!("PATCH {SECRETS}/p")));
    assert_eq!(changes.count(), 2, "{asked:?}");
    let changes = body(&asked, &format!("PATCH {SECRETS}/p"));
    assert_eq!(changes["data"], json!({"me": "c2VjcmV0"}));
}

#[test]
fn a_vm_is_expanded_by_the_server() {
    let cluster = Cluster::new();
    let vm = json!({"kind": "VirtualMachine", "metadata": {"name": "web"}});
    cluster.server.has(&format!("{PARTS_OF_VM}/expand-spec"), &vm);
    assert_eq!(cluster.text("expand --vm web"), "kind: VirtualMachine\nmetadata:\n  name: web\n");
    assert_eq!(cluster.run("expand --vm web -o json").ok().json(), vm);
    let part = "PUT /apis/subresources.kubevirt.io/v1/namespaces/blue/expand-vm-spec";
    cluster.server.answers(part, 200, vm.to_string());
    std::fs::write(cluster.place.path("web.yaml"), "kind: VirtualMachine\nspec: {}\n").unwrap();
    cluster.server.asked();
    assert_eq!(cluster.run("expand --file web.yaml -o json").ok().json(), vm);
    assert_eq!(body(&cluster.server.asked(), part), json!({"kind": "VirtualMachine", "spec": {}}));
    std::fs::write(cluster.place.path("two.yaml"), "a: 1\n---\na: 2\n").unwrap();
    cluster.run("expand --file two.yaml").refused(2, "two.yaml has 2 documents");
    let refusal = status(
        501,
        "the subresource virtualmachines/objectgraph is not supported: read the owner references",
    );
    cluster.server.answers(&format!("GET {PARTS_OF_VM}/objectgraph"), 501, refusal);
    cluster.run("objectgraph web").refused(3, "read the owner references");
    cluster.server.has(&format!("{PARTS_OF_VMI}/objectgraph"), &json!({"children": []}));
    assert_eq!(cluster.text("objectgraph --vmi web -o yaml"), "children: []\n");
}

#[test]
fn the_log_verbosity_is_shown_and_set_where_it_has_an_effect() {
    let cluster = Cluster::new();
    let developer = json!({"developerConfiguration": {"logVerbosity": {"virtLauncher": 5}}});
    let kubevirt = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": {"configuration": developer}});
    cluster.server.has("/apis/kubevirt.io/v1/kubevirts", &json!({"items": [kubevirt]}));
    cluster.server.answers(&format!("PATCH {KUBEVIRT}"), 200, "{}");
    let shown = cluster.text("adm log-verbosity --virt-launcher --virt-api");
    assert_eq!(shown, "virt-api=2\nvirt-launcher=5\n");
    cluster.server.has(VERSION, &json!({"compiler": "rustc"}));
    cluster.server.asked();
    let said = cluster.text("adm log-verbosity --virt-launcher=7");
    assert_eq!(said, "successfully set/reset the log verbosity\n");
    let changes = body(&cluster.server.asked(), &format!("PATCH {KUBEVIRT}"));
    let levels = &changes["spec"]["configuration"]["developerConfiguration"]["logVerbosity"];
    assert_eq!(*levels, json!({"virtLauncher": 7}));
    cluster
        .run("adm log-verbosity --virt-operator=7")
        .refused(3, "log verbosity of virt-operator: this program does not exist here");
    assert!(!cluster.server.asked().iter().any(|one| one.starts_with("PATCH")));
    // Another control plane checks the level itself.
    cluster.server.has(VERSION, &json!({"compiler": "gc"}));
    cluster.text("adm log-verbosity --virt-operator=7");
    cluster.run("adm log-verbosity --virt-api=3 --virt-handler").refused(2, "only show or set is allowed");
}

#[test]
fn verbs_that_are_not_there_say_so_and_what_to_do_instead() {
    let cluster = Cluster::new();
    for (line, wanted) in [
        ("vmexport download e --vm=web --output=d.gz", "make an image of its PVC"),
        ("guestfs data --kvm=false", "mount the PVC in a pod of your own"),
        ("usbredir 1-2 web", "cannot redirect USB devices"),
        ("template process t --param=A=b", "create vm"),
    ] {
        let ran = cluster.run(line).refused(3, wanted);
        assert!(ran.out.is_empty() && ran.err.trim().lines().count() == 1, "{line}: {}", ran.err);
    }
    assert!(cluster.server.asked().is_empty());
}

#[test]
fn shells_complete_the_verbs_and_options_are_listed() {
    let cluster = Cluster::new();
    for (shell, wanted) in
        [("bash", "complete -"), ("zsh", "#compdef"), ("fish", "complete "), ("powershell", "Register-")]
    {
        let script = cluster.text(&format!("completion {shell}"));
        assert!(script.contains(wanted) && script.contains("coracle"), "{shell}: {script}");
    }
    let options = cluster.text("options");
    assert!(options.starts_with("The following options can be passed to any command:\n"), "{options}");
    assert!(
        options.contains("    -n, --namespace=NAME:\n") && options.contains("--kubeconfig=FILE:\n"),
        "{options}"
    );
}

#[test]
fn a_screenshot_has_a_short_form() {
    let cluster = Cluster::new();
    cluster.server.answers(&format!("GET {PARTS_OF_VMI}/vnc/screenshot"), 200, "PNG");
    cluster.text("vnc web --screenshot a.png");
    assert_eq!(cluster.place.bytes("a.png"), b"PNG");
    assert_eq!(cluster.text("vnc --screenshot=- web"), "PNG");
}

/// The whole response of a page to this request.
fn page(port: &str, path: &str, session: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{session}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn the_screen_in_the_browser_is_that_of_one_vmi() {
    let cluster = Cluster::new();
    cluster.run("vnc web --web").refused(4, "cannot show the screen of VMI web");
    cluster.server.has(VMI, &running("web"));
    for plural in ["virtualmachines", "virtualmachineinstances"] {
        cluster.server.has(&format!("/apis/kubevirt.io/v1/namespaces/blue/{plural}"), &json!({"items": []}));
    }
    let mut command = cluster.command(&["vnc", "web", "--web", "--proxy-only"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (port, token) =
        line.trim().strip_prefix("http://127.0.0.1:").unwrap().split_once("/?token=").unwrap();
    let welcome = page(port, &format!("/?token={token}"), "");
    assert!(welcome.contains("data-beginning=\"/#/blue/web/screen\""), "{welcome}");
    let (_, session) = welcome.split_once("<meta name=\"session\" content=\"").unwrap();
    let session = format!("Authorization: Bearer {}\r\n", session.split('"').next().unwrap());
    cluster.server.asked();
    assert!(page(port, "/api/vms", &session).starts_with("HTTP/1.1 200"));
    let asked = cluster.server.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked.iter().all(|one| one.contains("fieldSelector=metadata.name%3Dweb&")), "{asked:?}");
    let other = page(port, "/api/why/blue/db", &session);
    assert!(other.starts_with("HTTP/1.1 404") && other.contains("this page is about VM web"), "{other}");
    let again = page(port, &format!("/?token={token}"), "");
    assert!(again.contains("<meta name=\"session\" content=\"\""), "the token is good once: {again}");
    assert!(page(port, "/api/vms", "").starts_with("HTTP/1.1 403"));
    child.kill().unwrap();
    child.wait().unwrap();
}
