//! Imports from registries and servers as clusters have them: in plain HTTP, behind a mirror, with a login and an authority of their
//! own; and an image that the node pulls.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdout, Command, Stdio};
use tests::cluster::{Space, until};
use tests::http::Authority;
use tests::layout::{LAYER_GZIP, Layout, Tar, gzip};
use tests::nginx::Nginx;
use tests::registry::Registry;

const USER: (&str, &str) = ("me", "s3cret-word");

/// This host, as the pods of the cluster see it.
fn gateway(space: &Space) -> Ipv4Addr {
    space.cluster.info("gateway").parse().unwrap()
}

fn disk(name: &str, source: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: {name}
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  source: {source}
  storage: {{resources: {{requests: {{storage: 64Mi}}}}}}
"
    )
}

fn message(space: &Space, name: &str, kind: &str) -> String {
    space.get(&format!("dv/{name}"), &format!(".status.conditions[?(@.type==\"{kind}\")].message"))
}

/// Waits until a condition says this.
fn tells(space: &Space, name: &str, kind: &str, words: &str) {
    until(|| message(space, name, kind).contains(words), || message(space, name, kind));
}

fn ends(space: &Space, name: &str, phase: &str) {
    space.says(&format!("dv/{name}"), ".status.phase", phase);
}

/// The settings of the cluster, until the end of a story.
struct Settings<'a>(&'a Space);

impl Settings<'_> {
    fn insecure(&self, hosts: &str) {
        let patch = format!(r#"{{"spec":{{"insecureRegistries":{hosts}}}}}"#);
        self.0.cluster.run(&["patch", "cdiconfig", "config", "--type", "merge", "-p", &patch]).ok();
    }

    fn mirrors(&self, text: &str) {
        let file = format!("--from-literal=registries.toml={text}");
        self.0.cluster.run(&["-n", "kubevirt", "create", "configmap", "coracle-registries", &file]).ok();
    }
}

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        let patch = r#"{"spec":{"insecureRegistries":null}}"#;
        self.0.cluster.run(&["patch", "cdiconfig", "config", "--type", "merge", "-p", patch]);
        let map = ["-n", "kubevirt", "delete", "configmap", "coracle-registries", "--ignore-not-found"];
        self.0.cluster.run(&map);
    }
}

