//! What each user may do with our kinds and their subresources, request by request: `docs/reference/rights.md` is what the
//! roles say (`install`), and a real API server with a real virt-api answers every request so.
//!
//! ```text
//!  KINDS, docs/reference/subresources.md ─► requests ─┬─► roles ─► expected ──┬─► docs/reference/rights.md
//!                                                     └─► the cluster ─► 403, 401, or another status
//!                                                                     (is it as expected?)
//! ```
//!
//! Each request is about an object that is not there, or is not carried out (`dryRun`): whoever may is told so, whoever may
//! not is refused before. `UPDATE_GOLDEN=1` writes the document, without a cluster.

use api::cdi;
use api::crd::{KINDS, Subresources};
use install::{InstallOptions, objects as installed};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tests::cluster::{Space, until};

const SUBRESOURCES: &str = "subresources.kubevirt.io";
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// The statuses of a request that was permitted: done, or refused for what it says or is about.
const PERMITTED: [u16; 11] = [200, 201, 202, 400, 404, 405, 406, 409, 415, 422, 501];
const REFUSED: [u16; 2] = [401, 403];
/// They answer 500 too, as upstream does: that there is no such VMI.
const OF_GUEST: [&str; 4] = ["guestosinfo", "userlist", "filesystemlist", "vnc/screenshot"];

/// A user, as the document names it, and the roles of the installation that it has where the objects are.
struct Subject {
    name: &'static str,
    roles: &'static [&'static str],
}

/// Everybody whom the API server knows may ask for the version, …
const KNOWN: &str = "kubevirt.io:default";
/// … and read how disks are made: `virtctl image-upload` does.
const READER: &str = "cdi.kubevirt.io:config-reader";
/// … and the instance types and preferences of the cluster.
const SIZES: &str = "instancetype.kubevirt.io:view";
/// The ends of the names of roles that a user has in a namespace.
const AGGREGATED: [&str; 3] = [":view", ":edit", ":admin"];
const SUBJECTS: [Subject; 8] = [
    Subject { name: "anonymous", roles: &[] },
    Subject { name: "view", roles: &[KNOWN, READER, SIZES, "kubevirt.io:view", "cdi.kubevirt.io:view"] },
    Subject { name: "edit", roles: &[KNOWN, READER, SIZES, "kubevirt.io:edit", "cdi.kubevirt.io:edit"] },
    Subject { name: "admin", roles: &[KNOWN, READER, SIZES, "kubevirt.io:admin", "cdi.kubevirt.io:admin"] },
    Subject { name: "admin of another namespace", roles: &[KNOWN, READER, SIZES] },
    Subject { name: "a pod's account", roles: &[KNOWN, READER, SIZES] },
    Subject { name: "virt-handler's token", roles: &[KNOWN, READER, SIZES, "kubevirt-handler"] },
    Subject { name: "virt-handler's certificate", roles: &[] },
];

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    group: &'static str,
    version: &'static str,
    /// As roles name it, its subresource included.
    resource: String,
    verb: &'static str,
    namespaced: bool,
}

/// Every request: each verb of each kind, what is asked beside them, and each subresource.
fn requests() -> Vec<Request> {
    let mut all = Vec::new();
    for kind in KINDS {
        let parts: &[&str] = match kind.subresources {
            Subresources::None => &[],
            Subresources::Status => &["/status"],
            Subresources::StatusAndScale => &["/status", "/scale"],
        };
        let mut add = |part: &str, verbs: &[&'static str]| {
            all.extend(verbs.iter().map(|verb| Request {
                group: kind.group,
                version: kind.version,
                resource: format!("{}{part}", kind.plural),
                verb,
                namespaced: !kind.is_of_cluster,
            }));
        };
        add("", &VERBS);
        for part in parts {
            add(part, &["get", "update", "patch"]);
        }
    }
    // What is no kind of a definition: to be cloned out of a namespace, and the tokens of uploads.
    for (group, resource, verbs) in [
        (cdi::GROUP, "datavolumes/source", &["create"][..]),
        (cdi::UPLOAD_GROUP, "uploadtokenrequests", &["get", "create"]),
    ] {
        all.extend(verbs.iter().map(|verb| Request {
            group,
            version: cdi::VERSION,
            resource: resource.to_owned(),
            verb,
            namespaced: true,
        }));
    }
    for Row { method, resource, .. } in subresources() {
        let namespaced = resource.contains('/') || resource == "expand-vm-spec";
        all.push(Request {
            group: SUBRESOURCES,
            version: "v1",
            resource,
            // The API server takes a request without the name of an object for a list.
            verb: match method.as_str() {
                "PUT" => "update",
                _ if namespaced => "get",
                _ => "list",
            },
            namespaced,
        });
    }
    all
}

