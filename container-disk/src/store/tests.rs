//! The store's own commands. `tests/crash.rs` shows that it survives a kill.

use super::*;
use crate::image::{Recipe, write};
use crate::layout::tests::{descriptor, image_of, store};
use crate::manifest::{IMAGE_LAYER_MEDIA_TYPE, Manifest};
use crate::pack::{Compression, LayerWriter, Options};
use std::io::Write as _;
use std::{fs, thread};
use tempfile::TempDir;

fn new() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    (folder, store)
}

fn path(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("store")
}

fn local(text: &str) -> Local {
    Local::parse(text).unwrap()
}

fn build(store: &Store, name: &str, disk: &[u8]) -> Document {
    let options = Options { compression: Compression::None, ..Options::default() };
    let mut layer = LayerWriter::disk(store, &options, disk.len() as u64).unwrap();
    layer.write_all(disk).unwrap();
    let mut recipe = Recipe::new("arm64", vec![layer.finish().unwrap()]);
    recipe.created = Some(86_400);
    write(store, &recipe, &[&local(name).to_string()]).unwrap()
}

fn names(store: &Store) -> Vec<String> {
    store.list().unwrap().into_iter().map(|listed| listed.name).collect()
}

fn blobs(folder: &TempDir) -> usize {
    fs::read_dir(path(folder).join("blobs/sha256")).unwrap().count()
}

#[test]
fn a_list_tells_name_digest_size_architecture_and_date() {
    let (_folder, store) = new();
    let document = build(&store, "os:1", &[1; 1000]);
    let [listed] = store.list().unwrap().try_into().unwrap();
    assert_eq!((listed.name.as_str(), listed.digest), ("os:1", document.digest));
    let facts = listed.facts.unwrap();
    let crate::manifest::Content::Manifest(manifest) = &document.content else { panic!() };
    let tar = 512 + 512 + 1024 + 1024;
    assert_eq!(manifest.layers[0].size, tar);
    assert_eq!(facts.size, tar as u64 + manifest.config.size as u64 + document.bytes.len() as u64);
    assert_eq!(
        (facts.architectures, facts.created.unwrap().as_str()),
        (vec!["arm64".to_owned()], "1970-01-02T00:00:00Z")
    );
}

#[test]
fn names_are_given_and_taken_and_prune_removes_what_has_none() {
    let (folder, store) = new();
    build(&store, "os:1", &[1; 1000]);
    build(&store, "os:2", &[2; 5000]);
    store.tag(&local("os:1"), &local("group/other")).unwrap();
    assert_eq!(names(&store), ["group/other:latest", "os:1", "os:2"]);
    assert_eq!(store.tag(&local("none"), &local("x")).unwrap_err().kind(), ErrorKind::NotFound);
    store.untag(&local("os:2")).unwrap();
    assert_eq!(store.untag(&local("os:2")).unwrap_err().kind(), ErrorKind::NotFound);
    store.untag(&local("os:1")).unwrap();
    let e = prune(&path(&folder)).unwrap_err();
    assert!(e.to_string().contains("in use"), "{e}");
    drop(store);
    let pruned = prune(&path(&folder)).unwrap();
    assert_eq!(pruned.blobs, 3);
    assert!(pruned.freed > 5000 && pruned.freed < 9000, "{pruned:?}");
    assert_eq!(prune(&path(&folder)).unwrap(), Pruned::default());
    let store = Store::open(&path(&folder)).unwrap();
    assert_eq!((names(&store), blobs(&folder)), (vec!["group/other:latest".to_owned()], 3));
    assert!(store.list().unwrap()[0].facts.is_ok());
}

