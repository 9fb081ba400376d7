//! Names of images, and the content of the store.

use super::*;

#[test]
fn a_name_is_a_path_or_an_image_and_never_a_guess() {
    let place = place(1);
    place.run(&["build", "-t", "disk.qcow2", "disk.qcow2"]).ok();
    place.run(&["inspect", "disk.qcow2"]).refused(2, "write ./disk.qcow2 or store:disk.qcow2");
    place.run(&["convert", "./disk.qcow2", "a.img"]).ok();
    place.run(&["convert", "store:disk.qcow2", "b.img"]).ok();
    place.is_the_disk("a.img");
    place.is_the_disk("b.img");
    // An output without a scheme is a path; an image needs a scheme.
    place.run(&["tag", "disk.qcow2", "os:1"]).ok();
    place.run(&["convert", "os:1", "os:2"]).ok();
    place.is_the_disk("os:2");
    place
        .run(&["convert", "disk.raw", "docker://h/win:1"])
        .refused(2, "coracle build -t docker://h/win:1 disk.raw");
    place.run(&["convert", "disk.raw", "store:win"]).refused(2, "coracle build");
    for (name, code, said) in [
        ("oci:nothing", 4, "nothing"),
        ("store:nothing", 4, "nothing"),
        ("docker-archive:nothing.tar", 4, "nothing.tar"),
        ("docker://no-repository", 2, "docker://HOST/REPO"),
        ("s3://bucket/key", 2, "docker://"),
        ("Nothing", 4, "Nothing"),
    ] {
        place.run(&["inspect", name]).refused(code, said);
    }
}

#[test]
fn the_store_is_listed_named_and_emptied() {
    let place = place(2);
    let text = |args: &[&str]| String::from_utf8(place.run(args).ok().out).unwrap();
    assert_eq!(text(&["images", "-q"]), "");
    let none = place.run(&["images"]).ok().err;
    assert!(
        none.contains("the store ") && none.contains(".local/share/coracle/store has no images"),
        "{none}"
    );
    assert!(["-q", "--json"].iter().all(|flag| place.run(&["images", flag]).ok().err.is_empty()));
    assert!(!place.path(".local").exists(), "looking makes nothing");
    let digest = built(&place, &["-t", "os:1", "-t", "group/os", "disk.qcow2"]);
    place.run(&["tag", "os:1", "os:2"]).ok();
    assert_eq!(text(&["images", "-q"]), "group/os:latest\nos:1\nos:2\n");
    let listed = place.run(&["images", "--json"]).ok().json();
    assert_eq!(listed["images"].as_array().unwrap().len(), 3);
    assert!(listed["images"].as_array().unwrap().iter().all(|image| image["digest"] == digest.as_str()));
    place.run(&["rmi", "os:1", "group/os"]).ok();
    assert!(text(&["prune"]).starts_with("0 blobs"));
    place.run(&["convert", "os:2", "out.img"]).ok();
    place.run(&["tag", "os:2", "os:3"]).ok();
    assert_eq!(place.run(&["images"]).ok().err, "", "it has images");
    let partly =
        place.run(&["rmi", "os:3", "os:77", "os:2"]).refused(4, "`coracle images` lists what it has");
    assert!(partly.err.starts_with("os:3 is removed\n"), "{}", partly.err);
    assert_eq!(text(&["images", "-q"]), "os:2\n", "it ended at the name that is not there");
    place.run(&["rmi", "os:2"]).ok();
    assert_eq!(place.run(&["prune", "--json"]).ok().json()["blobs"], 3);
    place.run(&["rmi", "os:2"]).refused(4, "os:2");
    place.run(&["tag", "nothing", "os"]).refused(4, "nothing");
    place.run(&["rmi", "docker://h/os"]).refused(2, "not in the store");
    let store =
        place.command(&["images", "--json"]).env("CORACLE_STORE", place.path("other")).output().unwrap();
    assert!(Ran::of(store).ok().json()["store"].as_str().unwrap().ends_with("/other"));
}

