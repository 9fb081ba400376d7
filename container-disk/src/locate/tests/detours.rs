//! Members below links: programs that unpack layers treat them differently, and images in which that matters
//! are refused.

use super::{find, t};
use crate::ErrorKind;
use crate::locate::scan::{self, Interest};
use crate::locate::{Changes, Image};
use crate::members::Members;
use crate::tar::Streamed;
use crate::tar::tests::Tarball;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;

fn disk() -> Tarball {
    t().with("disk/", b"").with("disk/a.img", b"X")
}

fn link(tar: Tarball, name: &str, to: &str) -> Tarball {
    tar.raw(b'2', name.as_bytes(), to.as_bytes(), 0, b"")
}

fn hard(tar: Tarball, name: &str, to: &str) -> Tarball {
    tar.raw(b'1', name.as_bytes(), to.as_bytes(), 0, b"")
}

#[test]
fn members_below_a_link_that_could_lead_to_the_disk_are_refused() {
    let y = b"Y";
    let (below, both) = ("has members below", "and members below it");
    for (why, layers) in [
        (below, vec![link(disk(), "a/b", "../disk").with("a/b/a.img", y)]),
        (below, vec![link(disk(), "etc", "disk").with("etc/a.img", y)]),
        (below, vec![link(disk(), "etc", "/disk/").with("etc/a.img", y)]),
        (below, vec![link(disk(), "etc", "../../disk/.").with("etc/sub/b", y)]),
        (below, vec![link(disk(), "etc", "disk").with("etc/.wh.a.img", b"")]),
        (below, vec![link(disk(), "etc", "disk").with("etc/.wh..wh..opq", b"")]),
        // Links over the root, and links that do not lead there by themselves.
        (below, vec![link(disk(), "r", "/").with("r/disk/a.img", y)]),
        (below, vec![link(disk(), "r", "..").with("r/.wh.disk", b"")]),
        (below, vec![link(disk(), "r", ".").with("r/disk", y)]),
        (below, vec![link(disk(), "r", "/").with("r/.wh..wh..opq", b"")]),
        (below, vec![link(link(disk(), "a", "u"), "u/b", "../disk").with("a/b/a.img", y)]),
        (below, vec![link(link(disk(), "a", "b"), "b", "disk").with("a/a.img", y)]),
        (below, vec![link(link(disk(), "c/b", "/u"), "c/a", "b/../disk").with("c/a/a.img", y)]),
        (below, vec![link(link(disk(), "x/a", "/u"), "x/a/q", "../disk").with("x/a/q/a.img", y)]),
        // A hard link to a link is a link, whose target is resolved from its own folder.
        (below, vec![hard(link(disk(), "u/v/l", "../disk"), "u/l", "u/v/l").with("u/l/a.img", y)]),
        (
            below,
            vec![
                hard(link(link(disk(), "s", "u/v"), "u/v/l", "../disk"), "u/l", "/s/l").with("u/l/a.img", y),
            ],
        ),
        // The links may be in any layer.
        (below, vec![link(disk(), "etc", "disk"), t().with("etc/a.img", y)]),
        (below, vec![link(t(), "etc", "disk"), t().with("etc/a.img", y), disk()]),
        (below, vec![disk(), link(t(), "a", "u"), link(t(), "u/b", "/disk"), t().with("a/b/.wh.a.img", b"")]),
        // The disk itself lies below a path that is a link for some programs.
        (both, vec![link(t(), "disk", "var"), t().with("disk/a.img", b"X").with("disk/", b"")]),
        (both, vec![link(t(), "disk", "var"), t().with(".wh.disk", b""), disk()]),
        // Only a whiteout makes a folder of the disk, for some programs.
        ("which is not a folder", vec![disk(), t().with("disk/a.img/.wh.x", b"")]),
        ("which is not a folder", vec![disk(), t().with("disk/a.img/.wh..wh..opq", b"")]),
        // A chain of links that cannot be followed to its end.
        ("cannot be followed to their end", vec![link(disk(), "a", "a/x").with("a/y", y)]),
    ] {
        let layers: Vec<Vec<u8>> = layers.into_iter().map(Tarball::end).collect();
        let e = find(&layers, None).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused, "{why}: {e}");
        assert!(e.to_string().contains(why), "{why}: {e}");
    }
}

