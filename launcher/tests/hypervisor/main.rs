//! One suite for every hypervisor: the fake, and libvirt with QEMU inside this process. Both behave alike, so that results
//! with the fake hold for libvirt.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../src/bin/virt-launcher/libvirt/mod.rs"]
mod libvirt;
#[allow(dead_code, reason = "the program uses all of it")]
#[path = "../../src/bin/virt-launcher/memory.rs"]
mod memory;
#[path = "../../src/bin/virt-launcher/remains.rs"]
mod remains;

use launcher::hypervisor::fake::Fake;
use launcher::hypervisor::{Condition, End, ErrorKind, Event, Hypervisor, Pause, embed};
use launcher::root::Root;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Firmware without a boot device: it ignores the power button, and has a screen.
const XML: &str = "<domain type='qemu'><name>suite_vm</name><uuid>5d307ca9-b3ef-428c-8861-06e72d69f223</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>\
    <os><type arch='x86_64' machine='q35'>hvm</type></os><features><acpi/></features>\
    <devices><controller type='usb' model='none'/><memballoon model='none'/>\
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>\
    <serial type='pty'/>\
    <video><model type='vga'/></video></devices></domain>";
const NAME: &str = "suite_vm";

/// The same with a disk that has several IOThreads.
fn with_pool() -> String {
    let disk = "<iothreads>2</iothreads><devices><disk type='file' device='disk'><driver name='qemu' type='raw'><iothreads>\
        <iothread id='1'/><iothread id='2'/></iothreads></driver><source file='/none'/><target dev='vda' bus='virtio'/></disk>";
    XML.replace("<devices>", disk)
}

#[test]
fn the_fake_passes() {
    conform(&Fake::default());
}

#[test]
#[allow(unsafe_code)] // the environment, which libvirt reads
fn libvirt_passes() {
    let place = tempfile::Builder::new().prefix("hv").tempdir_in("/tmp").unwrap();
    // Each of these letters has a meaning in a URI, or ends an option of QEMU's.
    let root = Root::open(&place.path().join("r?a#b&c%d e=f,g"), place.path()).unwrap();
    embed::ready(&root).unwrap();
    for (name, value) in embed::environment(&root) {
        // SAFETY: the only other test of this program neither reads nor writes the environment.
        unsafe { std::env::set_var(name, value) };
    }
    let libvirt = libvirt::Libvirt::open(&embed::uri(&root), Some(root.pids())).unwrap();
    conform(&libvirt);
    assert!(root.pids().is_dir(), "the driver keeps its files in its own folder");
    // A comma ends an option where libvirt probes QEMU: the folder is reached through a link.
    let mut there: Vec<_> =
        std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    there.sort();
    assert_eq!(there, ["coracle", "r?a#b&c%d e=f,g"], "and nowhere else");
}

