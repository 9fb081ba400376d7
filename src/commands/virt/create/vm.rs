//! The verb `create vm`.

use super::cloud_init::{self, CloudInitArgs, Needs};
use super::params::{fault, prefixed};
use super::volumes::Volumes;
use super::{access, object, served, unused, usage};
use crate::error::Result;
use crate::ui;
use crate::virt::target::name;
use clap::builder::BoolishValueParser;
use serde_json::{Value, json};

/// Print the manifest of a VM
///
/// Disks without a boot order are tried in this order: containerDisks, PVCs,
/// DataVolumes. A flag whose field clusters of this version do not serve is
/// refused by its name.
#[allow(rustdoc::broken_intra_doc_links)] // help texts, in which a part in brackets may be left out
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    coracle virt create vm --name=web --volume-containerdisk=src:registry.example/debian:12 | kubectl create -f -\n  \
    coracle virt create vm --volume-pvc=src:root,bootorder:1 --user=me --ssh-key=\"$(cat ~/.ssh/id_ed25519.pub)\"")]
pub(super) struct Args {
    /// Name of the VM [default: vm- and five letters]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,

    /// Run strategy: Always, Manual, Halted, Once or RerunOnFailure
    #[arg(long, value_name = "STRATEGY", default_value = "Always")]
    run_strategy: String,

    /// Seconds for the guest to shut down
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    termination_grace_period: u32,

    /// Memory of the guest [default: 512Mi]
    #[arg(long, value_name = "SIZE")]
    #[arg(conflicts_with_all = ["instancetype", "infer_instancetype", "infer_instancetype_from"])]
    memory: Option<String>,

    /// Instance type of the VM: [KIND/]NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["infer_instancetype", "infer_instancetype_from"])]
    instancetype: Option<String>,

    /// Instance type of the volume that the guest starts from
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    infer_instancetype: Option<bool>,

    /// Instance type of this volume
    #[arg(long, value_name = "VOLUME", conflicts_with = "infer_instancetype")]
    infer_instancetype_from: Option<String>,

    /// Preference of the VM: [KIND/]NAME
    #[arg(long, value_name = "NAME", conflicts_with_all = ["infer_preference", "infer_preference_from"])]
    preference: Option<String>,

    /// Preference of the volume that the guest starts from
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(value_parser = BoolishValueParser::new())]
    infer_preference: Option<bool>,

    /// Preference of this volume
    #[arg(long, value_name = "VOLUME", conflicts_with = "infer_preference")]
    infer_preference_from: Option<String>,

    /// Disk of a container image of a registry; repeat for several:
    /// src:HOST/NAME:TAG[,name:NAME][,bootorder:NUMBER]
    #[arg(long, value_name = "PARAMS")]
    volume_containerdisk: Vec<String>,

    /// Disk on a PVC; repeat for several:
    /// src:PVC[,name:NAME][,bootorder:NUMBER]
    #[arg(long, value_name = "PARAMS")]
    volume_pvc: Vec<String>,

    /// DataVolume that is made with the VM; repeat for several:
    /// type:TYPE,size:SIZE[,name:NAME][,bootorder:NUMBER], and with the type
    /// blank nothing;
    /// http url[,secretref][,certconfigmap][,extraheaders][,secretextraheaders];
    /// registry url or imagestream[,pullmethod][,secretref][,certconfigmap];
    /// s3 url[,secretref][,certconfigmap]; gcs url[,secretref];
    /// imageio url,diskid[,secretref][,certconfigmap];
    /// vddk url,uuid,thumbprint,secretref,backingfile[,initimageurl];
    /// pvc and snapshot src:NAMESPACE/NAME; ds src:[NAMESPACE/]NAME.
    /// Clusters of this version fill all but imageio, vddk and imagestream
    #[arg(long, value_name = "PARAMS")]
    volume_import: Vec<String>,

    /// Sysprep files of a ConfigMap or a Secret: src:NAME[,type:secret]
    #[arg(long, value_name = "PARAMS")]
    volume_sysprep: Option<String>,

    /// Credential of a Secret; repeat for several:
    /// src:SECRET[,type:ssh|password][,method:ga|nocloud|configdrive][,user:NAME].
    /// Default: type:ssh,method:ga, which needs the QEMU guest agent in the
    /// guest; type:password has no other method
    #[arg(long, value_name = "PARAMS")]
    access_cred: Vec<String>,

    /// Deprecated: use the flag --volume-import=type:ds
    #[arg(long, value_name = "PARAMS", hide = true)]
    volume_datasource: Vec<String>,

    /// Deprecated: use the flag --volume-import=type:pvc
    #[arg(long, value_name = "PARAMS", hide = true)]
    volume_clone_pvc: Vec<String>,

    /// Deprecated: use the flag --volume-import=type:blank
    #[arg(long, value_name = "PARAMS", hide = true)]
    volume_blank: Vec<String>,

    #[command(flatten)]
    cloud_init: CloudInitArgs,
}

