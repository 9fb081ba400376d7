//! Volumes of a VM from their flags, and the DataVolumes that are created with it.

use super::params::{Params, fault};
use super::{unused, usage};
use crate::error::{Error, Result};
use container_disk::Name;
use serde_json::{Map, Value, json};

/// Parameters of a volume that exists already.
const PLAIN: [&str; 3] = ["name", "src", "bootorder"];

/// Volumes of a VM, with their DataVolume templates and disks.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// Content of the field `spec.template.spec.volumes`.
    pub(super) volumes: Vec<Value>,
    /// Content of `spec.template.spec.domain.devices.disks`: disks with a boot order.
    pub(super) disks: Vec<Value>,
    /// Content of the field `spec.dataVolumeTemplates`.
    pub(super) templates: Vec<Value>,
}

impl Volumes {
    /// Adds a volume of type containerDisk.
    pub(super) fn container_disk(&mut self, vm: &str, number: usize, text: &str) -> Result<()> {
        let params = Params::parse("volume-containerdisk", text, &PLAIN)?;
        let image = params.must("src")?;
        if let Some(error) = elsewhere(&params, image) {
            return Err(error);
        }
        let name = params.get("name").map_or_else(|| format!("{vm}-containerdisk-{number}"), str::to_owned);
        self.add(&params, &name, "containerDisk", &json!({"image": image}))
    }

    /// Adds a PVC of the VM's namespace.
    pub(super) fn pvc(&mut self, text: &str) -> Result<()> {
        let params = Params::parse("volume-pvc", text, &PLAIN)?;
        let claim = params.local_source("pvc")?;
        let name = params.get("name").unwrap_or(claim);
        self.add(&params, name, "persistentVolumeClaim", &json!({"claimName": claim}))
    }

    /// Adds a DataVolume that is created with the VM.
    pub(super) fn import(&mut self, text: &str) -> Result<()> {
        let params = Params::parse_any("volume-import", text)?;
        let (source, known, optional_size) = source(&params)?;
        params.only(&[known, &["type", "name", "size", "bootorder"]].concat())?;
        let size = params.quantity("size")?;
        if size.is_none() && !optional_size {
            return Err(params.fault("size must be specified"));
        }
        let name = match params.get("name") {
            Some(name) => name.to_owned(),
            None => unused("imported-volume-")?,
        };
        let mut spec = source;
        spec["storage"] = match size {
            Some(size) => json!({"resources": {"requests": {"storage": size}}}),
            None => json!({"resources": {}}),
        };
        self.add(&params, &name, "dataVolume", &json!({"name": name}))?;
        self.templates.push(json!({"metadata": {"name": name}, "spec": spec}));
        Ok(())
    }

    /// Adds the files of Windows Sysprep.
    pub(super) fn sysprep(&mut self, text: &str) -> Result<()> {
        let params = Params::parse("volume-sysprep", text, &["src", "type"])?;
        let name = params.local_source("configmap or secret")?;
        let kind = params.get("type").unwrap_or("configmap");
        let field = match kind.to_lowercase().as_str() {
            "configmap" => "configMap",
            "secret" => "secret",
            _ => {
                let what = format!(
                    "invalid sysprep source type \"{kind}\", supported values are: configmap, secret"
                );
                return Err(params.fault(&what));
            }
        };
        self.add(&params, "sysprepdisk", "sysprep", &json!({field: {"name": name}}))
    }

