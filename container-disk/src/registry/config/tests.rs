//! Tables of names and the endpoints that they lead to.

use super::*;
use std::fs;
use std::path::Path;

fn ours(text: &str) -> Result<Config> {
    let hosts = file::parse(Path::new("/etc/coracle/registries.toml"), text)?;
    Ok(Config { hosts, ..Config::default() })
}

fn theirs(text: &str) -> Config {
    Config { theirs: conf::Conf::of(text).unwrap(), ..Config::default() }
}

/// `address/repository` of all endpoints, in order.
fn asked(config: &Config, host: &str, repository: &str) -> Vec<String> {
    let route = config.route(host, repository).unwrap();
    route.endpoints.iter().map(|e| format!("{}/{}", e.address, e.repository)).collect()
}

#[test]
fn without_a_file_a_host_is_asked_itself() {
    let config = Config::default();
    assert_eq!(asked(&config, "quay.io", "a/b"), ["quay.io/a/b"]);
    assert_eq!(asked(&config, "docker.io", "debian"), ["registry-1.docker.io/library/debian"]);
    assert_eq!(asked(&config, "docker.io", "me/debian"), ["registry-1.docker.io/me/debian"]);
    let route = config.route("quay.io", "a").unwrap();
    assert_eq!((route.terms, &route.endpoints[0].access), (Terms::default(), &Access::default()));
    assert!(route.endpoints[0].origin);
}

#[test]
fn mirrors_are_asked_by_priority_and_then_the_host() {
    let config = ours(
        r#"
        [host."h:5000"]
        ca = "h.pem"
        min-rate = "1MiB"
        patience = "5s"
        upload = { chunks = "16MiB" }
        [[host."h:5000".mirror]]
        host = "Second.local"
        priority = 2
        credentials = "none"
        [[host."h:5000".mirror]]
        host = "first.local:81"
        priority = 1
        plain-http = true
        credentials = { helper = "ecr-login" }
        rewrite = { from = "team/", to = "cache/team/" }
        for = "digests"
        "#,
    )
    .unwrap();
    let all = ["first.local:81/cache/team/os", "second.local/team/os", "h:5000/team/os"];
    assert_eq!(asked(&config, "h:5000", "team/os"), all);
    assert_eq!(asked(&config, "h:5000", "os"), ["second.local/os", "h:5000/os"], "another prefix");
    let route = config.route("h:5000", "team/os").unwrap();
    let [first, second, own] = &route.endpoints[..] else { panic!("three") };
    assert_eq!(first.access.scheme, Scheme::Plain);
    assert_eq!(first.access.credentials, Source::Helper("ecr-login".into()));
    assert_eq!((first.asks, second.asks), (MirrorUse::Digests, MirrorUse::All));
    assert_eq!(second.access.credentials, Source::Nothing);
    assert_eq!(own.access.ca, [Path::new("/etc/coracle/h.pem")], "beside the file");
    assert!(own.origin && !first.origin);
    assert_eq!((route.terms.min_rate, route.terms.patience.as_secs()), (1 << 20, 5));
    assert_eq!(route.terms.upload, UploadMethod::Chunks(16 << 20));
}

#[test]
fn without_fallback_the_host_is_not_asked() {
    let config = ours(
        "[host.h]\nfallback = false\n[[host.h.mirror]]\nhost = \"m\"\nrewrite = { from = \"a/\", to = \"\" }",
    )
    .unwrap();
    assert_eq!(asked(&config, "h", "a/b"), ["m/b"]);
    let e = config.route("h", "c").unwrap_err();
    assert!(e.to_string().contains("fallback is false"), "{e}");
}

