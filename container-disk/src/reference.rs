//! Names of images.
//!
//! | name | place |
//! |---|---|
//! | `docker://HOST[:PORT]/REPO[:TAG][@DIGEST]` | a registry |
//! | `oci:DIR[:TAG]` | an OCI image layout in a folder |
//! | `oci-archive:FILE[:TAG]` | an OCI image layout in a tar file |
//! | `docker-archive:FILE[:TAG]`, `docker-archive:FILE:REPO:TAG` | a tar file of `docker save` |
//! | `store:NAME[:TAG]` | the user's own store |
//!
//! The meaning of a name without a scheme is decided in [`crate::meaning`].

use crate::place::Reference;
use crate::{Digest, Error, Result};
use std::fmt;
use std::path::PathBuf;

/// The name of an image: its place and its reference there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Name {
    /// An image in a registry.
    Registry(Remote),
    /// An image in an OCI layout, a folder.
    Layout(PathBuf, Option<String>),
    /// An image in an OCI layout inside a tar file.
    OciArchive(PathBuf, Option<String>),
    /// An image in a tar file of `docker save`.
    DockerArchive(PathBuf, Option<String>),
    /// An image in the user's store.
    Store(Local),
}

/// The name of an image in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Remote {
    /// `host` or `host:port`, lower case.
    pub host: String,
    /// Path of the repository, such as `group/name`.
    pub repository: String,
    /// The tag. `latest` if neither tag nor digest is given.
    pub tag: Option<String>,
    /// The digest. It takes precedence over a tag.
    pub digest: Option<Digest>,
}

/// The name of an image in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Local {
    /// Name without the tag: `group/name`, or `host:port/group/name` for an image of a registry.
    pub name: String,
    /// The tag. Default: `latest`.
    pub tag: String,
}

impl Name {
    /// Parses a name with one of the schemes. `None` if the text has no known scheme.
    pub fn with_scheme(text: &str) -> Option<Result<Name>> {
        let (scheme, rest) = text.split_once(':')?;
        Some(match scheme {
            "docker" => match rest.strip_prefix("//") {
                Some(rest) => Remote::parse(rest).map(Name::Registry),
                None => Err(Error::usage(format!("{text:?}: a registry is written docker://HOST/REPO"))),
            },
            "store" => Local::parse(rest).map(Name::Store),
            "oci" => path_and_tag(text, rest).map(|(path, tag)| Name::Layout(path, tag)),
            "oci-archive" => path_and_tag(text, rest).map(|(path, tag)| Name::OciArchive(path, tag)),
            "docker-archive" => {
                let split = file_and_image(rest).map_or_else(|| path_and_tag(text, rest), Ok);
                split.map(|(path, tag)| Name::DockerArchive(path, tag))
            }
            _ => return None,
        })
    }

    /// Parses a name for a command on images. Without a scheme it is one in the store.
    pub fn of_image(text: &str) -> Result<Name> {
        Name::with_scheme(text).unwrap_or_else(|| Local::parse(text).map(Name::Store))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path, tag) = match self {
            Name::Registry(remote) => return write!(f, "docker://{remote}"),
            Name::Store(local) => return write!(f, "store:{local}"),
            Name::Layout(path, tag) => ("oci", path, tag),
            Name::OciArchive(path, tag) => ("oci-archive", path, tag),
            Name::DockerArchive(path, tag) => ("docker-archive", path, tag),
        };
        write!(f, "{scheme}:{}", path.display())?;
        tag.as_ref().map_or(Ok(()), |tag| write!(f, ":{tag}"))
    }
}