    /// True if a volume has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.volumes.iter().any(|volume| volume["name"] == name)
    }

    /// Fails unless the volume of this name can have the labels of an instance type or a preference.
    pub(super) fn check_inference_volume(&self, name: &str) -> Result<()> {
        let Some(volume) = self.volumes.iter().find(|volume| volume["name"] == name) else {
            return Err(usage(format!("there is no volume with name \"{name}\"")));
        };
        if !volume["persistentVolumeClaim"].is_null() {
            return Ok(());
        }
        if volume["dataVolume"].is_null() {
            return Err(usage(
                "inference of instancetype or preference works only with DataSources, DataVolumes or PersistentVolumeClaims",
            ));
        }
        let made = self.templates.iter().find(|one| one["metadata"]["name"] == volume["dataVolume"]["name"]);
        let spec = made.map_or(&Value::Null, |made| &made["spec"]);
        let source = ["pvc", "registry", "snapshot"].iter().any(|kind| !spec["source"][kind].is_null());
        match source || spec["sourceRef"]["kind"] == "DataSource" {
            true => Ok(()),
            false => Err(usage(
                "this DataVolume is not valid to infer an instancetype or preference from (source needs to be PVC, Registry \
                 or Snapshot, sourceRef needs to be DataSource)",
            )),
        }
    }

    fn add(&mut self, params: &Params, name: &str, kind: &str, source: &Value) -> Result<()> {
        if !is_label(name) {
            let what = format!(
                "invalid name \"{name}\": a name has lower-case letters, digits and '-', up to 63 of them"
            );
            return Err(params.fault(&what));
        }
        if self.has(name) {
            return Err(params.fault(&format!("there is already a volume with name \"{name}\"")));
        }
        if let Some(order) = params.boot_order()? {
            if self.disks.iter().any(|disk| disk["bootOrder"] == order) {
                return Err(fault(params.flag(), &format!("bootorder {order} was specified multiple times")));
            }
            self.disks.push(json!({"name": name, "bootOrder": order}));
        }
        self.volumes.push(json!({"name": name, kind: source}));
        Ok(())
    }

    /// Name of the volume that the guest boots from: that of the lowest boot order, else the first.
    pub(super) fn first(&self) -> Option<&str> {
        let first = self.disks.iter().min_by_key(|disk| disk["bootOrder"].as_u64());
        first.or(self.volumes.first())?["name"].as_str()
    }
}

/// Error for an image that the nodes of a cluster cannot pull by this name.
fn elsewhere(params: &Params, image: &str) -> Option<Error> {
    // A host with the name of a scheme is recognized by its port.
    let (_, rest) = image.split_once(':')?;
    if rest.split_once('/').is_some_and(|(port, _)| port.parse::<u16>().is_ok()) {
        return None;
    }
    Some(match Name::with_scheme(image)?.ok()? {
        Name::Registry(remote) => {
            let error = params.fault(&format!("{image}: images of a cluster are named without docker://"));
            error.with_hint(format!("say src:{remote}"))
        }
        _ => {
            let what = format!("{image} is on this computer, and the nodes of a cluster cannot pull it");
            params.fault(&what).with_hint("push it by 'coracle push', and say src:HOST/NAME:TAG")
        }
    })
}

/// True for a DNS label.
fn is_label(name: &str) -> bool {
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 63
        && name.starts_with(ends)
        && name.ends_with(ends)
        && name.chars().all(|c| ends(c) || c == '-')
}

/// A parameter, its field in the source, and true if it is required.
type Field = (&'static str, &'static str, bool);

/// Sources of a DataVolume: value of `type`, field, and parameters.
const SOURCES: [(&str, &str, &[Field]); 5] = [
    ("gcs", "gcs", &[("url", "url", true), ("secretref", "secretRef", false)]),
    (
        "http",
        "http",
        &[
            ("url", "url", true),
            ("secretref", "secretRef", false),
            ("certconfigmap", "certConfigMap", false),
            ("extraheaders", "extraHeaders", false),
            ("secretextraheaders", "secretExtraHeaders", false),
        ],
    ),
    (
        "imageio",
        "imageio",
        &[
            ("url", "url", true),
            ("diskid", "diskId", true),
            ("secretref", "secretRef", false),
            ("certconfigmap", "certConfigMap", false),
        ],
    ),
    (
        "s3",
        "s3",
        &[("url", "url", true), ("secretref", "secretRef", false), ("certconfigmap", "certConfigMap", false)],
    ),
    (
        "vddk",
        "vddk",
        &[
            ("url", "url", true),
            ("uuid", "uuid", true),
            ("thumbprint", "thumbprint", true),
            ("secretref", "secretRef", true),
            ("backingfile", "backingFile", true),
            ("initimageurl", "initImageURL", false),
        ],
    ),
];
const REGISTRY: [Field; 5] = [
    ("url", "url", false),
    ("imagestream", "imageStream", false),
    ("pullmethod", "pullMethod", false),
    ("secretref", "secretRef", false),
    ("certconfigmap", "certConfigMap", false),
];

