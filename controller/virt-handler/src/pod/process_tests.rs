use super::*;
use std::io::BufRead as _;
use std::process::{Child, Command, Stdio};

const UID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

#[test]
fn whose_a_process_is_the_kernels_groups_say() {
    let of = |groups: &str| is_of(groups, UID);
    assert!(of("4:memory:/node1/kubepods/burstable/pod5d307ca9-b3ef-428c-8861-06e72d69f223/0123abcd\n"));
    assert!(of(
        "0::/../../kubepods-burstable-pod5d307ca9_b3ef_428c_8861_06e72d69f223.slice/cri-containerd-0.scope"
    ));
    assert!(!of("0::/user.slice/5d307ca9-b3ef-428c-8861-06e72d69f223"));
    assert!(!of("0::/kubepods/pod5d307ca9-b3ef-428c-8861-06e72d69f2234/x"));
    // A name that a container chooses must not match.
    assert!(!of("1:name=/pod5d307ca9-b3ef-428c-8861-06e72d69f223:/other"));
    assert!(!of(""));
}

#[test]
fn whose_container_a_process_is_in_the_kernels_groups_say() {
    let of = |groups: &str| is_in(groups, UID, "01ab");
    assert!(of(&format!("4:memory:/node1/kubepods/burstable/pod{UID}/01ab\n")));
    let pod = format!("0::/../../kubepods-burstable-pod{}.slice", UID.replace('-', "_"));
    assert!(
        of(&format!("{pod}/cri-containerd-01ab.scope")) && of(&format!("{pod}/crio-01ab.scope/container"))
    );
    // Another container of the pod, a cgroup that this one made, and another pod's.
    assert!(!of(&format!("{pod}/cri-containerd-02cd.scope")) && !of(&pod));
    assert!(!of(&format!("{pod}/cri-containerd-02cd.scope/01ab")));
    assert!(!of(&format!("{pod}/cri-containerd-f01ab.scope")));
    assert!(!of("0::/kubepods/pod11111111-b3ef-428c-8861-06e72d69f223/01ab"));
    assert!(!is_in(&format!("{pod}/cri-containerd-.scope"), UID, ""));
}

#[test]
fn a_limit_is_raised_and_never_lowered() {
    let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                Max locked memory         65536                unlimited            bytes     \n\
                Max realtime priority     0                    0                    \n";
    let limit = |current, maximum| Rlimit { current, maximum };
    let has = said_limit(text, "Max locked memory").unwrap();
    assert_eq!(has, limit(Some(65536), None));
    assert_eq!(said_limit(text, "Max realtime priority"), Some(limit(Some(0), Some(0))));
    assert_eq!(said_limit(text, "Max open files"), None);
    assert_eq!(larger(has, 1 << 20), limit(Some(1 << 20), None));
    assert_eq!(larger(has, 1), has);
    assert_eq!(larger(limit(None, None), 1), limit(None, None));
    // A process with a higher limit than requested.
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let process = Process::of(child.id()).unwrap();
    let before = process.limit(Resource::Memlock).unwrap();
    assert_eq!(before, rustix::process::getrlimit(Resource::Memlock), "a child has its parent's");
    process.raise(Resource::Memlock, 0).unwrap();
    assert_eq!(process.limit(Resource::Memlock).unwrap(), before);
    // A process with a lower limit; the hard limit is kept, so that the test needs no privileges.
    if before.maximum.is_none_or(|most| most >= 8192) {
        let pid = Some(Pid::from_child(&child));
        prlimit(pid, Resource::Memlock, limit(Some(4096), before.maximum)).unwrap();
        process.raise(Resource::Memlock, 8192).unwrap();
        assert_eq!(process.limit(Resource::Memlock).unwrap(), limit(Some(8192), before.maximum));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let said = process.raise(Resource::Memlock, 0).unwrap_err();
    assert!(said.to_string().contains("has ended"), "{said}");
}

#[test]
fn our_own_process_is_of_no_pod() {
    let process = Process::of(std::process::id()).unwrap();
    let said = process.check_pod(UID).unwrap_err();
    assert!(said.to_string().contains("does not belong"), "{said}");
    assert!(process.mounts().is_ok() && process.network().is_ok() && process.root().is_ok());
}

#[test]
fn what_is_held_of_a_process_ends_with_it() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let process = Process::of(child.id()).unwrap();
    assert!(process.is_alive() && process.root().is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!process.is_alive());
    let all = [
        process.root().map(drop),
        process.image().map(drop),
        process.mounts().map(drop),
        process.network().map(drop),
        process.check_pod(UID),
    ];
    for said in all {
        let said = said.unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Failed, "{said:?}");
        assert!(said.to_string().contains("has ended"), "{said}");
    }
    assert!(Process::of(child.id()).is_err() && Process::of(0).is_err() && Process::of(u32::MAX).is_err());
}