#[test]
fn members_below_links_that_lead_elsewhere_are_let_be() {
    let base = || {
        let base = [
            ("bin", "usr/bin"),
            ("lib", "usr/lib"),
            ("var/run", "/run"),
            ("usr/bin/X11", "."),
            ("data", "disk"),
        ];
        base.iter().fold(t().with("usr/lib/a", b"1"), |tar, (name, to)| link(tar, name, to))
    };
    let loops = || link(link(t(), "l/a", "b"), "l/b", "a");
    for layers in [
        vec![base(), disk()],
        vec![disk(), base()],
        vec![base(), t().with("bin/sh", b"s").with("lib/b", b"l").with("var/run/c/d", b"r"), disk()],
        vec![base(), t().with("usr/bin/X11/xterm", b"x").with("lib/.wh.a", b""), disk()],
        vec![base().with("bin/sh", b"s"), disk()],
        vec![link(base(), "lib/x.so", "x.so.1").with("lib/x.so/strange", b""), disk()],
        vec![hard(base(), "usr/sh", "bin/sh").with("bin/sh/x", b""), disk()],
        vec![link(base(), "usr/lib/up", "..").with("usr/lib/up/share/disk/x", b""), disk()],
        vec![loops(), t().with("l/a/x", b"1"), disk()],
        // A link to the root, without members of the disk below it.
        vec![link(base(), "proc/root", "/").with("proc/root/etc/x", b""), disk()],
    ] {
        let layers: Vec<Vec<u8>> = layers.into_iter().map(Tarball::end).collect();
        assert_eq!(
            find(&layers, None).map(|(path, _, bytes)| (path, bytes)).unwrap(),
            ("disk/a.img".into(), b"X".to_vec())
        );
    }
}

#[test]
fn for_a_path_that_is_asked_for_its_own_folders_count() {
    let image =
        |more: fn(Tarball) -> Tarball| [more(t().with("boot/", b"").with("boot/vmlinuz", b"k")).end()];
    for refused in [
        image(|tar| link(tar, "b", "boot").with("b/vmlinuz", b"other")),
        image(|tar| link(tar, "r", "/").with("r/.wh.boot", b"")),
        image(|tar| link(tar, "r", "/").with("r/boot", b"b")),
        image(|tar| link(tar, "b", "boot").with("b/.wh.vmlinuz", b"")),
    ] {
        let e = find(&refused, Some("boot/vmlinuz")).unwrap_err();
        assert!(e.to_string().contains("has members below"), "{e}");
    }
    for taken in [
        image(|tar| link(tar, "b", "boot").with("b/grub/vmlinuz", b"g")),
        image(|tar| link(tar, "boot/boot", ".").with("boot/boot/grub", b"g")),
        image(|tar| link(tar, "d", "disk").with("d/a.img", b"d")),
        image(|tar| link(tar, "vmlinuz", "boot/vmlinuz")),
    ] {
        assert_eq!(find(&taken, Some("boot/vmlinuz")).unwrap().2, b"k");
    }
}

#[test]
fn what_a_layer_both_has_and_deletes_is_refused() {
    for (why, layers) in [
        ("put them into two layers", vec![disk(), t().with("disk/a.img", b"Y").with("disk/.wh.a.img", b"")]),
        ("put them into two layers", vec![disk().with("disk/.wh.a.img", b"")]),
        ("put them into two layers", vec![disk(), t().with(".wh.disk", b"").with("disk/b", b"Y")]),
        (
            "put them into two layers",
            vec![disk(), t().with(".wh.disk", b"").with("disk/", b""), t().with("disk/b", b"Y")],
        ),
        ("put them into two layers", vec![t().with("a.img", b"X").with(".wh.a.img", b"")]),
        // Overlay file systems ignore this.
        ("hides the root", vec![disk(), t().with(".wh..wh..opq", b"").with("disk/b", b"2")]),
        // Some programs delete the folder itself.
        ("whiteout without a file name", vec![disk(), t().with("disk/.wh.", b"")]),
        ("whiteout without a file name", vec![disk(), t().with("x/.wh...", b"")]),
        ("whiteout without a file name", vec![disk(), t().with("disk/.wh..", b"")]),
    ] {
        let layers: Vec<Vec<u8>> = layers.into_iter().map(Tarball::end).collect();
        let e = find(&layers, None).unwrap_err();
        assert!(e.kind() == ErrorKind::Refused && e.to_string().contains(why), "{why}: {e}");
    }
    // Members that do not belong to the disk.
    let elsewhere = t().with(".wh.tmp", b"").with("tmp/", b"").with("etc/a", b"").with("etc/.wh.a", b"");
    assert_eq!(find(&[t().with("tmp/", b"").end(), elsewhere.end(), disk().end()], None).unwrap().2, b"X");
}