const STRATEGIES: [&str; 5] = ["Always", "Manual", "Halted", "Once", "RerunOnFailure"];
/// Default memory of a guest.
const MEMORY: &str = "512Mi";

/// The manifest, after a check that clusters of this version accept it.
pub(super) fn manifest(args: &Args, namespace: Option<&str>) -> Result<Value> {
    let vm = described(args, namespace)?;
    served::check(&vm, &args.given())?;
    Ok(vm)
}

fn described(args: &Args, namespace: Option<&str>) -> Result<Value> {
    let name = args.name.clone().map_or_else(|| unused("vm-"), Ok)?;
    let mut vm = object("kubevirt.io/v1", "VirtualMachine", &name, namespace);
    let mut volumes = args.volumes(&name)?;

    let mut needs = Needs::default();
    let (user, source) = (args.cloud_init.user.as_deref(), args.cloud_init.source());
    let credential = |text: &String| access::credential(text, user, source, &mut needs);
    let credentials: Vec<Value> = args.access_cred.iter().map(credential).collect::<Result<_>>()?;
    let instance_type = args.instance_type(&volumes)?;
    let preference = args.preference(&volumes)?;
    if let Some(settings) = args.cloud_init.volume(&needs)? {
        if volumes.has(cloud_init::DISK) {
            return Err(usage(format!("there is already a volume with name \"{}\"", cloud_init::DISK)));
        }
        volumes.volumes.push(settings);
    }

    let mut spec = json!({
        "terminationGracePeriodSeconds": args.termination_grace_period,
        "domain": {"devices": {}, "resources": {}},
    });
    // Guest memory applies if no instance type is inferred.
    let is_sure = instance_type.as_ref().is_some_and(|said| said["inferFromVolumeFailurePolicy"].is_null());
    if !is_sure {
        spec["domain"]["memory"] =
            json!({"guest": served::memory(args.memory.as_deref().unwrap_or(MEMORY))?});
    }
    fill(&mut spec["domain"]["devices"], "disks", volumes.disks);
    fill(&mut spec, "volumes", volumes.volumes);
    fill(&mut spec, "accessCredentials", credentials);
    vm["spec"] = json!({"runStrategy": args.strategy()?, "template": {"metadata": {}, "spec": spec}});
    fill(&mut vm["spec"], "dataVolumeTemplates", volumes.templates);
    for (field, matcher) in [("instancetype", instance_type), ("preference", preference)] {
        if let Some(matcher) = matcher {
            vm["spec"][field] = matcher;
        }
    }
    Ok(vm)
}

/// Sets a field to a list, unless the list is empty.
fn fill(object: &mut Value, field: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object[field] = Value::from(list);
    }
}