#[test]
fn prune_goes_through_indexes_and_stops_at_what_it_cannot_read() {
    let (folder, store) = new();
    let image = build(&store, "os:1", &[1; 1000]);
    let index = crate::image::index(&image, "arm64", None).unwrap();
    store.put(&index, Some("many:1")).unwrap();
    store.untag(&local("os:1")).unwrap();
    assert_eq!(store.list().unwrap()[0].facts.as_ref().unwrap().architectures, ["arm64"]);
    drop(store);
    assert_eq!(prune(&path(&folder)).unwrap(), Pruned::default());
    fs::write(path(&folder).join("blobs/sha256").join(image.digest.hex()), "{}").unwrap();
    let e = prune(&path(&folder)).unwrap_err();
    assert!(e.to_string().starts_with("many:1 cannot be read, so nothing is removed"), "{e}");
    assert_eq!(blobs(&folder), 4);
    let store = Store::open(&path(&folder)).unwrap();
    assert!(store.list().unwrap()[0].facts.is_err());
    store.untag(&local("many:1")).unwrap();
    drop(store);
    assert_eq!(prune(&path(&folder)).unwrap().blobs, 4);
}

/// The store has the image of one architecture under the name of the whole index.
#[test]
fn an_image_that_was_pulled_by_the_digest_of_its_index_is_found_by_that_digest() {
    use crate::image::{choose, index, join};
    use crate::layout::Layout;
    use crate::registry::copy;
    let (folder, store) = new();
    let from = Layout::create(&folder.path().join("layout")).unwrap();
    let image = |arch: &str| write(&from, &Recipe::new(arch, vec![]), &[]).unwrap();
    let (amd, arm) = (image("amd64"), image("arm64"));
    let both = join(&index(&amd, "amd64", None).unwrap(), &arm, "arm64", None).unwrap();
    from.put(&both, Some("both")).unwrap();
    let name = local(&format!("h.example/os:{}", both.digest.to_string().replace(':', "-")));
    let by_digest = Reference::Digest(both.digest);
    let pull = |store: &Store, arch: &str| {
        let options = copy::Options { arch: Some(arch.into()), ..copy::Options::default() };
        let tag = name.to_string();
        copy::copy(&from, &by_digest, store, Some(&tag), &options, &copy::Progress::default()).unwrap()
    };
    let chosen =
        |store: &Store, arch: &str| choose::manifest(store, &by_digest, arch).map(|found| found.digest);
    assert_eq!(pull(&store, "arm64").digest, arm.digest);
    assert_eq!(chosen(&store, "arm64").unwrap(), arm.digest);
    assert_eq!(chosen(&store, "amd64").unwrap_err().kind(), ErrorKind::NotFound, "it is pulled then");
    assert_eq!(pull(&store, "amd64").digest, amd.digest);
    drop(store);
    prune(&path(&folder)).unwrap();
    let store = Store::open(&path(&folder)).unwrap();
    assert_eq!(chosen(&store, "amd64").unwrap(), amd.digest);
    store.untag(&name).unwrap();
    drop(store);
    prune(&path(&folder)).unwrap();
    assert_eq!(blobs(&folder), 0);
}

#[test]
fn a_half_blob_is_gone_on_with() {
    let (folder, store) = new();
    let bytes: Vec<u8> = (0..2_000_000u32).map(|i| (i ^ (i >> 9)) as u8).collect();
    let promised = descriptor(IMAGE_LAYER_MEDIA_TYPE, &bytes);
    let digest: Digest = promised.digest.parse().unwrap();
    let mut have = 0;
    for until in [700_000, 700_001, 2_000_000] {
        assert_eq!(store.partial(&digest).unwrap(), have);
        let (from, mut blob) = store.resume(&promised).unwrap();
        assert_eq!(from, have);
        blob.write_all(&bytes[have as usize..until]).unwrap();
        have = until as u64;
        if until == bytes.len() {
            blob.finish().unwrap();
        }
    }
    assert_eq!(store.partial(&digest).unwrap(), 2_000_000);
    assert!(store.has(&promised).unwrap());
    assert_eq!(fs::read_dir(path(&folder).join("ingest")).unwrap().count(), 0);
}