impl Remote {
    /// Parses `HOST[:PORT]/REPO[:TAG][@DIGEST]`, the part after `docker://`. The host is required; there is
    /// no default registry.
    pub fn parse(text: &str) -> Result<Remote> {
        let bad = |why: &str| Error::usage(format!("docker://{text}: {why}"));
        let (host, rest) = text.split_once('/').ok_or_else(|| bad("write docker://HOST/REPO[:TAG]"))?;
        let host = host.to_ascii_lowercase();
        if !is_host(&host) {
            return Err(bad(&format!("{host:?} is not a host name with an optional port")));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|e: Error| bad(&e.to_string()))?)),
            None => (rest, None),
        };
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag.to_owned())),
            None => (rest, digest.is_none().then(|| "latest".to_owned())),
        };
        check_repository(repository).map_err(|why| bad(&why))?;
        if let Some(tag) = &tag {
            check_tag(tag).map_err(|why| bad(&why))?;
        }
        Ok(Remote { host, repository: repository.to_owned(), tag, digest })
    }

    /// Parses `HOST/REPO…` without a scheme. `None` unless the first part can only be a host: it has a dot or
    /// a port, or is `localhost`.
    pub fn by_host(text: &str) -> Option<Result<Remote>> {
        let (host, _) = text.split_once('/')?;
        is_full_host(host).then(|| Remote::parse(text))
    }

    /// The name under which the store keeps this image. It contains the host, so that two registries are two
    /// images; a digest takes the place of the tag.
    pub fn stored(&self) -> Local {
        let tag = match (&self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string().replace(':', "-"),
            (None, Some(tag)) => tag.clone(),
            (None, None) => "latest".to_owned(),
        };
        Local { name: format!("{}/{}", self.host, self.repository), tag }
    }

    /// The reference to request from the registry.
    pub fn reference(&self) -> Reference {
        match (self.digest, &self.tag) {
            (Some(digest), _) => Reference::Digest(digest),
            (None, Some(tag)) => Reference::Tag(tag.clone()),
            (None, None) => Reference::Tag("latest".to_owned()),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

impl Local {
    /// Parses `NAME[:TAG]`, the part after `store:`. The name may begin with the host of a registry.
    pub fn parse(text: &str) -> Result<Local> {
        let bad = |why: &str| Error::usage(format!("store:{text}: {why}"));
        let host = text.split_once('/').map(|(host, _)| host).filter(|host| is_kept_host(host));
        let rest = host.map_or(text, |host| &text[host.len() + 1..]);
        let (name, tag) = rest.split_once(':').unwrap_or((rest, "latest"));
        check_repository(name).map_err(|why| bad(&why))?;
        // A digest that stands for the tag may be longer than tags are.
        if digest_of_tag(tag).is_none() {
            check_tag(tag).map_err(|why| bad(&why))?;
        }
        let name = host.map_or_else(|| name.to_owned(), |host| format!("{host}/{name}"));
        Ok(Local { name, tag: tag.to_owned() })
    }

    /// The image of a registry that has this name, if the name begins with a host.
    pub fn remote(&self) -> Option<Remote> {
        Remote::by_host(&self.to_string())?.ok()
    }

    /// The digest that takes the place of the tag, in a name by [`Remote::stored`]. Any image may have been given that name.
    pub fn digest(&self) -> Option<Digest> {
        digest_of_tag(&self.tag)
    }

    /// The reference to look up in the store.
    pub fn reference(&self) -> Reference {
        Reference::Tag(self.to_string())
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.tag)
    }
}

/// The digest that is written as a tag: `sha256-HEX`.
fn digest_of_tag(tag: &str) -> Option<Digest> {
    tag.replacen('-', ":", 1).parse().ok()
}

/// True for a host that no folder, group or short name has: with a dot or a port, or `localhost`.
fn is_full_host(host: &str) -> bool {
    is_host(host) && (host.contains(['.', ':']) || host == "localhost")
}

/// True for a host with a port, in lower case. Any other host is a valid first part of a repository.
fn is_kept_host(host: &str) -> bool {
    host.contains(':') && is_host(host) && !host.bytes().any(|b| b.is_ascii_uppercase())
}

/// Splits `FILE:REPO:TAG`, whose file has no colon, as skopeo does. `None` if the rest is not of that form.
fn file_and_image(rest: &str) -> Option<(PathBuf, Option<String>)> {
    let (file, image) = rest.split_once(':')?;
    let (repository, tag) = image.rsplit_once(':')?;
    let host = repository.split_once('/').map(|(host, _)| host).filter(|host| is_kept_host(host));
    let path = host.map_or(repository, |host| &repository[host.len() + 1..]);
    let is_image = !file.is_empty() && check_repository(path).is_ok() && check_tag(tag).is_ok();
    is_image.then(|| (file.into(), Some(image.to_owned())))
}

/// Splits a path from its tag. A path may contain colons; the text after the last one is the tag if it is a
/// valid one without a slash.
fn path_and_tag(text: &str, rest: &str) -> Result<(PathBuf, Option<String>)> {
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) if check_tag(tag).is_ok() => (path, Some(tag.to_owned())),
        _ => (rest, None),
    };
    if path.is_empty() {
        Err(Error::usage(format!("{text:?} has no path after the scheme")))
    } else {
        Ok((path.into(), tag))
    }
}

pub(crate) fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, port)) => return v6.parse::<std::net::Ipv6Addr>().is_ok() && is_port(port),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    name.len() <= 253 && name.split('.').all(label) && is_port(port)
}

/// True for no port, or `:` and a number.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok())
}

