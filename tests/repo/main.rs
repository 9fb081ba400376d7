//! Rules of this repository that the compiler does not check: the packages that a package may use, modules
//! without circles, the place of lints, used dependencies, run tests, small files, valid links, security
//! claims with tests, listed reasons, a story for each capability, and the words for VMs and VMIs.

mod dependencies;
mod documented;
mod links;
mod modules;
mod reasons;
mod security;
mod stories;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Package, and the packages of ours it may use. The table of "Arrows" in ARCHITECTURE.md; the kit (`tests`) may be a
/// dev-dependency of any.
const ARROWS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("error-core", &[]),
    ("disk-format", &["error-core", "printable"]),
    ("fetch", &["error-core", "printable"]),
    ("guard", &[]),
    ("printable", &[]),
    ("storage", &[]),
    ("transport", &[]),
    ("container-disk", &["disk-format", "fetch", "guard", "printable", "storage"]),
    (
        "cdi",
        &[
            "api",
            "disk-format",
            "error-core",
            "fetch",
            "guard",
            "printable",
            "storage",
            "transport",
            "container-disk",
        ],
    ),
    ("launcher-client", &["api", "error-core", "printable", "storage", "transport"]),
    (
        "launcher",
        &[
            "api",
            "disk-format",
            "error-core",
            "guard",
            "printable",
            "storage",
            "transport",
            "launcher-client",
        ],
    ),
    ("cluster-model", &["api"]),
    ("cluster-client", &["api", "error-core", "cluster-model"]),
    ("serve", &["cluster-client", "cluster-model", "printable", "transport"]),
    ("subresources", &["api", "cluster-client", "cluster-model", "launcher-client", "serve"]),
    ("admission", &["api", "cluster-client", "cluster-model", "serve", "subresources"]),
    ("virt-controller", &["api", "cluster-client", "fetch", "cluster-model", "serve", "transport"]),
    (
        "virt-handler",
        &[
            "api",
            "cluster-client",
            "container-disk",
            "error-core",
            "cluster-model",
            "launcher-client",
            "serve",
        ],
    ),
    ("cdi-uploadproxy", &["cluster-client", "cluster-model", "error-core", "serve", "transport"]),
    ("install", &["api", "cluster-model"]),
    ("virt-api", &["admission", "serve"]),
    ("kit", &["cluster-model", "transport"]),
    ("repo", &[]),
    (
        "local-vm",
        &[
            "api",
            "disk-format",
            "error-core",
            "guard",
            "printable",
            "storage",
            "container-disk",
            "cdi",
            "launcher-client",
        ],
    ),
    (
        "coracle",
        &[
            "api",
            "disk-format",
            "error-core",
            "fetch",
            "guard",
            "printable",
            "storage",
            "transport",
            "container-disk",
            "cdi",
            "launcher-client",
            "launcher",
            "install",
            "cluster-model",
            "local-vm",
        ],
    ),
    (
        "tests",
        &[
            "api",
            "disk-format",
            "fetch",
            "guard",
            "container-disk",
            "cdi",
            "launcher-client",
            "launcher",
            "cluster-model",
            "cluster-client",
            "serve",
            "admission",
            "virt-controller",
            "virt-handler",
            "install",
            "cdi-uploadproxy",
            "kit",
        ],
    ),
];

/// Top-level folders, and those whose packages their own may use: what two of them share lies in `lib/`. `src` holds the
/// packages `coracle` and `local-vm`; `coracle` prints the manifests of `controller/install`, and knows kinds and answers by
/// `controller/cluster-model`.
const FOLDERS: &[(&str, &[&str])] = &[
    ("lib", &["lib"]),
    ("container-disk", &["lib"]),
    ("cdi", &["lib", "container-disk"]),
    ("launcher", &["lib"]),
    ("controller", &["lib", "container-disk", "controller"]),
    ("src", &["lib", "container-disk", "cdi", "launcher", "controller", "src"]),
    ("tests", &[]),
];