/// Between the socket's answer and the look into `/proc`, the process may end and its PID be reused.
#[test]
fn a_number_that_is_another_process_by_now_is_not_believed() {
    let mut child = Command::new("sleep").arg("600").spawn().unwrap();
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let said = Process::held(pidfd, std::process::id()).unwrap_err();
    assert!(said.to_string().contains("has ended"), "{said}");
}

/// A process in a user namespace of its own; `None` if this kernel permits none.
fn with_users_of_its_own(work: impl FnOnce(&Process)) {
    let mut child = Command::new("unshare")
        .args(["--user", "--mount", "--net", "sh", "-c", "echo ready; exec sleep 600"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    if line == "ready\n" {
        work(&Process::of(child.id()).unwrap());
    } else {
        assert!(line.is_empty(), "{line}");
    }
    drop(child.kill());
    child.wait().unwrap();
}

#[track_caller]
fn is_not_believed(said: Result<()>) {
    let said = said.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused, "{said}");
    assert!(said.to_string().contains("user namespace of its own"), "{said}");
}

/// In it, any user may mount, and enter another root.
#[test]
fn the_files_of_a_process_with_users_of_its_own_are_not_believed() {
    with_users_of_its_own(|process| {
        for said in [process.root().map(drop), process.image().map(drop), process.mounts().map(drop)] {
            is_not_believed(said);
        }
    });
}

/// In it, any user may make a network, and own its links.
#[test]
fn the_network_of_a_process_with_users_of_its_own_is_not_believed() {
    with_users_of_its_own(|process| is_not_believed(process.network().map(drop)));
}

#[test]
fn the_process_at_the_other_end_is_the_one_that_listens() {
    let place = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(place.path().join("s")).unwrap();
    let stream = UnixStream::connect(place.path().join("s")).unwrap();
    let process = Process::peer(&stream).unwrap().unwrap();
    assert_eq!(process.number, std::process::id());
    assert!(process.is_alive());
    drop(listener);
}

/// A process listens, and another continues with its socket: a later process with its PID is not taken for
/// the listener.
#[test]
fn a_listener_that_handed_its_socket_on_and_went_is_nobody() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let script = "use IO::Socket::UNIX; $| = 1;
        my $s = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 5) or die $!;
        if (fork) { exit }
        setpgrp; print \"$$\\n\"; sleep 600;";
    let mut first: Child =
        Command::new("perl").args(["-e", script]).arg(&path).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(first.stdout.take().unwrap()).read_line(&mut line).unwrap();
    first.wait().unwrap();
    let stream = UnixStream::connect(&path).unwrap();
    assert_eq!(peer::number(&stream).unwrap(), first.id(), "the kernel tells a number that is free again");
    let said = Process::peer(&stream).map(|found| found.map(|found| found.number)).unwrap_err();
    let second = i32::try_from(line.trim().parse::<u32>().unwrap()).ok().and_then(Pid::from_raw).unwrap();
    rustix::process::kill_process(second, rustix::process::Signal::KILL).unwrap();
    assert!(said.to_string().contains("has ended"), "{said}");
}