impl Args {
    /// Names of the given flags.
    fn given(&self) -> Vec<&'static str> {
        let all = [
            (self.memory.is_some(), "--memory"),
            (self.instancetype.is_some(), "--instancetype"),
            (self.infer_instancetype.is_some(), "--infer-instancetype"),
            (self.infer_instancetype_from.is_some(), "--infer-instancetype-from"),
            (self.preference.is_some(), "--preference"),
            (self.infer_preference.is_some(), "--infer-preference"),
            (self.infer_preference_from.is_some(), "--infer-preference-from"),
            (!self.volume_containerdisk.is_empty(), "--volume-containerdisk"),
            (!self.volume_pvc.is_empty(), "--volume-pvc"),
            (!self.volume_import.is_empty(), "--volume-import"),
            (!self.volume_datasource.is_empty(), "--volume-datasource"),
            (!self.volume_clone_pvc.is_empty(), "--volume-clone-pvc"),
            (!self.volume_blank.is_empty(), "--volume-blank"),
            (self.volume_sysprep.is_some(), "--volume-sysprep"),
        ];
        let given = all.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag));
        given.chain(self.cloud_init.given()).collect()
    }

    fn strategy(&self) -> Result<&'static str> {
        let known = STRATEGIES.into_iter().find(|known| known.eq_ignore_ascii_case(&self.run_strategy));
        known.ok_or_else(|| {
            let what = format!(
                "invalid run strategy \"{}\", supported values are: {}",
                self.run_strategy,
                STRATEGIES.join(", ")
            );
            fault("run-strategy", &what)
        })
    }

    fn volumes(&self, vm: &str) -> Result<Volumes> {
        let mut volumes = Volumes::default();
        for (number, text) in self.volume_containerdisk.iter().enumerate() {
            volumes.container_disk(vm, number, text)?;
        }
        for text in &self.volume_pvc {
            volumes.pvc(text)?;
        }
        for (flag, kind, texts) in [
            ("volume-datasource", "ds", &self.volume_datasource),
            ("volume-clone-pvc", "pvc", &self.volume_clone_pvc),
            ("volume-blank", "blank", &self.volume_blank),
        ] {
            if !texts.is_empty() {
                ui::say(&format!("Flag --{flag} has been deprecated, use flag --volume-import instead"));
            }
            for text in texts {
                volumes.import(&format!("type:{kind},{text}"))?;
            }
        }
        for text in &self.volume_import {
            volumes.import(text)?;
        }
        if let Some(text) = &self.volume_sysprep {
            volumes.sysprep(text)?;
        }
        Ok(volumes)
    }

    /// Instance type of the flags. Default: inferred from the first volume, if that can have the labels.
    fn instance_type(&self, volumes: &Volumes) -> Result<Option<Value>> {
        // With a memory size nothing is inferred.
        let infer = self.infer_instancetype.or(self.memory.as_ref().map(|_| false));
        let kinds = ["virtualmachineinstancetype", "virtualmachineclusterinstancetype"];
        let from = self.infer_instancetype_from.as_deref();
        matcher(self.instancetype.as_deref(), "instancetype", kinds, infer, from, volumes)
    }

    fn preference(&self, volumes: &Volumes) -> Result<Option<Value>> {
        let kinds = ["virtualmachinepreference", "virtualmachineclusterpreference"];
        let from = self.infer_preference_from.as_deref();
        matcher(self.preference.as_deref(), "preference", kinds, self.infer_preference, from, volumes)
    }
}