/// The source of a DataVolume, its permitted parameters, and true if its size is optional.
fn source(params: &Params) -> Result<(Value, &'static [&'static str], bool)> {
    const SRC: &[&str] = &["src"];
    let kind = params.must("type")?;
    match kind {
        "blank" => Ok((json!({"source": {"blank": {}}}), &[], false)),
        "pvc" | "snapshot" => match params.source()? {
            (Some(namespace), name) => {
                Ok((json!({"source": {kind: {"name": name, "namespace": namespace}}}), SRC, true))
            }
            (None, name) => Err(params.fault(&format!("namespace of {kind} \"{name}\" must be specified"))),
        },
        "ds" => {
            let (namespace, name) = params.source()?;
            let mut reference = json!({"kind": "DataSource", "name": name});
            if let Some(namespace) = namespace {
                reference["namespace"] = namespace.into();
            }
            Ok((json!({"sourceRef": reference}), SRC, true))
        }
        "registry" => {
            if params.get("url").is_some() == params.get("imagestream").is_some() {
                return Err(params.fault("exactly one of url or imagestream must be defined"));
            }
            if params.get("pullmethod").is_some_and(|method| !["pod", "node"].contains(&method)) {
                return Err(params.fault("pullmethod must be set to pod or node"));
            }
            const KNOWN: &[&str] = &["url", "imagestream", "pullmethod", "secretref", "certconfigmap"];
            Ok((json!({"source": {"registry": fields(params, kind, &REGISTRY)?}}), KNOWN, false))
        }
        _ => {
            let Some((_, field, known)) = SOURCES.iter().find(|(word, ..)| *word == kind) else {
                let what = format!(
                    "invalid volume import type \"{kind}\", supported values are: blank, ds, gcs, http, imageio, pvc, \
                     registry, s3, snapshot, vddk"
                );
                return Err(params.fault(&what));
            };
            const ALL: &[&str] = &[
                "url",
                "secretref",
                "certconfigmap",
                "extraheaders",
                "secretextraheaders",
                "diskid",
                "uuid",
                "thumbprint",
                "backingfile",
                "initimageurl",
            ];
            let foreign = ALL
                .iter()
                .find(|name| params.get(name).is_some() && !known.iter().any(|(param, ..)| param == *name));
            if let Some(name) = foreign {
                return Err(params.fault(&format!("unknown param(s): {name} with {kind} volume source")));
            }
            Ok((json!({"source": {*field: fields(params, kind, known)?}}), ALL, false))
        }
    }
}