#[test]
fn a_disk_at_the_root_lies_beside_nothing() {
    let beside = t().with("a.img", b"X").with("etc/passwd", b"p").end();
    assert!(find(&[beside], None).unwrap_err().to_string().contains("is not the only entry there"));
}

#[test]
fn a_hard_link_to_the_disk_gives_it_to_nobody_else() {
    let file = |name: &str| t().owned("disk/", 0, 0o555, b"").owned(name, 107, 0o444, b"X");
    assert_eq!(find(&[hard(file("disk/a.img"), "b", "disk/a.img").end()], None).unwrap().2, b"X");
    for other in [t().owned("disk/a.img", 0, 0o444, b"X"), t().owned("disk/a.img", 107, 0o400, b"X")] {
        let e = find(&[hard(link(other, "l", "disk"), "b", "./l/a.img").end()], None).unwrap_err();
        assert!(e.to_string().contains("another owner or mode"), "{e}");
    }
}

#[test]
fn the_links_of_an_operating_system_fit_and_endless_ones_do_not() {
    let links = |count: u32| {
        (0..count).fold(link(t(), "lib", "usr/lib"), |tar, at| {
            link(
                tar,
                &format!("usr/lib/package-{}/of-the-system-{at}.so", at / 20),
                "../elsewhere/library.so.1",
            )
        })
    };
    let upper = t().with("lib/package-1/x", b"1").with("lib/package-1/of-the-system-20.so/y", b"1");
    let image = [links(20_000).end(), upper.end(), disk().end()];
    assert_eq!(judged(&image, None).unwrap(), ("disk/a.img".to_owned(), 1));
    let e = judged(&[links(20_000).end(), links(20_000).end(), disk().end()], None).unwrap_err();
    assert!(e.contains("too many links and folders"), "{e}");
    let folders =
        (0..140_000).fold(t(), |tar, at| tar.with(&format!("{at}/"), b"").with(&format!("{at}/x"), b""));
    let e = judged(&[folders.end()], Some("disk/a.img")).unwrap_err();
    assert!(e.contains("more than") || e.contains("too large for a containerDisk"), "{e}");
}

/// Path and size of the disk of these layers.
fn judged(layers: &[Vec<u8>], path: Option<&str>) -> Result<(String, u64), String> {
    let interest = Interest::new(path).unwrap();
    let mut image = Image { name: "x".to_owned(), interest, layers: vec![] };
    for (at, tar) in layers.iter().enumerate() {
        let members = Members::new("x", Streamed::new(Cursor::new(tar.clone())));
        let changes: Changes = scan::all(members, &image.interest, at, image.capacity(at), |_, _| Ok(()))
            .map_err(|e| e.to_string())?;
        image.layers.push(Some(changes));
    }
    image.judge().map(|(path, entry)| (path, entry.size)).map_err(|e| e.to_string())
}

/// A member of a layer that is being built. Its size identifies a file.
#[derive(Debug, Clone)]
enum Op {
    File(String, u64),
    Folder(String),
    Link(String, String),
    Hard(String, String),
    Delete(String, String),
    Opaque(String),
}

/// An entry of an unpacked image.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    File(u64),
    Folder,
    Link(String),
    /// The device that overlay file systems use for deleted entries.
    Gone,
}

