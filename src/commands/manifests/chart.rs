//! The manifests as a Helm chart.
//!
//! ```text
//!  options with placeholders `<helm …>` ─ objects ─► YAML ─ `{{` escaped ─ placeholders become actions ─► templates/
//! ```
//!
//! The objects are those of [`objects`], so that the chart cannot differ from the manifests. Placeholders
//! contain characters that YAML must quote, so that a namespace `123` stays a string; `values.schema.json`
//! permits neither quotes nor line breaks in values.
//!
//! - **The Namespace** is left out: Helm keeps the release in it, so it exists already, and Helm does not
//!   adopt existing objects.
//! - **CustomResourceDefinitions** are templates, since Helm never upgrades what is in `crds/`; with the
//!   policy `keep`, since without them all VMs are deleted.
//! - **The KubeVirt object** is left out, as in the manifests: Helm maps every kind before it creates the
//!   definitions, and virt-controller creates the object. Replicas and placement are set in it.

use super::folder::{File, MARK, marked, split};
use install::{InstallOptions, objects};
use serde_json::{Value, json};

/// Folder of the templates.
pub(super) const TEMPLATES: &str = "templates";
/// Annotation by which Helm never deletes an object.
const POLICY: (&str, &str) = ("helm.sh/resource-policy", "keep");

const NAMESPACE: (&str, &str) = ("<helm namespace>", "{{ .Release.Namespace }}");
const REGISTRY: (&str, &str) = ("<helm registry>", "{{ .Values.registry }}");
const VERSION: (&str, &str) = ("<helm version>", "{{ .Values.version | default .Chart.AppVersion }}");
const PULL_POLICY: (&str, &str) = ("<helm policy>", "{{ .Values.imagePullPolicy }}");
const PULL_SECRET: (&str, &str) = ("<helm secret>", "{{ .Values.imagePullSecret }}");
/// Template expressions for literal braces.
const BRACES: (&str, &str) = ("{{", r#"{{ "{{" }}"#);
const BRACE: (&str, &str) = ("{", r#"{{ "{" }}"#);

/// All files, `Chart.yaml` first. `defaults` become the default values; the namespace is that of the release.
pub(super) fn files(defaults: &InstallOptions) -> Vec<File> {
    let mut files = vec![
        marked("Chart.yaml", &about(defaults)),
        marked("values.yaml", &values(defaults)),
        ("values.schema.json".into(), format!("{:#}\n", schema())),
        ("README.md".into(), format!("<!-- {MARK} -->\n{}", include_str!("chart/README.md"))),
        (
            format!("{TEMPLATES}/NOTES.txt"),
            format!("{{{{- /* {MARK} */ -}}}}\n{}", include_str!("chart/NOTES.txt")),
        ),
    ];
    let mut objects = objects(&InstallOptions {
        namespace: NAMESPACE.0.into(),
        registry: REGISTRY.0.into(),
        version: VERSION.0.into(),
        pull_policy: Some(PULL_POLICY.0.into()),
        pull_secret: Some(PULL_SECRET.0.into()),
    });
    objects.retain(|object| object["kind"] != "Namespace");
    for object in objects.iter_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
        object["metadata"]["annotations"][POLICY.0] = json!(POLICY.1);
    }
    files.extend(split(TEMPLATES, &objects).into_iter().map(|(path, yaml)| (path, template(&yaml))));
    files
}

fn about(defaults: &InstallOptions) -> String {
    // A JSON string is also a YAML string.
    format!(
        "apiVersion: v2\nname: coracle\ndescription: KubeVirt and CDI compatible control plane for VMs\ntype: application\n\
         version: {}\nappVersion: {}\nkubeVersion: \">=1.30.0-0\"\n",
        env!("CARGO_PKG_VERSION"),
        json!(defaults.version),
    )
}

fn values(defaults: &InstallOptions) -> String {
    let text = |value: &Option<String>| json!(value.as_deref().unwrap_or_default());
    format!(
        "# The next run replaces this file: keep your own values in another, for `helm install --values`.\n\n\
         # Registry of the images, with an optional path.\nregistry: {}\n\n\
         # Tag of the images. Empty: appVersion of the chart.\nversion: \"\"\n\n\
         # Image pull policy: Always, IfNotPresent or Never. Empty: the default of Kubernetes.\nimagePullPolicy: {}\n\n\
         # Image pull Secret in the namespace of the release. Empty: none.\nimagePullSecret: {}\n",
        json!(defaults.registry.trim_end_matches('/')),
        text(&defaults.pull_policy),
        text(&defaults.pull_secret),
    )
}

/// JSON schema of the values. An unknown value is an error; `global` is set by Helm itself.
fn schema() -> Value {
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": MARK,
        "type": "object",
        "additionalProperties": false,
        "required": ["registry"],
        "properties": {
            "global": {"type": "object"},
            "registry": {"type": "string", "pattern": "^[A-Za-z0-9\\[][A-Za-z0-9._:/\\[\\]-]*[A-Za-z0-9\\]]$"},
            "version": {"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"},
            "imagePullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
            "imagePullSecret": {"type": "string", "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"},
        },
    })
}

/// YAML with placeholders as a template.
fn template(yaml: &str) -> String {
    let mut text = conditional(&yaml.replace(BRACES.0, BRACES.1));
    for (sign, action) in [NAMESPACE, REGISTRY, VERSION, PULL_POLICY, PULL_SECRET] {
        text = put(&text, sign, action);
    }
    text
}

