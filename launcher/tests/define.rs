//! Every golden domain given to libvirt and QEMU: libvirt accepts it and adds no device of its own to the PCI bus, and
//! QEMU starts the VM.
//!
//! `virsh` opens libvirt inside its own process (`qemu:///embed`), so there is no daemon; each test has a folder of its
//! own.

#![allow(clippy::unwrap_used)]

use launcher::hypervisor::embed;
use launcher::root::Root;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn libvirt_accepts_every_domain_and_adds_nothing_to_the_pci_bus() {
    let place = Place::new();
    let mut script = String::new();
    let mut names = Vec::new();
    for (name, xml) in goldens("whole").into_iter().filter(|(name, _)| possible(name)) {
        script += &format!("define --validate {}\n", place.write(&name, &xml));
        script += &to_arguments(&name, &xml);
        script += &format!(
            "echo begin-{name}\ndumpxml --inactive {name}\necho end-{name}\nundefine {name} --nvram\n"
        );
        names.push((name, xml));
    }
    let (out, errors) = place.virsh(&script);
    assert_eq!(errors, Vec::<String>::new());
    for (name, xml) in names {
        let kept = out
            .split(&format!("begin-{name}\n"))
            .nth(1)
            .and_then(|rest| rest.split(&format!("end-{name}\n")).next());
        let kept = kept.unwrap_or_else(|| panic!("virsh shows no {name}: {out}"));
        assert_eq!(pci_addresses(kept), pci_addresses(&xml), "{name}");
    }
}

#[test]
fn libvirt_accepts_every_device() {
    let place = Place::new();
    let mut script = String::new();
    for (name, part) in goldens("device").into_iter().filter(|(name, _)| possible(name)) {
        script += &format!("define --validate {}\n", place.write(&name, &around(&name, &part)));
        script += &to_arguments(&name, &part);
        script += &format!("undefine {name} --nvram\n");
    }
    let (out, errors) = place.virsh(&script);
    assert_eq!(errors, Vec::<String>::new(), "{out}");
}

#[test]
fn qemu_starts_the_domains() {
    let place = Place::new();
    let mut script = String::new();
    let mut names = Vec::new();
    // Taps, huge pages and real time are the host's to give, and a file system's socket is virtiofsd's.
    let absent = [
        "hugepages",
        "realtime",
        "taps",
        "transitional",
        "kvm",
        "filesystems",
        "filesystems-i440fx",
        "host-devices",
        "host-devices-i440fx",
    ];
    for (name, xml) in goldens("whole").into_iter().filter(|(name, _)| !absent.contains(&name.as_str())) {
        // Each its own port, so that other programs of this host are not in the way.
        let xml = forwards_to_free_ports(&xml);
        place.make_disks(&xml);
        script += &format!("define {}\nstart --paused {name}\ndomstate {name}\n", place.write(&name, &xml));
        script += &format!("destroy {name}\nundefine {name} --nvram\n");
        names.push(name);
    }
    let (out, errors) = place.virsh(&script);
    assert_eq!(errors, Vec::<String>::new(), "{out}");
    assert_eq!(out.lines().filter(|line| *line == "paused").count(), names.len(), "{out}");
}

/// Name and text of each golden of a folder.
fn goldens(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/domain/golden").join(folder);
    let mut goldens: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_stem().unwrap().to_str().unwrap().to_string(), fs::read_to_string(path).unwrap())
        })
        .collect();
    goldens.sort();
    assert!(!goldens.is_empty());
    goldens
}

/// True if this host has the devices and the versions that the golden needs.
fn possible(name: &str) -> bool {
    let (libvirt, qemu) = (version("virsh"), version("qemu-system-x86_64"));
    let has_kvm = opens("/dev/kvm") || !(name == "kvm" || name.ends_with("-kvm"));
    // libvirt knows passt as a vhost-user device from 11.1 on.
    let has_passt = libvirt >= (11, 1) || !name.contains("passt");
    let has_mapping = (libvirt >= (10, 0) && qemu >= (9, 0)) || !name.ends_with("-mapping");
    has_kvm && has_passt && has_mapping
}