fn fields(params: &Params, kind: &str, known: &[Field]) -> Result<Map<String, Value>> {
    let mut fields = Map::new();
    for (param, field, is_required) in known {
        let value = match (params.get(param), param.ends_with("extraheaders")) {
            (Some(_), true) => json!(params.list(param)),
            (Some(text), false) => json!(text),
            (None, _) if *is_required => {
                return Err(params.fault(&format!("{param} is required with {kind} volume source")));
            }
            (None, _) => continue,
        };
        fields.insert((*field).to_owned(), value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(text: &str) -> Result<Value> {
        let mut volumes = Volumes::default();
        volumes.import(text)?;
        Ok(volumes.templates.remove(0)["spec"].take())
    }

    #[test]
    fn every_type_of_import_becomes_its_source() {
        let sized = json!({"resources": {"requests": {"storage": "1Gi"}}});
        for (text, source) in [
            ("type:blank", json!({"blank": {}})),
            ("type:gcs,url:u,secretref:s", json!({"gcs": {"url": "u", "secretRef": "s"}})),
            (
                "type:http,url:https://h/a:b,extraheaders:a: b;c,certconfigmap:m",
                json!({"http": {"url": "https://h/a:b", "extraHeaders": ["a: b", "c"], "certConfigMap": "m"}}),
            ),
            ("type:imageio,url:u,diskid:d", json!({"imageio": {"url": "u", "diskId": "d"}})),
            ("type:pvc,src:n/p", json!({"pvc": {"namespace": "n", "name": "p"}})),
            ("type:snapshot,src:n/p", json!({"snapshot": {"namespace": "n", "name": "p"}})),
            (
                "type:registry,url:docker://r/i,pullmethod:node",
                json!({"registry": {"url": "docker://r/i", "pullMethod": "node"}}),
            ),
            ("type:s3,url:u", json!({"s3": {"url": "u"}})),
            (
                "type:vddk,url:u,uuid:i,thumbprint:t,secretref:s,backingfile:b",
                json!({"vddk": {"url": "u", "uuid": "i", "thumbprint": "t", "secretRef": "s", "backingFile": "b"}}),
            ),
        ] {
            let spec = import(&format!("{text},size:1Gi,name:d")).unwrap();
            assert_eq!((&spec["source"], &spec["storage"]), (&source, &sized), "{text}");
        }
        let spec = import("type:ds,src:n/d").unwrap();
        let reference = json!({"kind": "DataSource", "namespace": "n", "name": "d"});
        assert_eq!((&spec["sourceRef"], &spec["storage"]), (&reference, &json!({"resources": {}})));
    }

    #[test]
    fn an_import_that_lacks_something_says_what() {
        for (text, wanted) in [
            ("size:1Gi", "type must be specified"),
            ("type:tape,size:1Gi", "invalid volume import type \"tape\""),
            ("type:blank", "size must be specified"),
            ("type:http,size:1Gi", "url is required with http volume source"),
            ("type:gcs,url:u,uuid:x,size:1Gi", "unknown param(s): uuid with gcs"),
            ("type:blank,url:u,size:1Gi", "unknown param(s): url:u"),
            ("type:pvc,src:p", "namespace of pvc \"p\" must be specified"),
            ("type:registry,size:1Gi", "exactly one of url or imagestream"),
            ("type:registry,url:u,pullmethod:x,size:1Gi", "pullmethod must be set to pod or node"),
            ("type:vddk,url:u,size:1Gi", "uuid is required"),
        ] {
            let e = import(text).unwrap_err().to_string();
            assert!(e.contains(wanted), "{text}: {e}");
        }
    }

    #[test]
    fn an_image_is_one_that_nodes_can_pull() {
        let refused = |src: &str| {
            let e = Volumes::default().container_disk("web", 0, &format!("src:{src}")).unwrap_err();
            assert_eq!(e.kind(), crate::error::ErrorKind::Usage, "{src}: {e}");
            e.to_string()
        };
        for src in ["store:os:1", "oci:dir", "oci-archive:x.tar", "docker-archive:x.tar"] {
            let said = refused(src);
            assert!(said.contains(&format!("{src} is on this computer")), "{said}");
        }
        assert!(refused("docker://r.example/os:1").ends_with("say src:r.example/os:1"));
        for src in ["os:1", "r.example:5000/os:1", "localhost/store:1", "store:5000/os", "docker:26"] {
            Volumes::default().container_disk("web", 0, &format!("src:{src}")).unwrap();
        }
    }

    #[test]
    fn names_and_orders_are_there_once() {
        let mut volumes = Volumes::default();
        volumes.container_disk("web", 0, "src:r/i:1").unwrap();
        volumes.pvc("src:data,bootorder:2").unwrap();
        volumes.import("type:blank,size:1Gi,name:d,bootorder:1").unwrap();
        volumes.sysprep("src:files,type:Secret").unwrap();
        assert_eq!(
            volumes.volumes[0],
            json!({"name": "web-containerdisk-0", "containerDisk": {"image": "r/i:1"}})
        );
        assert_eq!(
            volumes.volumes[1],
            json!({"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
        );
        assert_eq!(
            volumes.volumes[3],
            json!({"name": "sysprepdisk", "sysprep": {"secret": {"name": "files"}}})
        );
        assert_eq!(volumes.first(), Some("d"));
        for (text, wanted) in [
            ("src:data", "already a volume with name \"data\""),
            ("src:other,bootorder:2", "bootorder 2 was specified multiple times"),
            ("src:o.p", "invalid name \"o.p\""),
            ("src:n/o", "not allowed to specify namespace of pvc"),
        ] {
            let e = volumes.pvc(text).unwrap_err().to_string();
            assert!(e.contains(wanted), "{text}: {e}");
        }
    }
}
