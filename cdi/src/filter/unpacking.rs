//! Advice about a disk that another program has to read: the commands that get it out of its layers, and make a qcow2 of
//! it. Names in archives are foreign: those that a shell or a terminal could take for something else get a stand-in.

use super::Layer;
use crate::Error;
use disk_format::Format;

/// Longest name that a command has.
const LONGEST: usize = 200;

/// The place of a disk: the file that was named, and the way to the disk in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Name of the source: a path, an address, or words for what has no file.
    pub(crate) name: &'a str,
    /// Layers around the disk, the outermost first.
    pub(crate) layers: &'a [Layer],
    /// Path of the disk in the outermost archive.
    pub(crate) member: Option<&'a str>,
}

/// The error for a disk of a format that is not read; `None` for one that is.
pub(crate) fn unread(format: Format, place: Place<'_>) -> Option<Error> {
    if format.is_read() {
        return None;
    }
    let what = format!("{format}: {}; {}", disk_format::UNREAD, place.advice(format));
    Some(Error::refused(what).nameless())
}

impl Place<'_> {
    /// The file that was named, or a stand-in.
    fn file(&self, format: Format) -> String {
        file_of(self.name).unwrap_or_else(|| match self.layers {
            [] => format!("IN.{format}"),
            layers if layers.contains(&Layer::Tar) => "IN.tar".to_owned(),
            [Layer::Gzip, ..] => format!("IN.{format}.gz"),
            [Layer::Xz, ..] => format!("IN.{format}.xz"),
            [..] => format!("IN.{format}.zst"),
        })
    }

    fn advice(&self, format: Format) -> String {
        let (mut commands, mut file) = (vec![], self.file(format));
        let mut member = self.member;
        // tar finds the compression around an archive by itself.
        let archive = self.layers.iter().position(|&layer| layer == Layer::Tar);
        for &layer in &self.layers[archive.unwrap_or(0)..] {
            let (command, inside) = match layer {
                Layer::Tar => {
                    let named = member.take().and_then(|path| file_of(path.trim_start_matches('/')));
                    match named {
                        Some(path) => (format!("tar -xf {} {}", word(&file), word(&path)), path),
                        None => (format!("tar -xf {}", word(&file)), format!("IN.{format}")),
                    }
                }
                Layer::Gzip => unpacked("gzip", &[".gz"], &file, format),
                Layer::Xz => unpacked("xz", &[".xz"], &file, format),
                Layer::Zstd => unpacked("zstd", &[".zst", ".zstd"], &file, format),
            };
            commands.push(command);
            file = inside;
        }
        let stem = file.rsplit_once('.').filter(|(stem, end)| !stem.is_empty() && !end.contains('/'));
        let target = format!("{}.qcow2", stem.map_or(&*file, |(stem, _)| stem));
        let remedy = format.remedy(&word(&file), &word(&target), &commands);
        match self.name.contains("://") && file_of(self.name).is_some() {
            true => format!("download it; {remedy}"),
            false => remedy,
        }
    }
}

/// The command that undoes a compression, and the file that it makes.
fn unpacked(program: &str, endings: &[&str], file: &str, format: Format) -> (String, String) {
    match endings.iter().find_map(|end| file.strip_suffix(end)).filter(|stem| !stem.is_empty()) {
        Some(stem) => (format!("{program} -dk {}", word(file)), stem.to_owned()),
        None => {
            let inside = format!("IN.{format}");
            (format!("{program} -dc {} >{inside}", word(file)), inside)
        }
    }
}

/// The file of this name here: the last part of an address. `None` if a command should not have the name.
fn file_of(name: &str) -> Option<String> {
    let file = match name.split_once("://") {
        Some(("http" | "https", rest)) => {
            rest.split(['?', '#']).next()?.split_once('/')?.1.rsplit('/').next()?
        }
        Some(_) => return None,
        // The kinds of names of images and of standard input.
        None if name == "standard input" || name.starts_with("oci") || name.starts_with("docker-") => {
            return None;
        }
        None => name,
    };
    let is_safe = !file.is_empty()
        && file.len() <= LONGEST
        && file.chars().all(printable::is_plain)
        && !file.split('/').any(|part| part == "..");
    is_safe.then(|| file.to_owned())
}

