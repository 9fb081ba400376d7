use super::*;

/// Existing paths around the command.
const FILES: [&str; 12] = [
    "disk.img",
    "both:1",
    "os.tar",
    "sub/disk.img",
    "./disk.img",
    "./both:1",
    "../up.img",
    "/abs/disk.img",
    "/home/me/h.img",
    "quay.io/folder/x.img",
    "s3://odd/file",
    "pvc/file",
];

/// Names in the store.
const STORED: [&str; 5] = ["os:12", "both:1", "group/os:latest", "localhost:5000/d:1", "quay.io/x:1"];

struct Around;

impl Surroundings for Around {
    fn exists(&self, path: &Path) -> bool {
        FILES.iter().any(|file| Path::new(file) == path)
    }

    fn stored(&self) -> Result<Vec<String>> {
        Ok(STORED.map(str::to_owned).to_vec())
    }

    fn home(&self) -> Option<PathBuf> {
        Some("/home/me".into())
    }
}

fn read(text: &str, role: Role) -> String {
    match Meaning::of(text, role, &Around) {
        Ok(Meaning::Pipe) => "pipe".to_owned(),
        Ok(Meaning::File(path)) => format!("file {}", path.display()),
        Ok(Meaning::Web(url)) => format!("web {url}"),
        Ok(Meaning::Image(name)) => name.to_string(),
        Ok(Meaning::Volume(name)) => format!("volume {name}"),
        Err(e) => format!("{:?}: {e}", e.kind()),
    }
}

