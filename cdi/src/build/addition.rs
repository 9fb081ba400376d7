//! An image that is added to the index under a name, in place of the one of its platform there.

use container_disk::Result;
use container_disk::image::{self, Config, Recipe};
use container_disk::manifest::{Content, Document};
use container_disk::place::Place;

/// The addition of an image to an index.
pub(super) struct Addition<'a> {
    image: &'a Document,
    architecture: &'a str,
    variant: Option<&'a str>,
    /// Images of the platform in the index that the latest one was made from.
    replaced: Option<Vec<String>>,
}

impl<'a> Addition<'a> {
    pub(super) fn new(image: &'a Document, recipe: &'a Recipe) -> Addition<'a> {
        Addition {
            image,
            architecture: &recipe.architecture,
            variant: recipe.variant.as_deref(),
            replaced: None,
        }
    }

    /// The index to write in place of the present document; `None` if it may stay. Other builds may write at
    /// the same time: one for another platform may remove this image, which is then added again. One for the
    /// same platform replaces it, as if it had begun later.
    pub(super) fn next(&mut self, present: Option<&Document>, place: &dyn Place) -> Result<Option<Document>> {
        let Some(present) = present else {
            self.replaced = Some(vec![]);
            return self.alone().map(Some);
        };
        let images = self.images_of_platform(present);
        let is_there = images == [self.image.digest.to_string()];
        let is_replaced = !images.is_empty() && self.replaced.as_ref().is_some_and(|then| *then != images);
        if is_there || is_replaced {
            return Ok(None);
        }
        self.replaced = Some(images);
        self.to_document(present, place).map(Some)
    }

    /// The index of a document with the image added.
    pub(super) fn to_document(&self, present: &Document, place: &dyn Place) -> Result<Document> {
        match &present.content {
            Content::Index(_) => image::join(present, self.image, self.architecture, self.variant),
            // One image of another architecture: both become an index.
            Content::Manifest(manifest) => {
                let config = Config::read(place, manifest)?;
                let first = image::index(present, &config.architecture, config.variant.as_deref())?;
                image::join(&first, self.image, self.architecture, self.variant)
            }
        }
    }

    /// The index of the image alone.
    pub(super) fn alone(&self) -> Result<Document> {
        image::index(self.image, self.architecture, self.variant)
    }

    fn images_of_platform(&self, index: &Document) -> Vec<String> {
        let Content::Index(index) = &index.content else { return vec![] };
        let of_platform = index.manifests.iter().filter(|entry| {
            entry.platform.as_ref().is_some_and(|platform| {
                platform.os.to_string() == "linux"
                    && platform.architecture.to_string() == self.architecture
                    && platform.variant.as_deref() == self.variant
            })
        });
        of_platform.map(|entry| entry.digest.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(architecture: &str) -> Recipe {
        Recipe::new(architecture, vec![])
    }

    /// An image without layers; another `label` makes another image.
    fn image(architecture: &str, label: &str) -> Document {
        let labels = [("l".to_owned(), label.to_owned())].into();
        image::manifest(&Recipe { labels, ..recipe(architecture) }).unwrap().1
    }

    struct Nowhere;

    impl Place for Nowhere {
        fn name(&self) -> &str {
            "nowhere"
        }

        fn document(&self, _: &container_disk::place::Reference) -> Result<Document> {
            unreachable!("an index is read by the caller")
        }

        fn blob(
            &self,
            _: &container_disk::manifest::Descriptor,
        ) -> Result<std::sync::Arc<dyn container_disk::place::Blob>> {
            unreachable!("an index lists the architectures")
        }
    }

    fn holds(index: &Document, images: &[&Document]) -> bool {
        let Content::Index(index) = &index.content else { return false };
        let mut found: Vec<&str> = index.manifests.iter().map(|entry| entry.digest.as_str()).collect();
        let mut wanted: Vec<String> = images.iter().map(|image| image.digest.to_string()).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        found == wanted
    }

    #[test]
    fn an_image_is_added_until_the_index_holds_it() {
        let (ours, other) = (image("arm64", "ours"), image("amd64", "other"));
        let recipe = recipe("arm64");
        let mut addition = Addition::new(&ours, &recipe);
        let alone = addition.next(None, &Nowhere).unwrap().unwrap();
        assert!(holds(&alone, &[&ours]));
        assert!(addition.next(Some(&alone), &Nowhere).unwrap().is_none(), "it is there");
        // A build for another platform began from the same state, and has removed the image.
        let without = image::index(&other, "amd64", None).unwrap();
        let both = addition.next(Some(&without), &Nowhere).unwrap().unwrap();
        assert!(holds(&both, &[&ours, &other]));
        assert!(addition.next(Some(&both), &Nowhere).unwrap().is_none());
    }

    #[test]
    fn a_later_build_for_the_same_platform_wins_and_an_earlier_one_does_not_come_back() {
        let [ours, old, later] = ["ours", "old", "later"].map(|label| image("arm64", label));
        let recipe = recipe("arm64");
        let mut addition = Addition::new(&ours, &recipe);
        let before = image::index(&old, "arm64", None).unwrap();
        let index = addition.next(Some(&before), &Nowhere).unwrap().unwrap();
        assert!(holds(&index, &[&ours]));
        // Another client has written the image that this one replaced: from a state before this build.
        let other = image("amd64", "other");
        let stale = image::join(&before, &other, "amd64", None).unwrap();
        assert!(holds(&addition.next(Some(&stale), &Nowhere).unwrap().unwrap(), &[&ours, &other]));
        let replaced = image::index(&later, "arm64", None).unwrap();
        assert!(addition.next(Some(&replaced), &Nowhere).unwrap().is_none());
    }
}
