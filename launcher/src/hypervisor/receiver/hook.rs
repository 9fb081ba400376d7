//! The domain that a target receives is its own: libvirt's hook answers with it.
//!
//! ```text
//!  /etc/libvirt/hooks/qemu ─link, in the image─► ROOT/etc/hooks/qemu ─link─► this program
//!      stdin: the domain that arrives                stdout: ROOT/etc/hooks/domain.xml, with the machine type and the CPU that arrive
//! ```
//!
//! libvirt runs the hook before it starts QEMU, and compares the answer with the domain that arrives: another size of memory,
//! another number of disks, another address of a device end the migration. What it does not compare, paths and arguments among it,
//! is the target's. So a source that was taken over chooses nothing of the QEMU here but the values of the CPU, which are checked.
//!
//! The links are there while a domain is received. The driver of every other launcher finds a link that leads nowhere, and no hook.

use crate::error::{Error, Result};
use crate::hypervisor::embed::write_whole;
use crate::root::Root;
use crate::xml_tags::{XmlTag, XmlTags};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// The path at which libvirt looks for its hook.
const LIBVIRTS: &str = "/etc/libvirt/hooks/qemu";
/// The folder of the hook below the root.
const FOLDER: &str = "etc/hooks";
const NAME: &str = "qemu";
const DOMAIN: &str = "domain.xml";
/// Most bytes of a domain.
const MOST: u64 = 4 << 20;

/// The hook of a launcher that receives. It is gone with the value.
#[derive(Debug)]
pub struct Hook {
    folder: PathBuf,
}

impl Hook {
    /// Installs the hook, which answers with this domain.
    pub fn install(root: &Root, domain: &str) -> Result<Hook> {
        let folder = root.folder().join(FOLDER);
        if !fs::read_link(LIBVIRTS).is_ok_and(|to| to == folder.join(NAME)) {
            let link = folder.join(NAME);
            return Err(Error::refused(format!(
                "a VM cannot be received here: {LIBVIRTS}, by which libvirt would ask for the domain to start, is not a link to {}",
                link.display()
            )));
        }
        let cannot = |what: &str, e| Error::io(format!("cannot {what} the hook {}", folder.display()), e);
        super::session::make(&folder)?;
        write_whole(&folder.join(DOMAIN), domain.as_bytes()).map_err(|e| cannot("write the domain of", e))?;
        let own = fs::read_link("/proc/self/exe").map_err(|e| cannot("find the program of", e))?;
        match fs::remove_file(folder.join(NAME)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(cannot("replace", e)),
            _ => {}
        }
        symlink(own, folder.join(NAME)).map_err(|e| cannot("make", e))?;
        Ok(Hook { folder })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        for name in [NAME, DOMAIN] {
            drop(fs::remove_file(self.folder.join(name)));
        }
    }
}

/// True for the words with which libvirt runs its hook.
pub fn is_meant(words: &[OsString]) -> bool {
    words.first().is_some_and(|own| own == LIBVIRTS)
}

/// Answers libvirt: for a domain that arrives with the one of this launcher, and otherwise with nothing.
pub fn run(words: &[OsString]) -> Result<()> {
    let is = |at: usize, word: &str| words.get(at).is_some_and(|it| it == word);
    if !(is(2, "migrate") && is(3, "begin")) {
        return Ok(());
    }
    let own = fs::read_link(LIBVIRTS).map_err(|e| Error::io(format!("cannot follow {LIBVIRTS}"), e))?;
    let domain = own.with_file_name(DOMAIN);
    let expected =
        fs::read_to_string(&domain).map_err(|e| Error::io(format!("cannot read {}", domain.display()), e))?;
    let mut arriving = String::new();
    std::io::stdin()
        .take(MOST)
        .read_to_string(&mut arriving)
        .map_err(|e| Error::io("cannot read the domain that arrives", e))?;
    let answer = merged(&expected, &arriving)?;
    std::io::stdout()
        .write_all(answer.as_bytes())
        .map_err(|e| Error::io("cannot write the domain that is received", e))
}

