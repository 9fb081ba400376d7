//! Machines in a real cluster, as people use them: manifests, kubectl, a guest's console. Each test has a namespace of its
//! own and reads as a story. `make e2e` starts the cluster, installs the product and runs this; without it each test
//! says that it was skipped.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod admission;
mod boots;
mod console;
mod crash;
mod documents;
mod images;
mod install;
mod network;
mod reasons;
mod replicas;
mod strategies;
mod volumes;

/// A machine of the smallest guest: its kernel comes out of an image, all of it is in memory.
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
            kernelArgs: console=ttyS0
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