/// Packages of ours that a package uses in its own tests beside those that it may use anyway.
const IN_TESTS: &[(&str, &[&str])] = &[
    ("admission", &["kit"]),
    ("cluster-client", &["kit"]),
    // The histories of a cluster are played with virt-handler's own decisions.
    ("virt-controller", &["kit", "virt-handler"]),
    ("virt-api", &["api", "cluster-client", "cluster-model", "kit"]),
    ("virt-handler", &["kit"]),
    ("serve", &["kit"]),
    ("subresources", &["kit"]),
    // The walk of an upload is decided by virt-controller, and judged by the webhook.
    ("cdi-uploadproxy", &["admission", "api", "kit", "virt-controller"]),
];

/// Crates of others that a package of ours must not use itself, and why.
const ABSENT: &[(&str, &[&str], &str)] = &[
    ("api", &["kube", "kube-client", "tokio", "reqwest", "hyper"], "it holds types: no client, no I/O"),
    ("disk-format", &["kube", "tokio", "reqwest", "hyper"], "it holds formats: no network, no runtime"),
    ("disk-format", &["qcow2-rs"], "it faults on bad images; only tests may ask it"),
    (
        "fetch",
        &["kube", "kube-client", "k8s-openapi", "oci-client"],
        "it knows HTTP, neither Kubernetes nor images",
    ),
    ("guard", &["kube", "tokio", "reqwest", "hyper"], "it gives rights up: no network, no runtime"),
    (
        "storage",
        &["kube", "tokio", "reqwest", "hyper"],
        "it reads the lists of the kernel: no network, no runtime",
    ),
    ("container-disk", &["kube", "kube-client", "k8s-openapi"], "it knows OCI, not Kubernetes"),
    ("cdi", &["kube", "kube-client"], "only controller/ holds a Kubernetes client"),
    (
        "transport",
        &["kube", "kube-client", "reqwest"],
        "it knows HTTP between our programs, neither Kubernetes nor foreign servers",
    ),
    ("launcher-client", &["kube", "kube-client", "virt", "virt-sys"], "virt-handler and coracle link it"),
    ("launcher", &["kube", "kube-client"], "only controller/ holds a Kubernetes client"),
    (
        "launcher",
        &["rustls", "tokio-rustls"],
        "there is one in each pod: no TLS, its clients are on its node",
    ),
    ("cluster-model", &["kube", "kube-client", "tokio", "hyper"], "it holds values: no client, no I/O"),
    ("install", &["kube", "kube-client", "tokio", "hyper"], "coracle links it, and asks no API server"),
    ("local-vm", &["virt", "virt-sys", "clap", "indicatif"], "a library: no command line, no libvirt"),
    ("coracle", &["virt", "virt-sys"], "only virt-launcher links libvirt"),
];

/// Crates that make an HTTP client, or a runtime for one, in the packages about bytes. Only `fetch` may use
/// them, so that TLS, redirects and the use of logins are decided in one place.
const MAKES_CLIENTS: &[&str] = &[
    "reqwest::Client",
    "reqwest::blocking",
    "reqwest::get(",
    "Client::builder(",
    "ClientBuilder",
    "redirect::Policy::none",
    "hyper::client",
    "hyper_util::client",
    "new_multi_thread(",
    "new_current_thread(",
    "Runtime::new(",
];
const FETCH: &str = "lib/fetch/src/";
const FETCHES: &[&str] = &[
    "cdi/",
    "container-disk/",
    "lib/disk-format/",
    "lib/error-core/",
    "lib/guard/",
    "lib/printable/",
    "src/",
];
/// The folder of the requests to a cluster. They use kube's client, which supports the logins of kubeconfigs.
const ASKS_CLUSTERS: &str = "src/virt/";

/// Rust files that may be longer than [`LONGEST`] lines, each with its defence.
const LONG: &[(&str, &str)] = &[];
const LONGEST: usize = 600;

/// Folders of tests, whose files must each be part of a test target.
const SUITES: &[&str] = &["tests/repo", "tests/sim", "tests/local", "tests/e2e"];