fn check_repository(name: &str) -> Result<(), String> {
    let part = |part: &str| {
        let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let bytes = part.as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
            && !part.contains("..")
    };
    if name.len() <= 255 && name.split('/').all(part) {
        return Ok(());
    }
    Err(format!(
        "{name:?} is not a repository: lower-case letters, digits, '.', '_', '-', parts joined by '/'"
    ))
}

fn check_tag(tag: &str) -> Result<(), String> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let ok = tag.bytes().next().is_some_and(word)
        && tag.len() <= 128
        && tag.bytes().all(|b| word(b) || b == b'.' || b == b'-');
    if ok {
        Ok(())
    } else {
        Err(format!("{tag:?} is not a tag: letters, digits, '.', '_', '-', at most 128"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown_alike() {
        let hex = "0a".repeat(32);
        for (text, shown) in [
            ("docker://h/r", "docker://h/r:latest"),
            ("docker://H.example:5000/a/b-c:v1", "docker://h.example:5000/a/b-c:v1"),
            (&format!("docker://h/r@sha256:{hex}"), &format!("docker://h/r@sha256:{hex}")),
            (&format!("docker://h/r:t@sha256:{hex}"), &format!("docker://h/r:t@sha256:{hex}")),
            ("docker://[::1]:5000/r:t", "docker://[::1]:5000/r:t"),
            ("oci:dir", "oci:dir"),
            ("oci:/a/b:c/d:1.0", "oci:/a/b:c/d:1.0"),
            ("oci-archive:x.tar:1", "oci-archive:x.tar:1"),
            ("docker-archive:x.tar", "docker-archive:x.tar"),
            ("docker-archive:x.tar:os:12", "docker-archive:x.tar:os:12"),
            ("docker-archive:x.tar:h.example:5000/g/os:12", "docker-archive:x.tar:h.example:5000/g/os:12"),
            ("docker-archive:/A:B/x.tar:1", "docker-archive:/A:B/x.tar:1"),
            ("store:os", "store:os:latest"),
            ("store:localhost:5000/d", "store:localhost:5000/d:latest"),
            ("store:h.example/g/d:1", "store:h.example/g/d:1"),
            ("localhost:5000/d:1", "store:localhost:5000/d:1"),
            ("os:1", "store:os:1"),
            ("group/os", "store:group/os:latest"),
        ] {
            assert_eq!(Name::of_image(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn two_registries_are_two_images_in_the_store_and_each_name_leads_back() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        let of_digest = format!("h.example/os:sha256-{}", "0a".repeat(32));
        let of_sha512 = format!("h.example/os:sha512-{}", "0a".repeat(64));
        for (remote, stored) in [
            ("registry.example:5000/a/os:1", "registry.example:5000/a/os:1"),
            ("registry.example/os", "registry.example/os:latest"),
            ("[::1]:5000/os", "[::1]:5000/os:latest"),
            ("h/os:1", "h/os:1"),
            (&format!("h.example/os@{digest}"), &of_digest),
            (&format!("h.example/os@sha512:{}", "0a".repeat(64)), &of_sha512),
        ] {
            let local = Remote::parse(remote).unwrap().stored();
            assert_eq!(local.to_string(), stored);
            assert_eq!(Local::parse(stored).unwrap(), local);
            let back = local.remote().map(|remote| remote.to_string());
            // A host of one word could be a group as well, and no registry has a tag of 135 letters.
            let has_way_back = !stored.starts_with("h/") && stored != of_sha512;
            assert_eq!(back.as_deref(), has_way_back.then_some(stored));
            assert_eq!(local.digest(), Remote::parse(remote).unwrap().digest);
        }
    }

    #[test]
    fn bad_names_are_refused_with_the_reason() {
        for (text, why) in [
            ("docker:h/r", "docker://HOST/REPO"),
            ("docker://r", "docker://HOST/REPO"),
            ("docker://h/UP", "not a repository"),
            ("docker://h/../x", "not a repository"),
            ("docker://h/r:", "not a tag"),
            ("docker://h:99999/r", "not a host"),
            ("docker://u:p@h/r", "not a host"),
            ("docker://h/r@sha256:00", "digest"),
            ("oci:", "has no path after"),
            ("store:", "not a repository"),
            ("./os", "not a repository"),
        ] {
            let e = Name::of_image(text).unwrap_err();
            assert!(e.to_string().contains(why), "{text}: {e}");
        }
        let Name::DockerArchive(path, image) = Name::of_image("docker-archive:x.tar:os:12").unwrap() else {
            panic!("another kind of name")
        };
        assert_eq!((path, image.as_deref()), (PathBuf::from("x.tar"), Some("os:12")));
        assert!(Name::with_scheme("disk.img").is_none());
        assert!(Name::with_scheme("http://x/y").is_none());
    }
}