/// The expected domain with the machine type and the CPU of the one that arrives.
fn merged(expected: &str, arriving: &str) -> Result<String> {
    let with_type = match first(arriving, "type").and_then(|tag| attribute(&tag, "machine")) {
        Some(machine) => with_machine(expected, word("the machine type", machine)?),
        None => expected.to_owned(),
    };
    match cpu(arriving)? {
        Some(cpu) => Ok(with_cpu(&with_type, &cpu)),
        None => Ok(with_type),
    }
}

/// CPU of a domain that arrives, as the beginning of an element and the parts that libvirt has found out.
struct Cpu {
    attributes: String,
    found: String,
}

/// Names of the attributes of a CPU that are taken over.
const ATTRIBUTES: [&str; 4] = ["mode", "match", "check", "migratable"];

fn cpu(arriving: &str) -> Result<Option<Cpu>> {
    let mut tags = XmlTags::of(arriving);
    let (mut attributes, mut found, mut is_there) = (String::new(), String::new(), false);
    while let Some(tag) = tags.next_tag() {
        let at = tags.path();
        match (at, tag.name) {
            (["domain"], "cpu") => {
                is_there = true;
                for name in ATTRIBUTES {
                    if let Some(value) = attribute(&tag, name) {
                        attributes += &format!(" {name}='{}'", word("the CPU", value)?);
                    }
                }
            }
            (["domain", "cpu"], "model") => {
                let fallback = attribute(&tag, "fallback").unwrap_or("forbid");
                let name = word("the CPU model", tag.text.unwrap_or_default())?;
                found += &format!("<model fallback='{}'>{name}</model>", word("the CPU model", fallback)?);
            }
            (["domain", "cpu"], "vendor") => {
                found +=
                    &format!("<vendor>{}</vendor>", word("the CPU vendor", tag.text.unwrap_or_default())?);
            }
            (["domain", "cpu"], "feature") => {
                let of = |name| attribute(&tag, name).unwrap_or_default();
                let (policy, name) =
                    (word("a CPU feature", of("policy"))?, word("a CPU feature", of("name"))?);
                found += &format!("<feature policy='{policy}' name='{name}'/>");
            }
            _ => {}
        }
    }
    Ok(is_there.then_some(Cpu { attributes, found }))
}

/// The domain with this machine type.
fn with_machine(domain: &str, machine: &str) -> String {
    let Some((before, rest)) = domain.split_once("<type") else { return domain.to_owned() };
    let Some((tag, after)) = rest.split_once('>') else { return domain.to_owned() };
    let known =
        first(&format!("<type{tag}>"), "type").and_then(|tag| attribute(&tag, "machine").map(str::to_owned));
    let tag = known.map_or_else(|| tag.to_owned(), |known| tag.replacen(&known, machine, 1));
    format!("{before}<type{tag}>{after}")
}

/// The domain with this CPU in place of its own; topology and NUMA cells stay.
fn with_cpu(domain: &str, cpu: &Cpu) -> String {
    let Some((before, rest)) = domain.split_once("<cpu ") else { return domain.to_owned() };
    let Some((own, after)) = rest.split_once("</cpu>") else { return domain.to_owned() };
    let kept: String =
        ["topology", "numa", "cache", "maxphysaddr"].iter().filter_map(|name| element(own, name)).collect();
    format!("{before}<cpu{}>{}{kept}</cpu>{after}", cpu.attributes, cpu.found)
}

/// First element of this name, as written.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let begin = text.find(&format!("<{name}"))?;
    let here = text.get(begin..)?;
    let tag = here.find('>')?;
    let end = match here.get(..tag)?.ends_with('/') {
        true => tag.checked_add(1)?,
        false => here.find(&format!("</{name}>"))?.checked_add(name.len())?.checked_add(3)?,
    };
    here.get(..end)
}