#[test]
fn what_we_do_not_understand_in_our_file_is_an_error_that_names_it() {
    for (text, says) in [
        ("[host.h]\ncolour = 1", "line 2: unknown field `colour`"),
        ("[hosts.h]", "unknown field `hosts`"),
        ("[[host.h.mirror]]\nhost = \"m\"\nprio = 1", "line 3: unknown field `prio`"),
        ("[[host.h.mirror]]\npriority = 1", "missing field `host`"),
        ("[[host.h.mirror]]\nhost = \"http://m\"", "is not a host name"),
        ("[host.h]\nmin-rate = \"fast\"", "is not a size"),
        ("[host.h]\npatience = \"0s\"", "is not a time"),
        ("[host.h]\nupload = \"pigeon\"", "expected \"stream\""),
        ("[host.h]\nupload = { chunks = \"1GiB\" }", "16 MiB"),
        ("[host.h]\nclient-cert = \"c\"", "go together"),
        ("[host.h]\nfallback = false", "no registry is left"),
        ("[host.h]\ncredentials = \"secret\"", "unknown variant `secret`"),
        ("not toml", "line 1"),
    ] {
        let e = ours(text).unwrap_err();
        assert!(e.to_string().contains(says), "{text}: {e}");
        assert!(e.to_string().contains("/etc/coracle/registries.toml"), "{e}");
        assert_eq!(e.kind(), crate::ErrorKind::Usage);
    }
}

#[test]
fn registries_conf_leads_names_elsewhere() {
    let config = theirs(
        r#"
        unqualified-search-registries = ["docker.io"]
        colour = "red"
        [[registry]]
        prefix = "h/team"
        location = "inner:5000/t"
        insecure = true
        [[registry.mirror]]
        location = "m/x"
        pull-from-mirror = "digest-only"
        [[registry.mirror]]
        location = "n"
        [[registry]]
        location = "h"
        mirror-by-digest-only = true
        [[registry.mirror]]
        location = "o"
        [[registry]]
        prefix = "*.wild.example"
        [[registry]]
        location = "bad.example"
        blocked = true
        "#,
    );
    assert_eq!(asked(&config, "h", "team/os"), ["m/x/os", "n/os", "inner:5000/t/os"]);
    assert_eq!(asked(&config, "h", "teams/os"), ["o/teams/os", "h/teams/os"], "a prefix ends at a slash");
    assert_eq!(asked(&config, "a.wild.example", "os"), ["a.wild.example/os"]);
    assert_eq!(asked(&config, "else", "os"), ["else/os"]);
    let route = config.route("h", "team/os").unwrap();
    assert_eq!(route.endpoints[0].asks, MirrorUse::Digests);
    assert_eq!(
        (route.endpoints[2].access.scheme, route.endpoints[2].access.insecure),
        (Scheme::Either, true)
    );
    assert_eq!(config.route("h", "x").unwrap().endpoints[0].asks, MirrorUse::Digests);
    assert!(config.route("bad.example", "os").unwrap_err().to_string().contains("blocked"));
}

#[test]
fn files_are_read_in_order_and_ours_counts_more_than_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let places = SettingsPaths {
        ours: vec![at("system.toml"), at("user.toml")],
        conf: vec![at("registries.conf"), at("missing.conf")],
        conf_d: vec![at("conf.d")],
        certs_d: vec![at("certs.d")],
    };
    let mirror = |name: &str| format!("[[host.h.mirror]]\nhost = \"{name}\"\n");
    fs::write(at("system.toml"), mirror("system") + "[host.only]\nplain-http = true\n").unwrap();
    fs::write(at("user.toml"), mirror("user")).unwrap();
    fs::write(at("registries.conf"), "[[registry]]\nlocation = \"h\"\nblocked = true\n").unwrap();
    fs::create_dir(at("conf.d")).unwrap();
    fs::write(at("conf.d/1.conf"), "[[registry]]\nprefix = \"t\"\nlocation = \"one\"\n").unwrap();
    fs::write(at("conf.d/2.conf"), "[[registry]]\nprefix = \"t\"\nlocation = \"two\"\n").unwrap();
    fs::create_dir_all(at("certs.d/two")).unwrap();
    fs::write(at("certs.d/two/ca.crt"), "").unwrap();
    let config = Config::read(&places, None).unwrap();
    assert_eq!(asked(&config, "h", "os"), ["user/os", "h/os"]);
    assert_eq!(asked(&config, "t", "os"), ["two/os"]);
    assert_eq!(config.route("t", "os").unwrap().endpoints[0].access.ca, [at("certs.d/two/ca.crt")]);
    assert_eq!(config.route("only", "os").unwrap().endpoints[0].access.scheme, Scheme::Plain);
    fs::write(at("given.toml"), mirror("given")).unwrap();
    let config = Config::read(&places, Some(&at("given.toml"))).unwrap();
    assert_eq!(asked(&config, "h", "os"), ["given/os", "h/os"]);
    let e = Config::read(&places, Some(&at("none.toml"))).unwrap_err();
    assert!(e.to_string().contains("do not exist"), "{e}");
}