/// The first two numbers of a program's version.
fn version(program: &str) -> (u32, u32) {
    let said = Command::new(program).arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = text.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = version.unwrap_or_else(|| panic!("{program}: {text}")).split('.');
    let mut number = || numbers.next().unwrap().parse().unwrap();
    (number(), number())
}

/// Lets libvirt make QEMU's arguments of a domain. Huge pages, taps, the frequency of the TSC and the socket of a passt are the host's
/// to give, so such domains are left out.
fn to_arguments(name: &str, xml: &str) -> String {
    let absent = xml.contains("<hugepages>")
        || xml.contains("name='tsc'")
        || xml.contains("type='passt'")
        // libvirt looks at the device in /sys.
        || xml.contains("<hostdev")
        || xml.contains("type='ethernet'") && !opens("/dev/net/tun");
    if absent { String::new() } else { format!("domxml-to-native qemu-argv --domain {name}\n") }
}

fn opens(path: &str) -> bool {
    fs::File::options().read(true).write(true).open(path).is_ok()
}

/// A domain around one of its parts. The part replaces the default of the domain.
fn around(name: &str, part: &str) -> String {
    let has = |element: &str| part.lines().any(|line| line.starts_with(&format!("<{element}")));
    let inside =
        ["disk", "controller", "interface", "serial", "console", "channel", "input", "graphics", "video"];
    let inside = [
        &inside[..],
        &[
            "watchdog",
            "memballoon",
            "rng",
            "panic",
            "tpm",
            "filesystem",
            "sound",
            "redirdev",
            "vsock",
            "hostdev",
        ],
    ]
    .concat();
    let mut devices = String::new();
    let mut domain = String::new();
    let mut into_devices = false;
    for line in part.lines() {
        if let Some(element) = line.strip_prefix('<').filter(|rest| !rest.starts_with('/')) {
            let element = element.split([' ', '>', '/']).next().unwrap();
            into_devices = inside.contains(&element);
        }
        let text = if into_devices { &mut devices } else { &mut domain };
        *text += &format!("{line}\n");
    }
    let mut unless = |element: &str, text: &str| {
        if !has(element) {
            domain += text;
        }
    };
    unless("memory", "<memory unit='MiB'>64</memory>");
    unless("vcpu", "<vcpu>4</vcpu>");
    unless("iothreads", "<iothreads>4</iothreads>");
    unless("os", "<os><type arch='x86_64' machine='q35'>hvm</type></os>");
    unless("sysinfo", "<sysinfo type='smbios'/>");
    unless("features", "<features><acpi/></features>");
    // passt reads and writes it.
    if part.contains("type='passt'") {
        domain += "<memoryBacking><source type='memfd'/><access mode='shared'/></memoryBacking>";
    }
    if !has("serial") {
        devices += "<serial type='pty'/>";
    }
    if !has("memballoon") {
        devices += "<memballoon model='none'/>";
    }
    if !has("controller") {
        devices += "<controller type='usb' model='qemu-xhci' ports='15'>\
            <address type='pci' bus='0' slot='6' function='0'/></controller>\
            <controller type='scsi' model='virtio-non-transitional'/>\
            <controller type='pci' model='pcie-root'/><controller type='pci' index='1' model='pcie-root-port'/>";
    }
    let kind = if name.ends_with("-kvm") { "kvm" } else { "qemu" };
    format!(
        "<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'><name>{name}</name>{}\n\
         {domain}<devices>{devices}</devices></domain>",
        if part.contains("name='uuid'") { "<uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid>" } else { "" },
    )
}

