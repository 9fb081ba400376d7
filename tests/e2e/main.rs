//! VMs in a real cluster, as people use them: manifests, kubectl, a guest's console. Each test has a namespace of its
//! own and reads as a story. `make e2e` starts the cluster, installs the product and runs this; without it each test
//! says that it was skipped.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod admission;
mod bodies;
mod boots;
mod cdi;
mod charts;
mod claims;
mod clients;
mod clones;
mod components;
mod console;
mod crash;
mod crons;
mod csi;
mod debian;
mod deletion;
mod documents;
mod exports;
mod hooks;
mod images;
mod imports;
mod install;
mod installer;
mod instancetypes;
mod manifests;
mod measures;
mod migrations;
mod multus;
mod network;
mod nodes;
mod pods;
mod pools;
mod probes;
mod programs;
mod reasons;
mod registries;
mod release;
mod removal;
mod replicas;
mod rights;
mod settings;
mod shares;
mod strategies;
mod tpm;
mod trust;
mod upgrade;
mod uploads;
mod virtctl;
mod volumes;

/// What shows a file in the guest, once it is there: the guest mounts its seed behind everything else, after the login perhaps.
fn once_there(path: &str) -> String {
    format!("until cat {path} 2>/dev/null; do sleep 1; done")
}

/// A VM of the smallest guest: its kernel comes out of an image, all of it is in memory.
fn tiny(name: &str, strategy: &str) -> String {
    format!(
        "
apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata:
  name: {name}
spec:
  runStrategy: {strategy}
  template:
    spec:
      terminationGracePeriodSeconds: 20
      domain:
        resources:
          requests:
            memory: 256Mi
        firmware:
          kernelBoot:
            container:
              image: registry:5000/tiny:1
              kernelPath: /boot/vmlinux
              initrdPath: /boot/initrd
            kernelArgs: console=ttyS0 loglevel=5 tsc=reliable no_timer_check cryptomgr.notests init_on_alloc=0 mitigations=off
        devices:
          interfaces:
          - name: default
            masquerade: {{}}
      networks:
      - name: default
        pod: {{}}
"
    )
}

/// Opens the feature gates of all stories that want one, and permits their folder of nodes: whoever sets them sets all.
fn open_gates(space: &tests::cluster::Space) {
    let gates = r#"{"metadata":{"annotations":{"kubevirt.io/host-disk-folders":"/var/lib/e2e"}},
        "spec":{"configuration":{"developerConfiguration":{"featureGates":["HostDisk","Sidecar"]}}}}"#;
    space.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", gates]);
}

/// The same VM with further disks: of each, its device and its volume.
fn with_disks(vm: &str, disks: &[(&str, &str)]) -> String {
    let mut devices = "        devices:\n          disks:\n".to_owned();
    let mut volumes = "      volumes:\n".to_owned();
    for (device, volume) in disks {
        devices += &format!("          - {device}\n");
        volumes += &format!("      - {volume}\n");
    }
    let networks = "      networks:\n";
    vm.replace("        devices:\n", &devices).replace(networks, &format!("{volumes}{networks}"))
}

/// The same VM with further lines of its spec.
fn with_spec(vm: &str, lines: &str) -> String {
    vm.replace("    spec:\n", &format!("    spec:\n{lines}"))
}

/// The same VM without the kernel: it boots from its disks.
fn from_disks(vm: &str) -> String {
    let (before, rest) = vm.split_once("        firmware:\n").unwrap();
    let (_, after) = rest.split_once("        devices:\n").unwrap();
    format!("{before}        devices:\n{after}")
}