#[test]
fn folders_that_anybody_may_write_to_are_no_store_and_layouts_in_them_are_warned_of() {
    let place = place(5);
    // Whatever the umask, created folders are writable for their owner alone.
    let build = |name: &str| {
        let line = format!("umask 0 && {PROGRAM} build -q -t {name} disk.qcow2");
        let mut command = place.command(&[]);
        let environment: Vec<_> =
            command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        command = std::process::Command::new("sh");
        command.args(["-c", &line]).current_dir(place.folder());
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Ran::of(command.output().unwrap()).ok()
    };
    build("os:1");
    build("oci:layout");
    for name in ["os:1", "oci:layout"] {
        let ran = place.run(&["verify", "-q", name]).ok();
        assert_eq!(ran.err, "", "nothing to warn of");
    }
    place.shell("chmod 777 layout");
    let ran = place.run(&["verify", "oci:layout"]).ok();
    assert!(ran.err.contains("oci:layout: layout can be written to by others (mode 0777)"), "{}", ran.err);
    let store = place.path(".local/share/coracle/store");
    place.shell("chmod 777 .local/share/coracle/store");
    for verb in [&["images"][..], &["verify", "os:1"], &["inspect", "os:1"], &["rmi", "os:1"], &["prune"]] {
        let ran = place.run(verb).refused(1, "store can be written to by others (mode 0777)");
        assert!(ran.err.contains(&format!("(chmod go-w {})", store.display())), "{}", ran.err);
    }
    place.run(&["pull", "oci:layout", "os:2"]).refused(1, "the store ");
    // A verb that does not need the store does not warn about it.
    place.run(&["inspect", "./disk.qcow2"]).ok();
    place.shell("chmod go-w .local/share/coracle/store");
    place.run(&["verify", "os:1"]).ok();
}

#[test]
fn a_file_without_a_folder_is_found_though_the_user_has_a_store_elsewhere() {
    let place = place(4);
    let elsewhere = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        Ran::of(place.command(args).env("CORACLE_STORE", elsewhere.path()).output().unwrap()).ok()
    };
    run(&["build", "-t", "os:1", "disk.qcow2"]);
    std::fs::create_dir(place.path("out")).unwrap();
    run(&["convert", "disk.qcow2", "out/file.img"]);
    run(&["inspect", "disk.qcow2"]);
    run(&["verify", "disk.qcow2"]);
    run(&["build", "-t", "oci-archive:out/os.tar", "disk.qcow2"]);
    place.is_the_disk("out/file.img");
    // And an image of that store by its name alone.
    run(&["convert", "os:1", "out/image.img"]);
    run(&["inspect", "os:1"]);
    run(&["verify", "os:1"]);
    place.is_the_disk("out/image.img");
}

#[test]
fn who_names_no_image_is_told_how_one_is_named() {
    let place = place(9);
    let said = "docker://HOST/REPO:TAG";
    place.run(&["pull", "nothing"]).refused(4, said);
    place.run(&["copy", "nothing:1", "oci:there"]).refused(4, said);
    place.run(&["copy", "disk.qcow2", "os:1"]).refused(4, "coracle build -t NAME disk.qcow2");
    place.run(&["build", "-t", "oci-archive:no/such/x.tar", "disk.qcow2"]).refused(4, "make it first");
}

/// An archive begins with the removal of what an earlier run left under its names, and ends with a rename.
#[test]
fn an_archive_does_not_take_the_place_of_what_it_is_made_of() {
    let place = place(11);
    place.run(&["build", "-q", "-t", "oci-archive:a.tar:one", "disk.qcow2"]).ok();
    place.shell(
        "cp disk.qcow2 f.qcow2; cp disk.qcow2 x.partial; cp disk.qcow2 y.partial.journal; cp disk.qcow2 k.partial; \
         mkdir before; cp a.tar f.qcow2 x.partial y.partial.journal k.partial before",
    );
    for (args, said) in [
        (&["build", "-q", "-t", "oci-archive:f.qcow2", "f.qcow2"][..], "is the source itself"),
        (&["build", "-q", "-t", "docker-archive:f.qcow2", "./f.qcow2"], "is the source itself"),
        (&["build", "-q", "-t", "oci-archive:x", "x.partial"], "the source is x.partial"),
        (&["build", "-q", "-t", "oci-archive:y", "y.partial.journal"], "the source is y.partial.journal"),
        (&["build", "-q", "-t", "oci-archive:k", "--kernel", "k.partial"], "the source is k.partial"),
        (
            &["build", "-q", "-t", "oci-archive:k", "--kernel", "disk.qcow2", "--initrd", "k.partial"],
            "the source is k.partial",
        ),
        (&["copy", "-q", "oci-archive:a.tar:one", "docker-archive:a.tar"], "is the source itself"),
        (&["convert", "-q", "--format", "raw", "oci-archive:a.tar", "a.tar"], "is the source itself"),
        (&["convert", "-q", "y.partial.journal", "y"], "the source is y.partial.journal"),
    ] {
        place.run(args).refused(2, said);
    }
    place.shell("for file in before/*; do cmp $file ${file#before/}; done");
    place.run(&["build", "-q", "-t", "oci-archive:z", "x.partial"]).ok();
}

