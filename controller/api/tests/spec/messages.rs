//! What is said of every fault: the field, and the sentence that tools know.

use crate::base::{base, check, set};
use api::machine::{Gates, Settings};
use serde_json::{Value, json};

/// What is changed in the machine to begin with, and the one fault that this is.
type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);

/// Written in JSON.
const CASES: &[Case] = &[
    (&[("spec.architecture", r#""arm64""#)], "spec.architecture", "unsupported architecture: arm64"),
    (
        &[("spec.domain.memory", "null")],
        "spec.domain.memory",
        "no memory requested, at least one of 'spec.domain.memory.guest', 'spec.domain.memory.hugepages.size' or \
         'spec.domain.resources.requests.memory' must be set",
    ),
    (
        &[("spec.domain.resources.requests.memory", r#""64k""#)],
        "spec.domain.resources.requests.memory",
        "spec.domain.resources.requests.memory '64k': must be greater than or equal to 1M.",
    ),
    (
        &[("spec.domain.memory", "null"), ("spec.domain.resources.requests.memory", r#""64k""#)],
        "spec.domain.resources.requests.memory",
        "spec.domain.resources.requests.memory '64k': must be greater than or equal to 1M.",
    ),
    (
        &[("spec.domain.resources.requests.memory", r#""-64Mi""#)],
        "spec.domain.resources.requests.memory",
        "spec.domain.resources.requests.memory '-64Mi': must be greater than or equal to 0.",
    ),
    (
        &[
            ("spec.domain.resources.requests.memory", r#""2Gi""#),
            ("spec.domain.resources.limits.memory", r#""1Gi""#),
        ],
        "spec.domain.resources.requests.memory",
        "spec.domain.resources.requests.memory '2Gi' is greater than spec.domain.resources.limits.memory '1Gi'",
    ),
    (
        &[("spec.domain.resources", r#"{"requests": {"cpu": "3"}, "limits": {"cpu": "2500m"}}"#)],
        "spec.domain.resources.requests.cpu",
        "spec.domain.resources.requests.cpu '3' is greater than spec.domain.resources.limits.cpu '2500m'",
    ),
    (
        &[("spec.domain.resources.limits.memory", r#""128Mi""#)],
        "spec.domain.memory.guest",
        "spec.domain.memory.guest '256Mi' must be equal to or less than the memory limit \
         spec.domain.resources.limits.memory '128Mi'",
    ),
    (
        &[("spec.domain.memory", r#"{"guest": "255Mi", "hugepages": {"pageSize": "2Mi"}}"#)],
        "spec.domain.memory.guest",
        "spec.domain.memory.guest '255Mi' is not a multiple of the page size spec.domain.memory.hugepages.size '2Mi'",
    ),
    (
        &[("spec.domain.memory.hugepages.pageSize", r#""1Gi""#)],
        "spec.domain.memory.guest",
        "spec.domain.memory.guest '256Mi' must be equal to or larger than page size \
         spec.domain.memory.hugepages.size '1Gi'",
    ),
    (
        &[("spec.domain.machine.type", r#""isapc""#)],
        "spec.domain.machine.type",
        "spec.domain.machine.type is not supported: isapc (allowed values: [q35* pc-q35* pc pc-i440fx*])",
    ),
    (
        &[("spec.domain.cpu", r#"{"sockets": 3, "maxSockets": 2}"#)],
        "spec.domain.cpu.sockets",
        "Number of sockets in CPU topology is greater than the maximum sockets allowed",
    ),
    (
        &[("spec.domain.cpu.features", r#"[{"name": "vmx", "policy": "maybe"}]"#)],
        "spec.domain.cpu.features[0].policy",
        "CPU feature vmx uses policy maybe that is not supported.",
    ),
    (
        &[("spec.domain.cpu.isolateEmulatorThread", "true")],
        "spec.domain.cpu.isolateEmulatorThread",
        "IsolateEmulatorThread should be only set in combination with DedicatedCPUPlacement",
    ),
    (
        &[("spec.hostname", r#""Not.Good""#)],
        "spec.hostname",
        "spec.hostname does not conform to the kubernetes DNS_LABEL rules : must consist of lower case letters, digits \
         and '-', and begin and end with a letter or a digit",
    ),
    (
        &[("spec.domain.devices.inputs", r#"[{"name": "pen", "type": "tablet", "bus": "ps2"}]"#)],
        "spec.domain.devices.inputs[0].bus",
        "Input device can have only virtio or usb bus.",
    ),
    (
        &[("spec.domain.devices.inputs", r#"[{"name": "pen", "type": "keyboard", "bus": "usb"}]"#)],
        "spec.domain.devices.inputs[0].type",
        "Input device can have only tablet type.",
    ),
    (
        &[("spec.domain.ioThreadsPolicy", r#""many""#)],
        "spec.domain.ioThreadsPolicy",
        "Invalid IOThreadsPolicy (many)",
    ),
    (
        &[("spec.readinessProbe", r#"{"exec": {}, "guestAgentPing": {}}"#)],
        "spec.readinessProbe",
        "spec.readinessProbe must have exactly one probe type set",
    ),
    (
        &[("spec.livenessProbe", "{}")],
        "spec.livenessProbe",
        "either spec.livenessProbe.tcpSocket, spec.livenessProbe.exec or spec.livenessProbe.httpGet must be set if a \
         spec.livenessProbe is specified",
    ),
    (
        &[
            ("spec.networks[0]", r#"{"name": "net", "multus": {"networkName": "far"}}"#),
            ("spec.domain.devices.interfaces[0]", r#"{"name": "net", "bridge": {}}"#),
            ("spec.livenessProbe.tcpSocket.port", "80"),
        ],
        "spec.livenessProbe.tcpSocket",
        "spec.livenessProbe.tcpSocket is only allowed if the Pod Network is attached",
    ),
    (
        &[("spec.evictionStrategy", r#""Run""#)],
        "spec.evictionStrategy",
        "spec.evictionStrategy is set with an unrecognized option: Run",
    ),
    (
        &[("spec.startStrategy", r#""Paused""#), ("spec.livenessProbe.exec", "{}")],
        "spec.startStrategy",
        "either spec.startStrategy or spec.livenessProbe should be provided.Pausing VMI with LivenessProbe is not \
         supported",
    ),
    (
        &[("spec.domain.firmware.bootloader", r#"{"bios": {}, "efi": {}}"#)],
        "spec.domain.firmware.bootloader",
        "spec.domain.firmware.bootloader has both EFI and BIOS configured, but they are mutually exclusive.",
    ),
    (
        &[("spec.domain.firmware.bootloader.efi", "{}")],
        "spec.domain.firmware.bootloader",
        "spec.domain.firmware.bootloader has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently \
         disabled.",
    ),
    (
        &[("spec.domain.firmware.kernelBoot.kernelArgs", r#""quiet""#)],
        "spec.domain.firmware.kernelBoot.kernelArgs",
        "kernel arguments cannot be provided without an external kernel",
    ),
    (
        &[("spec.domain.firmware.kernelBoot.container.kernelPath", r#""/boot/vmlinuz""#)],
        "spec.domain.firmware.kernelBoot.container",
        "spec.domain.firmware.kernelBoot.container must be defined with an image",
    ),
    (
        &[("spec.domain.firmware.kernelBoot.container.image", r#""registry.example/k""#)],
        "spec.domain.firmware.kernelBoot.container",
        "spec.domain.firmware.kernelBoot.container must be defined with at least one of the following: kernelPath, \
         initrdPath",
    ),
    (
        &[("spec.dnsPolicy", r#""None""#)],
        "spec.dnsConfig",
        "must provide `dnsConfig` when `dnsPolicy` is None",
    ),
    (
        &[("spec.dnsConfig.nameservers", r#"["a", "b", "c", "d"]"#)],
        "spec.dnsConfig.nameservers",
        "must not have more than 3 nameservers: [a b c d]",
    ),
    (
        &[("spec.dnsPolicy", r#""Mine""#)],
        "spec.dnsPolicy",
        "DNSPolicy: Mine is not supported, valid values: [ClusterFirstWithHostNet ClusterFirst Default None]",
    ),
    (
        &[("metadata.annotations", r#"{"hooks.kubevirt.io/hookSidecars": "[]"}"#)],
        "metadata.annotations.hooks.kubevirt.io/hookSidecars",
        "sidecar feature gate is not enabled in kubevirt-config, invalid entry \
         metadata.annotations.hooks.kubevirt.io/hookSidecars",
    ),
    (
        &[("spec.domain.devices.disks[3]", r#"{"name": "root", "disk": {}}"#)],
        "spec.domain.devices.disks[3].name",
        "spec.domain.devices.disks[0] and spec.domain.devices.disks[3] must not have the same Name.",
    ),
    (
        &[("spec.domain.devices.disks[3]", r#"{"name": "gone", "disk": {}}"#)],
        "spec.domain.devices.disks[3].name",
        "spec.domain.devices.disks[3].Name 'gone' not found.",
    ),
    (
        &[("spec.domain.devices.disks[0].cdrom", "{}")],
        "spec.domain.devices.disks[0]",
        "spec.domain.devices.disks[0] can only have a single target type defined",
    ),
    (
        &[("spec.domain.devices.disks[1].dedicatedIOThread", "true")],
        "spec.domain.devices.disks[1]",
        "IOThreads are not supported for disks on a sata bus",
    ),
    (
        &[("spec.domain.devices.disks[0]", r#"{"name": "root", "lun": {"bus": "scsi"}}"#)],
        "spec.domain.devices.disks[0].lun",
        "spec.domain.devices.disks[0].lun can only be mapped to a DataVolume or PersistentVolumeClaim volume.",
    ),
    (
        &[("spec.domain.devices.disks[0].disk.bus", r#""ide""#)],
        "spec.domain.devices.disks[0].disk.bus",
        "IDE bus is not supported",
    ),
    (
        &[("spec.domain.devices.disks[1].cdrom.bus", r#""virtio""#)],
        "spec.domain.devices.disks[1].cdrom.bus",
        "Bus type virtio is invalid for CD-ROM device",
    ),
    (
        &[("spec.domain.devices.disks[0].disk", r#"{"bus": "sata", "readonly": true}"#)],
        "spec.domain.devices.disks[0].disk.bus",
        "sata hard-disks do not support read-only.",
    ),
    (
        &[("spec.domain.devices.disks[0].disk.bus", r#""floppy""#)],
        "spec.domain.devices.disks[0].disk.bus",
        "spec.domain.devices.disks[0].disk.bus is set with an unrecognized bus floppy, must be one of: [virtio scsi \
         sata usb]",
    ),
    (
        &[("spec.domain.devices.disks[0].bootOrder", "0")],
        "spec.domain.devices.disks[0].bootOrder",
        "spec.domain.devices.disks[0].bootOrder must have a boot order > 0, if supplied",
    ),
    (
        &[
            ("spec.domain.devices.disks[0].bootOrder", "1"),
            ("spec.domain.devices.interfaces[0].bootOrder", "1"),
        ],
        "spec.domain.devices.interfaces[0].bootOrder",
        "Boot order for spec.domain.devices.interfaces[0].bootOrder already set for a different device.",
    ),
    (
        &[("spec.domain.devices.disks[0].serial", r#""a b""#)],
        "spec.domain.devices.disks[0].serial",
        "spec.domain.devices.disks[0].serial must be made up of the following characters [A-Za-z0-9_.+-], if specified",
    ),
    (
        &[("spec.domain.devices.disks[0].cache", r#""unsafe""#)],
        "spec.domain.devices.disks[0].cache",
        "spec.domain.devices.disks[0].cache has invalid value unsafe",
    ),
    (
        &[("spec.domain.devices.disks[0].io", r#""io_uring""#)],
        "spec.domain.devices.disks[0].io",
        "Disk IO mode for spec.domain.devices.disks[0].io is not supported. Supported modes are: native, threads.",
    ),
    (
        &[("spec.domain.devices.disks[0].errorPolicy", r#""hope""#)],
        "spec.domain.devices.disks[0].errorPolicy",
        r#"spec.domain.devices.disks[0].errorPolicy has invalid value "hope""#,
    ),
    (
        &[("spec.domain.devices.disks[0].blockSize.custom", r#"{"logical": 256, "physical": 512}"#)],
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Provided size of 256 is less than the supported minimum size of 512",
    ),
    (
        &[("spec.domain.devices.disks[0].blockSize.custom", r#"{"logical": 512, "physical": 4194304}"#)],
        "spec.domain.devices.disks[0].blockSize.custom.physical",
        "Provided size of 4194304 is greater than the supported maximum size of 2097152",
    ),
    (
        &[("spec.domain.devices.disks[0].blockSize.custom", r#"{"logical": 513, "physical": 4096}"#)],
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Provided size of 513 is not a power of 2",
    ),
    (
        &[(
            "spec.domain.devices.disks[0].blockSize",
            r#"{"custom": {"logical": 512, "physical": 512}, "matchVolume": {}}"#,
        )],
        "spec.domain.devices.disks[0].blockSize",
        "Block size matching can't be enabled together with a custom value",
    ),
    (
        &[("spec.domain.devices.disks[0].blockSize.custom", r#"{"logical": 4096, "physical": 512}"#)],
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Logical size 4096 must be the same or less than the physical size of 512",
    ),
    (
        &[
            ("spec.domain.devices.disks[0].disk.bus", r#""sata""#),
            ("spec.domain.devices.disks[0].blockSize.custom", r#"{"logical": 4096, "physical": 4096}"#),
        ],
        "spec.domain.devices.disks[0].blockSize.custom.logical",
        "Logical size 4096 must be 512 for SATA devices",
    ),
    (
        &[("spec.domain.devices.disks[0].disk", r#"{"bus": "scsi", "pciAddress": "0000:81:01.0"}"#)],
        "spec.domain.devices.disks[0].disk.pciAddress",
        "disk spec.domain.devices.disks[0].name - setting a PCI address is only possible with bus type virtio.",
    ),
    (
        &[("spec.domain.devices.disks[0].disk.pciAddress", r#""81:01""#)],
        "spec.domain.devices.disks[0].disk.pciAddress",
        "disk spec.domain.devices.disks[0].name has malformed PCI address (81:01).",
    ),
    (
        &[("spec.volumes[3]", r#"{"name": "root", "emptyDisk": {"capacity": "1Gi"}}"#)],
        "spec.volumes[3].name",
        "spec.volumes[0] and spec.volumes[3] must not have the same Name.",
    ),
    (
        &[("spec.volumes[0].emptyDisk.capacity", r#""1Gi""#)],
        "spec.volumes[0]",
        "spec.volumes[0] must have exactly one source type set",
    ),
    (
        &[("spec.volumes[0]", r#"{"name": "root", "dataVolume": {}}"#)],
        "spec.volumes[0]",
        "DataVolume 'name' must be set",
    ),
    (
        &[("spec.volumes[3]", r#"{"name": "lost", "emptyDisk": {"capacity": "1Gi"}}"#)],
        "spec.domain.volumes[3].name",
        "spec.domain.volumes[3].name 'lost' not found.",
    ),
    (
        &[("spec.volumes[0].containerDisk.path", r#""/""#)],
        "spec.volumes[0].containerDisk.path",
        "spec.volumes[0].containerDisk.path must not point to root",
    ),
    (
        &[("spec.volumes[0].containerDisk.path", r#""/disk/../x""#)],
        "spec.volumes[0].containerDisk.path",
        "spec.volumes[0].containerDisk.path must be an absolute path to a file without relative components",
    ),
    (
        &[("spec.volumes[1].cloudInitNoCloud.secretRef.name", r#""s""#)],
        "spec.volumes[1].cloudInitNoCloud",
        "spec.volumes[1].cloudInitNoCloud must have only one userdatasource set.",
    ),
    (
        &[(
            "spec.volumes[1].cloudInitNoCloud",
            r#"{"networkData": "a", "networkDataBase64": "YQ==", "userData": "a"}"#,
        )],
        "spec.volumes[1].cloudInitNoCloud",
        "spec.volumes[1].cloudInitNoCloud must have only one networkdata source set.",
    ),
    (
        &[("spec.volumes[1].cloudInitNoCloud", "{}")],
        "spec.volumes[1].cloudInitNoCloud",
        "spec.volumes[1].cloudInitNoCloud must have at least one userdatasource or one networkdatasource set.",
    ),
    (
        &[("spec.volumes[1].cloudInitNoCloud", r#"{"userDataBase64": "*"}"#)],
        "spec.volumes[1].cloudInitNoCloud.userDataBase64",
        "spec.volumes[1].cloudInitNoCloud.userDataBase64 is not a valid base64 value.",
    ),
    (
        &[("spec.volumes[0]", r#"{"name": "root", "hostDisk": {"type": "Disk"}}"#)],
        "spec.volumes[0].hostDisk.path",
        "spec.volumes[0].hostDisk.path is required for hostDisk volume",
    ),
    (
        &[("spec.volumes[0]", r#"{"name": "root", "hostDisk": {"path": "/a.img", "type": "Maybe"}}"#)],
        "spec.volumes[0].hostDisk.type",
        "spec.volumes[0].hostDisk.type has invalid value 'Maybe', allowed are 'Disk' or 'DiskOrCreate'",
    ),
    (
        &[(
            "spec.volumes[0]",
            r#"{"name": "root", "hostDisk": {"path": "/a.img", "type": "Disk", "capacity": "1Gi"}}"#,
        )],
        "spec.volumes[0].hostDisk.capacity",
        "spec.volumes[0].hostDisk.capacity is allowed to pass only with spec.volumes[0].hostDisk.type equal to \
         'DiskOrCreate'",
    ),
    (
        &[("spec.volumes[0]", r#"{"name": "root", "configMap": {}}"#)],
        "spec.volumes[0].configMap.name",
        "spec.volumes[0].configMap.name is a required field",
    ),
    (
        &[("spec.volumes[0]", r#"{"name": "root", "secret": {}}"#)],
        "spec.volumes[0].secret.secretName",
        "spec.volumes[0].secret.secretName is a required field",
    ),
    (
        &[("spec.networks[1]", r#"{"name": "net", "multus": {"networkName": "far"}}"#)],
        "spec.networks[1].name",
        r#"Network with name "net" already exists, every network must have a unique name"#,
    ),
    (
        &[("spec.networks[1]", r#"{"name": "lost", "multus": {"networkName": "far"}}"#)],
        "spec.networks[1].name",
        "spec.networks[1].name 'lost' not found.",
    ),
    (
        &[("spec.domain.devices.interfaces[1]", r#"{"name": "lost", "bridge": {}}"#)],
        "spec.domain.devices.interfaces[1].name",
        "spec.domain.devices.interfaces[1].name 'lost' not found.",
    ),
    (
        &[("spec.domain.devices.interfaces[1]", r#"{"name": "net", "bridge": {}}"#)],
        "spec.domain.devices.interfaces[1].name",
        "Only one interface can be connected to one specific network",
    ),
    (
        &[("spec.networks[0].name", r#""a.b""#), ("spec.domain.devices.interfaces[0].name", r#""a.b""#)],
        "spec.domain.devices.interfaces[0].name",
        "Network interface name can only contain alphabetical characters, numbers, dashes (-) or underscores (_)",
    ),
    (
        &[("spec.networks[0]", r#"{"name": "net", "multus": {"networkName": "far"}}"#)],
        "spec.domain.devices.interfaces[0].name",
        "Masquerade interface only implemented with pod network",
    ),
    (
        &[("spec.domain.devices.interfaces[0].masquerade", "null")],
        "spec.domain.devices.interfaces[0]",
        "logical net interface must have exactly one binding method or binding plugin",
    ),
    (
        &[("spec.domain.devices.interfaces[0].macAddress", r#""02-00-00-00-00-00""#)],
        "spec.domain.devices.interfaces[0].macAddress",
        "The requested MAC address is reserved for the in-pod bridge. Please choose another one.",
    ),
    (
        &[("spec.domain.devices.interfaces[0].model", r#""vmxnet3""#)],
        "spec.domain.devices.interfaces[0].model",
        "interface spec.domain.devices.interfaces[0].name uses model vmxnet3 that is not supported.",
    ),
    (
        &[("spec.domain.devices.interfaces[0].ports", r#"[{"name": "web"}]"#)],
        "spec.domain.devices.interfaces[0].ports[0].port",
        "Port field is mandatory.",
    ),
    (
        &[("spec.domain.devices.interfaces[0].ports", r#"[{"port": 65536}]"#)],
        "spec.domain.devices.interfaces[0].ports[0].port",
        "Port field must be in range 0 < x < 65536.",
    ),
    (
        &[(
            "spec.domain.devices.interfaces[0].ports",
            r#"[{"port": 80, "name": "web"}, {"port": 81, "name": "web"}]"#,
        )],
        "spec.domain.devices.interfaces[0].ports[1].name",
        "Duplicate name of the port: web",
    ),
    (
        &[("spec.domain.devices.interfaces[0].ports", r#"[{"port": 80, "protocol": "SCTP"}]"#)],
        "spec.domain.devices.interfaces[0].ports[0].protocol",
        "Unknown protocol, only TCP or UDP allowed",
    ),
    (
        &[("spec.domain.devices.interfaces[0]", r#"{"name": "net", "slirp": {}}"#)],
        "spec.domain.devices.interfaces[0].slirp",
        "Slirp interface support has been discontinued since v1.3",
    ),
    (
        &[
            ("spec.networks[1]", r#"{"name": "two", "pod": {}}"#),
            ("spec.domain.devices.interfaces[1]", r#"{"name": "two", "masquerade": {}}"#),
        ],
        "spec.domain.devices.interfaces",
        "more than one interface is connected to a pod network in spec.domain.devices.interfaces",
    ),
    (
        &[
            ("spec.networks[1]", r#"{"name": "two", "multus": {"networkName": "far", "default": true}}"#),
            ("spec.domain.devices.interfaces[1]", r#"{"name": "two", "bridge": {}}"#),
        ],
        "spec.networks",
        "Pod network cannot be defined when Multus default network is defined",
    ),
    (&[("spec.networks[0].pod", "null")], "spec.networks[0]", "should have a network type"),
    (
        &[("spec.networks[0].multus.networkName", r#""far""#)],
        "spec.networks[0]",
        "should have only one network type",
    ),
    (
        &[
            ("spec.networks[1]", r#"{"name": "two", "multus": {}}"#),
            ("spec.domain.devices.interfaces[1]", r#"{"name": "two", "bridge": {}}"#),
        ],
        "spec.networks[1]",
        "CNI delegating plugin must have a networkName",
    ),
    (
        &[("spec.domain.devices.interfaces[0].dhcpOptions.ntpServers", r#"["time"]"#)],
        "spec.domain.devices.interfaces[0].dhcpOptions.ntpServers",
        "NTP servers must be a list of valid IPv4 addresses.",
    ),
    (
        &[(
            "spec.domain.devices.interfaces[0].dhcpOptions.privateOptions",
            r#"[{"option": 223, "value": "a"}]"#,
        )],
        "spec.domain.devices.interfaces[0].dhcpOptions.privateOptions[0].option",
        "provided DHCPPrivateOptions are out of range, must be in range 224 to 254",
    ),
    (&[("spec.domain.memroy", "1")], "spec.domain.memroy", "unknown field"),
    (
        &[("spec.volumes[0].name", r#""../root""#), ("spec.domain.devices.disks[0].name", r#""../root""#)],
        "spec.volumes[0].name",
        "spec.volumes[0].name does not conform to the kubernetes DNS_LABEL rules : must consist of lower case letters, \
         digits and '-', and begin and end with a letter or a digit",
    ),
];

#[test]
fn every_fault_has_its_field_and_its_sentence() {
    for (changes, field, message) in CASES {
        assert_eq!(
            faults(changes, &Settings::default()),
            [(field.to_string(), message.to_string())],
            "{changes:?}"
        );
    }
}

#[test]
fn a_virtual_machine_has_its_own_paths() {
    let settings = Settings { at: api::wire::Path::of("spec.template.spec"), ..Settings::default() };
    for (changes, field, message) in CASES {
        let inside = |text: &str| {
            // Bare `spec.`, and not the annotation's key.
            text.replace("spec.", "spec.template.spec.")
        };
        let expected = [(inside(field), inside(message))];
        assert_eq!(faults(changes, &settings), expected, "{changes:?}");

        let bare = faults_of(changes, &Settings::default());
        let prefixed = api::fault::prefixed(bare, "spec.template.");
        let found: Vec<_> = prefixed.into_iter().map(|fault| (fault.field, fault.message)).collect();
        assert_eq!(found, expected, "{changes:?}");
    }
}

#[test]
fn a_long_text_for_cloud_init_must_be_a_secret() {
    let long = format!("{:?}", "a".repeat(2049));
    for (field, message) in [
        ("userData", "userdata exceeds 2048 byte limit. Should use UserDataSecretRef for larger data."),
        (
            "networkData",
            "networkdata exceeds 2048 byte limit. Should use NetworkDataSecretRef for larger data.",
        ),
    ] {
        let mut object = base();
        set(&mut object, "spec.volumes[1].cloudInitNoCloud", json!({}));
        set(
            &mut object,
            &format!("spec.volumes[1].cloudInitNoCloud.{field}"),
            serde_json::from_str(&long).unwrap(),
        );
        let faults = check(&object, &Settings::default()).unwrap_err();
        assert_eq!(faults[0].message, format!("spec.volumes[1].cloudInitNoCloud {message}"));
        set(&mut object, &format!("spec.volumes[1].cloudInitNoCloud.{field}"), json!("a".repeat(2048)));
        check(&object, &Settings::default()).unwrap();
    }
}

#[test]
fn a_closed_gate_is_said() {
    let settings =
        Settings { gates: Gates::Some([].into()), bridge_on_pod_network: false, ..Settings::default() };
    let cases: &[Case] = &[
        (
            &[("spec.volumes[0]", r#"{"name": "root", "hostDisk": {"path": "/a.img", "type": "Disk"}}"#)],
            "spec.volumes[0].hostDisk",
            "HostDisk feature gate is not enabled",
        ),
        (
            &[("spec.domain.devices.disks[3]", r#"{"name": "gone", "cdrom": {}}"#)],
            "spec.domain.devices.disks[3].name",
            "DeclarativeHotplugVolumes feature gate not enabled, cannot define an empty CD-ROM disk",
        ),
        (
            &[("spec.domain.rebootPolicy", r#""Reboot""#)],
            "spec.domain.rebootPolicy",
            "RebootPolicy is specified but the RebootPolicy feature gate is not enabled",
        ),
        (
            &[("spec.domain.devices.interfaces[0]", r#"{"name": "net", "bridge": {}}"#)],
            "spec.domain.devices.interfaces[0].name",
            "Bridge on pod network configuration is not enabled under kubevirt-config",
        ),
    ];
    for (changes, field, message) in cases {
        assert_eq!(faults(changes, &settings), [(field.to_string(), message.to_string())]);
    }
}

#[test]
fn all_faults_are_found_at_once() {
    let changes: Vec<(&str, &str)> = vec![
        ("spec.architecture", r#""arm64""#),
        ("spec.domain.devices.disks[0].cache", r#""unsafe""#),
        ("spec.domain.devices.tpm", "{}"),
        ("spec.hostname", r#""A""#),
    ];
    assert_eq!(faults(&changes, &Settings::default()).len(), 4);
}

fn faults(changes: &[(&str, &str)], settings: &Settings) -> Vec<(String, String)> {
    faults_of(changes, settings).into_iter().map(|fault| (fault.field, fault.message)).collect()
}

fn faults_of(changes: &[(&str, &str)], settings: &Settings) -> Vec<api::fault::Fault> {
    let mut object = base();
    for (path, value) in changes {
        set(&mut object, path, serde_json::from_str::<Value>(value).unwrap());
    }
    check(&object, settings).expect_err("no fault")
}