#[test]
fn a_half_blob_that_cannot_become_right_is_begun_anew() {
    let (_folder, store) = new();
    let promised = descriptor(IMAGE_LAYER_MEDIA_TYPE, b"right");
    for (wrong, kept) in [("wrong", 0), ("longer than it", 0), ("wr", 2)] {
        let (from, mut blob) = store.resume(&promised).unwrap();
        assert_eq!(from, 0, "{wrong}");
        let written = blob.write_all(wrong.as_bytes());
        assert!(written.is_err() || blob.finish().is_err());
        assert_eq!(store.partial(&promised.digest.parse().unwrap()).unwrap(), kept, "{wrong}");
    }
    let (from, mut blob) = store.resume(&promised).unwrap();
    assert_eq!(from, 2);
    blob.write_all(b"ght").unwrap();
    let e = blob.finish().unwrap_err();
    assert_eq!(
        (e.kind(), e.to_string().contains("at byte 2 and has a wrong digest")),
        (ErrorKind::Failed, true),
        "{e}"
    );
    assert_eq!(store.partial(&promised.digest.parse().unwrap()).unwrap(), 0);
}

#[test]
fn a_half_blob_that_others_may_write_to_is_not_gone_on_with() {
    use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
    let (folder, store) = new();
    let blob: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
    let promised = descriptor(IMAGE_LAYER_MEDIA_TYPE, &blob);
    let digest: Digest = promised.digest.parse().unwrap();
    let half = path(&folder).join("ingest").join(layout::blobs::half_name(&digest));
    let root = rustix::process::geteuid().is_root();
    for (mode, owner) in [(0o666, None), (0o660, None), (0o600, Some(1234))] {
        if owner.is_some() && !root {
            continue;
        }
        // The file has the right bytes, but its owner can still change it.
        fs::create_dir_all(half.parent().unwrap()).unwrap();
        fs::write(&half, &blob[..50_000]).unwrap();
        fs::set_permissions(&half, fs::Permissions::from_mode(mode)).unwrap();
        std::os::unix::fs::chown(&half, owner, owner).unwrap();
        let theirs = File::options().write(true).open(&half).unwrap();
        let (from, mut writer) = store.resume(&promised).unwrap();
        assert_eq!(from, 0, "{mode:o}");
        writer.write_all(&blob).unwrap();
        writer.finish().unwrap();
        theirs.write_all_at(b"theirs", 0).unwrap();
        let whole = path(&folder).join("blobs/sha256").join(digest.hex());
        assert!(fs::read(&whole).unwrap() == blob, "{mode:o}");
        let facts = fs::metadata(&whole).unwrap();
        assert_eq!((facts.mode() & 0o022, facts.uid()), (0, rustix::process::geteuid().as_raw()));
        fs::remove_file(whole).unwrap();
    }
}

#[test]
fn two_that_pull_the_same_blob_both_end_well() {
    let (_folder, store) = new();
    let promised = descriptor(IMAGE_LAYER_MEDIA_TYPE, b"bytes");
    let (_, mut first) = store.resume(&promised).unwrap();
    first.write_all(b"by").unwrap();
    let (from, mut second) = store.resume(&promised).unwrap();
    assert_eq!(from, 0, "the half blob is another's");
    second.write_all(b"bytes").unwrap();
    second.finish().unwrap();
    first.write_all(b"tes").unwrap();
    first.finish().unwrap();
    assert!(store.has(&promised).unwrap());
}

#[test]
fn what_a_dead_process_left_goes_with_the_next_open_and_half_blobs_with_prune() {
    let (folder, store) = new();
    drop(store);
    let ingest = path(&folder).join("ingest");
    fs::write(ingest.join("1-1"), [0; 100]).unwrap();
    fs::write(ingest.join("part-sha256-00"), [0; 50]).unwrap();
    let store = Store::open(&path(&folder)).unwrap();
    assert_eq!(fs::read_dir(&ingest).unwrap().count(), 1);
    let alive = store.begin(None).unwrap();
    drop(Store::open(&path(&folder)).unwrap());
    assert_eq!(fs::read_dir(&ingest).unwrap().count(), 2, "what is being written stays");
    drop(alive);
    drop(store);
    assert_eq!(prune(&path(&folder)).unwrap(), Pruned { blobs: 0, freed: 50 });
}

