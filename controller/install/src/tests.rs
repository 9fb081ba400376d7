use super::*;
use std::collections::BTreeSet;

pub(super) fn options() -> InstallOptions {
    InstallOptions {
        namespace: "kubevirt".into(),
        registry: "registry.example/coracle".into(),
        version: "1.2.3".into(),
        pull_policy: None,
        pull_secret: None,
    }
}

#[test]
fn every_object_has_a_name_of_its_own_and_none_is_the_settings() {
    let mut seen = BTreeSet::new();
    for object in objects(&options()) {
        let key =
            format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
        assert_ne!(object["kind"], "KubeVirt");
        assert!(seen.insert(key.clone()), "twice: {key}");
    }
}

#[test]
fn what_was_wished_is_in_every_place() {
    let options = InstallOptions {
        namespace: "elsewhere".into(),
        pull_policy: Some("Always".into()),
        pull_secret: Some("key".into()),
        ..options()
    };
    let text = objects(&options).iter().map(Value::to_string).collect::<String>();
    assert!(!text.contains(r#""namespace":"kubevirt""#));
    for object in objects(&options) {
        let spec = &object["spec"]["template"]["spec"];
        let lists =
            ["containers", "initContainers"].map(|name| spec[name].as_array().cloned().unwrap_or_default());
        for container in lists.into_iter().flatten() {
            let image = container["image"].as_str().unwrap();
            let name =
                image.strip_prefix("registry.example/coracle/").and_then(|rest| rest.strip_suffix(":1.2.3"));
            let is_ours = name.is_some_and(|name| name.starts_with("virt-") || name == "cdi-uploadproxy");
            assert!(is_ours, "{image}");
            assert_eq!(container["imagePullPolicy"], "Always");
            assert_eq!(spec["imagePullSecrets"][0]["name"], "key");
        }
    }
}

/// Guides for upstream's CDI look for the Service by this label.
#[test]
fn the_service_of_uploads_has_upstreams_label() {
    let objects = objects(&options());
    let labelled = objects.iter().filter(|object| {
        object["kind"] == "Service" && object["metadata"]["labels"]["cdi.kubevirt.io"] == "cdi-uploadproxy"
    });
    let names: Vec<&Value> = labelled.map(|service| &service["metadata"]["name"]).collect();
    assert_eq!(names, ["cdi-uploadproxy"]);
}

/// All rights of each account: a new right must be added here, too.
#[test]
fn each_account_may_do_this_and_nothing_else() {
    let objects = objects(&options());
    let list = |list: &Value| {
        let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(",")
    };
    let mut table = String::new();
    for role in objects.iter().filter(|object| object["rules"].is_array()) {
        let name = role["metadata"]["name"].as_str().unwrap();
        if !name.starts_with("kubevirt-") && name != "cdi-uploadproxy" {
            continue;
        }
        let place = role["metadata"]["namespace"].as_str().unwrap_or("*");
        for rule in role["rules"].as_array().unwrap() {
            let mut what = list(&rule["resources"]);
            if !rule["resourceNames"].is_null() {
                what += &format!("[{}]", list(&rule["resourceNames"]));
            }
            let line =
                format!("{} {place} {what} {}\n", name.trim_start_matches("kubevirt-"), list(&rule["verbs"]));
            table.push_str(&line);
        }
    }
    // Bindings to roles of the cluster.
    for binding in objects.iter().filter(|object| object["roleRef"].is_object()) {
        let (name, to) = (binding["metadata"]["name"].as_str().unwrap(), &binding["roleRef"]);
        let is_ours = objects.iter().any(|object| {
            object["rules"].is_array()
                && object["kind"] == to["kind"]
                && object["metadata"]["name"] == to["name"]
        });
        if !is_ours {
            let account = binding["subjects"][0]["name"].as_str().unwrap().trim_start_matches("kubevirt-");
            let place = binding["metadata"]["namespace"].as_str().unwrap_or("*");
            let role = to["name"].as_str().unwrap();
            table.push_str(&format!("{account} {place} ({role} by {name})\n"));
        }
    }
    assert_eq!(
        table,
        include_str!("accounts.txt"),
        "what an account may do is another; the left is what is installed"
    );
}

/// Rights on Secrets, webhooks, APIServices, Leases and ConfigMaps are restricted by name. The exception are
/// the Secrets of upload pods, which a policy restricts, and which are never read.
#[test]
fn what_is_sensitive_is_granted_by_name() {
    let sensitive = [
        "secrets",
        "configmaps",
        "leases",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "apiservices",
    ];
    let mut seen = 0;
    for role in objects(&options()).iter().filter(|object| object["rules"].is_array()) {
        for rule in role["rules"].as_array().unwrap() {
            // A rule may be about paths instead of objects.
            let mut of = rule["resources"].as_array().into_iter().flatten();
            if of.any(|resource| sensitive.contains(&resource.as_str().unwrap())) {
                seen += 1;
                let named = rule["resourceNames"].as_array().is_some_and(|names| !names.is_empty());
                let uploads = rule["resources"] == json!(["secrets"])
                    && rule["verbs"] == json!(["create", "delete", "patch"])
                    && role["metadata"]["name"] == "kubevirt-controller";
                assert!(named || uploads || rule["verbs"] == json!(["create"]), "{rule}");
            }
        }
    }
    assert!(seen >= 11, "{seen} rules");
}

/// The key of the CA is in one of these Secrets, and would permit impersonating virt-api.
#[test]
fn a_program_reads_no_secret_but_its_own() {
    let roles: Vec<Value> =
        objects(&options()).into_iter().filter(|object| object["kind"] == "Role").collect();
    for (account, secret) in [
        ("kubevirt-apiserver", "kubevirt-virt-api-certs"),
        ("kubevirt-handler", "kubevirt-virt-handler-server-certs"),
        ("cdi-uploadproxy", "cdi-uploadproxy-server-cert"),
    ] {
        let role = roles.iter().find(|role| role["metadata"]["name"] == account).unwrap();
        let rules = role["rules"].as_array().unwrap();
        let of_secrets: Vec<&Value> =
            rules.iter().filter(|rule| rule["resources"] == json!(["secrets"])).collect();
        assert_eq!(of_secrets.len(), 1, "{role}");
        assert_eq!(of_secrets[0]["resourceNames"], json!([secret]));
        assert_eq!(of_secrets[0]["verbs"], json!(["list", "watch"]));
    }
}