/// The addresses on the PCI bus, sorted.
fn pci_addresses(xml: &str) -> Vec<&str> {
    let mut addresses: Vec<_> =
        xml.lines().map(str::trim).filter(|line| line.starts_with("<address type='pci'")).collect();
    addresses.sort_unstable();
    addresses
}

fn forwards_to_free_ports(xml: &str) -> String {
    let mut out = String::new();
    let mut rest = xml;
    while let Some((before, after)) = rest.split_once("tcp:127.0.0.1:") {
        let (_, after) = after.split_once('-').unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        out += &format!("{before}tcp:127.0.0.1:{port}-");
        rest = after;
    }
    out + rest
}

/// A folder that stands for `/vm`, with libvirt's own folder in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for folder in ["run", "xml"] {
            fs::create_dir_all(place.path(folder)).unwrap();
        }
        let root = Root::open(&place.path("root"), place.0.path()).unwrap();
        embed::ready(&root).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a domain under its golden's name, and returns the path.
    fn write(&self, name: &str, xml: &str) -> String {
        let path = self.path(&format!("xml/{name}.xml"));
        let xml = xml.replace("/vm/", &format!("{}/", self.0.path().display()));
        fs::write(&path, xml.replace("<name>default_vm</name>", &format!("<name>{name}</name>"))).unwrap();
        path.to_str().unwrap().to_string()
    }

    /// Makes every file below `/vm` that the domain names.
    fn make_disks(&self, xml: &str) {
        for name in xml.split("/vm/").skip(1).filter_map(|rest| rest.split(['<', '\'']).next()) {
            let path = self.path(name);
            match Path::new(name).extension().and_then(|extension| extension.to_str()) {
                Some("img") => fs::File::create(&path).unwrap().set_len(8 << 20).unwrap(),
                Some("qcow2") if name == "base.qcow2" => self.qcow2(&["base.qcow2", "8M"]),
                Some("qcow2") => {
                    self.qcow2(&["base.qcow2", "8M"]);
                    self.qcow2(&["-b", "base.qcow2", "-F", "qcow2", name]);
                }
                _ if name == "vmlinuz" => fs::write(path, linux_boot_sector()).unwrap(),
                _ if name == "initrd" => fs::write(path, [0; 512]).unwrap(),
                _ => {}
            }
        }
    }

    fn qcow2(&self, args: &[&str]) {
        let mut command = Command::new("qemu-img");
        let status =
            command.args(["create", "-q", "-f", "qcow2"]).args(args).current_dir(self.0.path()).status();
        let status = status.unwrap();
        assert!(status.success(), "qemu-img {args:?}");
    }

    /// Runs commands in one `virsh`: its output and its errors.
    fn virsh(&self, script: &str) -> (String, Vec<String>) {
        let file = self.path("script");
        fs::write(&file, script).unwrap();
        let done = Command::new("timeout")
            .args(["300", "virsh", "-q", "-c"])
            .arg(format!("qemu:///embed?root={}", self.path("root").display()))
            .stdin(Stdio::from(fs::File::open(file).unwrap()))
            .env("HOME", self.path("root/home"))
            .env("XDG_CACHE_HOME", self.path("root/home/cache"))
            .env("XDG_CONFIG_HOME", self.path("root/home/config"))
            .env("XDG_RUNTIME_DIR", self.path("run"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        let errors = text.lines().filter(|line| line.starts_with("error:")).map(String::from);
        (String::from_utf8_lossy(&done.stdout).into_owned(), errors.collect())
    }
}

/// The part of a Linux kernel that QEMU checks before it starts one.
fn linux_boot_sector() -> Vec<u8> {
    let mut kernel = vec![0; 64 << 10];
    let mut put = |at: usize, bytes: &[u8]| kernel[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x1fe, &[0x55, 0xaa]);
    put(0x202, b"HdrS");
    put(0x206, &0x020c_u16.to_le_bytes());
    put(0x211, &[1]);
    put(0x22c, &0x7fff_ffff_u32.to_le_bytes());
    kernel
}