#[test]
fn loopback_is_told_from_elsewhere() {
    for (address, is) in [
        ("localhost", true),
        ("localhost:5000", true),
        ("127.0.0.1:5000", true),
        ("127.8.8.8", true),
        ("[::1]:5000", true),
        ("10.0.0.1", false),
        ("localhost.example", false),
        ("127.0.0.1.example:80", false),
        ("[fe80::1]", false),
    ] {
        assert_eq!(fetch::is_loopback(address), is, "{address}");
    }
}

const DOCUMENT: &str = include_str!("../../../../docs/registries.md");

#[test]
fn the_examples_of_the_document_are_read() {
    let blocks: Vec<&str> =
        DOCUMENT.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 3);
    for block in &blocks {
        ours(block).unwrap_or_else(|e| panic!("{e}: {block}"));
    }
    let [near, own, cache] = blocks[..] else { panic!("three") };
    let (near, own, cache) = (ours(near).unwrap(), ours(own).unwrap(), ours(cache).unwrap());
    assert_eq!(asked(&near, "registry.example", "os"), ["mirror.local:5000/os", "registry.example/os"]);
    assert_eq!(asked(&cache, "registry.example", "team/os"), ["cache.corp.example/proxy/team/os"]);
    let route = own.route("registry.corp.example:8443", "os").unwrap();
    assert_eq!(route.endpoints[0].access.ca, [Path::new("/etc/coracle/corp.pem")]);
    assert_eq!(route.endpoints[0].access.credentials, Source::File("/run/secrets/registry.json".into()));
}

#[test]
fn the_document_has_every_key_and_the_true_defaults() {
    let row = |key: &str| {
        let has = |line: &&str| {
            let first = line.strip_prefix("| ").and_then(|line| line.split(" | ").next()).unwrap_or_default();
            first.split(", ").any(|name| name == format!("`{key}`"))
        };
        DOCUMENT.lines().find(has).unwrap_or_else(|| panic!("{key} is not in a table of docs/registries.md"))
    };
    // The parser's own list of keys.
    for table in ["[host.h]\nx = 1", "[[host.h.mirror]]\nhost = \"m\"\nx = 1"] {
        let e = ours(table).unwrap_err().to_string();
        let keys: Vec<&str> = e.split("expected one of ").nth(1).unwrap().split(", ").collect();
        assert!(keys.len() > 8, "{e}");
        for key in keys {
            row(key.trim_matches('`'));
        }
    }
    let terms = Terms::default();
    let toml = |value: &str| ours(&format!("[host.h]\n{value}")).unwrap().route("h", "r").unwrap().terms;
    for key in ["min-rate", "patience", "idle", "upload"] {
        let default = row(key).split(" | ").nth(1).unwrap().trim_matches('`');
        assert_eq!(toml(&format!("{key} = {default}")), terms, "{key}");
    }
}

/// The pod of an import would wait for years without a limit.
#[test]
fn in_a_cluster_the_only_registry_is_given_up_too_where_its_bytes_trickle() {
    let least =
        |readers| Config::default().read_by(readers).route("h.example", "os").unwrap().terms.least_rate;
    assert_eq!(least(Readers::User), None);
    assert_eq!(least(Readers::Cluster), Some(least_rate::WORKER_RATE));
}