#[test]
fn a_store_that_is_read_is_not_changed_and_keeps_prune_out() {
    let folder = tempfile::tempdir().unwrap();
    let Err(none) = Store::read(&path(&folder)) else { panic!("there is none") };
    assert_eq!(none.kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "and none is made");
    let document = build(&Store::open(&path(&folder)).unwrap(), "os:1", b"disk");
    let left = path(&folder).join("ingest/1-1");
    fs::create_dir_all(path(&folder).join("ingest")).unwrap();
    fs::write(&left, "what a dead process left").unwrap();
    let store = Store::read(&path(&folder)).unwrap();
    assert_eq!(store.document(&local("os:1").reference()).unwrap().digest, document.digest);
    assert!(left.exists());
    let exclusive = Locked::at_once(lock_file(&path(&folder)).unwrap(), Keeps::All).unwrap();
    assert!(exclusive.is_none(), "what is read does not vanish");
}

/// A user who may write to one of the store's folders could choose the images in it.
#[test]
fn a_store_that_anybody_may_write_to_is_refused() {
    use fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("coracle/store");
    make(&path).unwrap();
    build(&Store::open(&path).unwrap(), "os:1", b"disk");
    for open in ["..", ".", "blobs", "blobs/sha256", "ingest"] {
        let open = path.join(open).canonicalize().unwrap();
        let before = fs::metadata(&open).unwrap().permissions();
        assert_eq!(before.mode() & 0o002, 0, "it was made so");
        fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
        let refused =
            [make(&path).err(), Store::open(&path).err(), Store::read(&path).err(), prune(&path).err()];
        for e in refused {
            let e = e.expect("it is refused").to_string();
            assert!(e.contains("can be written to by others (mode 0777)"), "{e}");
            assert!(e.contains(&format!("(chmod go-w {})", open.display())), "{e}");
        }
        fs::set_permissions(&open, before).unwrap();
        Store::read(&path).unwrap();
    }
    // A path that the user gives is in a folder of that user, also in /tmp.
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    Store::open(&path).unwrap();
}

/// The mode of a store that others could write to is corrected with one command. Files that others added
/// stay.
#[test]
fn what_another_user_has_put_into_a_store_is_refused() {
    use std::os::unix::fs::chown;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make what belongs to another user");
        return;
    }
    let (folder, store) = new();
    let document = build(&store, "os:1", &[1; 1000]);
    drop(store);
    let crate::manifest::Content::Manifest(manifest) = &document.content else { panic!() };
    let layer = &manifest.layers[0];
    let of_layer = format!("blobs/sha256/{}", layer.digest.strip_prefix("sha256:").unwrap());
    let of_document = format!("blobs/sha256/{}", document.digest.hex());
    let read = || -> Result<()> {
        let store = Store::read(&path(&folder))?;
        let found = store.document(&local("os:1").reference())?;
        let crate::manifest::Content::Manifest(manifest) = &found.content else { panic!() };
        store.blob(&manifest.layers[0]).map(drop)
    };
    let write = || Store::open(&path(&folder)).and_then(|store| store.has(layer));
    let own = |owner: u32| {
        for name in ["", "blobs", "blobs/sha256", "ingest", "index.json", "oci-layout", "lock"] {
            chown(path(&folder).join(name), Some(owner), None).unwrap();
        }
        for blob in fs::read_dir(path(&folder).join("blobs/sha256")).unwrap() {
            chown(blob.unwrap().path(), Some(owner), None).unwrap();
        }
    };
    // A store of an ordinary user, and root's own.
    for owner in [1000, 0] {
        own(owner);
        read().unwrap();
        assert!(write().unwrap());
        for (name, is_read, is_written) in [
            ("blobs", true, true),
            ("blobs/sha256", true, true),
            ("ingest", false, true),
            ("index.json", true, true),
            ("oci-layout", true, true),
            ("lock", true, true),
            (&of_document, true, false),
            (&of_layer, true, true),
        ] {
            let planted = path(&folder).join(name);
            chown(&planted, Some(1234), None).unwrap();
            let done = [(is_read, read().err()), (is_written, write().err())];
            for (is_refused, e) in done {
                let said = e.map(|e| e.to_string());
                assert_eq!(said.is_some(), is_refused, "{name}: {said:?}");
                let Some(said) = said else { continue };
                let facts =
                    format!("{} belongs to user 1234, but its store to user {owner}", planted.display());
                assert!(said.contains(&facts), "{said}");
                assert!(said.contains(&format!("(chown {owner} {})", planted.display())), "{said}");
            }
            // The situation of a user who has become root for one command.
            chown(&planted, Some(0), None).unwrap();
            read().unwrap();
            assert!(write().unwrap(), "{name}");
            chown(&planted, Some(owner), None).unwrap();
        }
    }
}