/// A domain, through all verbs and events.
fn conform(hypervisor: &dyn Hypervisor) {
    let about = hypervisor.about().unwrap();
    assert_eq!(about.version.split('.').count(), 3, "{about:?}");
    if hypervisor.has_iothread_mapping().unwrap() {
        hypervisor.define(&with_pool()).unwrap();
        hypervisor.undefine(NAME).unwrap();
    }

    // A missing domain.
    assert_eq!(hypervisor.state(NAME).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(hypervisor.start(NAME).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(hypervisor.destroy(NAME).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(hypervisor.undefine(NAME).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(hypervisor.define("<domain").unwrap_err().kind(), ErrorKind::Invalid);

    let (tell, told) = channel();
    // A test that is over ignores further events.
    hypervisor.watch(NAME, Box::new(move |event| drop(tell.send(event)))).unwrap();

    // A domain that does not run.
    hypervisor.define(XML).unwrap();
    hypervisor.define(XML).unwrap();
    let seen = hypervisor.state(NAME).unwrap();
    assert!(matches!(seen.condition, Condition::Off(_)) && seen.pid.is_none(), "{seen:?}");
    for result in [
        hypervisor.pause(NAME),
        hypervisor.resume(NAME),
        hypervisor.shutdown(NAME),
        hypervisor.reset(NAME),
        hypervisor.destroy(NAME),
        hypervisor.screenshot(NAME, &mut Vec::new()),
        hypervisor.stats(NAME).map(drop),
        hypervisor.line(NAME).map(drop),
        hypervisor.keep_file(NAME, "pipe", std::io::stderr().as_fd()),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::NotNow);
    }

    // A start waits, and the serial console can be opened.
    hypervisor.start(NAME).unwrap();
    until(&told, &Event::Started);
    let seen = hypervisor.state(NAME).unwrap();
    assert_eq!(seen.condition, Condition::Paused(Pause::Asked));
    assert!(seen.pid.is_some() && !seen.agent, "{seen:?}");
    assert!(hypervisor.line(NAME).unwrap().is_some());
    let (mut kept, end) = std::io::pipe().unwrap();
    hypervisor.keep_file(NAME, "pipe", end.as_fd()).unwrap();
    drop(end);
    assert_eq!(hypervisor.start(NAME).unwrap_err().kind(), ErrorKind::NotNow);
    hypervisor.resume(NAME).unwrap();
    until(&told, &Event::Resumed);
    assert_eq!(hypervisor.state(NAME).unwrap().condition, Condition::Running);
    hypervisor.pause(NAME).unwrap();
    until(&told, &Event::Paused(Pause::Asked));
    hypervisor.pause(NAME).unwrap();
    hypervisor.resume(NAME).unwrap();
    until(&told, &Event::Resumed);

    let mut picture = Vec::new();
    hypervisor.screenshot(NAME, &mut picture).unwrap();
    assert!(picture.starts_with(b"\x89PNG") || picture.starts_with(b"P6"), "{:?}", picture.get(..8));
    let stats = hypervisor.stats(NAME).unwrap();
    assert!(stats.cpu_ns > 0 && stats.memory.domain == 32 << 20, "{stats:?}");
    // Each question begins to measure how fast memory is written; a later one hears it.
    let began = Instant::now();
    while hypervisor.stats(NAME).unwrap().dirty_bytes_per_second.is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is never measured");
        std::thread::sleep(Duration::from_millis(200));
    }
    let asked = hypervisor.agent(NAME, r#"{"execute":"guest-ping"}"#, Duration::from_secs(1));
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::NoAgent);
    hypervisor.reset(NAME).unwrap();
    until(&told, &Event::Rebooted);

    // The end, of the file that was kept too, and again.
    rustix::io::ioctl_fionbio(&kept, true).unwrap();
    assert_eq!(kept.read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    rustix::io::ioctl_fionbio(&kept, false).unwrap();
    hypervisor.destroy(NAME).unwrap();
    until(&told, &Event::Ended(End::Destroyed));
    assert_eq!(kept.read(&mut [0]).unwrap(), 0);
    assert_eq!(hypervisor.state(NAME).unwrap().condition, Condition::Off(End::Destroyed));
    hypervisor.start(NAME).unwrap();
    hypervisor.resume(NAME).unwrap();
    until(&told, &Event::Resumed);
    hypervisor.destroy(NAME).unwrap();
    until(&told, &Event::Ended(End::Destroyed));
    hypervisor.undefine(NAME).unwrap();
    assert_eq!(hypervisor.state(NAME).unwrap_err().kind(), ErrorKind::NotFound);
}

/// Waits for the event, whatever comes before it.
fn until(told: &Receiver<Event>, wanted: &Event) {
    let mut others = Vec::new();
    loop {
        match told.recv_timeout(Duration::from_secs(60)) {
            Ok(event) if event == *wanted => return,
            Ok(event) => others.push(event),
            Err(_) => panic!("no {wanted:?}, only {others:?}"),
        }
    }
}
