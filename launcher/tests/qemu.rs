//! The console's relay and the screen at a real QEMU, whose guest is its own firmware: it writes to the serial console and
//! to the screen, and then finds no boot device.

use launcher::console::log::Log;
use launcher::console::{Begin, Mode, Options, Relay};
use launcher::screen::{Screen, png};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::net::UnixStream;

/// Long enough for a busy host; only a test that fails waits so long.
const SOON: Duration = Duration::from_secs(120);

/// QEMU; it ends with the value.
struct Qemu {
    folder: TempDir,
    process: Child,
    control: BufReader<UnixStream>,
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(SOON, future).await {
        Ok(done) => done,
        Err(_) => panic!("waited {SOON:?} for {what}"),
    }
}

impl Qemu {
    /// QEMU with its vCPUs stopped.
    async fn start() -> Qemu {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        // The port to which SeaBIOS writes its output.
        std::fs::write(path("port"), 0x3f8_u16.to_le_bytes()).expect("a file");
        let shown = |name: &str| path(name).display().to_string();
        let process = Command::new("qemu-system-x86_64")
            .args(["-S", "-nodefaults", "-no-user-config", "-machine", "q35,accel=tcg", "-m", "64"])
            .args(["-display", "none", "-vga", "std"])
            .args(["-vnc", &format!("unix:{}", shown("vnc"))])
            .args(["-fw_cfg", &format!("name=etc/sercon-port,file={}", shown("port"))])
            .arg("-chardev")
            .arg(format!(
                "socket,id=s,path={},server=on,wait=off,logfile={},logappend=on",
                shown("serial"),
                shown("log")
            ))
            .args(["-serial", "chardev:s", "-qmp", &format!("unix:{},server=on,wait=off", shown("qmp"))])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("QEMU is there (make setup)");
        let control = soon("QEMU's control socket", connect(&path("qmp"))).await;
        let mut qemu = Qemu { folder, process, control: BufReader::new(control) };
        qemu.order("qmp_capabilities", "{}").await;
        qemu
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits until QEMU has carried the command out.
    async fn order(&mut self, what: &str, arguments: &str) {
        let line = format!("{{\"execute\":\"{what}\",\"arguments\":{arguments}}}\n");
        self.control.write_all(line.as_bytes()).await.expect("QEMU listens");
        soon(what, async {
            loop {
                let mut answer = String::new();
                let size = self.control.read_line(&mut answer).await.expect("QEMU answers");
                assert!(size > 0 && !answer.starts_with("{\"error\""), "{what}: {answer}");
                if answer.starts_with("{\"return\"") {
                    return;
                }
            }
        })
        .await;
    }
}

async fn connect(path: &Path) -> UnixStream {
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return stream,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Reads until `wanted` has come, and returns all bytes.
async fn reads_until(client: &mut DuplexStream, wanted: &str) -> Vec<u8> {
    let mut read = Vec::new();
    soon(wanted, async {
        while !String::from_utf8_lossy(&read).contains(wanted) {
            let size = client.read_buf(&mut read).await.expect("the relay");
            assert!(size > 0, "an end instead of {wanted:?}: {}", String::from_utf8_lossy(&read));
        }
    })
    .await;
    read
}

#[tokio::test]
async fn a_firmware_on_the_serial_console() {
    let mut qemu = Qemu::start().await;
    let log = Log::new(qemu.path("log"), 64 << 10);
    let (give, lines) = launcher::console::lines();
    let relay = Relay::start(lines, Options { log: Some(log.clone()), ..Options::default() });
    let line = std::os::unix::net::UnixStream::connect(qemu.path("serial")).expect("QEMU's line");
    give.send(line.into()).expect("the relay");
    soon("the line", async {
        while !relay.status().connected {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let (mut client, theirs) = tokio::io::duplex(4 << 10);
    tokio::spawn(relay.reserve(Mode::Write, Begin::Everything).expect("a place").serve(theirs));
    qemu.order("cont", "{}").await;
    let mut all = reads_until(&mut client, "No bootable device").await;
    assert!(String::from_utf8_lossy(&all).contains("SeaBIOS"));

    // A later client gets the present screen.
    let (mut later, theirs) = tokio::io::duplex(4 << 10);
    tokio::spawn(relay.reserve(Mode::Read, Begin::Screen).expect("a place").serve(theirs));
    reads_until(&mut later, "No bootable device").await;

    // QEMU's log equals our bytes; and QEMU goes on in it after its front was cut off. What a stopped QEMU has written to
    // the log is on the line already, though the relay may not have read it yet.
    qemu.order("stop", "{}").await;
    let logged = std::fs::read(qemu.path("log")).expect("QEMU's log");
    soon("the rest", async {
        while all.len() < logged.len() {
            client.read_buf(&mut all).await.expect("the relay");
        }
    })
    .await;
    assert_eq!(logged, all);
    let filler = vec![b'-'; 64 << 10];
    let mut out = std::fs::OpenOptions::new().append(true).open(qemu.path("log")).expect("the log");
    std::io::Write::write_all(&mut out, &filler).expect("the log");
    assert_eq!(log.trim().expect("trimmed").lost, 0);
    let before = std::fs::read(qemu.path("log")).expect("the log");
    qemu.order("system_reset", "{}").await;
    qemu.order("cont", "{}").await;
    let again = reads_until(&mut client, "No bootable device").await;
    // QEMU writes to the line first, then to the log.
    qemu.order("stop", "{}").await;
    let after = std::fs::read(qemu.path("log")).expect("the log");
    assert!(after.starts_with(&[&before[..], &again[..]].concat()), "{}", String::from_utf8_lossy(&after));

    // The relay ends with QEMU.
    qemu.order("quit", "{}").await;
    soon("the relay's end", relay.finish()).await;
    soon("the client's end", client.read_to_end(&mut all)).await.expect("the relay");
}

#[tokio::test]
async fn a_firmware_on_the_screen() {
    let mut qemu = Qemu::start().await;
    let screen = Screen::new(qemu.path("vnc"), 4).expect("a screen");
    let mut viewers = Vec::new();
    for mode in [Mode::Write, Mode::Read] {
        let (mut viewer, theirs) = tokio::io::duplex(4 << 10);
        tokio::spawn(screen.reserve(mode).await.expect("a place").serve(theirs));
        let mut greeting = [0; 12];
        soon("VNC", viewer.read_exact(&mut greeting)).await.expect("VNC");
        assert_eq!(&greeting, b"RFB 003.008\n");
        viewers.push(viewer);
    }

    qemu.order("cont", "{}").await;
    let dump = qemu.path("screen.ppm");
    // Before its first letter the firmware shows one colour.
    let ppm = soon("something on the screen", async {
        loop {
            qemu.order("screendump", &format!("{{\"filename\":\"{}\"}}", dump.display())).await;
            let ppm = std::fs::read(&dump).expect("a picture");
            let points = &ppm[ppm.len() / 2..];
            if points.iter().any(|byte| *byte != points[0]) || ppm[20..].iter().any(|byte| *byte != ppm[20]) {
                return ppm;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    // Both viewers stay while the pointer is moved.
    soon("the pointer", screen.wake()).await.expect("the pointer is moved");
    for viewer in &mut viewers {
        viewer.write_all(b"RFB 003.008\n").await.expect("VNC");
        let mut kinds = [0; 2];
        soon("VNC", viewer.read_exact(&mut kinds)).await.expect("VNC");
        assert_eq!(kinds, [1, 1]);
    }
    let picture = qemu.path("screen.png");
    std::fs::write(&picture, png::from_ppm(&ppm).expect("a picture")).expect("a file");
    let read = Command::new("pngtopnm").arg(&picture).output().expect("pngtopnm is there (make setup)");
    assert_eq!(read.stdout, ppm);
}