/// A row of `docs/reference/subresources.md`.
struct Row {
    method: String,
    resource: String,
    /// As the document lists them.
    roles: String,
}

/// The rows of the reference, which a test of virt-api holds against its own table.
fn subresources() -> Vec<Row> {
    let text = fs::read_to_string(root().join("docs/reference/subresources.md")).unwrap();
    let rows = text.lines().filter_map(|line| {
        let (request, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let (method, resource) = request.split_once(' ')?;
        let (roles, _) = rest.split_once('|')?;
        Some(Row { method: method.into(), resource: resource.into(), roles: roles.trim().into() })
    });
    let found: Vec<Row> = rows.filter(|row| ["GET", "PUT"].contains(&row.method.as_str())).collect();
    let names: Vec<&str> = found.iter().map(|row| row.resource.as_str()).collect();
    assert!(found.len() > 40, "the table is written otherwise now: {names:?}");
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

// ── As the roles say ────────────────────────────────────────────────────────────────────────────────────────────────

/// The rules of the ClusterRoles that are installed, by name.
fn rules() -> Vec<(String, Value)> {
    let wishes = InstallOptions {
        namespace: "kubevirt".into(),
        registry: "registry.example".into(),
        version: "1".into(),
        pull_policy: None,
        pull_secret: None,
    };
    let roles = installed(&wishes).into_iter().filter(|object| object["kind"] == "ClusterRole");
    roles.map(|role| (role["metadata"]["name"].as_str().unwrap().to_owned(), role["rules"].clone())).collect()
}

/// The roles of a subject permit this: the first word of a longer subresource, which the API server asks about, and all of
/// it, which virt-api does.
fn is_permitted(roles: &[(String, Value)], subject: &Subject, request: &Request) -> bool {
    let has = |list: &Value, word: &str| list.as_array().is_some_and(|list| list.contains(&json!(word)));
    let permits = |resource: &str| {
        let of_subject = roles.iter().filter(|(name, _)| {
            // What is bound in a namespace reaches no object of the cluster.
            let is_of_namespace = name != SIZES && AGGREGATED.iter().any(|end| name.ends_with(end));
            subject.roles.contains(&name.as_str()) && (request.namespaced || !is_of_namespace)
        });
        of_subject.flat_map(|(_, rules)| rules.as_array().unwrap()).any(|rule| {
            has(&rule["apiGroups"], request.group)
                && has(&rule["resources"], resource)
                && has(&rule["verbs"], request.verb)
                && rule["resourceNames"].is_null()
        })
    };
    let words: Vec<&str> = request.resource.split('/').collect();
    let first = words[..words.len().min(2)].join("/");
    permits(&first) && permits(&request.resource)
}

const HEAD: &str = "# What each user may do

Each row is a resource; each cell has the verbs that the user may. `view`, `edit` and `admin` have that role of Kubernetes in
the namespace of the objects, by a RoleBinding; \"admin of another namespace\" has it in another one alone. \"A pod's account\"
is the service account that a pod has without asking. virt-handler's token and certificate are those of a node that was taken
over; what its token may patch is bound further, to its own node ([accounts.md](accounts.md)).

`all` is get, list, watch, create, update, patch, delete and deletecollection; it is not `*`. The verb `unfence` on
`virtualmachineinstances`, which [ends fencing](../how-to/nodes.md#when-a-node-is-lost-for-good), is in no role of ours: none
of these users has it. `virtualmachines/migrate` is in `kubevirt.io:migrate` alone, which has no column: an administrator of
the cluster binds it.

The table is made from the roles that are installed. `tests/e2e/rights.rs` sends each of these requests to a real cluster in
the name of each of these users, and fails when one is answered otherwise. `UPDATE_GOLDEN=1 cargo test --test e2e rights`
writes it anew.

";

/// The document.
fn document() -> String {
    let (roles, requests) = (rules(), requests());
    let mut text = HEAD.to_owned();
    text.push_str("| resource |");
    for subject in &SUBJECTS {
        write!(text, " {} |", subject.name).unwrap();
    }
    writeln!(text, "\n|---|{}", "---|".repeat(SUBJECTS.len())).unwrap();
    let mut seen = BTreeSet::new();
    for request in &requests {
        let key = (request.group, &request.resource);
        if !seen.insert(key) {
            continue;
        }
        write!(text, "| `{}` of `{}` |", request.resource, request.group).unwrap();
        let row: Vec<&Request> = requests.iter().filter(|one| (one.group, &one.resource) == key).collect();
        for subject in &SUBJECTS {
            let verbs: Vec<&str> =
                row.iter().filter(|one| is_permitted(&roles, subject, one)).map(|one| one.verb).collect();
            let cell = if verbs == VERBS { "all".to_owned() } else { verbs.join(", ") };
            write!(text, " {cell} |").unwrap();
        }
        text.push('\n');
    }
    text.replace("|  |", "| – |").replace("|  |", "| – |")
}

#[test]
fn the_document_is_what_the_roles_say() {
    let (path, wanted) = (root().join("docs/reference/rights.md"), document());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return fs::write(path, wanted).unwrap();
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    let lines = |text: &str| -> BTreeSet<String> { text.lines().map(str::to_owned).collect() };
    let (found_lines, wanted_lines) = (lines(&found), lines(&wanted));
    let other: Vec<_> = found_lines.symmetric_difference(&wanted_lines).collect();
    assert!(found == wanted, "docs/reference/rights.md is not what the roles say: {other:#?}");
}

#[test]
fn the_reference_of_subresources_names_the_roles_that_permit_each() {
    const ROLES: [Subject; 5] = [
        Subject { name: "view", roles: &["kubevirt.io:view"] },
        Subject { name: "edit", roles: &["kubevirt.io:edit"] },
        Subject { name: "admin", roles: &["kubevirt.io:admin"] },
        Subject { name: "migrate", roles: &["kubevirt.io:migrate"] },
        Subject { name: "default", roles: &[KNOWN] },
    ];
    let (roles, requests) = (rules(), requests());
    let mut wrong = Vec::new();
    for row in subresources() {
        let is = |one: &&Request| one.group == SUBRESOURCES && one.resource == row.resource;
        let request = requests.iter().find(is).unwrap();
        let permit = ROLES.iter().filter(|role| is_permitted(&roles, role, request));
        let permit = permit.map(|role| role.name).collect::<Vec<_>>().join(", ");
        if permit != row.roles {
            wrong.push(format!("{}: the document says {:?}, the roles {permit:?}", row.resource, row.roles));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

// ── As the cluster answers ──────────────────────────────────────────────────────────────────────────────────────────

impl Request {
    /// The method, the path with its query, and the body.
    fn http(&self, namespace: &str) -> (&'static str, String, Option<String>) {
        let within = if self.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
        let base = format!("/apis/{}/{}{within}", self.group, self.version);
        if self.group == SUBRESOURCES {
            let path = match self.resource.split_once('/') {
                Some((plural, "portforward")) => format!("{base}/{plural}/nothing/portforward/80"),
                Some((plural, subresource)) => format!("{base}/{plural}/nothing/{subresource}"),
                None => format!("{base}/{}", self.resource),
            };
            return match self.verb {
                "update" => ("PUT", path, Some(json!({"dryRun": ["All"]}).to_string())),
                _ => ("GET", path, None),
            };
        }
        let (plural, part) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let (all, mut one) = (format!("{base}/{plural}"), format!("{base}/{plural}/nothing"));
        if !part.is_empty() {
            write!(one, "/{part}").unwrap();
        }
        let object = || Some(json!({"metadata": {"name": "nothing"}}).to_string());
        match self.verb {
            "get" => ("GET", one, None),
            "list" => ("GET", format!("{all}?limit=1"), None),
            // It ends after a second: a version that there cannot be would be refused at once, but by 500.
            "watch" => ("GET", format!("{all}?watch=true&timeoutSeconds=1"), None),
            // There is no such path: whoever may gets 404.
            "create" if !part.is_empty() => ("POST", format!("{one}?dryRun=All"), object()),
            "create" => ("POST", format!("{all}?dryRun=All"), object()),
            "update" => ("PUT", format!("{one}?dryRun=All"), object()),
            "patch" => ("PATCH", format!("{one}?dryRun=All"), object()),
            "delete" => ("DELETE", format!("{one}?dryRun=All"), None),
            "deletecollection" => ("DELETE", format!("{all}?dryRun=All&labelSelector=nothing=is"), None),
            other => panic!("{other} is new here"),
        }
    }
}

/// Whoever asks, in lines of curl's configuration.
struct Asker(Vec<String>);

impl Asker {
    fn bearer(token: &str) -> Asker {
        Asker(vec![format!("header = \"Authorization: Bearer {}\"", token.trim())])
    }

    /// The statuses of the answers to all requests, in their order: one curl asks them all.
    fn asks(&self, server: &str, namespace: &str, requests: &[Request]) -> Vec<u16> {
        let mut config = String::new();
        for (at, request) in requests.iter().enumerate() {
            let (method, path, body) = request.http(namespace);
            if at > 0 {
                config.push_str("next\n");
            }
            config.push_str(
                "silent\nshow-error\ninsecure\nmax-time = 60\noutput = /dev/null\nwrite-out = \"%{http_code}\\n\"\n",
            );
            writeln!(config, "url = \"{server}{path}\"\nrequest = {method}").unwrap();
            for line in &self.0 {
                writeln!(config, "{line}").unwrap();
            }
            if let Some(body) = body {
                let kind =
                    if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
                let body = body.replace('"', "\\\"");
                writeln!(config, "header = \"Content-Type: {kind}\"\ndata = \"{body}\"").unwrap();
            }
        }
        let mut curl = Command::new("curl");
        curl.args(["-K", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = curl.spawn().expect("curl is there");
        let mut pipe = child.stdin.take().unwrap();
        // It reads all of it before it asks.
        pipe.write_all(config.as_bytes()).unwrap();
        drop(pipe);
        let ran = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let statuses: Vec<u16> =
            String::from_utf8_lossy(&ran.stdout).lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(statuses.len(), requests.len(), "{said}");
        statuses
    }
}

/// A namespace with accounts, and the folder of the stolen certificate.
struct Story {
    space: Space,
    server: String,
    stolen: tempfile::TempDir,
}

impl Story {
    fn begin() -> Option<Story> {
        let space = Space::new("rights")?;
        let config = ["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"];
        let server = String::from_utf8(space.cluster.run(&config).ok().out).unwrap();
        Some(Story { space, server, stolen: tempfile::tempdir().unwrap() })
    }

    /// An account of this namespace with a role of Kubernetes, in this namespace or another.
    fn account(&self, name: &str, role: &str, within: &str) -> Asker {
        self.space.run(&["create", "serviceaccount", name]);
        let whom = format!("--serviceaccount={}:{name}", self.space.name);
        let role = format!("--clusterrole={role}");
        self.space.cluster.run(&["-n", within, "create", "rolebinding", name, &role, &whom]).ok();
        Asker::bearer(&self.space.run(&["create", "token", name]))
    }

    /// A file of the secret with virt-handler's certificate.
    fn file(&self, name: &str) -> PathBuf {
        let field = format!("go-template={{{{index .data \"{name}\" | base64decode}}}}");
        let words =
            ["-n", "kubevirt", "get", "secret", "kubevirt-virt-handler-server-certs", "-o", field.as_str()];
        let path = self.stolen.path().join(name);
        fs::write(&path, self.space.cluster.run(&words).ok().out).unwrap();
        path
    }

    fn asker(&self, subject: &str, elsewhere: &Space) -> Asker {
        match subject {
            "anonymous" => Asker(Vec::new()),
            "view" | "edit" | "admin" => self.account(subject, subject, &self.space.name),
            "admin of another namespace" => self.account("elsewhere", "admin", &elsewhere.name),
            "a pod's account" => Asker::bearer(&self.space.run(&["create", "token", "default"])),
            "virt-handler's token" => {
                let nodes = ["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"];
                let node = String::from_utf8(self.space.cluster.run(&nodes).ok().out).unwrap();
                let words = ["-n", "kubevirt", "create", "token", "kubevirt-handler"];
                let bound = ["--bound-object-kind=Node", "--bound-object-name", &node];
                let token = self.space.cluster.run(&[&words[..], &bound].concat()).ok().out;
                Asker::bearer(&String::from_utf8(token).unwrap())
            }
            "virt-handler's certificate" => Asker(vec![
                format!("cert = \"{}\"", self.file("tls.crt").display()),
                format!("key = \"{}\"", self.file("tls.key").display()),
            ]),
            other => panic!("{other} is new here"),
        }
    }
}

/// The status of a request that was permitted.
fn is_answered(request: &Request, status: u16) -> bool {
    let is_of_guest = request.resource.split_once('/').is_some_and(|(_, part)| OF_GUEST.contains(&part));
    PERMITTED.contains(&status) || (status == 500 && is_of_guest)
}

#[test]
fn nobody_may_more_than_the_roles_say() {
    let Some(story) = Story::begin() else { return };
    let elsewhere = Space::new("rights-elsewhere").unwrap();
    let (roles, requests) = (rules(), requests());
    let mut wrong = Vec::new();
    for subject in &SUBJECTS {
        let asker = story.asker(subject.name, &elsewhere);
        let expected: Vec<bool> = requests.iter().map(|one| is_permitted(&roles, subject, one)).collect();
        // A role holds a moment after it is bound.
        if let Some(at) = expected.iter().position(|permitted| *permitted) {
            let one = std::slice::from_ref(&requests[at]);
            let look = || asker.asks(&story.server, &story.space.name, one);
            until(
                || is_answered(&one[0], look()[0]),
                || format!("{}: {:?}: {:?}", subject.name, one, look()),
            );
        }
        let statuses = asker.asks(&story.server, &story.space.name, &requests);
        for ((request, permitted), status) in requests.iter().zip(expected).zip(statuses) {
            let is_as_expected =
                if permitted { is_answered(request, status) } else { REFUSED.contains(&status) };
            if !is_as_expected {
                let (verb, resource) = (request.verb, &request.resource);
                let should = if permitted { "be permitted" } else { "be refused" };
                wrong.push(format!("{}: {verb} {resource} should {should}: {status}", subject.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Who has another namespace has it: the account is not refused for what it is.
    let there = Asker::bearer(&story.space.run(&["create", "token", "elsewhere"]));
    let reads = requests.iter().find(|one| one.resource == "virtualmachines" && one.verb == "list").unwrap();
    let look = || there.asks(&story.server, &elsewhere.name, std::slice::from_ref(reads))[0];
    until(|| look() == 200, || format!("its own namespace: {}", look()));
}

#[test]
fn the_list_of_requests_has_no_gap() {
    let requests = requests();
    assert!(requests.iter().all(|one| !one.http("n").1.contains("//")));
    for resource in ["virtualmachines", "datavolumes", "virtualmachineinstancereplicasets/scale"] {
        assert!(requests.iter().any(|one| one.resource == resource && one.verb == "patch"), "{resource}");
    }
    let (_, path, body) = requests
        .iter()
        .find(|one| one.resource == "virtualmachineinstances/vnc/screenshot")
        .unwrap()
        .http("n");
    let wanted =
        "/apis/subresources.kubevirt.io/v1/namespaces/n/virtualmachineinstances/nothing/vnc/screenshot";
    assert_eq!((path.as_str(), body), (wanted, None));
    // Each user is refused something, and each that has a role is permitted something.
    let roles = rules();
    for subject in &SUBJECTS {
        let count = requests.iter().filter(|one| is_permitted(&roles, subject, one)).count();
        assert!(count < requests.len(), "{}", subject.name);
        assert_eq!(count > 0, !subject.roles.is_empty(), "{}", subject.name);
    }
}
