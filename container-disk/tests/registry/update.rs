//! Updates of a tag from its present document: read from the registry itself, among other clients that write to it.

use crate::work::{Image, index, open, registries, tag};
use container_disk::manifest::{Content, Document};
use container_disk::place::{Place, Sink};
use container_disk::reference::Remote;
use container_disk::registry::Registry;
use container_disk::{Digest, ErrorKind, Result};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use tests::faults::{Fault, Proxy, What};
use tests::registry::Registry as Server;

const ARCHITECTURES: [&str; 4] = ["amd64", "arm64", "riscv64", "s390x"];

/// A registry with an image for each architecture, none of them with a tag.
struct Images {
    server: Server,
    images: Vec<Image>,
}

impl Images {
    fn new() -> Images {
        let server = Server::start();
        let images: Vec<Image> = (0..4).map(|seed| Image::new(100, seed)).collect();
        let to = open(&server.address(), "os");
        images.iter().for_each(|image| image.push(&to, "none").unwrap());
        Images { server, images }
    }

    /// The index of the images at these positions.
    fn index(&self, which: &[usize]) -> Document {
        let images: Vec<_> = which.iter().map(|at| (ARCHITECTURES[*at], &self.images[*at])).collect();
        index(&images)
    }

    /// The positions of the images in the index that the tag `1` refers to now.
    fn present(&self) -> Vec<usize> {
        self.held(Some(&open(&self.server.address(), "os").document(&tag("1")).unwrap()))
    }

    fn held(&self, document: Option<&Document>) -> Vec<usize> {
        let Some(Content::Index(index)) = document.map(|document| &document.content) else { return vec![] };
        let digests: Vec<&str> = index.manifests.iter().map(|entry| entry.digest.as_str()).collect();
        let is_held = |at: &usize| digests.contains(&self.images[*at].manifest.digest.to_string().as_str());
        (0..4).filter(is_held).collect()
    }

    /// Writes an index of these images, as another client does.
    fn set(&self, which: &[usize]) {
        open(&self.server.address(), "os").put(&self.index(which), Some("1")).unwrap();
    }

    /// Adds an image to the index of tag `1`.
    fn add(&self, to: &Registry, new: usize) -> Result<Digest> {
        to.update("1", |there| Ok(self.with(there, new)))
    }

    /// The index with this image, unless it is there.
    fn with(&self, there: Option<&Document>, new: usize) -> Option<Document> {
        let mut all = self.held(there);
        if all.contains(&new) {
            return None;
        }
        all.push(new);
        all.sort_unstable();
        Some(self.index(&all))
    }
}

/// The repository `os` of `origin`, behind a mirror that is asked first.
fn behind(mirror: &str, origin: &str) -> Registry {
    let all = registries(&format!(
        "[host.\"{origin}\"]\nplain-http = true\n[[host.\"{origin}\".mirror]]\nhost = \"{mirror}\"\nplain-http = true\n"
    ));
    all.open(&Remote::parse(&format!("{origin}/os")).unwrap()).unwrap()
}

#[test]
fn an_update_begins_from_what_the_registry_itself_has() {
    let (images, stale) = (Images::new(), Server::start());
    let old = Image::new(100, 0);
    let mirror = open(&stale.address(), "os");
    old.push(&mirror, "none").unwrap();
    mirror.put(&index(&[("amd64", &old)]), Some("1")).unwrap();
    images.set(&[0, 1]);
    let to = behind(&stale.address(), &images.server.address());
    assert_eq!(images.held(Some(&to.document(&tag("1")).unwrap())), [0], "the mirror is behind");
    images.add(&to, 2).unwrap();
    assert_eq!(images.present(), [0, 1, 2]);
    // A mirror without the tag says nothing either.
    let empty = Server::start();
    let to = behind(&empty.address(), &images.server.address());
    images.add(&to, 3).unwrap();
    assert_eq!(images.present(), [0, 1, 2, 3]);
}

#[test]
fn a_tag_is_new_only_if_the_registry_itself_says_so() {
    let (images, empty) = (Images::new(), Server::start());
    images.set(&[0, 1]);
    let broken = |what: What| Fault::always(what).method("GET").path("/manifests/1");
    let gone = format!("Location: http://{}/v2/os/manifests/1\r\n", empty.address());
    for what in [
        What::Answer(500, String::new(), vec![]),
        What::Answer(403, String::new(), vec![]),
        // The storage of the registry has lost the document.
        What::Answer(307, gone, vec![]),
    ] {
        let origin = Proxy::start(&images.server.address(), vec![broken(what.clone())]);
        let to = behind(&empty.address(), &origin.address());
        let e = images.add(&to, 2).unwrap_err();
        assert_ne!(e.kind(), ErrorKind::NotFound, "{what:?}: {e}");
        assert_eq!(origin.count("PUT", "/manifests/"), 0, "{what:?}");
    }
    assert_eq!(images.present(), [0, 1]);
    // What is missing at a mirror may be at a registry that is down.
    let origin =
        Proxy::start(&images.server.address(), vec![broken(What::Answer(500, String::new(), vec![]))]);
    let e = behind(&empty.address(), &origin.address()).document(&tag("1")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Failed, "{e}");
}

#[test]
fn a_write_of_another_client_before_the_put_is_noticed() {
    let images = Images::new();
    images.set(&[0]);
    let mut seen = vec![];
    let to = open(&images.server.address(), "os");
    to.update("1", |there| {
        seen.push(images.held(there));
        if seen.len() == 1 {
            images.set(&[0, 1]);
        }
        Ok(images.with(there, 2))
    })
    .unwrap();
    assert_eq!(seen, [vec![0], vec![0, 1], vec![0, 1, 2]]);
    assert_eq!(images.present(), [0, 1, 2]);
}

#[test]
fn a_write_of_another_client_over_the_put_is_noticed() {
    let images = Images::new();
    images.set(&[0]);
    let digest = thread::scope(|scope| {
        // It read the tag before the PUT, and writes after it.
        let other = scope.spawn(|| {
            while images.present() != [0, 2] {
                thread::sleep(Duration::from_millis(5));
            }
            images.set(&[0, 1]);
        });
        let digest = images.add(&open(&images.server.address(), "os"), 2);
        other.join().unwrap();
        digest.unwrap()
    });
    assert_eq!(images.present(), [0, 1, 2]);
    assert_eq!(digest, images.index(&[0, 1, 2]).digest);
}

#[test]
fn clients_that_add_at_once_all_stay() {
    let images = Images::new();
    let together = Barrier::new(4);
    thread::scope(|scope| {
        let (images, together) = (&images, &together);
        for new in 0..4 {
            scope.spawn(move || {
                let to = open(&images.server.address(), "os");
                together.wait();
                images.add(&to, new).unwrap();
            });
        }
    });
    assert_eq!(images.present(), [0, 1, 2, 3]);
}

#[test]
fn a_tag_that_others_write_again_and_again_is_given_up_with_a_sentence() {
    let images = Images::new();
    let mut round = 0;
    let to = open(&images.server.address(), "os");
    let updated = to.update("1", |_| {
        round += 1;
        images.set(&[0, round % 2 + 1]);
        Ok(Some(images.index(&[3])))
    });
    let e = updated.unwrap_err();
    assert_eq!((e.kind(), round), (ErrorKind::Failed, 16));
    assert!(e.to_string().contains("/os:1 was replaced by other clients each time"), "{e}");
    assert_eq!(images.present().len(), 2, "nothing of it is there");
}