#[test]
fn an_archive_does_not_take_the_place_of_a_file_in_use() {
    let place = place(12);
    place.shell("cp disk.qcow2 vm.qcow2");
    let user = std::fs::File::open(place.path("vm.qcow2")).unwrap();
    user.lock_shared().unwrap();
    for scheme in ["oci-archive", "docker-archive"] {
        let name = format!("{scheme}:vm.qcow2");
        place.run(&["build", "-q", "-t", &name, "disk.qcow2"]).refused(1, "vm.qcow2 is in use");
    }
    place.shell("cmp disk.qcow2 vm.qcow2 && test ! -e vm.qcow2.partial");
    drop(user);
    place.run(&["build", "-q", "-t", "oci-archive:vm.qcow2", "disk.qcow2"]).ok();
}

#[test]
fn a_full_file_system_is_told_with_what_to_do() {
    let place = place(10);
    let small = place.path("small");
    std::fs::create_dir(&small).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&small);
    if !mount.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let ran = ["oci:small/layout", "oci-archive:small/x.tar", "docker-archive:small/y.tar"]
        .map(|name| place.run(&["build", "-q", "-t", name, "disk.qcow2"]));
    assert!(std::process::Command::new("umount").arg(&small).status().unwrap().success());
    for ran in ran {
        ran.refused(1, "its file system is full; make room there or choose another place");
    }
}

#[test]
fn the_folder_for_vms_holds_the_store_too() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place(6);
    let home = place.path("h");
    let moved = |args: &[&str]| Ran::of(place.command(args).env("CORACLE_HOME", &home).output().unwrap());
    // An earlier version has left its store in the old place.
    place.run(&["build", "-q", "-t", "old:1", "disk.qcow2"]).ok();
    let ran = moved(&["inspect", "old:1"]).refused(4, "your images are in ");
    let old = place.path(".local/share/coracle/store");
    assert!(ran.err.starts_with("coracle: warning: the store is "), "{}", ran.err);
    let empty = Ran::of(place.command(&["prune"]).env("CORACLE_HOME", "").output().unwrap()).ok();
    assert_eq!(empty.err, "", "an empty variable counts as unset");
    assert!(ran.err.contains(old.to_str().unwrap()) && ran.err.contains("h/data/store now"), "{}", ran.err);
    assert_eq!(ran.err.matches("CORACLE_STORE").count(), 1, "it warns once: {}", ran.err);
    let mut named = place.command(&["inspect", "old:1"]);
    let named = Ran::of(named.env("CORACLE_HOME", &home).env("CORACLE_STORE", &old).output().unwrap()).ok();
    assert_eq!(named.err, "", "the nearer variable decides");
    moved(&["build", "-q", "-t", "new:1", "disk.qcow2"]).ok();
    assert_eq!(moved(&["images", "-q"]).ok().err, "", "there is a new store");
    assert_eq!(moved(&["images", "-q"]).out, b"new:1\n");
    let listed = moved(&["images", "--json"]).ok().json();
    assert!(listed["store"].as_str().unwrap().ends_with("/h/data/store"), "{listed}");
    assert_eq!(place.run(&["images", "-q"]).ok().out, b"old:1\n");
    // Who may write to the folder above it chooses its images.
    for open in ["h", "h/data"] {
        let folder = place.path(open);
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        moved(&["images"]).refused(1, "can be written to by others (mode 0777)");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    moved(&["verify", "new:1"]).ok();
}
