//! The report as text: lines of `name: value`, at most 80 columns where words allow it.

use super::report::{
    ContainerImage, Content, Disk, Filesystem, Optical, Partition, PartitionTable, Reference, Report, Seed,
    System, Usage,
};
use crate::size::human;
use std::fmt::Write;

const COLUMNS: usize = 80;
/// Column of the values.
const VALUE: usize = 15;

/// The report as text; each line ends with a line feed.
pub fn text(report: &Report) -> String {
    let mut page = Page::default();
    page.line("name", &report.name);
    if let Some(image) = &report.image {
        page.image(image);
    }
    if report.format != "unknown" || report.image.is_none() {
        page.line("format", &format(report));
    }
    if let Some(member) = &report.member {
        page.line("file in tar", member);
    }
    if let Some(size) = report.virtual_size {
        page.line("virtual size", &bytes(size));
    }
    if let Some(size) = report.size {
        let allocated = report.allocated.map(|a| format!(", {} on disk", human(a)));
        page.line("file size", &format!("{}{}", bytes(size), allocated.unwrap_or_default()));
    }
    report.refers_outside.iter().for_each(|r| page.line("refers to", &outside(r)));
    if let Some(why) = &report.refused {
        page.line("refused", why);
    }
    if let Some(disk) = &report.disk {
        page.disk(disk);
    }
    if let Some(usage) = &report.usage {
        page.line("usage", &used(usage));
    }
    if let Some(digest) = &report.digest {
        page.line(digest.algorithm, &digest.value);
    }
    page.line("read", &format!("{} in {}", human(report.read.bytes), count(report.read.requests, "request")));
    report.notes.iter().for_each(|note| page.line("note", note));
    page.text
}

fn format(report: &Report) -> String {
    let mut out = report.format.to_string();
    for layer in report.layers.iter().rev() {
        let _ = write!(out, " inside {layer}");
    }
    // Absent properties are in the JSON only.
    for (name, value) in report.facts.iter().filter(|(_, value)| value != "no" && value != "0") {
        let _ = write!(out, ", {name} {value}");
    }
    out
}

