//! TLS: an authority that is named is trusted, another is not.

use super::{open, quick, read_all, refusal};
use cdi::ErrorKind;
use cdi::source::options::Options;
use std::io::Write;
use tests::http::{Authority, Behaviour, Server, pattern};

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it takes a few bytes");
    file
}

#[test]
fn a_server_of_a_named_authority_is_trusted_and_of_another_not() {
    let (ours, other) = (Authority::new(), Authority::new());
    let disk = pattern(3_000_000);
    let server = Server::start_tls(disk.clone(), Behaviour::default(), &ours);
    let with = |authority: &Authority| {
        let file = file(authority.pem());
        (Options { ca_files: vec![file.path().into()], retries: 0, ..quick() }, file)
    };
    let (trusting, _kept) = with(&ours);
    assert!(read_all(&open(&server.url("/d"), &trusting)) == disk);
    let before = server.requests().len();
    let (strange, _kept) = with(&other);
    for options in [Options { retries: 0, ..quick() }, strange] {
        refusal(&server.url("/d"), &options)
            .says(ErrorKind::Failed, &["TLS with localhost", "name a file with its CA: --cacert FILE"]);
    }
    assert_eq!(server.requests().len(), before, "nothing was asked for");
    let insecure = Options { insecure_tls: true, ..quick() };
    assert!(read_all(&open(&server.url("/d"), &insecure)) == disk);
}

#[test]
fn a_ca_file_is_checked() {
    let at = |path: &std::path::Path| Options { ca_files: vec![path.into()], ..quick() };
    let none = refusal("https://localhost:1/", &at("/does/not/exist.pem".as_ref()));
    none.says(ErrorKind::NotFound, &["/does/not/exist.pem"]);
    let empty = file("not a certificate\n");
    refusal("https://localhost:1/", &at(empty.path())).says(ErrorKind::Usage, &["certificate", "PEM"]);
}

#[test]
fn a_redirect_does_not_leave_tls() {
    let ours = Authority::new();
    let plain = Server::start(pattern(1000), Behaviour::default());
    let to = |path: &str, target: String| (path.to_owned(), 302, target);
    let inner = Behaviour { redirects: vec![to("/b", plain.url("/d"))], ..Behaviour::default() };
    let inner = Server::start_tls(pattern(1000), inner, &ours);
    let redirects =
        vec![to("/a", plain.url("/d?sig=s3cret")), to("/far", inner.url("/b")), to("/tls", inner.url("/d"))];
    let server = Server::start_tls(vec![], Behaviour { redirects, ..Behaviour::default() }, &ours);
    let ca = file(ours.pem());
    let options = Options { ca_files: vec![ca.path().into()], bearer: Some("t0ken".into()), ..quick() };
    // At once, and behind a redirect that is fine.
    for path in ["/a", "/far"] {
        let told = refusal(&server.url(path), &options);
        told.says(ErrorKind::Failed, &["from TLS to plain HTTP", "--insecure"]);
        assert!(!told.chain.contains("s3cret") && !told.chain.contains("t0ken"), "{}", told.chain);
    }
    assert!(plain.requests().is_empty(), "something was asked of a server without TLS");
    assert_eq!(read_all(&open(&server.url("/tls"), &options)), pattern(1000));

    // Without certificate checks the redirect is allowed; credentials still go to the first server only.
    let insecure = Options { insecure_tls: true, ..options };
    for path in ["/a", "/far"] {
        assert_eq!(read_all(&open(&server.url(path), &insecure)), pattern(1000));
    }
    assert!(server.requests().iter().all(|r| r.header("authorization").is_some()));
    assert!(inner.requests().iter().chain(&plain.requests()).all(|r| r.header("authorization").is_none()));
    // A redirect from plain HTTP to TLS is safe.
    let redirects = vec![to("/up", inner.url("/d"))];
    let upward = Server::start(vec![], Behaviour { redirects, ..Behaviour::default() });
    let options = Options { insecure_tls: false, ..insecure };
    assert_eq!(read_all(&open(&upward.url("/up"), &options)), pattern(1000));
}
