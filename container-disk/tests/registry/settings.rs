//! Existing settings for docker and podman are used, and none of their secrets is shown.
//!
//! Environment variables belong to a whole process, so each test runs itself again with its own environment.

use crate::log;
use crate::work::{Image, LARGE, fetch, open, registries, same, tag};
use base64::Engine;
use container_disk::ErrorKind;
use container_disk::place::Place;
use container_disk::reference::Remote;
use container_disk::registry::{Config, Registries};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use tests::faults::{Fault, Proxy, What};
use tests::http::{Authority, Behaviour, Server};
use tests::registry::{Registry, Serve};

/// Task of the inner process.
const INNER: &str = "TEST_OF_SETTINGS";

const USER: (&str, &str) = ("me", "top-secret");

fn inner() -> Option<String> {
    std::env::var(INNER).ok()
}

/// Runs a test again with `home` as the home folder, and returns its output.
fn again(test: &str, what: &str, home: &Path, variables: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for name in ["DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "no_proxy"] {
        command.env_remove(name);
    }
    command.args(["--exact", &format!("settings::{test}"), "--nocapture"]).env("HOME", home).env(INNER, what);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{what} {variables:?}: {text}");
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn usual(name: &str) -> (Registries, container_disk::registry::Registry) {
    let all = Registries::new(Config::load(None).unwrap());
    let place = all.open(&Remote::parse(name).unwrap()).unwrap();
    (all, place)
}

/// A registry with an image that only one user may read.
fn guarded() -> (Registry, Image) {
    let server = Registry::serve(&Serve { basic: Some(USER), ..Serve::default() });
    let address = server.address();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    write(&file, &json!({ "auths": { &address: entry() } }).to_string());
    let all = registries(&format!("[host.\"{address}\"]\ncredentials = {{ file = {file:?} }}"));
    let image = Image::new(1000, 1);
    image.push(&all.open(&Remote::parse(&format!("{address}/os")).unwrap()).unwrap(), "1").unwrap();
    (server, image)
}

fn entry() -> Value {
    let coded = base64::engine::general_purpose::STANDARD.encode(format!("{}:{}", USER.0, USER.1));
    json!({ "auth": coded })
}

#[test]
fn logins_of_docker_and_podman_and_their_helpers_are_used_and_shown_nowhere() {
    let test = "logins_of_docker_and_podman_and_their_helpers_are_used_and_shown_nowhere";
    if let Some(address) = inner() {
        log::logged(&[]);
        let (_, place) = usual(&format!("{address}/os"));
        let document = place.document(&tag("1")).unwrap();
        assert_eq!(fetch(&place, &Image::new(1000, 1).layer_part()).unwrap().len(), 1000);
        assert_eq!(document.digest, Image::new(1000, 1).manifest.digest);
        let e = place.document(&tag("2")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        let shown = format!("{}{e:?}", log::text());
        let coded = entry()["auth"].as_str().unwrap().to_owned();
        assert!(shown.contains(&address), "something is logged");
        for secret in [USER.1, &coded] {
            assert!(!shown.contains(secret), "{shown}");
        }
        return;
    }
    let (server, _) = guarded();
    let address = server.address();
    let login = json!({ "auths": { &address: entry() } }).to_string();
    let helper = json!({ "credHelpers": { &address: "kit" } }).to_string();
    let store = json!({ "auths": { &address: {} }, "credsStore": "kit" }).to_string();
    let other = json!({ "auths": { "other.example": entry() } }).to_string();
    for (file, text, variable) in [
        (".docker/config.json", &login, None),
        (".config/containers/auth.json", &login, None),
        ("run/containers/auth.json", &login, Some(("XDG_RUNTIME_DIR", "run"))),
        ("elsewhere/config.json", &login, Some(("DOCKER_CONFIG", "elsewhere"))),
        ("auth.json", &login, Some(("REGISTRY_AUTH_FILE", "auth.json"))),
        (".docker/config.json", &helper, None),
        (".docker/config.json", &store, None),
    ] {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        // A file without an entry for this registry is skipped.
        write(&at(".docker/config.json"), &other);
        write(&at(file), text);
        let program = at("bin/docker-credential-kit");
        let answer = json!({ "ServerURL": address, "Username": USER.0, "Secret": USER.1 });
        let script = format!(
            "#!/bin/sh\nread server\n[ \"$1 $server\" = \"get {address}\" ] || exit 1\necho '{answer}'\n"
        );
        write(&program, &script);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", at("bin").display(), std::env::var("PATH").unwrap_or_default());
        let mut variables = vec![("PATH", path.as_str())];
        let place = variable.map(|(name, place)| (name, at(place).display().to_string()));
        variables.extend(place.iter().map(|(name, place)| (*name, place.as_str())));
        again(test, &address, home.path(), &variables);
    }
}

#[test]
fn a_host_that_works_for_podman_works_here() {
    let test = "a_host_that_works_for_podman_works_here";
    if let Some(name) = inner() {
        let (all, place) = usual(&name);
        let image = Image::new(LARGE, 2);
        assert_eq!(place.document(&tag("1")).unwrap().digest, image.manifest.digest);
        same(&fetch(&place, &image.layer_part()).unwrap(), &image.layer);
        assert_eq!(all.counters().now().received, LARGE as u64);
        return;
    }
    let authority = Authority::new();
    let server = Registry::serve(&Serve { tls: Some(&authority), ..Serve::default() });
    let plain = Registry::start();
    let (address, home) = (server.address(), tempfile::tempdir().unwrap());
    let at = |name: &str| home.path().join(".config/containers").join(name);
    write(&at(&format!("certs.d/{address}/ca.crt")), authority.pem());
    let conf = format!("[[registry]]\nprefix = \"os.example/team\"\nlocation = \"{address}/inner\"\n");
    write(&at("registries.conf"), &conf);
    let mirror = format!(
        "[[registry]]\nlocation = \"far.example\"\n[[registry.mirror]]\nlocation = \"{}\"\ninsecure = true\n",
        plain.address()
    );
    write(&at("registries.conf.d/50-far.conf"), &mirror);
    let image = Image::new(LARGE, 2);
    image.push(&open(&plain.address(), "r"), "1").unwrap();
    let ca = at(&format!("certs.d/{address}/ca.crt"));
    let trusting = registries(&format!("[host.\"{address}\"]\nca = {ca:?}"));
    let to = trusting.open(&Remote::parse(&format!("{address}/inner/r")).unwrap()).unwrap();
    image.push(&to, "1").unwrap();
    // By its address, by a prefix that leads to it, and from a mirror.
    for name in [format!("{address}/inner/r"), "os.example/team/r".into(), "far.example/r".into()] {
        again(test, &name, home.path(), &[]);
    }
}

#[test]
fn credentials_are_not_carried_from_outside_to_an_address_inside() {
    let test = "credentials_are_not_carried_from_outside_to_an_address_inside";
    if let Some(settings) = inner() {
        let config = Config::load(Some(Path::new(&settings))).unwrap();
        let place = Registries::new(config).open(&Remote::parse("outside.example/os").unwrap()).unwrap();
        for e in [
            place.document(&tag("1")).unwrap_err(),
            fetch(&place, &Image::new(LARGE, 3).layer_part()).unwrap_err(),
        ] {
            assert_eq!(e.kind(), ErrorKind::Refused);
            assert!(e.to_string().contains("a private address, for a request with credentials"), "{e}");
        }
        return;
    }
    // The host name does not resolve, so an HTTP proxy, as in company networks, represents the outside.
    let inside = Server::start(b"secrets of the house", Behaviour::default());
    let basic = What::Answer(401, "WWW-Authenticate: Basic realm=x\r\n".into(), vec![]);
    let location = format!("Location: {}\r\n", inside.url("/latest/meta-data"));
    let outside = Proxy::start(
        "127.0.0.1:1",
        vec![Fault::always(basic).times(1), Fault::always(What::Answer(307, location, vec![]))],
    );
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    write(&at("auth.json"), &json!({ "auths": { "outside.example": entry() } }).to_string());
    let settings = "[host.\"outside.example\"]\nplain-http = true\ncredentials = { file = \"auth.json\" }\n";
    write(&at("registries.toml"), settings);
    let proxy = format!("http://{}", outside.address());
    again(test, at("registries.toml").to_str().unwrap(), home.path(), &[("http_proxy", &proxy)]);
    assert!(outside.requests().iter().any(|request| request.header("authorization").is_some()));
    assert!(inside.requests().is_empty(), "nobody was led there");
}

#[test]
fn a_registry_that_wants_a_certificate_of_its_clients_is_given_it() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server =
        Registry::serve(&Serve { tls: Some(&authority), clients: Some(&clients), ..Serve::default() });
    let address = server.address();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (certificate, key) = clients.certificate_pem();
    for (name, text) in [("ca.pem", authority.pem()), ("me.pem", &certificate), ("me.key", &key)] {
        write(&at(name), text);
    }
    let (ca, me) =
        (at("ca.pem"), format!("client-cert = {:?}\nclient-key = {:?}", at("me.pem"), at("me.key")));
    let name = Remote::parse(&format!("{address}/os")).unwrap();
    let known = registries(&format!("[host.\"{address}\"]\nca = {ca:?}\n{me}"));
    let image = Image::new(1000, 4);
    image.push(&known.open(&name).unwrap(), "1").unwrap();
    same(&fetch(&known.open(&name).unwrap(), &image.layer_part()).unwrap(), &image.layer);
    let unknown = registries(&format!("[host.\"{address}\"]\nca = {ca:?}"));
    let e = unknown.open(&name).unwrap().document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Failed, "{e:?}");
    assert!(!format!("{e:?}").contains("PRIVATE KEY"), "{e:?}");
}