#[test]
fn arrows_between_our_packages_are_those_of_the_table() {
    let mut wrong = Vec::new();
    for package in packages() {
        let name = text(&package["name"]);
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            wrong.push(format!("package {name} is not in the table ARROWS"));
            continue;
        };
        for dependency in list(&package["dependencies"]) {
            let target = text(&dependency["name"]);
            let ours = ARROWS.iter().any(|(known, _)| *known == target);
            let is_dev = dependency["kind"] == "dev";
            let tested = IN_TESTS.iter().filter(|(known, _)| *known == name).flat_map(|(_, names)| *names);
            let in_tests = is_dev && (target == "tests" || tested.into_iter().any(|known| *known == target));
            if ours && !allowed.contains(&target.as_str()) && !in_tests {
                wrong.push(format!("{name} must not depend on {target}"));
            }
            for (_, names, reason) in ABSENT.iter().filter(|(known, ..)| *known == name && !is_dev) {
                if names.contains(&target.as_str()) {
                    wrong.push(format!("{name} must not use {target}: {reason}"));
                }
            }
        }
    }
    assert_none(&wrong);
}

/// virt-launcher, cdi-worker and `coracle` are built without TLS and HTTP/2 of the server for many clients.
#[test]
fn the_network_server_is_for_controller_alone() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for package in packages() {
        let used =
            list(&package["dependencies"]).into_iter().filter(|dependency| dependency["kind"] != "dev");
        for _ in used.filter(|one| one["name"] == "transport" && !list(&one["features"]).is_empty()) {
            seen += 1;
            let (name, folder) = (text(&package["name"]), folder_of(&package));
            wrong.extend(
                (folder != "controller").then(|| format!("{name} must use transport without features")),
            );
        }
    }
    assert!(seen >= 1, "controller/ uses the feature of transport; is it called otherwise now?");
    assert_none(&wrong);
}

#[test]
fn arrows_between_top_level_folders_point_down() {
    let mut wrong = Vec::new();
    let folders: BTreeMap<String, String> =
        packages().iter().map(|package| (text(&package["name"]), folder_of(package))).collect();
    for package in packages() {
        let (name, folder) = (text(&package["name"]), folder_of(&package));
        let Some((_, below)) = FOLDERS.iter().find(|(known, _)| *known == folder) else {
            wrong.push(format!("{folder}/, where package {name} is, is not in the table FOLDERS"));
            continue;
        };
        let used =
            list(&package["dependencies"]).into_iter().filter(|dependency| dependency["kind"] != "dev");
        for target in used.map(|dependency| text(&dependency["name"])) {
            if let Some(other) = folders.get(&target).filter(|other| !below.contains(&other.as_str())) {
                wrong.push(format!("{name} in {folder}/ must not use {target} in {other}/"));
            }
        }
    }
    assert_none(&wrong);
}

/// The top-level folder of a package; `src` for the one at the root.
fn folder_of(package: &Value) -> String {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let tree = fs::canonicalize(root()).expect("the root");
    let below = manifest.strip_prefix(tree).ok().and_then(Path::parent).expect("a manifest below the root");
    below.iter().next().map_or("src".to_owned(), |folder| folder.to_string_lossy().into_owned())
}

#[test]
fn clients_of_http_are_made_by_fetch_alone() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files().iter().filter(|file| is_rust(file)) {
        let name = short(file);
        let content = fs::read_to_string(file).unwrap();
        let made = MAKES_CLIENTS.iter().filter(|text| content.contains(**text));
        if name.starts_with(FETCH) {
            seen += made.count();
        } else if !name.starts_with(ASKS_CLUSTERS) && FETCHES.iter().any(|folder| name.starts_with(folder)) {
            wrong.extend(made.map(|text| format!("{name}: '{text}' belongs in {FETCH}")));
        }
    }
    assert!(seen >= 3, "fetch has a client and a runtime; are they called otherwise now?");
    assert_none(&wrong);
}

