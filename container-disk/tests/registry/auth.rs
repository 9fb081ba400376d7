//! Sending credentials, and not sending them.

use crate::work::{Image, LARGE, fetch, registries, same, send, tag};
use base64::Engine;
use container_disk::ErrorKind;
use container_disk::place::{Place, Sink};
use container_disk::reference::Remote;
use container_disk::registry::Registries;
use serde_json::{Value, json};
use tests::faults::{Fault, Proxy, What};
use tests::http::{Authority, Behaviour, Server};
use tests::registry::{Registry, Serve};
use tests::token::{TokenServer, USER};

/// Settings for one host with an entry of a docker configuration.
fn with(address: &str, entry: &Value, more: &str) -> (Registries, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("auth.json");
    std::fs::write(&file, json!({ "auths": { address: entry } }).to_string()).unwrap();
    let toml = format!("[host.\"{address}\"]\ncredentials = {{ file = {file:?} }}\n{more}");
    (registries(&toml), folder)
}

fn basic(user: &str, password: &str) -> Value {
    json!({ "auth": base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")) })
}

fn remote(address: &str, repository: &str) -> Remote {
    Remote::parse(&format!("{address}/{repository}")).unwrap()
}

#[test]
fn user_and_password_over_tls() {
    let authority = Authority::new();
    let server = Registry::serve(&Serve {
        tls: Some(&authority),
        basic: Some(("me", "pass:word")),
        ..Serve::default()
    });
    let address = server.address();
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let ca = format!("ca = {:?}", ca.path());
    let image = Image::new(LARGE, 1);
    let (all, _kept) = with(&address, &basic("me", "pass:word"), &ca);
    let place = all.open(&remote(&address, "os")).unwrap();
    image.push(&place, "1").unwrap();
    same(&fetch(&place, &image.layer_part()).unwrap(), &image.layer);
    for (entry, says) in [
        (basic("me", "wrong"), "the credentials are wrong or have too few permissions"),
        (json!({}), "wants a user"),
    ] {
        let (all, _kept) = with(&address, &entry, &ca);
        let e = all.open(&remote(&address, "os")).unwrap().document(&tag("1")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Auth);
        assert!(e.to_string().contains(says) && e.to_string().contains("docker login"), "{e}");
        assert!(!format!("{e:?}").contains("wrong\""), "{e:?}");
    }
}

#[test]
fn tokens_are_for_what_is_done_and_nobody_may_pull() {
    let tokens = TokenServer::start();
    let server = Registry::serve(&Serve { token: Some(tokens.config()), ..Serve::default() });
    let address = server.address();
    let image = Image::new(LARGE, 2);
    let (all, _kept) = with(&address, &basic(USER.0, USER.1), "");
    let to = all.open(&remote(&address, "group/os")).unwrap();
    image.push(&to, "1").unwrap();
    let asked = tokens.asked();
    assert_eq!(asked.len(), 1, "one token for the whole push: {asked:?}");
    assert_eq!(asked[0].all("scope"), ["repository:group/os:pull,push"]);
    assert_eq!(asked[0].all("service"), ["disks"]);
    assert!(asked[0].known);
    // Without a login: enough for pulling, not for pushing.
    let nobody = registries(&format!("[host.\"{address}\"]\ncredentials = \"none\""));
    let place = nobody.open(&remote(&address, "group/os")).unwrap();
    same(&fetch(&place, &image.layer_part()).unwrap(), &image.layer);
    assert_eq!(tokens.asked().last().unwrap().all("scope"), ["repository:group/os:pull"]);
    let e = send(&place, None, b"x").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    assert!(e.to_string().contains("docker login"), "{e}");
    // Wrong credentials: the token server reports them.
    let (all, _kept) = with(&address, &basic(USER.0, "wrong"), "");
    let e = all.open(&remote(&address, "group/os")).unwrap().document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    assert!(e.to_string().contains("401 Unauthorized when asked for a token"), "{e}");
}

#[test]
fn an_identity_token_is_exchanged_and_a_mount_asks_for_both_repositories() {
    let tokens = TokenServer::start();
    let server = Registry::serve(&Serve { token: Some(tokens.config()), ..Serve::default() });
    let address = server.address();
    let image = Image::new(LARGE, 3);
    let (all, _kept) = with(&address, &json!({ "identitytoken": USER.2 }), "");
    image.push(&all.open(&remote(&address, "one")).unwrap(), "1").unwrap();
    let asked = tokens.asked().remove(0);
    assert_eq!((asked.method.as_str(), asked.known), ("POST", true));
    assert_eq!((asked.all("grant_type"), asked.all("client_id")), (vec!["refresh_token"], vec!["coracle"]));
    let to = all.open(&remote(&address, "two")).unwrap();
    to.mount_from(&remote(&address, "one"));
    assert!(to.has(&image.layer_part()).unwrap());
    let scopes: Vec<String> =
        tokens.asked().last().unwrap().all("scope").iter().map(|s| s.to_string()).collect();
    assert_eq!(scopes, ["repository:one:pull repository:two:pull,push"]);
    assert_eq!(all.counters().now().mounted, 1);
}

#[test]
fn a_token_that_ends_during_a_long_upload_is_replaced() {
    let tokens = TokenServer::start();
    let server = Registry::serve(&Serve { token: Some(tokens.config()), ..Serve::default() });
    let address = server.address();
    tokens.set_life(1);
    let (all, _kept) = with(&address, &basic(USER.0, USER.1), "");
    let to = all.open(&remote(&address, "os")).unwrap();
    let mut writer = to.begin(None).unwrap();
    for byte in 0..5u8 {
        writer.write_all(&[byte; 400_000]).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let (digest, _) = writer.finish().unwrap();
    assert!(server.blob(&digest.to_string()).is_some());
    assert!(tokens.asked().len() >= 2, "the upload outlives its first token");
}

#[test]
fn a_token_that_is_refused_in_the_middle_of_an_upload_is_replaced() {
    let tokens = TokenServer::start();
    let server = Registry::serve(&Serve { token: Some(tokens.config()), ..Serve::default() });
    let proxy = Proxy::start(&server.address(), vec![]);
    let (all, _kept) = with(&proxy.address(), &basic(USER.0, USER.1), "plain-http = true");
    let to = all.open(&remote(&proxy.address(), "os")).unwrap();
    // The server's clock is ahead of ours: it accepts each token only for the first request.
    let head = format!("WWW-Authenticate: Bearer realm=\"{}\",service=\"disks\"\r\n", tokens.realm());
    for method in ["PATCH", "PUT"] {
        proxy.set(vec![Fault::always(What::Answer(401, head.clone(), vec![])).method(method).times(1)]);
        let before = tokens.asked().len();
        let bytes = [method.as_bytes(), &[7; 3_000_000]].concat();
        let (digest, _) = send(&to, None, &bytes).unwrap();
        same(&std::fs::read(server.blob(&digest.to_string()).unwrap()).unwrap(), &bytes);
        assert!(tokens.asked().len() > before, "{method}: a new one is asked for");
    }
    // If it accepts no token at all, that is reported, and not tried for ever.
    proxy.set(vec![Fault::always(What::Answer(401, head, vec![])).method("PATCH")]);
    let e = send(&to, None, b"x").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    assert!(e.to_string().contains("takes the token no longer"), "{e}");
}

/// A registry that only requires authentication, in its own way.
fn asking(challenge: &str) -> Proxy {
    let head = format!("WWW-Authenticate: {challenge}\r\n");
    Proxy::start("127.0.0.1:1", vec![Fault::always(What::Answer(401, head, vec![]))])
}

#[test]
fn a_token_server_that_could_do_harm_is_told_nothing() {
    let tokens = TokenServer::start();
    for (challenge, says) in [
        ("Bearer realm=\"http://elsewhere.example/token\"", "names a token server that is not asked"),
        ("Bearer realm=\"http://10.0.0.1/token\"", "names a token server that is not asked"),
        ("Bearer realm=\"ftp://127.0.0.1/token\"", "names a token server that is not asked"),
        ("Bearer realm=\"http://me:pw@127.0.0.1/token\"", "names a token server that is not asked"),
        ("Negotiate", "a login of a kind that is not known here"),
        ("Bearer", "a login of a kind that is not known here"),
    ] {
        let registry = asking(challenge);
        let (all, _kept) = with(&registry.address(), &basic(USER.0, USER.1), "plain-http = true");
        let e = all.open(&remote(&registry.address(), "os")).unwrap().document(&tag("1")).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Auth | ErrorKind::Refused), "{challenge}: {e:?}");
        assert!(e.to_string().contains(says), "{challenge}: {e}");
        let spoken: Vec<_> =
            registry.requests().into_iter().filter(|r| r.header("authorization").is_some()).collect();
        assert!(spoken.is_empty(), "{challenge}: {spoken:?}");
    }
    assert!(tokens.asked().is_empty());
    // A token server's response is foreign input as well.
    for body in
        [&b"{}"[..], b"no json", b"{\"token\": \"a\\nb\"}", b"{\"token\": \"\"}", &vec![b' '; 2 << 20]]
    {
        let server = Server::start(body, Behaviour::default());
        let registry = asking(&format!("Bearer realm=\"{}\"", server.url("/token")));
        let (all, _kept) = with(&registry.address(), &basic(USER.0, USER.1), "plain-http = true");
        all.open(&remote(&registry.address(), "os")).unwrap().document(&tag("1")).unwrap_err();
    }
}

#[test]
fn credentials_do_not_follow_a_redirect() {
    let elsewhere = Server::start(tests::http::pattern(LARGE), Behaviour::default());
    let image = Image::new(LARGE, 0);
    let location = format!("Location: {}\r\n", elsewhere.url("/blob?signature=1"));
    let registry = Proxy::start(
        "127.0.0.1:1",
        vec![
            Fault::always(What::Answer(401, "WWW-Authenticate: Basic realm=x\r\n".into(), vec![])).times(1),
            Fault::blobs(What::Answer(307, location, vec![])),
        ],
    );
    let (all, _kept) = with(&registry.address(), &basic("me", "pw"), "plain-http = true");
    let place = all.open(&remote(&registry.address(), "os")).unwrap();
    same(&fetch(&place, &image.layer_part()).unwrap(), &image.layer);
    let with_header = |requests: Vec<tests::http::Request>| {
        requests.iter().filter(|request| request.header("authorization").is_some()).count()
    };
    assert!(with_header(registry.requests()) > 0, "the registry is told");
    assert_eq!(with_header(elsewhere.requests()), 0, "the other server is not");
    assert!(registry.count("GET", "/blobs/") < elsewhere.requests().len() + 2, "the way is remembered");
}

#[test]
fn a_proxy_that_wants_a_password_is_told_from_a_registry_that_does() {
    let proxy = Proxy::start("127.0.0.1:1", vec![Fault::always(What::Answer(407, String::new(), vec![]))]);
    let all = registries(&format!("[host.\"{}\"]\nplain-http = true", proxy.address()));
    let e = all.open(&remote(&proxy.address(), "os")).unwrap().document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    assert!(e.to_string().contains("check the proxy's user and password"), "{e}");
    assert_eq!(proxy.count("GET", "/manifests/"), 1, "asking again does not help");
}

#[test]
fn a_user_with_a_colon_is_not_sent_as_another_user() {
    let server = Registry::serve(&Serve { basic: Some(("me", "x:secret")), ..Serve::default() });
    let address = server.address();
    let (all, _kept) = with(&address, &json!({ "username": "me:x", "password": "secret" }), "");
    let e = all.open(&remote(&address, "os")).unwrap().document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Auth);
    assert!(e.to_string().contains("cannot hold a colon"), "{e}");
}
