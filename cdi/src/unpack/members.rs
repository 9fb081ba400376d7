//! The members of an archive as steps for the folder, and the members that are refused. Opens nothing, and
//! touches no file.

use crate::run::watch::Watch;
use crate::{Detail, Error, Result};
use container_disk::tar::{self, Archive, Fault, Map, Member, Rules, Streamed, What, quoted};
use std::io::Read;
use std::sync::mpsc::SyncSender;

/// Bytes of a file that are passed on at once.
pub(super) const PIECE: usize = 256 << 10;
/// The most folders in folders: each is opened on the way to a file.
pub(super) const DEEPEST: usize = 128;
/// Without its end mark an archive may have been cut short. Each header costs time and an inode, and no
/// memory.
const RULES: Rules = Rules { end: tar::End::Mark, headers: 10_000_000 };

/// One step of unpacking.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A folder must exist, with these permissions if it is new.
    Folder {
        /// Path with single slashes.
        name: String,
        mode: u32,
    },
    /// A new file; its bytes follow, up to the next step of another kind.
    File { name: String, mode: u32, size: u64 },
    /// Bytes of the file.
    Data { at: u64, bytes: Vec<u8> },
}

/// The end of the reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The archive is complete, and every step was passed on.
    Whole,
    /// The writer takes no more steps.
    Stopped,
}

/// The most bytes of all files of an archive together.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// Bytes of files, holes not counted.
    pub(super) room: u64,
    /// Bytes with holes: a program that copies the files may write these.
    pub(super) most: u64,
}

/// Reads an archive to its end.
pub(super) fn read(
    input: Box<dyn Read + Send>,
    Bounds { room, most }: Bounds,
    watch: &Watch,
    steps: &SyncSender<Step>,
) -> Result<End> {
    let mut archive = Archive::new(Streamed::new(input), RULES);
    let (mut used, mut whole) = (0_u64, 0_u64);
    while let Some(member) = archive.next_member().map_err(error)? {
        watch.check()?;
        let refused = |what| error(Fault::Refused { at: member.at, what });
        let Some(step) = step(&member).map_err(refused)? else { continue };
        let is_file = matches!(step, Step::File { .. });
        if is_file {
            used = used.saturating_add(stored(&member));
            if used > room {
                let name = quoted(&member.name).to_string();
                let what = format!(
                    "the archive is larger than its volume: with {name} its files have {used} bytes, the volume holds \
                     {room}, {} are missing",
                    used - room
                );
                return Err(Error::of_bytes(what).with_detail(Detail::Files { name, bytes: used, room }));
            }
            whole = whole.saturating_add(member.size);
            if whole > most {
                return Err(refused(format!(
                    "with {} the files of the archive have {whole} bytes with their holes, more than the limit of {most}",
                    quoted(&member.name)
                )));
            }
        }
        if steps.send(step).is_err() || (is_file && !hand_on(&mut archive, &member, watch, steps)?) {
            return Ok(End::Stopped);
        }
    }
    archive.drain().map_err(error)?;
    Ok(End::Whole)
}

/// The step for a member; `None` for a note, or the root.
fn step(member: &Member) -> Result<Option<Step>, String> {
    let name = &member.name;
    // Nine bits are left, which fit.
    let mode = u32::try_from(member.mode & 0o777).unwrap_or(0);
    if name.split('/').count() > DEEPEST {
        return Err(format!("{} lies more than {DEEPEST} folders deep", quoted(name)));
    }
    let refused = |what: String| Err(format!("{} is {what}", quoted(name)));
    match &member.what {
        What::Note(_) => Ok(None),
        What::Folder if name.is_empty() => Ok(None),
        What::Folder => Ok(Some(Step::Folder { name: name.clone(), mode })),
        What::File => Ok(Some(Step::File { name: name.clone(), mode, size: member.size })),
        What::HardLink(to) => refused(format!("a hard link to {}, and links are not unpacked", quoted(to))),
        What::Symlink(to) => refused(format!(
            "a symbolic link to {}, and links are not unpacked; tar -h packs what a link leads to",
            quoted(to)
        )),
        What::Special(kind) => refused(format!("a {kind}, and none is made on the volume")),
    }
}

/// Bytes that a file takes, without holes.
fn stored(member: &Member) -> u64 {
    let lengths =
        |map: &Map| map.segments().iter().fold(0, |sum: u64, part| sum.saturating_add(part.end - part.start));
    member.map.as_ref().map_or(member.size, lengths)
}

/// Passes on the data of the present member. False if the writer has stopped.
fn hand_on(archive: &mut Archive, member: &Member, watch: &Watch, steps: &SyncSender<Step>) -> Result<bool> {
    let whole;
    let map = match &member.map {
        Some(map) => map,
        None => {
            whole = Map::whole(member.size);
            &whole
        }
    };
    for segment in map.segments() {
        let mut at = segment.start;
        while at < segment.end {
            watch.check()?;
            let most = usize::try_from(segment.end - at).unwrap_or(usize::MAX).min(PIECE);
            let bytes = archive.peek(most).map_err(error)?;
            if bytes.is_empty() {
                return Err(error(Fault::Truncated { at: archive.offset(), inside: "a file" }));
            }
            let next = at.saturating_add(bytes.len() as u64);
            if steps.send(Step::Data { at, bytes }).is_err() {
                return Ok(false);
            }
            at = next;
        }
    }
    Ok(true)
}

fn error(fault: Fault) -> Error {
    let placed =
        |at: u64, what: String| Error::of_bytes(format!("tar: {what} (at offset {at} of the archive)"));
    match fault {
        Fault::Io(e) => Error::reading("cannot read the archive", e),
        Fault::Truncated { at, inside } => {
            placed(at, format!("the input ends inside {inside}; it is truncated"))
        }
        Fault::Refused { at, what } => placed(at, what),
    }
}