/// A package lists its kinds; sentence, hint, cause and the walk through the causes are those of `error-core`.
#[test]
fn errors_of_packages_are_made_around_one_core() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for file in files().iter().filter(|file| is_rust(file)) {
        let name = short(file);
        if name.starts_with("lib/error-core/") || name.starts_with("tests/repo/") {
            continue;
        }
        let content = fs::read_to_string(file).unwrap();
        seen += content.matches("error_core::error! {").count();
        seen += content.matches("error_core::bare_error! {").count();
        let own = ["pub struct Error {", "Error for Error {", " = cause.source();", " = next.source();"];
        wrong.extend(own.iter().filter(|text| content.contains(**text)).map(|text| {
            format!("{name}: '{text}': an error type is made by error-core, causes are walked by its chain and causes")
        }));
    }
    assert!(seen >= 8, "{seen} error types are made by error-core; are its macros called otherwise now?");
    assert_none(&wrong);
}

#[test]
fn packages_take_lints_and_versions_from_the_workspace() {
    let mut wrong = Vec::new();
    for package in packages() {
        let manifest = text(&package["manifest_path"]);
        let content = fs::read_to_string(&manifest).unwrap();
        if !content.contains("\n[lints]\nworkspace = true\n") {
            wrong.push(format!("{manifest}: [lints] must say workspace = true"));
        }
        let mut section = "";
        for line in content.lines() {
            if line.starts_with('[') {
                section = line;
            } else if section.contains("dependencies]")
                && section != "[workspace.dependencies]"
                && !line.is_empty()
                && !line.starts_with('#')
                && !line.contains("workspace = true")
            {
                wrong.push(format!("{manifest}: '{line}' must take its version from the workspace"));
            }
        }
    }
    assert_none(&wrong);
}

#[test]
fn no_test_file_is_forgotten() {
    let mut used: Vec<PathBuf> = packages()
        .iter()
        .flat_map(|package| list(&package["targets"]))
        .filter(|target| list(&target["kind"]).iter().any(|kind| kind == "test"))
        .map(|target| fs::canonicalize(text(&target["src_path"])).unwrap())
        .collect();
    // A file is used too when a used file beside or above it declares it as a module.
    let mut next = 0;
    while let Some(file) = used.get(next).cloned() {
        next += 1;
        used.extend(modules_of(&file));
    }
    let mut forgotten = Vec::new();
    for file in files().iter().filter(|file| is_rust(file)) {
        let inside = SUITES.iter().any(|suite| file.starts_with(root().join(suite)));
        if inside && !used.contains(file) {
            forgotten.push(format!("{} belongs to no [[test]]", short(file)));
        }
    }
    assert_none(&forgotten);
}

#[test]
fn files_of_rust_stay_small() {
    let mut wrong = Vec::new();
    let mut long = BTreeMap::new();
    for file in files().iter().filter(|file| is_rust(file)) {
        let lines = fs::read_to_string(file).unwrap().lines().count();
        if lines > LONGEST {
            long.insert(short(file), lines);
        }
    }
    for (file, lines) in &long {
        if !LONG.iter().any(|(known, _)| known == file) {
            wrong.push(format!("{file} has {lines} lines: split it by noun (or defend it in LONG)"));
        }
    }
    for (file, _) in LONG {
        if !long.contains_key(*file) {
            wrong.push(format!("{file} is short now: take it off the list LONG"));
        }
    }
    assert_none(&wrong);
}

#[test]
fn every_dependency_comes_from_the_registry_everyone_has() {
    let registry = "registry+https://github.com/rust-lang/crates.io-index";
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let sources = lock.lines().filter_map(|line| line.strip_prefix("source = "));
    let other: Vec<String> =
        sources.filter(|source| source.trim_matches('"') != registry).map(str::to_owned).collect();
    assert_none(&other);
}

