//! Access control of the page, tested by plain requests.

use crate::Page;
use crate::server::status;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

struct Answer {
    code: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

impl Page {
    /// Response to a request with this line and these headers.
    fn ask(&self, line: &str, headers: &[&str]) -> Answer {
        self.send(line, headers, "")
    }

    /// Response to a request with this body, whose length is sent if it is not empty.
    fn send(&self, line: &str, headers: &[&str], body: &str) -> Answer {
        let host = format!("Host: 127.0.0.1:{}", self.port);
        let named = headers.iter().any(|header| header.starts_with("Host: "));
        let host = if named { String::new() } else { format!("{host}\r\n") };
        let text: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let request = format!("{line} HTTP/1.1\r\n{host}{text}{length}Connection: close\r\n\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A server that refuses a header may not read all of it.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        Answer { code, head: head.to_owned(), body: body.to_owned() }
    }

    /// The header with the session for the token.
    fn session(&self) -> String {
        let answer = self.ask(&format!("GET /?token={}", self.token), &[]);
        assert_eq!(answer.code, 200, "{}", answer.body);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let session = given(&answer);
        assert_eq!(session.len(), 43, "{session}");
        format!("Authorization: Bearer {session}")
    }
}

/// The session in a page.
fn given(answer: &Answer) -> String {
    let (_, rest) = answer.body.split_once(r#"<meta name="session" content=""#).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

#[test]
fn nobody_is_let_in_without_the_session_that_the_token_bought() {
    let page = Page::of(3, &[]);
    for line in
        ["GET /api/vms", "GET /api/changes", "GET /api/uploads", "POST /", "GET /nothing", "GET /vendor.sh"]
    {
        let answer = page.ask(line, &["Origin: http://127.0.0.1:1"][..usize::from(line.starts_with("POST"))]);
        assert_eq!(answer.code, 403, "{line}");
        assert!(answer.json()["error"].as_str().unwrap().contains("'coracle ui'"), "{}", answer.body);
        assert_eq!(answer.header("connection"), Some("close"), "{line}");
    }
    // The files of the page are public, and contain no session.
    for line in ["GET /", "GET /?token=guessed", "GET /page.css", "GET /session.js"] {
        assert_eq!(page.ask(line, &[]).code, 200, "{line}");
    }
    assert_eq!(given(&page.ask("GET /?token=guessed", &[])), "");
    let other = page.ask(&format!("GET /?token={}", page.token), &["Host: evil.example"]);
    assert_eq!(other.code, 403);
    let session = page.session();
    assert_eq!(given(&page.ask(&format!("GET /?token={}", page.token), &[])), "", "the token is spent");
    assert_eq!(given(&page.ask("GET /", &[&session])), "");
    let list = page.ask("GET /api/vms", &[&session]);
    assert_eq!(list.json()["rows"].as_array().unwrap().len(), 3);
    for headers in [
        [&session, "Host: evil.example"],
        [&session, "Origin: http://evil.example"],
        [&session, "Sec-Fetch-Site: cross-site"],
    ] {
        assert_eq!(page.ask("GET /api/vms", &headers).code, 403, "{headers:?}");
        assert_eq!(page.ask("GET /page.css", &headers).code, 403, "{headers:?}");
    }
    // The server does not listen on other addresses of this computer.
    assert!(TcpStream::connect(("127.0.0.2", page.port)).is_err());
    assert!(page.server.asked().is_empty());
}

/// The session is not a cookie: cookies ignore ports, and every web server of this address would get one.
#[test]
fn the_session_is_no_cookie() {
    let page = Page::of(1, &[]);
    let opened = page.ask(&format!("GET /?token={}", page.token), &[]);
    assert_eq!((opened.code, opened.header("set-cookie")), (200, None));
    let session = given(&opened);
    for name in ["session".to_owned(), "coracle".to_owned(), format!("coracle-{}", page.port)] {
        assert_eq!(page.ask("GET /api/vms", &[&format!("Cookie: {name}={session}")]).code, 403, "{name}");
    }
    let origin = format!("Origin: http://127.0.0.1:{}", page.port);
    let stop = "POST /api/vms/blue/vm-0001/stop";
    let protocol = format!("Sec-WebSocket-Protocol: coracle, coracle.session.{session}");
    let upgrade = [
        "Connection: upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    assert_eq!(page.ask(stop, &[&origin]).code, 403);
    assert_eq!(page.ask("GET /ws/console/blue/vm-0001", &[&upgrade[..], &[&origin]].concat()).code, 403);
    assert!(page.server.asked().is_empty());
    let mut stream = TcpStream::connect(("127.0.0.1", page.port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let head = [&upgrade[..], &[&origin, &protocol]].concat().join("\r\n");
    let host = format!("Host: 127.0.0.1:{}", page.port);
    write!(stream, "GET /ws/console/blue/vm-0001 HTTP/1.1\r\n{host}\r\n{head}\r\n\r\n").unwrap();
    let mut told = String::new();
    let mut lines = BufReader::new(stream);
    while !told.ends_with("\r\n\r\n") {
        assert_ne!(lines.read_line(&mut told).unwrap(), 0, "{told}");
    }
    assert!(told.starts_with("HTTP/1.1 101 "), "{told}");
    assert!(told.contains("sec-websocket-protocol: coracle\r\n") && !told.contains(&session), "{told}");
}

#[test]
fn whoever_is_refused_keeps_no_connection() {
    let page = Page::of(1, &[]);
    let session = page.session();
    // A request that keeps the connection open, and a second one on it.
    let twice = |host: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", page.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let one = format!("GET /api/vms HTTP/1.1\r\nHost: {host}\r\n{session}\r\n");
        stream.write_all(format!("{one}\r\n{one}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // Unread bytes cause a reset at the end.
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let text = twice("evil.example");
    assert_eq!(text.matches("HTTP/1.1 403 ").count(), 1, "{text}");
    assert!(text.contains("connection: close\r\n"), "{text}");
    let text = twice(&format!("127.0.0.1:{}", page.port));
    assert_eq!(text.matches("HTTP/1.1 200 ").count(), 2, "{text}");
}

#[test]
fn a_list_without_end_is_given_up() {
    let page = Page::of(1, &[]);
    let endless = r#"{"items": [], "metadata": {"continue": "again", "resourceVersion": "1"}}"#;
    page.server.answers("GET /apis/kubevirt.io/v1/namespaces/blue/virtualmachines", 200, endless);
    let list = page.ask("GET /api/vms", &[&page.session()]);
    let said = list.json()["error"].as_str().unwrap().to_owned();
    assert_eq!(list.code, 422, "{said}");
    assert!(said.contains("cannot list VMs of namespace blue: there are more than 20000"), "{said}");
}

#[test]
fn only_the_page_itself_changes_anything() {
    let page = Page::of(3, &[]);
    let session = page.session();
    let origin = format!("Origin: http://127.0.0.1:{}", page.port);
    let stop = "POST /api/vms/blue/vm-0001/stop";
    for headers in [&[session.as_str()][..], &[&session, "Origin: http://127.0.0.1:1"], &[&origin]] {
        assert_eq!(page.ask(stop, headers).code, 403, "{headers:?}");
    }
    assert!(page.server.asked().is_empty());
    assert_eq!(page.ask(stop, &[&session, &origin]).code, 200);
    let part = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachines/vm-0001";
    assert_eq!(page.server.asked(), [format!("PUT {part}/stop")]);
    let upgrade =
        ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="];
    let console = "GET /ws/console/blue/vm-0001";
    for origin in ["Origin: http://evil.example", "X: y"] {
        assert_eq!(page.ask(console, &[&upgrade[..], &[&session, origin]].concat()).code, 403);
    }
    assert_eq!(page.ask(console, &[&session, &origin]).code, 426);
}

#[test]
fn what_the_api_server_refuses_is_told_in_a_sentence() {
    let page = Page::of(5, &[]);
    let (session, origin) = (page.session(), format!("Origin: http://127.0.0.1:{}", page.port));
    let part = "/apis/subresources.kubevirt.io/v1/namespaces/blue/virtualmachines/vm-0001";
    page.server.answers(&format!("PUT {part}/start"), 409, &status(409, "VM is already running"));
    let start = page.ask("POST /api/vms/blue/vm-0001/start", &[&session, &origin]);
    let said = "cannot start VM vm-0001 in namespace blue: VM is already running";
    assert_eq!((start.code, start.json()["error"].as_str().unwrap()), (502, said));
    for (line, code, said) in [
        ("GET /api/vms/blue/none", 404, "VM none in namespace blue does not exist"),
        ("GET /api/why/blue/none", 404, "none"),
        ("GET /api/vms/green/web", 404, "'coracle ui -n green'"),
        ("GET /api/vms/blue/..", 400, "is not the name of a VM"),
        ("GET /vendor.sh", 404, "load the page again"),
    ] {
        let answer = page.ask(line, &[&session]);
        assert_eq!(answer.code, code, "{line}: {}", answer.body);
        assert!(answer.json()["error"].as_str().unwrap().contains(said), "{line}: {}", answer.body);
    }
    let why = page.ask("GET /api/why/blue/vm-0003", &[&session]).json();
    assert!(!why["says"].as_str().unwrap().is_empty());
    assert_eq!((why["events"].as_array().unwrap().len(), &why["more"]), (12, &Value::from(8)));
    assert_eq!(
        page.ask("GET /api/events/blue/vm-0003", &[&session]).json()["events"].as_array().unwrap().len(),
        20
    );
    // The size of headers and bodies is bounded.
    let long = format!("X-Long: {}", "a".repeat(64 << 10));
    assert!([431, 0].contains(&page.ask("GET /api/vms", &[&session, &long]).code));
    let large = page.ask("POST /api/vms/blue/vm-0001/stop", &[&session, &origin, "Content-Length: 100000"]);
    assert!([413, 0].contains(&large.code), "{}", large.code);
}

#[test]
fn the_page_may_load_nothing_from_elsewhere() {
    let page = Page::of(1, &["-A"]);
    let session = page.session();
    let index = page.ask("GET /", &[&session]);
    let policy = index.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
    let word = policy.split("'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(index.body.contains(&format!("nonce=\"{word}\"")));
    let again = page.ask("GET /", &[&session]);
    assert!(!again.body.contains(word), "each answer has a word of its own");
    for file in ["/main.js", "/vendor/xterm/lib/xterm.mjs", "/vendor/novnc/core/rfb.js"] {
        let answer = page.ask(&format!("GET {file}"), &[&session]);
        assert_eq!(
            (answer.code, answer.header("content-type")),
            (200, Some("text/javascript; charset=utf-8"))
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    assert_eq!(page.ask("GET /api/vms", &[&session]).json()["namespace"], Value::Null);
}

#[test]
fn an_upload_is_for_the_page_itself_and_is_bounded() {
    let page = Page::of(1, &[]);
    let (session, origin) = (page.session(), format!("Origin: http://127.0.0.1:{}", page.port));
    let known = [session.as_str(), &origin];
    let upload = "/api/uploads/blue/disk";
    let form = |file: &str| {
        format!(r#"{{"file": "{file}", "length": 10, "modified": 1, "size": "1Gi", "storageClass": ""}}"#)
    };
    for method in ["POST", "PATCH", "DELETE"] {
        let line = format!("{method} {upload}");
        for headers in [&[session.as_str()][..], &[&session, "Origin: http://evil.example"], &[&origin]] {
            assert_eq!(page.send(&line, headers, &form("d.img")).code, 403, "{line} {headers:?}");
        }
    }
    assert!(page.server.asked().is_empty());
    // An invalid form starts no upload, nor does one for another namespace.
    let begin = format!("POST {upload}");
    for (line, body, code, said) in [
        (begin.as_str(), "{}", 422, "not the form of an upload"),
        (&begin, &form("d.img").replace("1Gi", "1GB"), 422, "write 1Gi or 1G"),
        ("POST /api/uploads/green/disk", &form("d.img"), 404, "'coracle ui -n green'"),
        (&begin, &"x".repeat(5000), 413, "4096 bytes at most"),
        ("POST /api/disk", &"x".repeat(70_000), 413, "65536 bytes at most"),
        (&format!("PATCH {upload}"), "x", 415, "application/offset+octet-stream"),
        (&format!("DELETE {upload}"), "", 404, "no upload to DataVolume disk"),
    ] {
        let answer = page.send(line, &known, body);
        // A body that is not read may cut off its response.
        assert!([code, 0].contains(&answer.code), "{line}: {} {}", answer.code, answer.body);
        assert!(answer.code == 0 || answer.body.contains(said), "{line}: {}", answer.body);
    }
    assert!(page.server.asked().is_empty());
    // An upload that waits for its pod: one file for one name, and no byte after its end.
    let dv = "/apis/cdi.kubevirt.io/v1beta1/namespaces/blue/datavolumes";
    page.server.answers(&format!("POST {dv}"), 201, "{}");
    page.server.answers(&format!("GET {dv}/disk"), 200, r#"{"status": {"phase": "UploadScheduled"}}"#);
    for _ in 0..2 {
        assert_eq!(page.send(&begin, &known, &form("d.img")).code, 200);
    }
    let other = page.send(&begin, &known, &form("other.img"));
    assert_eq!(other.code, 409);
    assert!(other.body.contains("d.img is being uploaded to DataVolume disk"), "{}", other.body);
    let part = "Content-Type: application/offset+octet-stream";
    for (headers, body, said) in [
        (&[part][..], "x", "Upload-Offset"),
        (&[part, "Upload-Offset: 0"], "", "Content-Length"),
        (&[part, "Upload-Offset: 9"], "xx", "longer than what is left"),
        (&[part, "Upload-Offset: 18446744073709551615"], "xx", "longer than what is left"),
    ] {
        let answer = page.send(&format!("PATCH {upload}"), &[&known[..], headers].concat(), body);
        assert_eq!(answer.code, 400, "{headers:?}: {}", answer.body);
        assert!(answer.body.contains(said), "{headers:?}: {}", answer.body);
    }
    let all = page.ask("GET /api/uploads", &[&session]).json();
    assert_eq!((all.as_array().unwrap().len(), &all[0]["sent"]), (1, &Value::from(0)));
    assert_eq!(page.ask(&format!("DELETE {upload}"), &known).code, 200);
    assert_eq!(page.ask("GET /api/uploads", &[&session]).json(), Value::Array(vec![]));
}
