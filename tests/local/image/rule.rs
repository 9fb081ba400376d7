//! The rule by which all verbs read names, as a user meets it: each input under each verb.

use super::*;
use ::tests::registry::Registry;
use std::process::Command;

/// Verbs that read the disk of a source.
const OF_DISKS: [&[&str]; 5] = [
    &["inspect", "NAME"],
    &["verify", "NAME"],
    &["convert", "-q", "NAME", "../out.img"],
    &["build", "-q", "-t", "oci:../built", "NAME"],
    &["run", "--dry-run", "-q", "NAME"],
];
/// Verbs that read an image.
const OF_IMAGES: [&[&str]; 2] =
    [&["copy", "-q", "NAME", "oci:../copied"], &["pull", "-q", "NAME", "pulled:1"]];

/// Meaning of an input: for verbs that read disks, and for verbs that read images.
enum Wanted {
    /// A disk in a file.
    File,
    Image,
    /// An error of all verbs, with its exit code.
    Error(i32, &'static str),
}

fn run(place: &Place, line: &[&str], name: &str) -> Ran {
    let args: Vec<&str> = line.iter().map(|word| if *word == "NAME" { name } else { word }).collect();
    let mut command: Command = place.command(&args);
    command.env("CORACLE_HOME", place.path("h")).current_dir(place.path("sub"));
    command.env("CORACLE_STORE", place.path(".local/share/coracle/store"));
    Ran::of(command.output().unwrap())
}

#[test]
fn every_verb_reads_a_name_alike() {
    let (place, registry) = (place(21), Registry::start());
    let remote = format!("{}/team/os:1", registry.address());
    place.shell(
        "mkdir -p sub/deep quay.io && ln -s ../disk.qcow2 sub/link.qcow2 && ln -s gone sub/dangling \
         && cp disk.qcow2 sub/here.qcow2 && cp disk.qcow2 sub/both && cp disk.qcow2 sub/deep/in.qcow2",
    );
    for name in ["os:12", "both", "oci:layout:1", "oci-archive:a.tar:1", "docker-archive:d.tar:group/os:1"] {
        place.run(&["build", "-q", "-t", name, "disk.qcow2"]).ok();
    }
    place.run(&["build", "-q", "--push", "-t", &remote, "disk.qcow2"]).ok();
    let docker = format!("docker://{remote}");
    let (absolute, url) = (place.path("disk.qcow2"), place.path("sub/here.qcow2"));
    let (absolute, url) = (absolute.display().to_string(), format!("file://{}", url.display()));
    let table = [
        (docker.as_str(), Wanted::Image),
        (remote.as_str(), Wanted::Image),
        ("oci:../layout", Wanted::Image),
        ("oci:../layout:1", Wanted::Image),
        ("oci:~/layout", Wanted::Image),
        ("oci-archive:../a.tar", Wanted::Image),
        ("docker-archive:../d.tar", Wanted::Image),
        ("docker-archive:../d.tar:1", Wanted::Image),
        ("docker-archive:../d.tar:group/os:1", Wanted::Image),
        ("docker-archive:~/d.tar:group/os:1", Wanted::Image),
        ("store:os:12", Wanted::Image),
        ("store:both", Wanted::Image),
        ("os:12", Wanted::Image),
        ("here.qcow2", Wanted::File),
        ("./here.qcow2", Wanted::File),
        ("../disk.qcow2", Wanted::File),
        ("deep/../../disk.qcow2", Wanted::File),
        ("deep/in.qcow2", Wanted::File),
        ("link.qcow2", Wanted::File),
        ("./link.qcow2", Wanted::File),
        ("~/disk.qcow2", Wanted::File),
        (absolute.as_str(), Wanted::File),
        (url.as_str(), Wanted::File),
        ("file:here.qcow2", Wanted::File),
        ("file:~/disk.qcow2", Wanted::File),
        ("./both", Wanted::File),
        ("both", Wanted::Error(2, "both is a file and an image of the store; write ./both or store:both")),
        ("./nope.qcow2", Wanted::Error(4, "there is no file ./nope.qcow2")),
        ("../nope.qcow2", Wanted::Error(4, "there is no file ../nope.qcow2")),
        ("/nope/nope.qcow2", Wanted::Error(4, "there is no file /nope/nope.qcow2")),
        ("~/nope.qcow2", Wanted::Error(4, "there is no file ")),
        (
            "os:13",
            Wanted::Error(4, "os:13 is neither a file here nor an image of the store; the store has os:12"),
        ),
        ("Nope", Wanted::Error(4, "a file is written ./Nope, an image in a registry docker://HOST/REPO:TAG")),
        ("deep/nope", Wanted::Error(4, "deep/nope is neither a file here nor an image of the store")),
        ("store:nope", Wanted::Error(4, "nope")),
        ("oci:nope", Wanted::Error(4, "nope")),
        ("docker://host", Wanted::Error(2, "docker://HOST/REPO")),
        ("quay.io/Up:1", Wanted::Error(2, "there is no file quay.io/Up:1 either")),
        ("s3://bucket/key", Wanted::Error(2, "s3:// names are not supported")),
        ("~nobody/disk.img", Wanted::Error(2, "home folder of another user")),
    ];
    let mut faults = vec![];
    for (name, wanted) in &table {
        for (line, is_of_images) in
            OF_DISKS.iter().map(|line| (line, false)).chain(OF_IMAGES.iter().map(|line| (line, true)))
        {
            let ran = run(&place, line, name);
            let (code, said) = match wanted {
                Wanted::Error(code, said) => (*code, *said),
                Wanted::File if is_of_images => (4, "is a file here, and an image is asked for"),
                Wanted::File | Wanted::Image => (0, ""),
            };
            if ran.code != code || !ran.err.contains(said) || ran.err.contains("host name") {
                faults.push(format!("{name} as in {line:?}: {} {}", ran.code, ran.err));
            }
            let _ = std::fs::remove_dir_all(place.path("built"));
            let _ = std::fs::remove_dir_all(place.path("copied"));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn names_in_the_store_are_never_files() {
    let place = place(22);
    let run = |line: &[&str]| run(&place, line, "");
    place.shell("mkdir sub && touch sub/os:12 sub/os:13");
    place.run(&["build", "-q", "-t", "os:12", "disk.qcow2"]).ok();
    run(&["tag", "os:12", "os:13"]).ok();
    run(&["rmi", "os:13"]).ok();
    run(&["rmi", "os:13"]).refused(4, "the store has no image \"os:13\"");
    run(&["push", "os:12"])
        .refused(2, "os:12 names no registry to push to; coracle push os:12 docker://HOST/os:12");
    for line in
        [&["tag", "./os:12", "os:14"][..], &["rmi", "./os:12"], &["push", "/os:12"], &["tag", "os:12", "~/x"]]
    {
        run(line).refused(2, "is a path, and a name in the store is asked for");
    }
    for line in [&["copy", "store:os:12", "./x.tar"][..], &["build", "-t", "../x", "../disk.qcow2"]] {
        run(line)
            .refused(2, "is a path, and the name of an image is asked for; an image in a file is written");
    }
    run(&["convert", "pvc/golden", "x.img"])
        .refused(2, "'coracle build' alone reads; a local file of this name is written ./pvc/golden");
    run(&["rmi", "docker://h.example/os:1"]).refused(2, "no copy of it is on this computer");
}

#[test]
fn an_image_of_a_registry_keeps_its_full_name_and_goes_back_by_it() {
    let (place, registry) = (place(23), Registry::start());
    let name = format!("{}/team/os:1", registry.address());
    let ran = place.run(&["build", "-t", &name, "disk.qcow2"]).ok();
    assert!(ran.err.contains("is in a registry, and is sent there; --push says so"), "{}", ran.err);
    let ran = place.run(&["build", "--push", "-t", &name, "disk.qcow2"]).ok();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    let stored = || String::from_utf8(place.run(&["images", "-q"]).ok().out).unwrap();
    assert_eq!(stored(), "", "it was sent and not kept");
    for text in [name.clone(), format!("docker://{name}")] {
        place.run(&["pull", "-q", &text]).ok();
        assert_eq!(stored(), format!("{name}\n"));
        place.run(&["push", "-q", &text]).ok();
        let remote = place.run(&["rmi", &format!("docker://{name}")]);
        remote.refused(2, &format!("coracle rmi {name} removes the copy on this computer"));
        place.run(&["rmi", &name]).ok();
        assert_eq!(stored(), "");
    }
    let next = name.replace(":1", ":2");
    place.run(&["build", "-q", "-t", "os:2", "disk.qcow2"]).ok();
    place.run(&["tag", "os:2", &next]).ok();
    place.run(&["push", "-q", &next]).ok();
    place.run(&["inspect", &next]).ok();
    let keeping = name.replace(":1", ":3");
    let ran = place.run(&["build", "--keep", "-t", &format!("docker://{keeping}"), "disk.qcow2"]).ok();
    assert!(!ran.err.contains("warning"), "{}", ran.err);
    assert!(stored().lines().any(|line| line == keeping), "{}", stored());
    // The copy that --push made before is made still, and a warning says what to write.
    let old = name.replace(":1", ":4");
    let ran = place.run(&["build", "--push", "-t", &format!("docker://{old}"), "disk.qcow2"]).ok();
    assert!(ran.err.contains(&format!("--push also keeps the image as store:team/os:4, and will not in a later version; --keep keeps it, as store:{old}")), "{}", ran.err);
    assert!(stored().lines().any(|line| line == "team/os:4"), "{}", stored());
}

#[test]
fn the_rule_is_in_the_help_of_each_verb() {
    let place = Place::empty(PROGRAM);
    for verb in ["run", "convert", "pull", "push", "build", "inspect", "verify", "tag", "rmi", "copy"] {
        let text = String::from_utf8(place.run(&[verb, "--help"]).ok().out).unwrap();
        assert!(text.contains("Names: a scheme decides (docker://"), "{verb}: {text}");
    }
    let text = String::from_utf8(place.run(&["virt", "image-upload", "--help"]).ok().out).unwrap();
    assert!(text.contains("Names: a scheme decides (docker://"), "{text}");
}