/// An image as programs written in Go unpack it. `None` if they refuse it.
#[derive(Debug, Clone, Default)]
struct Root {
    nodes: BTreeMap<String, Node>,
    opaque: BTreeSet<String>,
}

impl Root {
    /// Unpacks each layer into the folder of those below.
    fn unpacked(layers: &[Vec<Op>]) -> Option<Root> {
        let mut root = Root::default();
        for ops in layers {
            root.take(ops, false)?;
        }
        Some(root)
    }

    /// Unpacks each layer into a folder of its own, which the kernel lays over those below.
    fn overlaid(layers: &[Vec<Op>]) -> Option<Root> {
        let mut root = Root::default();
        for ops in layers {
            let mut upper = Root::default();
            upper.take(ops, true)?;
            for folder in upper.opaque.iter().filter(|folder| !folder.is_empty()) {
                root.remove(folder, false);
            }
            for (path, node) in upper.nodes {
                match (node, root.nodes.get(&path)) {
                    (Node::Folder, Some(Node::Folder)) => {}
                    (Node::Gone, _) => root.remove(&path, true),
                    (node, _) => {
                        root.remove(&path, true);
                        root.nodes.insert(path, node);
                    }
                }
            }
        }
        Some(root)
    }

    fn take(&mut self, ops: &[Op], overlay: bool) -> Option<()> {
        let mut fresh = BTreeSet::new();
        for op in ops {
            match op {
                Op::Delete(folder, name) => {
                    let path = join(&self.folder(folder)?, name);
                    if overlay && self.nodes.insert(path.clone(), Node::Gone).is_some() {
                        return None;
                    } else if !overlay {
                        self.remove(&path, true);
                    }
                }
                Op::Opaque(folder) => {
                    let folder = self.folder(folder)?;
                    if overlay {
                        self.opaque.insert(folder);
                    } else {
                        let old = |path: &String| {
                            !fresh
                                .iter()
                                .any(|new: &String| new == path || new.starts_with(&format!("{path}/")))
                        };
                        let below: Vec<String> = self
                            .nodes
                            .keys()
                            .filter(|path| is_below(path, &folder) && old(path))
                            .cloned()
                            .collect();
                        below.iter().for_each(|path| self.remove(path, true));
                    }
                }
                Op::File(name, _) | Op::Folder(name) | Op::Link(name, _) | Op::Hard(name, _) => {
                    let (above, base) = name.rsplit_once('/').unwrap_or(("", name));
                    let path = join(&self.folder(above)?, base);
                    let node = match op {
                        Op::File(_, size) => Node::File(*size),
                        Op::Link(_, to) => Node::Link(to.clone()),
                        Op::Hard(_, to) => {
                            let (above, base) = to.rsplit_once('/').unwrap_or(("", to));
                            let target = join(&self.resolved(above)?, base);
                            self.nodes
                                .get(&target)
                                .filter(|node| !matches!(node, Node::Folder | Node::Gone))?
                                .clone()
                        }
                        _ => Node::Folder,
                    };
                    if (self.nodes.get(&path), &node) != (Some(&Node::Folder), &Node::Folder) {
                        self.remove(&path, true);
                        self.nodes.insert(path.clone(), node);
                    }
                    fresh.insert(path);
                }
            }
        }
        Some(())
    }

    /// The position of a folder, which is created if it does not exist.
    fn folder(&mut self, path: &str) -> Option<String> {
        let path = self.resolved(path)?;
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for folder in ends.map(|end| path[..end].to_owned()).filter(|folder| !folder.is_empty()) {
            if *self.nodes.entry(folder).or_insert(Node::Folder) != Node::Folder {
                return None;
            }
        }
        Some(path)
    }

    /// A path without links, inside its own root.
    fn resolved(&self, path: &str) -> Option<String> {
        let mut left: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
        let mut at = String::new();
        let mut followed = 0;
        while let Some(part) = left.pop() {
            let next = match part.as_str() {
                "" | "." => continue,
                ".." => at.rsplit_once('/').map_or_else(String::new, |(above, _)| above.to_owned()),
                name => join(&at, name),
            };
            if let Some(Node::Link(to)) = self.nodes.get(&next).filter(|_| part != "..") {
                followed += 1;
                if followed > 255 {
                    return None;
                }
                if to.starts_with('/') {
                    at.clear();
                }
                left.extend(to.split('/').rev().map(str::to_owned));
            } else {
                at = next;
            }
        }
        Some(at)
    }