/// Makes lines conditional that need a value: two fields, and the Secret in the annotation that repeats it.
fn conditional(yaml: &str) -> String {
    let begin = |(_, action): (&str, &str)| action.replacen("{{ ", "{{- if ", 1);
    let mut text = String::new();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        let word = line.trim_start();
        let mut whole = format!("{line}\n");
        let of = if word.starts_with("imagePullPolicy:") && line.contains(PULL_POLICY.0) {
            Some(PULL_POLICY)
        } else if word == "imagePullSecrets:" && lines.peek().is_some_and(|next| next.contains(PULL_SECRET.0))
        {
            whole += &lines.next().map(|next| format!("{next}\n")).unwrap_or_default();
            Some(PULL_SECRET)
        } else {
            None
        };
        match of {
            Some(of) => text += &format!("{}\n{whole}{{{{- end }}}}\n", begin(of)),
            None => text += &whole,
        }
    }
    let repeated = format!(r#"\"imagePullSecrets\":[{{\"name\":\"{}\"}}],"#, PULL_SECRET.0);
    let action = format!("{{{{ if .Values.imagePullSecret }}}}{repeated}{{{{ end }}}}");
    put(&text, &repeated, &action)
}

/// Replaces each placeholder by an action. A brace in front of it is escaped, since it would become part of
/// the action.
fn put(text: &str, sign: &str, action: &str) -> String {
    let mut whole = String::new();
    for (i, part) in text.split(sign).enumerate() {
        if i > 0 {
            if whole.ends_with('{') {
                whole.pop();
                whole += BRACE.1;
            }
            whole += action;
        }
        whole += part;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::yaml::parse;
    use std::collections::BTreeMap;

    /// Helm's output for one of our templates with these values.
    fn rendered(template: &str, wishes: &InstallOptions) -> String {
        let mut text = template.to_owned();
        let optional = [(PULL_POLICY, &wishes.pull_policy), (PULL_SECRET, &wishes.pull_secret)];
        for ((_, action), value) in optional {
            for (begin, end) in [("\n{{- if ", "\n{{- end }}"), ("{{ if ", "{{ end }}")] {
                let begin = action.replacen("{{ ", begin, 1);
                while let Some(at) = text.find(&begin) {
                    let to = at + text[at..].find(end).unwrap();
                    let inner = text[at + begin.len()..to].to_owned();
                    let inner = if value.is_some() { inner } else { String::new() };
                    text = format!("{}{inner}{}", &text[..at], &text[to + end.len()..]);
                }
            }
            text = text.replace(action, value.as_deref().unwrap_or_default());
        }
        for ((_, action), value) in
            [(NAMESPACE, &wishes.namespace), (REGISTRY, &wishes.registry), (VERSION, &wishes.version)]
        {
            text = text.replace(action, value);
        }
        let text = text.replace(BRACE.1, "\u{1}").replace(BRACES.1, "\u{2}");
        assert!(!text.contains("{{") && !text.contains("<helm"), "{text}");
        text.replace('\u{1}', "{").replace('\u{2}', "{{")
    }

    fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
        let key = |object: &Value| {
            let meta = &object["metadata"];
            format!("{} {} {}", object["kind"], meta["namespace"], meta["name"])
        };
        objects.into_iter().map(|object| (key(&object), object)).collect()
    }

    #[test]
    fn a_rendered_chart_is_the_stream() {
        let plain = super::super::tests::wishes();
        let whole = InstallOptions {
            namespace: "123".into(),
            pull_policy: Some("Always".into()),
            pull_secret: Some("key".into()),
            ..plain.clone()
        };
        let files = files(&plain);
        for wishes in [plain, whole] {
            let mut found = Vec::new();
            for (_, text) in
                files.iter().filter(|(path, _)| path.ends_with(".yaml") && path.starts_with(TEMPLATES))
            {
                let documents = parse(&rendered(text, &wishes)).unwrap();
                found.extend(documents.into_iter().map(|document| document.value));
            }
            for object in found.iter_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
                let notes = object["metadata"]["annotations"].as_object_mut().unwrap();
                assert_eq!(notes.remove(POLICY.0), Some(json!(POLICY.1)));
            }
            let found = by_name(found);
            let mut wanted = objects(&wishes);
            wanted.retain(|object| object["kind"] != "Namespace");
            let wanted = by_name(wanted);
            assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
            for (name, object) in wanted {
                assert!(found[&name] == object, "{name}:\n{:#}\n{object:#}", found[&name]);
            }
        }
    }

    #[test]
    fn braces_of_objects_are_no_actions() {
        assert_eq!(
            template("a: \"{{ b }} {<helm namespace>\"\n"),
            "a: \"{{ \"{{\" }} b }} {{ \"{\" }}{{ .Release.Namespace }}\"\n"
        );
    }

    #[test]
    fn values_are_those_that_were_named_and_the_schema_knows_each() {
        let wishes = InstallOptions { pull_secret: Some("key".into()), ..super::super::tests::wishes() };
        let values = parse(&values(&wishes)).unwrap().remove(0).value;
        assert_eq!(
            values,
            json!({"registry": "registry.example/coracle", "version": "", "imagePullPolicy": "", "imagePullSecret": "key"})
        );
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        for name in values.as_object().unwrap().keys() {
            assert!(schema["properties"][name].is_object(), "{name}");
        }
        let about = parse(&about(&wishes)).unwrap().remove(0).value;
        assert_eq!(about["appVersion"], "1.2.3");
    }
}