/// Matcher for an instance type or a preference.
fn matcher(
    named: Option<&str>,
    flag: &str,
    kinds: [&str; 2],
    infer: Option<bool>,
    from: Option<&str>,
    volumes: &Volumes,
) -> Result<Option<Value>> {
    if let Some(text) = named {
        let (kind, name) = prefixed(text).map_err(|why| fault(flag, &why))?;
        let Some(kind) = kind.map(str::to_lowercase) else { return Ok(Some(json!({"name": name}))) };
        if !kinds.contains(&kind.as_str()) {
            let what = format!("invalid {flag} kind \"{kind}\", supported values are: {}", kinds.join(", "));
            return Err(fault(flag, &what));
        }
        return Ok(Some(json!({"kind": kind, "name": name})));
    }
    let volume = match (from, infer) {
        (Some(name), _) => name,
        (None, Some(true)) => volumes
            .first()
            .ok_or_else(|| usage("at least one volume is needed to infer an instance type or preference"))?,
        (None, Some(false)) => return Ok(None),
        (None, None) => {
            let first = volumes.first().filter(|first| volumes.check_inference_volume(first).is_ok());
            // The user did not ask for inference, so a volume without the labels is not an error.
            return Ok(first
                .map(|first| json!({"inferFromVolume": first, "inferFromVolumeFailurePolicy": "Ignore"})));
        }
    };
    volumes.check_inference_volume(volume)?;
    Ok(Some(json!({"inferFromVolume": volume})))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn args(line: &str) -> Args {
        let command = Args::augment_args(clap::Command::new("vm").no_binary_name(true));
        let matches = command.try_get_matches_from(line.split_whitespace()).unwrap();
        Args::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn a_vm_is_described_as_virtctl_describes_it() {
        let line = "--name=web --volume-containerdisk=src:r.example/debian:12 --user=me --memory=1Gi";
        let wanted = json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "web", "namespace": "blue"},
            "spec": {
                "runStrategy": "Always",
                "template": {
                    "metadata": {},
                    "spec": {
                        "terminationGracePeriodSeconds": 180,
                        "domain": {"devices": {}, "memory": {"guest": "1Gi"}, "resources": {}},
                        "volumes": [
                            {"name": "web-containerdisk-0", "containerDisk": {"image": "r.example/debian:12"}},
                            {"name": "cloudinitdisk", "cloudInitNoCloud": {"userData": "#cloud-config\nuser: me"}},
                        ],
                    },
                },
            },
        });
        assert_eq!(manifest(&args(line), Some("blue")).unwrap(), wanted);
        let bare = manifest(&args("--run-strategy=halted"), None).unwrap();
        assert_eq!(
            (&bare["spec"]["runStrategy"], bare["metadata"].get("namespace")),
            (&json!("Halted"), None)
        );
        assert!(bare["metadata"]["name"].as_str().unwrap().len() == 8);
    }

    #[test]
    fn all_that_is_served_is_printed() {
        for line in [
            "--volume-pvc=src:root,bootorder:1 --volume-import=type:blank,size:1Gi",
            "--volume-import=type:http,url:https://h/d.qcow2,size:1Gi --volume-blank=size:2Gi",
            "--volume-containerdisk=src:r/i --volume-sysprep=src:files",
            "--access-cred=src:keys,method:nocloud",
            "--access-cred=src:keys,user:me --access-cred=src:words,type:password",
            "--access-cred=src:keys,method:configdrive --cloud-init=configdrive",
            "--infer-instancetype=false --infer-preference=false --volume-pvc=src:root",
            "--instancetype=u1.small --preference=virtualmachinepreference/own",
            "--infer-instancetype --infer-preference-from=a --volume-pvc=src:a",
        ] {
            if let Err(e) = manifest(&args(line), None) {
                panic!("{line}: {e}");
            }
        }
        let same = "--volume-import=type:pvc,src:blue/golden";
        assert!(manifest(&args(same), Some("blue")).is_ok());
    }

    #[test]
    fn a_flag_whose_field_is_not_served_is_named_with_the_field() {
        let line = "--volume-import=type:snapshot,src:gold/s";
        let e = manifest(&args(line), Some("blue")).unwrap_err();
        assert_eq!(e.kind(), crate::error::ErrorKind::Refused, "{e}");
        let e = e.to_string();
        assert!(e.contains("refuse what --volume-import asks for"), "{e}");
        assert!(e.contains("source.snapshot.namespace"), "{e}");
    }

    #[test]
    fn a_volume_that_could_name_types_is_asked_for_them() {
        let spec = |line: &str| manifest(&args(line), Some("blue")).unwrap()["spec"].take();
        let ignored = json!({"inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore"});
        let implied = spec("--volume-pvc=src:root");
        assert_eq!((&implied["instancetype"], &implied["preference"]), (&ignored, &ignored));
        assert_eq!(
            implied["template"]["spec"]["domain"]["memory"]["guest"], "512Mi",
            "for the case that it names none"
        );
        let sized = spec("--volume-pvc=src:root --memory=1Gi");
        assert_eq!((&sized["instancetype"], &sized["preference"]), (&Value::Null, &ignored));
        let asked = spec("--volume-import=type:ds,src:gold/d,name:root --infer-instancetype");
        assert_eq!(asked["instancetype"], json!({"inferFromVolume": "root"}));
        assert!(asked["template"]["spec"]["domain"]["memory"].is_null());
        for line in [
            "--volume-containerdisk=src:r/i",
            "--volume-blank=size:1Gi",
            "--infer-instancetype=false --infer-preference=false --volume-pvc=src:a",
        ] {
            let none = spec(line);
            assert!(none["instancetype"].is_null() && none["preference"].is_null(), "{line}");
        }
    }

    /// The permission of the VM's service account to clone is checked by the cluster.
    #[test]
    fn disks_of_other_namespaces_are_asked_for() {
        let template = |line: &str| {
            let vm = manifest(&args(line), Some("blue")).unwrap();
            vm["spec"]["dataVolumeTemplates"][0]["spec"].clone()
        };
        assert_eq!(template("--volume-import=type:ds,src:gold/d")["sourceRef"]["namespace"], "gold");
        assert_eq!(template("--volume-clone-pvc=src:gold/p")["source"]["pvc"]["namespace"], "gold");
    }

    #[test]
    fn what_makes_no_sense_is_told_before_anything_else() {
        for (line, wanted) in [
            ("--run-strategy=Never", "invalid run strategy \"Never\""),
            ("--memory=much", "failed to parse \"--memory\" flag"),
            ("--instancetype=pod/a", "invalid instancetype kind \"pod\""),
            ("--infer-preference", "at least one volume is needed"),
            ("--infer-instancetype-from=a", "there is no volume with name \"a\""),
            (
                "--infer-instancetype --volume-containerdisk=src:r/i",
                "works only with DataSources, DataVolumes",
            ),
            ("--infer-preference --volume-blank=size:1Gi", "this DataVolume is not valid to infer"),
            ("--volume-pvc=src:cloudinitdisk --user=me", "already a volume with name \"cloudinitdisk\""),
        ] {
            let e = manifest(&args(line), None).unwrap_err();
            assert_eq!(e.kind(), crate::error::ErrorKind::Usage, "{line}: {e}");
            assert!(e.to_string().contains(wanted), "{line}: {e}");
        }
    }
}