/// One row: a text; its meaning as the source of a disk; as the source of an image; as a name in the store; as an
/// image that is written. `=`: as in the column before. After `!`: words of the error.
const TABLE: [[&str; 5]; 64] = [
    // 1: schemes
    ["docker://h/r", "docker://h/r:latest", "=", "=", "="],
    ["docker://H.example:5000/a/b:1", "docker://h.example:5000/a/b:1", "=", "=", "="],
    ["docker://h", "!docker://HOST/REPO", "=", "=", "="],
    ["docker:h/r", "!docker://HOST/REPO", "=", "=", "="],
    ["oci:layout", "oci:layout", "=", "=", "="],
    ["oci:layout:1", "oci:layout:1", "=", "=", "="],
    ["oci:../up:1", "oci:../up:1", "=", "=", "="],
    ["oci:~/layout:1", "oci:/home/me/layout:1", "=", "=", "="],
    ["oci:", "!has no path after", "=", "=", "="],
    ["oci-archive:os.tar", "oci-archive:os.tar", "=", "=", "="],
    ["oci-archive:~/os.tar:1", "oci-archive:/home/me/os.tar:1", "=", "=", "="],
    ["docker-archive:os.tar", "docker-archive:os.tar", "=", "=", "="],
    ["docker-archive:os.tar:os:12", "docker-archive:os.tar:os:12", "=", "=", "="],
    ["docker-archive:../a.tar:h.io:5000/g/os:1", "docker-archive:../a.tar:h.io:5000/g/os:1", "=", "=", "="],
    ["store:os:12", "store:os:12", "=", "=", "="],
    ["store:none", "store:none:latest", "=", "=", "="],
    ["store:both:1", "store:both:1", "=", "=", "="],
    ["store:localhost:5000/d:1", "store:localhost:5000/d:1", "=", "=", "="],
    ["http://h/disk.img", "web http://h/disk.img", "=", "=", "="],
    ["HTTPS://h/disk.img", "web https://h/disk.img", "=", "=", "="],
    ["https://u:p@h:8443/d.img?x=y", "web https://u:p@h:8443/d.img?x=y", "=", "=", "="],
    ["file:disk.img", "file disk.img", "!oci-archive:disk.img", "!is a path", "="],
    ["file:///abs/disk.img", "file /abs/disk.img", "!oci-archive:/abs/disk.img", "!is a path", "="],
    ["file://localhost/abs/disk.img", "file /abs/disk.img", "!docker-archive:/abs", "!is a path", "="],
    ["file:~/h.img", "file /home/me/h.img", "!coracle build -t NAME /home/me/h.img", "!is a path", "="],
    ["file://server/abs/disk.img", "!file:PATH or file:///PATH", "=", "=", "="],
    ["file:nope.img", "!NotFound: there is no file nope.img", "!oci-archive:nope.img", "!is a path", "="],
    ["file:", "!has no path after", "=", "=", "="],
    ["pvc/golden", "volume pvc/golden", "=", "store:pvc/golden:latest", "="],
    ["pvc/file", "volume pvc/file", "=", "store:pvc/file:latest", "="],
    ["dv/golden", "volume dv/golden", "=", "store:dv/golden:latest", "="],
    ["s3://bucket/key", "!Usage: cannot read s3://bucket/key: s3:// names are not supported", "=", "=", "="],
    ["s3://odd/file", "file s3://odd/file", "!is a file here", "!not a tag", "="],
    ["-", "pipe", "=", "=", "="],
    // 2: paths
    ["disk.img", "file disk.img", "!oci-archive:disk.img", "store:disk.img:latest", "="],
    ["./disk.img", "file ./disk.img", "!oci-archive:./disk.img", "!is a path", "="],
    ["sub/disk.img", "file sub/disk.img", "!docker-archive:sub/disk.img", "store:sub/disk.img:latest", "="],
    ["../up.img", "file ../up.img", "!coracle build -t NAME ../up.img", "!oci-archive:../up.img", "="],
    ["/abs/disk.img", "file /abs/disk.img", "!oci-archive:/abs/disk.img", "!is a path", "="],
    ["~/h.img", "file /home/me/h.img", "!oci-archive:~/h.img", "!is a path", "="],
    ["os.tar", "file os.tar", "!oci-archive:os.tar or docker-archive:os.tar", "store:os.tar:latest", "="],
    ["./nope.qcow2", "!NotFound: there is no file ./nope.qcow2", "=", "!is a path", "="],
    ["../nope.qcow2", "!NotFound: there is no file ../nope.qcow2", "=", "!is a path", "="],
    ["/nope/a.b/nope.qcow2", "!NotFound: there is no file /nope/a.b/nope.qcow2", "=", "!is a path", "="],
    ["~/nope.img", "!NotFound: there is no file /home/me/nope.img (~/nope.img)", "=", "!is a path", "="],
    ["~root/disk.img", "!Usage: ~root/disk.img: the home folder of another user", "=", "=", "="],
    ["./both:1", "file ./both:1", "!is a file here", "!is a path", "="],
    [
        "both:1",
        "!Usage: both:1 is a file and an image of the store; write ./both:1 or store:both:1",
        "=",
        "store:both:1",
        "=",
    ],
    [
        "quay.io/folder/x.img",
        "file quay.io/folder/x.img",
        "!is a file here",
        "store:quay.io/folder/x.img:latest",
        "docker://quay.io/folder/x.img:latest",
    ],
    // 3: registries
    ["quay.io/x:1", "docker://quay.io/x:1", "=", "store:quay.io/x:1", "docker://quay.io/x:1"],
    [
        "quay.io/a/b",
        "docker://quay.io/a/b:latest",
        "=",
        "store:quay.io/a/b:latest",
        "docker://quay.io/a/b:latest",
    ],
    ["Quay.io/x:1", "docker://quay.io/x:1", "=", "store:quay.io/x:1", "docker://quay.io/x:1"],
    ["localhost/d:1", "docker://localhost/d:1", "=", "store:localhost/d:1", "docker://localhost/d:1"],
    [
        "localhost:5000/d:1",
        "docker://localhost:5000/d:1",
        "=",
        "store:localhost:5000/d:1",
        "docker://localhost:5000/d:1",
    ],
    ["h:5000/d", "docker://h:5000/d:latest", "=", "store:h:5000/d:latest", "docker://h:5000/d:latest"],
    ["[::1]:5000/d:1", "docker://[::1]:5000/d:1", "=", "store:[::1]:5000/d:1", "docker://[::1]:5000/d:1"],
    ["quay.io/Up:1", "!not a repository", "=", "=", "="],
    [
        "images.d/nope.qcow2",
        "docker://images.d/nope.qcow2:latest",
        "=",
        "store:images.d/nope.qcow2:latest",
        "docker://images.d/nope.qcow2:latest",
    ],
    // 4: the store
    ["os:12", "store:os:12", "=", "=", "="],
    ["group/os", "store:group/os:latest", "=", "=", "="],
    [
        "os",
        "!NotFound: os is neither a file here nor an image of the store; the store has os:12, group/os:latest, both:1",
        "=",
        "store:os:latest",
        "=",
    ],
    [
        "sub/nope.img",
        "!a file is written ./sub/nope.img, an image in a registry docker://HOST/REPO:TAG",
        "=",
        "store:sub/nope.img:latest",
        "=",
    ],
    [
        "Nope.img",
        "!NotFound: Nope.img is neither a file here nor an image of the store",
        "=",
        "!not a repository",
        "=",
    ],
    ["", "!the name is empty", "=", "=", "="],
];