#[test]
fn what_another_user_has_put_into_a_store_goes_with_prune_where_no_name_needs_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make what belongs to another user");
        return;
    }
    let (folder, store) = new();
    let document = build(&store, "os:1", &[1; 1000]);
    store.untag(&local("os:1")).unwrap();
    drop(store);
    let planted = path(&folder).join("blobs/sha256").join(document.digest.hex());
    std::os::unix::fs::chown(&planted, Some(1234), None).unwrap();
    fs::write(path(&folder).join("ingest/1-1"), "theirs").unwrap();
    std::os::unix::fs::chown(path(&folder).join("ingest/1-1"), Some(1234), None).unwrap();
    assert_eq!(prune(&path(&folder)).unwrap().blobs, 3);
    assert_eq!((blobs(&folder), fs::read_dir(path(&folder).join("ingest")).unwrap().count()), (0, 0));
}

/// A user who can open a lock can hold it.
#[test]
fn a_new_store_is_its_owners_alone_and_an_open_lock_of_an_older_one_is_closed() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/store");
    let (mode, set) = (
        |name: &str| fs::metadata(path.join(name)).unwrap().permissions().mode() & 0o7777,
        |name: &str, mode| fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap(),
    );
    make(&path).unwrap();
    build(&Store::open(&path).unwrap(), "os:1", b"disk");
    assert_eq!((mode(".."), mode("."), mode("lock")), (0o700, 0o700, 0o600));
    for (top, lock) in [(0o755, 0o644), (0o775, 0o664)] {
        set(".", top);
        set("lock", lock);
        let store = Store::read(&path).unwrap();
        assert_eq!((names(&store), mode("."), mode("lock")), (vec!["os:1".to_owned()], top, lock));
        let store = Store::open(&path).unwrap();
        assert_eq!((names(&store), mode("."), mode("lock")), (vec!["os:1".to_owned()], top, 0o600));
    }
    set("lock", 0o644);
    prune(&path).unwrap();
    assert_eq!(mode("lock"), 0o600);
}

#[test]
fn many_threads_open_write_name_and_prune_at_once() {
    let (folder, store) = new();
    build(&store, "kept", &[9; 3000]);
    drop(store);
    thread::scope(|scope| {
        for n in 0..4u8 {
            let folder = &folder;
            scope.spawn(move || {
                for i in 0..10u8 {
                    let store = Store::open(&path(folder)).unwrap();
                    let name = format!("os-{n}:{i}");
                    build(&store, &name, &[n * 16 + i; 2000]);
                    if i % 2 == 0 {
                        store.untag(&local(&name)).unwrap();
                    }
                    drop(store);
                    let _ = prune(&path(folder));
                }
            });
        }
    });
    prune(&path(&folder)).unwrap();
    let store = Store::open(&path(&folder)).unwrap();
    let listed = store.list().unwrap();
    assert_eq!(listed.len(), 21);
    assert!(listed.iter().all(|listed| listed.facts.is_ok()));
    assert_eq!(blobs(&folder), 63);
}