fn bytes(n: u64) -> String {
    match n {
        ..1024 => human(n),
        n => format!("{} ({n} bytes)", human(n)),
    }
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn outside(r: &Reference) -> String {
    let kind = r.kind.replace('-', " ");
    let name = r.name.as_ref().map_or("whose name cannot be read".into(), |name| format!("{name:?}"));
    let format = r.format.as_ref().map(|f| format!(" ({f})")).unwrap_or_default();
    format!("{kind} {name}{format}, which is never opened")
}

fn used(usage: &Usage) -> String {
    let mut parts = vec![format!("{} stored", human(usage.data))];
    if usage.compressed > 0 {
        parts.push(format!("{} compressed into {}", human(usage.compressed), human(usage.compressed_into)));
    }
    parts.push(format!("{} of zeros", human(usage.zero)));
    format!("{} (by the {})", parts.join(", "), usage.how)
}

/// Lines of the report.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    /// A name and its value; further lines of the value stand under its first.
    fn line(&mut self, name: &str, value: &str) {
        self.wrapped(&format!("{:VALUE$}", format!("{name}:")), VALUE, value);
    }

    /// A value behind `lead`, wrapped at words.
    fn wrapped(&mut self, lead: &str, indent: usize, value: &str) {
        let mut line = lead.to_string();
        let mut empty = true;
        for word in value.split(' ').filter(|w| !w.is_empty()) {
            let wide = line.chars().count() + usize::from(!empty) + word.chars().count() > COLUMNS;
            if wide && !empty {
                self.push(&line);
                line = " ".repeat(indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.push(&line);
    }

    fn push(&mut self, line: &str) {
        // Control characters of foreign text are replaced.
        let line: String = line
            .chars()
            .map(|c| if printable::is_plain(c) { c } else { char::REPLACEMENT_CHARACTER })
            .collect();
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn image(&mut self, image: &ContainerImage) {
        self.line("image", &image.facts.digest);
        self.line("architecture", &image.facts.architectures.join(", "));
        if let Some(chosen) = &image.facts.chosen {
            if chosen.manifest != image.facts.digest {
                self.line("chosen", &format!("{} ({})", chosen.manifest, chosen.architecture));
            }
            if let Some(created) = &chosen.created {
                self.line("created", created);
            }
            for layer in &chosen.layers {
                self.line("layer", &format!("{} {}", layer.digest, human(layer.size)));
            }
            for (name, value) in &chosen.labels {
                self.line("label", &format!("{name}={value}"));
            }
            if let Some(boot) = &chosen.boot {
                let initrd =
                    boot.initrd.as_ref().map(|initrd| format!(", initrd {initrd}")).unwrap_or_default();
                self.line("kernel", &format!("{}{initrd}, {:?}", boot.kernel, boot.cmdline));
            }
        }
        if let Some(file) = &image.file {
            let (owner, group) = (file.uid, file.gid);
            let what =
                format!("{}, of {owner}:{group}, mode {}, layer {}", file.path, file.mode, file.compression);
            self.line("disk file", &what);
        }
        if let Some(all) = &image.registries {
            self.line("received", &format!("{} of blobs from the registry", human(all.received)));
        }
    }

    fn disk(&mut self, disk: &Disk) {
        if let Some(disc) = &disk.optical {
            self.disc(disc);
        }
        if let Some(table) = &disk.partition_table {
            self.table(table);
        }
        match &disk.content {
            // The facts of a disc are more than those of its filesystem.
            Some(_) if disk.optical.is_some() => {}
            Some(content) => {
                self.line("content", &inside(content));
                self.systems(content, "");
            }
            None => {}
        }
        let boots = |firmware: &str, reasons: &[String]| match reasons {
            [] => None,
            some => Some(format!("{firmware} ({})", some.join("; "))),
        };
        let boots = [boots("BIOS", &disk.boot.bios), boots("UEFI", &disk.boot.uefi)];
        let boots: Vec<String> = boots.into_iter().flatten().collect();
        match boots.as_slice() {
            [] => self.line("boots", &no_boot(disk.optical.is_some())),
            some => some.iter().for_each(|how| self.line("boots", how)),
        }
    }

    fn table(&mut self, table: &PartitionTable) {
        let id = table.id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let total = table.partitions.len() as u64 + table.more;
        let sectors = if table.sector_size == 512 {
            String::new()
        } else {
            format!(", sectors of {} bytes", table.sector_size)
        };
        self.line("partitions", &format!("{}{id}, {}{sectors}", table.kind, count(total, "partition")));
        for p in &table.partitions {
            let lead = format!("  {:<3} {:>9}  ", p.number, human(p.size));
            self.wrapped(&lead, lead.len() + 2, &partition(p));
        }
        if table.more > 0 {
            self.wrapped("  ", 4, &format!("and {} more", table.more));
        }
        table.problems.iter().for_each(|p| self.line("problem", p));
        for p in &table.partitions {
            self.systems(&p.content, &format!(" (partition {})", p.number));
        }
    }

    /// Operating systems and seeds in a filesystem.
    fn systems(&mut self, content: &Content, place: &str) {
        let Content::Known(found) = content else { return };
        if let Some(system) = &found.system {
            self.system(system, place);
        }
        if let Some(seed) = &found.seed {
            self.line("cloud-init", &format!("{}{place}", seeded(seed)));
        }
    }

    fn system(&mut self, system: &System, place: &str) {
        if let Some(name) = system.name.as_ref().or(system.os.as_ref()) {
            self.line("system", &format!("{name}{place}"));
        }
        match (system.cloud_init, &system.unread) {
            (Some(true), _) => self.line("cloud-init", &format!("installed{place}")),
            (Some(false), _) if system.name.is_some() => {
                self.line("cloud-init", &format!("not installed{place}"))
            }
            (None, Some(why)) => self.line("system", &format!("not known: {why}{place}")),
            _ => {}
        }
    }

    fn disc(&mut self, disc: &Optical) {
        let mut kinds = vec![];
        kinds.extend(disc.iso9660.then_some("ISO 9660".to_string()));
        kinds.extend(disc.joliet.then_some("Joliet".to_string()));
        kinds.extend(disc.rock_ridge.then_some("Rock Ridge".to_string()));
        kinds.extend(disc.udf.as_ref().map(|u| format!("UDF {}", u.version.as_deref().unwrap_or(""))));
        self.line("disc", &kinds.join(", "));
        let label = disc.label.as_ref().or(disc.udf.as_ref().and_then(|u| u.label.as_ref()));
        let fields = [
            ("label", label),
            ("publisher", disc.publisher.as_ref()),
            ("prepared by", disc.preparer.as_ref()),
            ("application", disc.application.as_ref()),
            ("created", disc.created.as_ref()),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                self.line(name, value);
            }
        }
        match (disc.medium, &disc.medium_name) {
            (Some(what), Some(name)) => self.line("medium", &format!("{what}: {name}")),
            (Some(what), None) => self.line("medium", what),
            (None, Some(name)) => self.line("medium", name),
            (None, None) => {}
        }
        if let Some(seed) = &disc.seed {
            self.line("cloud-init", &seeded(seed));
        }
    }
}

/// The places where something to boot was looked for, and what to do with a disk that has nothing there.
fn no_boot(is_optical: bool) -> String {
    let places = match is_optical {
        true => "no El Torito entry, no boot loader in the first sector, no EFI system partition",
        false => "no boot loader in the first sector, no EFI system partition, no EFI boot program",
    };
    format!(
        "not by itself: {places}; as a disk of data it needs another disk to boot from, or a kernel (coracle build \
         --kernel)"
    )
}

fn seeded(seed: &Seed) -> String {
    match seed.files.as_slice() {
        [] => format!("a seed ({}) without files", seed.source),
        files => format!("a seed ({}): {}", seed.source, files.join(", ")),
    }
}

fn partition(p: &Partition) -> String {
    let kind = p.type_name.map_or_else(|| format!("type {}", p.type_id), str::to_string);
    let name = p.name.as_ref().map(|n| format!(" {n:?}")).unwrap_or_default();
    let active = if p.active { ", active" } else { "" };
    format!("{kind}{name}{active}: {}", inside(&p.content))
}

fn inside(content: &Content) -> String {
    match content {
        Content::Known(found) => filesystem(found),
        Content::Blank => "empty".into(),
        Content::Unknown => "nothing that is known".into(),
        Content::Unread { why } => format!("not looked at, {why}"),
    }
}

fn filesystem(found: &Filesystem) -> String {
    let mut out = found.kind.to_string();
    if let Some(version) = &found.version {
        let _ = write!(out, " {version}");
    }
    if let Some(label) = &found.label {
        let _ = write!(out, " {label:?}");
    }
    match (found.size, found.free) {
        (Some(size), Some(free @ 1..)) if free <= size => {
            let _ = write!(out, ", {} of {} used", human(size - free), human(size));
        }
        (Some(size), _) => {
            let _ = write!(out, ", {}", human(size));
        }
        _ => {}
    }
    if !found.uefi.is_empty() {
        let _ = write!(out, ", boot program for {}", found.uefi.join(", "));
    }
    if !found.looked_into && matches!(found.kind, "xfs" | "btrfs" | "f2fs" | "jfs" | "bcachefs" | "reiserfs")
    {
        out.push_str(", not looked into");
    }
    out
}