fn first<'a>(xml: &'a str, name: &str) -> Option<XmlTag<'a>> {
    let mut tags = XmlTags::of(xml);
    std::iter::from_fn(|| tags.next_tag()).find(|tag| tag.name == name)
}

fn attribute<'a>(tag: &XmlTag<'a>, name: &str) -> Option<&'a str> {
    tag.attributes().find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// The value, if it is one word of letters, digits and `-_.`: it goes into the domain of this launcher.
fn word<'a>(what: &str, value: &'a str) -> Result<&'a str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match !value.is_empty() && value.len() < 64 && value.chars().all(is_plain) {
        true => Ok(value),
        false => {
            let shown: String = value.chars().take(80).collect();
            Err(Error::refused(format!("{what} of the VM that arrives is not a name: {shown:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "<domain type='kvm'><name>n_a</name><os><type arch='x86_64' machine='q35'>hvm</type></os>\
        <cpu mode='host-model'><topology sockets='1' cores='2' threads='1'/><numa><cell id='0' cpus='0-1'/></numa>\
        <feature policy='require' name='vmx'/></cpu><devices><disk><source file='/own'/></disk></devices></domain>";

    #[test]
    fn the_domain_is_the_targets_with_the_machine_type_and_the_cpu_that_arrive() {
        let arriving = "<domain type='qemu'><name>n_a</name><os><type arch='x86_64' machine='pc-q35-10.0'>hvm</type></os>\
            <cpu mode='custom' match='exact' check='full'><model fallback='forbid'>Skylake-Client</model><vendor>Intel</vendor>\
            <topology sockets='8' cores='1' threads='1'/><feature policy='disable' name='mpx'/></cpu>\
            <devices><disk><source file='/etc/shadow'/></disk></devices><qemu:commandline/></domain>";
        let merged = merged(OWN, arriving).unwrap();
        assert_eq!(
            merged,
            "<domain type='kvm'><name>n_a</name><os><type arch='x86_64' machine='pc-q35-10.0'>hvm</type></os>\
             <cpu mode='custom' match='exact' check='full'><model fallback='forbid'>Skylake-Client</model><vendor>Intel</vendor>\
             <feature policy='disable' name='mpx'/><topology sockets='1' cores='2' threads='1'/>\
             <numa><cell id='0' cpus='0-1'/></numa></cpu><devices><disk><source file='/own'/></disk></devices></domain>"
        );
    }

    #[test]
    fn a_value_that_is_no_name_is_refused_and_a_domain_without_a_cpu_keeps_that_of_the_target() {
        for arriving in [
            "<domain><os><type machine=\"q35'/><x\">hvm</type></os></domain>",
            "<domain><cpu mode='custom'><model>a &amp; b</model></cpu></domain>",
            "<domain><cpu mode='custom'><feature policy='require' name=\"'/><emulator>\"/></cpu></domain>",
            "<domain><cpu mode='custom'><vendor></vendor></cpu></domain>",
        ] {
            let refused = merged(OWN, arriving).unwrap_err();
            assert!(refused.to_string().contains("is not a name"), "{arriving}: {refused}");
        }
        assert_eq!(merged(OWN, "<domain/>").unwrap(), OWN);
        let nested = "<domain><metadata><cpu mode='custom'><model>evil</model></cpu></metadata></domain>";
        assert_eq!(merged(OWN, nested).unwrap(), OWN);
    }

    #[test]
    fn words_of_libvirt_are_told_from_others() {
        let words =
            |own: &str| vec![OsString::from(own), "n_a".into(), "migrate".into(), "begin".into(), "-".into()];
        assert!(is_meant(&words("/etc/libvirt/hooks/qemu")));
        assert!(!is_meant(&words("virt-launcher")) && !is_meant(&[]));
    }
}