/// All requests of a program to the API server go through one module, which has the timeout, the metrics and
/// the guard against lost updates.
#[test]
fn requests_to_the_api_server_are_sent_by_one_module() {
    let asks = ["request::<", "request_events", "request_text", "/apis/", "-patch+json"];
    let mut wrong = Vec::new();
    let is_ours = |name: &str| name.starts_with("controller/") && name.contains("/src/");
    for file in files().into_iter().filter(|file| is_ours(&short(file)) && is_rust(file)) {
        let name = short(&file);
        let own = ["/cluster-client/", "/fuzz/", "/kit/", "/objects/", "/tests/"];
        if own.iter().any(|own| name.contains(own)) {
            continue;
        }
        // The aggregated API answers at such paths.
        let answers = |ask: &str| ask == "/apis/" && name.contains("/subresources/");
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let is_asking = asks.iter().any(|ask| line.contains(ask) && !answers(ask));
            if is_asking && !line.trim_start().starts_with("//") {
                wrong.push(format!("{name}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert_none(&wrong);
}

/// A release is as careful as a test with foreign input. Generic and inlined code is checked with the flags
/// of the crate that uses it, so those users of `disk-format` that read images are listed too.
#[test]
fn a_release_checks_the_sums_of_what_reads_images() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("the root manifest");
    for package in ["disk-format", "fetch", "cdi", "container-disk"] {
        let head = format!("[profile.release.package.{package}]");
        let (_, section) = manifest.split_once(&head).unwrap_or_else(|| panic!("no {head} in Cargo.toml"));
        let section = section.split("\n[").next().unwrap_or_default();
        assert!(section.lines().any(|line| line == "overflow-checks = true"), "{head} checks no sums");
    }
}

#[test]
fn scripts_can_be_run_and_stop_at_the_first_fault() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut wrong = Vec::new();
    for file in files() {
        let Ok(content) = fs::read_to_string(&file) else { continue };
        if !content.starts_with("#!") {
            continue;
        }
        if fs::metadata(&file).unwrap().permissions().mode() & 0o111 == 0 {
            wrong.push(format!("{} has a #! line but may not be run", short(&file)));
        }
        let is_bash = content.lines().next().is_some_and(|line| line.ends_with("bash"));
        if is_bash && !content.contains("\nset -euo pipefail\n") {
            wrong.push(format!("{} does not say set -euo pipefail", short(&file)));
        }
    }
    assert_none(&wrong);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the workspace above tests/repo/")
        .to_owned()
}

fn short(file: &Path) -> String {
    file.strip_prefix(root()).unwrap_or(file).display().to_string()
}

fn is_rust(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "rs")
}

/// The workspace as cargo sees it.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--locked", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    list(&metadata["packages"])
}

/// Every file of the tree: not git's, not what was built.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() && !path.is_symlink() {
                let built = [".git", ".cache", "target", "corpus", "artifacts"].contains(&name)
                    || path.join("CACHEDIR.TAG").exists();
                if !built {
                    folders.push(path);
                }
            } else if path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The files that `file` declares with `mod name;`, wherever Rust lets them lie, or a `#[path]` puts them.
fn modules_of(file: &Path) -> Vec<PathBuf> {
    let content = fs::read_to_string(file).unwrap_or_default();
    let folder = file.parent().expect("a file has a folder");
    let own = folder.join(file.file_stem().expect("a file has a name"));
    let mut found = vec![];
    let mut put = None;
    for line in content.lines().map(str::trim) {
        let item = match line.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => rest.split_once(") ").map_or(rest, |(_, item)| item),
            Some(rest) => rest.trim_start(),
            None => line,
        };
        if let Some(name) = item.strip_prefix("mod ").and_then(|name| name.strip_suffix(';')) {
            match put.take() {
                Some(path) => found.push(folder.join(path)),
                None => found.extend(
                    [folder, &own]
                        .into_iter()
                        .flat_map(|base| [base.join(format!("{name}.rs")), base.join(name).join("mod.rs")]),
                ),
            }
        }
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            put = Some(path);
        } else if !line.starts_with("#[") {
            put = None;
        }
    }
    found.retain(|path| path.is_file());
    found
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().expect("a list")
}

#[track_caller]
fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n  {}", faults.len(), faults.join("\n  "));
}