#[test]
fn an_image_of_others_is_listed_with_what_it_lacks() {
    let (_folder, store_) = new();
    image_of(&store_, &[]);
    let config = store(&store_, "application/x", b"no JSON");
    let manifest = Manifest { config, ..Default::default() };
    let document = Document::parse("x", serde_json::to_vec(&manifest).unwrap(), None).unwrap();
    store_.put(&document, Some("odd")).unwrap();
    let listed = store_.list().unwrap();
    assert_eq!(
        listed.iter().map(|l| (l.name.as_str(), l.facts.is_ok())).collect::<Vec<_>>(),
        [("odd", false), ("t", true)]
    );
}

/// Both documents and layers are blobs: one image may list the manifest of another as its layer.
#[test]
fn prune_keeps_the_blobs_of_an_image_whose_manifest_is_a_layer_of_another() {
    for is_victim_first in [false, true] {
        let (folder, store) = new();
        let victim = build(&store, "os:1", &[1; 1000]);
        let hostile = || image_of(&store, &[("application/vnd.in-toto+json", &victim.bytes)]);
        if is_victim_first {
            hostile();
        } else {
            store.untag(&local("os:1")).unwrap();
            hostile();
            store.put(&victim, Some("os:1")).unwrap();
        }
        let tags = store.layout.tags().unwrap();
        assert_eq!(tags.first().map(String::as_str) == Some("os:1"), is_victim_first, "{tags:?}");
        drop(store);
        assert_eq!(prune(&path(&folder)).unwrap().blobs, 0);
        let store = Store::read(&path(&folder)).unwrap();
        let options = crate::verify::Options::default();
        let checks = crate::verify::verify(&store, &local("os:1").reference(), &options).unwrap();
        assert!(checks.iter().all(crate::verify::Check::passed), "{checks:#?}");
    }
}

#[test]
fn prune_stops_at_a_name_whose_document_is_missing_though_an_index_may_lack_it() {
    let (folder, store) = new();
    let image = build(&store, "os:1", &[1; 1000]);
    store.untag(&local("os:1")).unwrap();
    store.put(&crate::image::index(&image, "arm64", None).unwrap(), Some("many:1")).unwrap();
    store.put(&image, Some("os:1")).unwrap();
    drop(store);
    fs::remove_file(path(&folder).join("blobs/sha256").join(image.digest.hex())).unwrap();
    let e = prune(&path(&folder)).unwrap_err();
    assert!(e.to_string().starts_with("os:1 cannot be read, so nothing is removed"), "{e}");
}

#[test]
fn prune_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(prune(folder.path()).unwrap(), Pruned::default());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert_eq!(prune(&path(&folder)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_blob_with_a_changed_byte_is_pulled_again() {
    use crate::registry::copy::{self, copy};
    let (_from, source) = new();
    let (folder, store) = new();
    build(&source, "os:1", &[1; 1000]);
    let options = copy::Options { judge: true, ..copy::Options::default() };
    let pull = || {
        let reference = local("os:1").reference();
        copy(&source, &reference, &store, Some("os:1"), &options, &copy::Progress::default()).unwrap()
    };
    assert_eq!((pull().moved, pull().moved), (2, 0));
    for blob in fs::read_dir(path(&folder).join("blobs/sha256")).unwrap() {
        let blob = blob.unwrap().path();
        let bytes = fs::read(&blob).unwrap();
        let mut changed = bytes.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(&blob, changed).unwrap();
        pull();
        assert!(fs::read(&blob).unwrap() == bytes, "{}", blob.display());
    }
    assert_eq!(pull().moved, 0);
}