#[test]
fn each_name_has_one_meaning_in_each_role() {
    let mut faults = vec![];
    for [text, columns @ ..] in TABLE {
        let mut wanted = "";
        for (role, column) in [Role::Disk, Role::Image, Role::Stored, Role::Target].into_iter().zip(columns) {
            wanted = if column == "=" { wanted } else { column };
            let got = read(text, role);
            let is_so = match wanted.strip_prefix('!') {
                Some(words) => got.contains(words),
                None => got == wanted,
            };
            if !is_so {
                faults.push(format!("{text:?} as {role:?} is {got:?}, not {wanted:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Without a scheme the target of a disk is a path, whatever it looks like.
#[test]
fn a_disk_is_written_to_a_path() {
    for (text, wanted) in [
        ("new.img", "file new.img"),
        ("os:12", "file os:12"),
        ("both:1", "file both:1"),
        ("quay.io/x:1", "file quay.io/x:1"),
        ("localhost:5000/d:1", "file localhost:5000/d:1"),
        ("../new.img", "file ../new.img"),
        ("~/new.img", "file /home/me/new.img"),
        ("pvc/new.img", "file pvc/new.img"),
        ("file:new.img", "file new.img"),
        ("-", "pipe"),
        ("store:os:12", "store:os:12"),
        ("quay.io/Up:1", "file quay.io/Up:1"),
    ] {
        assert_eq!(read(text, Role::DiskTarget), wanted, "{text}");
    }
}

#[test]
fn names_of_the_store_that_are_like_the_wanted_one_come_first() {
    let stored: Vec<String> =
        (0..10).map(|i| format!("a{i}:1")).chain(["h.example/win:11".to_owned()]).collect();
    let text = advice::store_has("win:11", &stored);
    assert_eq!(
        text,
        "the store has h.example/win:11, a0:1, a1:1, a2:1, a3:1, a4:1 and 5 more (coracle images)"
    );
    assert_eq!(advice::store_has("win", &[]), "the store is empty");
}

#[test]
fn the_store_and_the_files_of_this_computer_are_asked() {
    let folder = tempfile::tempdir().unwrap();
    let places = Places::new(None).with_store(folder.path().join("store"));
    assert_eq!(Surroundings::stored(&places).unwrap(), Vec::<String>::new());
    assert!(!folder.path().join("store").exists(), "a look makes nothing");
    std::os::unix::fs::symlink("nowhere", folder.path().join("link")).unwrap();
    assert!(Surroundings::exists(&places, &folder.path().join("link")));
    assert!(!Surroundings::exists(&places, &folder.path().join("none")));
    let link = folder.path().join("link").display().to_string();
    let e = Meaning::of(&link, Role::Disk, &places);
    assert!(e.is_ok(), "the opening of a file names the link: {e:?}");
}