/// The cluster's own registry speaks no TLS. A pod that waits for that, or for a registry that is away, is replaced when the
/// administrator has said what to do.
#[test]
fn what_the_administrator_says_of_registries_reaches_pods_that_wait() {
    let Some(space) = Space::new("registries") else { return };
    let settings = Settings(&space);
    settings.insecure("[]");
    space.apply(&disk("plain", "{registry: {url: 'docker://registry:5000/disk:1'}}"));
    let field = "lists registry:5000 in spec.insecureRegistries of the CDIConfig config";
    tells(&space, "plain", "Transferring", field);
    assert!(!message(&space, "plain", "Transferring").contains("registries.toml"));
    settings.insecure(r#"["registry:5000"]"#);
    ends(&space, "plain", "Succeeded");
    assert_eq!(space.get("dv/plain", ".status.restartCount"), "", "nothing broke off");

    space.apply(&disk("mirrored", "{registry: {url: 'docker://away.invalid:5000/disk:1'}}"));
    tells(&space, "mirrored", "Transferring", "away.invalid:5000 cannot be reached");
    settings.mirrors("[[host.'away.invalid:5000'.mirror]]\nhost = 'registry:5000'\nplain-http = true\n");
    ends(&space, "mirrored", "Succeeded");
}

/// An image volume of the importer pod: the runtime has its own way to the registry, and no setting of CDI is needed.
#[test]
fn the_node_pulls_an_image_and_the_importer_reads_it_in_place() {
    let Some(space) = Space::new("registries") else { return };
    let source =
        |image: &str| format!("{{registry: {{url: 'docker://registry:5000/{image}', pullMethod: node}}}}");
    space.apply(&disk("pulled", &source("disk:1")));
    ends(&space, "pulled", "Succeeded");
    space.apply(&disk("nothing", &source("nothing:1")));
    let reason = ".status.conditions[?(@.type==\"Running\")].reason";
    space.says("dv/nothing", reason, "ImagePullFailed");
    tells(&space, "nothing", "Running", "registry:5000/nothing:1");
}

/// A real registry with one user and an authority of its own.
#[test]
fn a_private_registry_takes_the_secret_and_the_authority_of_a_datavolume() {
    let Some(space) = Space::new("registries") else { return };
    let authority = Authority::new();
    let serve = tests::registry::Serve {
        tls: Some(&authority),
        basic: Some(USER),
        at: Some(gateway(&space)),
        ..Default::default()
    };
    let registry = Registry::serve(&serve);
    push(&registry.address(), &authority);
    login(&space, &authority);
    let source = |secret: &str| {
        format!(
            "{{registry: {{url: 'docker://{}/os:1', secretRef: {secret}, certConfigMap: ca}}}}",
            registry.address()
        )
    };
    space.apply(&disk("mine", &source("login")));
    ends(&space, "mine", "Succeeded");
    space.apply(&disk("wrong", &source("wrong")));
    ends(&space, "wrong", "Failed");
    tells(&space, "wrong", "Running", "secretRef");
}

/// The same of a web server.
#[test]
fn a_private_web_server_takes_the_secret_and_the_authority_of_a_datavolume() {
    let Some(space) = Space::new("registries") else { return };
    let (authority, at) = (Authority::new(), gateway(&space));
    let serve = tests::nginx::Serve {
        tls: Some(authority.certificate_pem_for(&[&at.to_string()])),
        at: Some(at),
        basic_auth: Some((USER.0.to_owned(), USER.1.to_owned())),
        ..Default::default()
    };
    let server = Nginx::start(&serve);
    let url = server.write("disk.img.gz", &gzip(&[7; 1 << 20])).replacen("https", "HTTPS", 1);
    login(&space, &authority);
    space.apply(&disk("mine", &format!("{{http: {{url: '{url}', secretRef: login, certConfigMap: ca}}}}")));
    ends(&space, "mine", "Succeeded");
    space.apply(&disk("wrong", &format!("{{http: {{url: '{url}', secretRef: wrong, certConfigMap: ca}}}}")));
    ends(&space, "wrong", "Failed");
}

/// A real S3 server, which checks signatures, with one user.
#[test]
fn an_s3_server_gives_an_object_to_the_user_of_the_secret_alone() {
    let Some(space) = Space::new("registries") else { return };
    let packages = space.cluster.tool("clients/python", &["requirements-s3.txt"]);
    if packages.code != 0 {
        eprintln!("skipped: {}", packages.err);
        return;
    }
    let packages = String::from_utf8_lossy(&packages.out).trim().to_owned();
    let mut store = Store::start(&space, &packages, &gzip(&[7; 1 << 20]));
    let [url, id, key] = [store.says(), store.says(), store.says()];
    for (name, key) in [("login", key.as_str()), ("wrong", "other")] {
        let literals =
            [format!("--from-literal=accessKeyId={id}"), format!("--from-literal=secretKey={key}")];
        space.run(&["create", "secret", "generic", name, &literals[0], &literals[1]]);
    }
    for (name, phase) in [("login", "Succeeded"), ("wrong", "Failed")] {
        space.apply(&disk(name, &format!("{{s3: {{url: '{url}', secretRef: {name}}}}}")));
        ends(&space, name, phase);
    }
    tells(&space, "wrong", "Running", "403");
}

/// The program `clients/s3.py`.
struct Store {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Store {
    fn start(space: &Space, packages: &str, disk: &[u8]) -> Store {
        let mut command = Command::new("python3");
        command.arg(space.cluster.path("clients/s3.py")).arg(gateway(space).to_string());
        command
            .env("PYTHONPATH", packages)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(disk).unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Store { process, lines }
    }

    fn says(&mut self) -> String {
        self.lines.next().expect("the store is ready").unwrap()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A quota that wants a limit of each pod's CPU: what is missing is told, and where it is said.
#[test]
fn a_quota_that_wants_limits_is_told_with_the_setting_that_gives_them() {
    let Some(space) = Space::new("registries") else { return };
    space.run(&["create", "quota", "cpu", "--hard=limits.cpu=4"]);
    space.apply(&disk("small", "{blank: {}}"));
    tells(&space, "small", "Running", "spec.podResourceRequirements of the CDIConfig config");
}

/// Two Secrets, one of which is right, and the authority.
fn login(space: &Space, authority: &Authority) {
    for (name, word) in [("login", USER.1), ("wrong", "other")] {
        let (id, key) = (format!("accessKeyId={}", USER.0), format!("secretKey={word}"));
        let literals = [format!("--from-literal={id}"), format!("--from-literal={key}")];
        space.run(&["create", "secret", "generic", name, &literals[0], &literals[1]]);
    }
    let pem = format!("--from-literal=ca.crt={}", authority.pem());
    space.run(&["create", "configmap", "ca", &pem]);
}

/// Puts a small disk there as the image `os:1`.
fn push(address: &str, authority: &Authority) {
    let folder = tempfile::tempdir().unwrap();
    let (layout, ca) = (folder.path().join("os"), folder.path().join("ca.crt"));
    std::fs::write(&ca, authority.pem()).unwrap();
    let layer = Tar::default().file("disk/disk.img", &[7; 1 << 20]).end();
    Layout::create(&layout).image(LAYER_GZIP, &gzip(&layer));
    let creds = format!("--dest-creds={}:{}", USER.0, USER.1);
    let (from, to) = (format!("oci:{}", layout.display()), format!("docker://{address}/os:1"));
    let certificates = format!("--dest-cert-dir={}", folder.path().display());
    let copied = Command::new("skopeo")
        .args(["--insecure-policy", "copy", &creds, &certificates, &from, &to])
        .output();
    let copied = copied.unwrap();
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
}