    fn remove(&mut self, path: &str, itself: bool) {
        self.nodes.retain(|name, _| !(is_below(name, path) || itself && name == path));
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// A generator of numbers with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }

    fn path(&mut self) -> String {
        let parts: Vec<&str> = (0..=self.below(3)).map(|_| self.of(&["disk", "a", "b", "u", "x"])).collect();
        parts.join("/")
    }

    fn op(&mut self, size: u64) -> Op {
        let path = self.path();
        let folder = path.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned());
        match self.below(12) {
            0..=3 => Op::File(path, size),
            4 => Op::Folder(path),
            5..=7 => {
                let to = [
                    "disk",
                    "../disk",
                    "/disk",
                    "../../disk",
                    "..",
                    "/",
                    ".",
                    "a",
                    "/a",
                    "../b",
                    "u",
                    "/u/b",
                    "b/disk",
                    "x/..",
                    "b/../disk",
                    "/disk/x",
                    "disk/x",
                ];
                Op::Link(path, self.of(&to).to_owned())
            }
            8 => Op::Hard(path, self.path()),
            9 | 10 => Op::Delete(folder, self.of(&["disk", "a", "b", "x"]).to_owned()),
            _ => Op::Opaque(folder),
        }
    }
}

fn tar(ops: &[Op]) -> Vec<u8> {
    let tar = ops.iter().fold(t(), |tar, op| match op {
        Op::File(name, size) => tar.with(name, &vec![0; *size as usize]),
        Op::Folder(name) => tar.with(&format!("{name}/"), b""),
        Op::Link(name, to) => link(tar, name, to),
        Op::Hard(name, to) => hard(tar, name, to),
        Op::Delete(folder, name) => tar.with(&join(folder, &format!(".wh.{name}")), b""),
        Op::Opaque(folder) => tar.with(&join(folder, ".wh..wh..opq"), b""),
    });
    tar.end()
}

#[test]
fn whoever_unpacks_what_is_taken_has_the_same_disk() {
    let (mut taken, mut unpacked, mut refused) = (0, 0, 0);
    for seed in 0..8000u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut size = 1;
        let mut layers: Vec<Vec<Op>> = (0..=random.below(3))
            .map(|_| {
                let count = random.below(6);
                (0..count)
                    .map(|_| {
                        size += 1;
                        random.op(size)
                    })
                    .collect()
            })
            .collect();
        let at = random.below(layers.len());
        layers[at].insert(0, Op::File("disk/x".to_owned(), 1));
        let path = [None, Some("a/x"), Some("disk/x")][random.below(3)];
        let tars: Vec<Vec<u8>> = layers.iter().map(|ops| tar(ops)).collect();
        let Ok((path, size)) = judged(&tars, path).inspect_err(|_| refused += 1) else { continue };
        taken += 1;
        for (how, root) in [("unpacked", Root::unpacked(&layers)), ("overlaid", Root::overlaid(&layers))] {
            let Some(root) = root else { continue };
            unpacked += 1;
            let seen = root.nodes.get(&path);
            assert_eq!(
                seen,
                Some(&Node::File(size)),
                "seed {seed}, {how}: {path} of {layers:#?}\nis in {root:#?}"
            );
            let beside = |(name, node): &(&String, &Node)| {
                let is_disks = name.starts_with("disk/") && **node != Node::Folder;
                path.starts_with("disk/") && is_disks && **name != path
            };
            let others: Vec<_> = root.nodes.iter().filter(beside).collect();
            assert!(
                others.is_empty() || judged(&tars, None).is_err(),
                "seed {seed}, {how}: {others:?} beside {path} of {layers:#?}"
            );
        }
    }
    assert!(
        taken > 300 && refused > 300 && unpacked > taken,
        "{taken} taken, {refused} refused, {unpacked} unpacked"
    );
}
