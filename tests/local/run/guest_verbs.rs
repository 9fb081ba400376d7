//! The verbs that reach into a guest, on the VM `deb` of `debian.rs`: `cp`, `exec`, `forward`, `ssh`.

use super::{Laptop, PROGRAM, free_port, until};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tests::coracle::Ran;

/// Runs a program in the guest.
fn exec(laptop: &Laptop, args: &[&str]) -> Ran {
    laptop.run(&[&["exec", "deb", "--"], args].concat())
}

/// Output of a program in the guest, which succeeds.
#[track_caller]
fn text(laptop: &Laptop, args: &[&str]) -> String {
    String::from_utf8(exec(laptop, args).ok().out).unwrap()
}

/// Runs the command with this standard input.
fn with_input(laptop: &Laptop, args: &[&str], input: &[u8]) -> Ran {
    let piped = || Stdio::piped();
    let mut child = laptop.command(args).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that refuses its input closes the pipe.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let ran = Ran::of(child.wait_with_output().unwrap());
    writer.join().unwrap();
    ran
}

/// Files are the same behind a copy into the guest and out of it, and no part of a copy is left.
pub(super) fn copy_files(laptop: &Laptop) {
    let path = |name: &str| laptop.place.path(name);
    let cp = |from: &str, to: &str| laptop.run(&["cp", "-q", from, to]);
    laptop.place.shell("head -c 3000123 /dev/urandom >data && chmod 640 data && mkdir out && : >empty");
    cp("data", "deb:/var/tmp/data").ok();
    assert_eq!(text(laptop, &["stat", "-c", "%s %a %U", "/var/tmp/data"]), "3000123 640 root\n");
    cp("deb:/var/tmp/data", "back").ok();
    assert!(laptop.place.bytes("back") == laptop.place.bytes("data"), "the copy differs");
    assert_eq!(path("back").metadata().unwrap().permissions().mode() & 0o777, 0o644);

    // Over a file that is there, on both sides; an empty one, too.
    laptop.place.shell("echo short >short");
    cp("short", "deb:/var/tmp/data").ok();
    cp("deb:/var/tmp/data", "back").ok();
    assert_eq!(laptop.place.bytes("back"), b"short\n");
    cp("empty", "deb:/var/tmp/data").ok();
    cp("deb:/var/tmp/data", "back").ok();
    assert_eq!(laptop.place.bytes("back"), b"");

    // Into folders, with a name that a shell would take apart.
    let odd = "-a 'b' \"c\" $d *";
    std::fs::write(path(odd), "odd").unwrap();
    cp(&format!("./{odd}"), "deb:/var/tmp").ok();
    cp(&format!("deb:/var/tmp/{odd}"), "out").ok();
    assert_eq!(std::fs::read(path("out").join(odd)).unwrap(), b"odd");
    cp("short", &format!("deb:/var/tmp/{odd}")).ok();
    assert_eq!(text(laptop, &["cat", &format!("/var/tmp/{odd}")]), "short\n");

    // Of failures the exit code tells which.
    cp("nothing", "deb:/var/tmp/x").refused(4, "nothing");
    cp("deb:/var/tmp/nothing", "x").refused(4, "deb:/var/tmp/nothing: there is no such file");
    cp("deb:/var/tmp", "x").refused(3, "deb:/var/tmp is a folder");
    cp("short", "deb:/nowhere/x").refused(4, "deb:/nowhere: there is no such folder");
    cp("short", "deb:/nowhere/").refused(4, "deb:/nowhere: there is no such folder");
    exec(laptop, &["mkdir", "/var/tmp/short"]).ok();
    cp("short", "deb:/var/tmp").refused(3, "deb:/var/tmp/short is a folder");
    assert!(!path("x").exists());
    assert_eq!(text(laptop, &["find", "/var/tmp", "/root", "-name", "*.coracle*"]), "");
    assert_eq!(text(laptop, &["ls", "/var/tmp/short"]), "");
}

/// A program has its input, and its exit code is that of the command.
pub(super) fn run_programs(laptop: &Laptop) {
    let input = |input: &[u8], args: &[&str]| {
        with_input(laptop, &[&["exec", "-i", "deb", "--"], args].concat(), input)
    };
    assert_eq!(input(b"one\ntwo\n", &["cat"]).ok().out, b"one\ntwo\n");
    assert_eq!(input(b"", &["wc", "-c"]).ok().out, b"0\n");
    assert_eq!(input(&[b'x'; 96 << 10], &["wc", "-c"]).ok().out, b"98304\n");
    input(&[b'x'; (96 << 10) + 1], &["true"]).refused(3, "longer than 96 KiB");
    input(b"\xff", &["true"]).refused(3, "not text");
    // `-t` is nothing to pipes.
    let piped = with_input(laptop, &["exec", "-it", "deb", "--", "sh", "-c", "cat; exit 3"], b"x");
    assert_eq!((piped.code, piped.out), (3, b"x".to_vec()));

    exec(laptop, &["nothing-of-this-name"]).refused(127, "No such file or directory");
    exec(laptop, &["/etc/hostname"]).refused(126, "Permission denied");
    exec(laptop, &["/etc"]).refused(126, "Permission denied");
    let code = |script: &str| exec(laptop, &["sh", "-c", script]).code;
    assert_eq!([code("exit 1"), code("exit 42"), code("exit 255"), code("kill -9 $$")], [1, 42, 255, 137]);
    laptop.run(&["exec", "--timeout", "1", "deb", "--", "sleep", "20"]).refused(1, "still runs after 1 s");
}