/// A file as a word of a shell. qemu-img takes what is before a colon for a protocol, and a dash begins a flag.
fn word(file: &str) -> String {
    let here = if file.starts_with('-') || (file.contains(':') && !file.starts_with(['/', '.'])) {
        "./"
    } else {
        ""
    };
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "._/-+,:@%=".contains(c);
    match file.chars().all(is_bare) {
        true => format!("{here}{file}"),
        false => format!("'{here}{}'", file.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_name_the_file_and_what_is_in_it() {
        use Layer::{Gzip, Tar, Xz};
        for (name, layers, member, said) in [
            ("old.vmdk", &[][..], None, "qemu-img convert -O qcow2 old.vmdk old.qcow2"),
            (
                "/me/a b.ova",
                &[Tar],
                Some("box-disk001.vmdk"),
                "tar -xf '/me/a b.ova' box-disk001.vmdk && qemu-img convert -O qcow2 box-disk001.vmdk box-disk001.qcow2",
            ),
            (
                "a.tar.gz",
                &[Gzip, Tar, Xz],
                Some("/d/x.vmdk.xz"),
                "tar -xf a.tar.gz d/x.vmdk.xz && xz -dk d/x.vmdk.xz && qemu-img convert -O qcow2 d/x.vmdk d/x.qcow2",
            ),
            ("x.vmdk.gz", &[Gzip], None, "gzip -dk x.vmdk.gz && qemu-img convert -O qcow2 x.vmdk x.qcow2"),
            ("x", &[Gzip], None, "gzip -dc x >IN.vmdk && qemu-img convert -O qcow2 IN.vmdk IN.qcow2"),
            ("a.d/x", &[], None, "qemu-img convert -O qcow2 a.d/x a.d/x.qcow2"),
            ("-x:1.vmdk", &[], None, "qemu-img convert -O qcow2 ./-x:1.vmdk ./-x:1.qcow2"),
            ("docker://h/os:1", &[], None, "qemu-img convert -O qcow2 IN.vmdk IN.qcow2"),
            (
                "standard input",
                &[Gzip],
                None,
                "gzip -dk IN.vmdk.gz && qemu-img convert -O qcow2 IN.vmdk IN.qcow2",
            ),
        ] {
            let e = unread(Format::Vmdk, Place { name, layers, member }).unwrap();
            let said =
                format!("vmdk: this format is recognised but cannot be read yet; convert it first: {said}");
            assert_eq!(e.to_string(), said);
        }
        let of_web = Place { name: "https://h/d/x.vdi?sig=1", layers: &[], member: None };
        let e = unread(Format::Vdi, of_web).unwrap().to_string();
        assert!(
            e.ends_with("; download it; convert it first: qemu-img convert -O qcow2 x.vdi x.qcow2"),
            "{e}"
        );
        for format in [Format::Raw, Format::Iso, Format::Qcow2] {
            assert!(unread(format, of_web).is_none());
        }
    }

    /// An archive says how its files are called.
    #[test]
    fn a_hostile_name_is_not_part_of_a_command() {
        for (member, said) in [
            ("$(reboot).vmdk", "tar -xf a.ova '$(reboot).vmdk' && "),
            ("it's.vmdk", r"tar -xf a.ova 'it'\''s.vmdk' && "),
            ("../../x.vmdk", "tar -xf a.ova && qemu-img convert -O qcow2 IN.vmdk "),
            ("a\u{1b}[2Jb", "tar -xf a.ova && qemu-img convert -O qcow2 IN.vmdk "),
            (&"x".repeat(1000), "tar -xf a.ova && qemu-img convert -O qcow2 IN.vmdk "),
        ] {
            let place = Place { name: "a.ova", layers: &[Layer::Tar], member: Some(member) };
            let e = unread(Format::Vmdk, place).unwrap().to_string();
            assert!(e.contains(said), "{e}");
        }
    }
}
