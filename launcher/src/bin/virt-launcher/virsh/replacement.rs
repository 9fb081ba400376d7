//! Replacements in Kubernetes for libvirt's verbs that change a VM.

/// Replacement for a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Replacement {
    /// A command line, with `{vm}` in place of `NAME -n NAMESPACE`.
    command: &'static str,
}

/// Namespace and name of a VMI.
pub(super) type Vm = (String, String);

/// The replacement for a verb of libvirt's; `None` if libvirt does not have the verb either.
pub(super) fn for_verb(verb: &str) -> Option<Replacement> {
    let command = match verb {
        "start" | "create" | "restore" => "virtctl start {vm}",
        "shutdown" => "virtctl stop {vm}",
        "destroy" => "virtctl stop {vm} --grace-period=0 --force",
        "reboot" => "virtctl soft-reboot {vm}, or virtctl restart {vm}",
        "reset" => "virtctl reset {vm}",
        "suspend" | "save" | "managedsave" => "virtctl pause {vm}",
        "resume" => "virtctl unpause {vm}",
        "console" | "ttyconsole" => "virtctl console {vm}",
        "vncdisplay" | "domdisplay" | "domdisplay-reload" | "send-key" => "virtctl vnc {vm}",
        "screenshot" => "virtctl vnc screenshot {vm} -f FILE",
        "undefine" => "kubectl delete vm {vm}",
        "edit"
        | "define"
        | "autostart"
        | "desc"
        | "metadata"
        | "setmem"
        | "setmaxmem"
        | "setvcpus"
        | "setvcpu"
        | "guestvcpus"
        | "vcpupin"
        | "emulatorpin"
        | "iothreadpin"
        | "iothreadadd"
        | "iothreadset"
        | "iothreaddel"
        | "memtune"
        | "numatune"
        | "blkiotune"
        | "blkdeviotune"
        | "schedinfo"
        | "domiftune"
        | "set-lifecycle-action"
        | "update-memory-device" => "kubectl edit vm {vm}; the VM takes it at its next start",
        "attach-disk"
        | "attach-device"
        | "attach-interface"
        | "detach-disk"
        | "detach-device"
        | "detach-device-alias"
        | "detach-interface"
        | "update-device"
        | "change-media"
        | "domif-setlink" => "kubectl edit vm {vm}",
        "migrate" | "migrate-setspeed" | "migrate-setmaxdowntime" | "migrate-postcopy" => {
            "virtctl migrate {vm}"
        }
        "dump" => "virtctl memory-dump get {vm} --claim-name=CLAIM --create-claim",
        "domfsfreeze" => "virt-launcher freeze, in this container",
        "domfsthaw" => "virt-launcher thaw, in this container",
        "guestinfo" | "domtime" => "virtctl guestosinfo {vm}",
        "domfsinfo" => "virtctl fslist {vm}",
        "domifaddr" | "domhostname" => "kubectl get vmi {vm} -o yaml",
        "qemu-agent-command" => "virt-launcher probe -- COMMAND, in this container",
        "set-user-password" | "set-user-sshkeys" | "get-user-sshkeys" => {
            "kubectl edit vm {vm}: accessCredentials of its template"
        }
        "vcpuinfo" | "vcpucount" | "cpu-stats" | "dommemstat" | "domblkstat" | "domblkinfo" | "domifstat"
        | "domif-getlink" | "domblkerror" | "iothreadinfo" | "domcontrol" | "domjobinfo" => {
            "virsh domstats, or virsh dumpxml"
        }
        "blockcommit" | "blockcopy" | "blockpull" | "blockresize" | "blockjob" | "backup-begin" => {
            "kubectl: the volumes of a VM are PersistentVolumeClaims, and are resized and copied as such"
        }
        verb if verb.starts_with("snapshot-") || verb.starts_with("checkpoint-") => {
            "kubectl: VolumeSnapshots of the PersistentVolumeClaims of the VM"
        }
        verb if ["net-", "pool-", "vol-", "iface-", "nwfilter-", "secret-", "nodedev-", "node"]
            .iter()
            .any(|begin| verb.starts_with(begin)) =>
        {
            "kubectl: networks, volumes, secrets and nodes are objects of the cluster"
        }
        _ => return None,
    };
    Some(Replacement { command })
}

impl Replacement {
    /// Lines of the error message.
    pub(super) fn lines(self, verb: &str, vm: Option<&Vm>) -> Vec<String> {
        let vm = match vm {
            Some((namespace, name)) => format!("{name} -n {namespace}"),
            None => "NAME -n NAMESPACE".to_owned(),
        };
        vec![
            format!("command '{verb}' is not carried out in a launcher pod: Kubernetes runs this VM"),
            format!("use instead: {}", self.command.replace("{vm}", &vm)),
        ]
    }
}