/// A forward of a VM that runs leads to the guest at once, and is gone at once.
pub(super) fn forward_ports(laptop: &Laptop, key: &str) {
    let port = free_port();
    let banner = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        line.starts_with("SSH-2.0-").then_some(line)
    };
    let (one, listed) = (format!("{port}:22"), format!("127.0.0.1:{port}:22/tcp"));
    let forwards = || String::from_utf8(laptop.run(&["forward", "ls", "deb"]).ok().out).unwrap();
    let ssh = |args: &[&str]| laptop.run(&[&["ssh", "-i", key, "me@deb"], args].concat());
    ssh(&["true"]).refused(2, "no port is forwarded to port 22 of deb");
    assert_eq!(forwards(), "");

    laptop.run(&["forward", "add", "deb", &one]).ok();
    assert_eq!(forwards(), format!("{listed}\n"));
    until(|| banner().is_some(), || "the forward leads nowhere".into());
    laptop.run(&["forward", "add", "deb", &one]).refused(2, "is forwarded already");
    laptop.run(&["forward", "add", "deb", &format!("{port}:80")]).refused(1, "deb has it");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let held = format!("{}:80", taken.local_addr().unwrap().port());
    laptop.run(&["forward", "add", "deb", &held]).refused(1, "cannot be forwarded");
    assert_eq!(forwards(), format!("{listed}\n"), "a forward that failed is not recorded");
    assert!(laptop.status("deb")["ports"].to_string().contains(&port.to_string()));

    // By ssh, with the key from the manifest: input, output and exit code are the program's.
    let said = String::from_utf8(ssh(&["id -un; hostname; sudo id -u"]).ok().out).unwrap();
    assert_eq!(said, "me\nstory\n0\n");
    ssh(&["exit 7"]).refused(7, "");
    let upper = with_input(laptop, &["ssh", "-i", key, "me@deb", "tr a-z A-Z"], b"typed");
    assert_eq!(upper.ok().out, b"TYPED");

    let removed = laptop.run(&["forward", "rm", "deb", &port.to_string()]).ok();
    assert_eq!(String::from_utf8(removed.out).unwrap(), format!("{listed} removed\n"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "the port is still open");
    assert_eq!(forwards(), "");
    laptop.run(&["forward", "rm", "deb", &port.to_string()]).refused(4, "it has none");
}

/// A program in the guest on a terminal that is joined to one of this computer, which `script` makes.
pub(super) fn join_terminals(laptop: &Laptop) {
    let joined = |program: &str| {
        let ours = laptop.command(&[]);
        let line = format!("exec '{PROGRAM}' exec -it deb -- {program}");
        let mut command = Command::new("script");
        command.args(["-qefc", &line, "/dev/null"]).current_dir(laptop.place.folder());
        command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let folders = || text(laptop, &["find", "/run", "/tmp", "-maxdepth", "1", "-name", "coracle.*"]);

    let mut child = joined("sh -c 'stty size; tty; read word; echo got $word; exit 5'");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut shown = wait_for(&mut screen, "/dev/pts/");
    assert!(shown.contains("24 80"), "{shown}");
    keys.write_all(b"typed\n").unwrap();
    shown += &wait_for(&mut screen, "got typed");
    assert_eq!(child.wait().unwrap().code(), Some(5), "{shown}");

    // Time from a key to its echo.
    let mut child = joined("sh -c 'echo ready; exec cat'");
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Keys that are typed before are the shell's, as with any program.
    wait_for(&mut screen, "ready\r\n");
    let mut times: Vec<Duration> = (b'a'..=b'z').map(|key| echo(&mut keys, &mut screen, key)).collect();
    times.sort();
    eprintln!("a key and its echo: {:?} ({:?} to {:?})", times[13], times[0], times[25]);
    assert!(times[13] < Duration::from_secs(1), "{times:?}");
    keys.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(folders(), "");

    // Of a client that was killed the watch in the guest removes everything.
    if std::env::var_os("CORACLE_TEST_TIER").is_some_and(|tier| tier == "all") {
        let mut child = joined("sleep 4321");
        until(|| !folders().is_empty(), || "no terminal came up".into());
        child.kill().unwrap();
        child.wait().unwrap();
        until(|| folders().is_empty(), folders);
        assert_eq!(exec(laptop, &["pgrep", "-f", "sleep 4321"]).code, 1);
    }
}

/// What is shown until this text has come.
fn wait_for(screen: &mut impl std::io::Read, text: &str) -> String {
    let (mut shown, mut buffer) = (String::new(), [0; 4096]);
    while !shown.contains(text) {
        let count = screen.read(&mut buffer).unwrap();
        assert!(count > 0, "{text:?} is not in: {shown:?}");
        shown.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    shown
}

fn echo(keys: &mut impl std::io::Write, screen: &mut impl std::io::Read, key: u8) -> Duration {
    let begun = Instant::now();
    keys.write_all(&[key]).unwrap();
    wait_for(screen, &char::from(key).to_string());
    begun.elapsed()
}
