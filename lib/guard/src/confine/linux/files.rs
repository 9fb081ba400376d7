//! Landlock: the files that can be opened.
//!
//! Every right that the kernel can restrict is restricted, and each path gets just the rights that its use
//! needs. Newer rights (truncation, device ioctls, TCP ports, signals, abstract sockets) count where the
//! kernel knows them.
//!
//! **One right cannot be missing.** In its ABI 1 (kernels 5.13 to 5.18) Landlock forbids every rename from
//! one folder to another, also below one folder that was named, and has no right that allows it. A program
//! that writes into a folder (the store renames from its folder for half-written blobs) would fail there each
//! time, so it runs without Landlock on such a kernel.

use super::{InForce, Use};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd,
    RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
    make_bitflags,
};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The newest rights that were tested; a kernel takes those that it knows.
const NEWEST: ABI = ABI::V9;

/// Lets the calling thread, and those that it will start, open these paths and no others.
pub(super) fn restrict(paths: &[(PathBuf, Use)], ports: Ports) -> InForce {
    if let Some(why) = obstacle(paths, knows) {
        return InForce::no(why);
    }
    let mut paths: Vec<_> = paths.iter().collect();
    let done = loop {
        match restrict_to(&paths, ports) {
            // A path that is in no folder (a pipe of a shell's `<(…)`) takes no rule, and needs none.
            Err(RestrictError::Rule(at, e)) => {
                tracing::debug!("{} takes no rule: {e}", paths[at].0.display());
                paths.remove(at);
            }
            Err(RestrictError::Whole(e)) => break Err(e.to_string()),
            Ok(done) => break abi_of(&done),
        }
    };
    InForce::of(done)
}

/// The reason why Landlock would keep the program from its own work, if there is one.
fn obstacle(paths: &[(PathBuf, Use)], knows: impl Fn(AccessFs) -> bool) -> Option<&'static str> {
    let writes = paths.iter().any(|(_, how)| *how == Use::Write);
    // A kernel that knows no right at all reports that itself, later.
    (writes && knows(AccessFs::ReadFile) && !knows(AccessFs::Refer))
        .then_some("this kernel's (ABI 1) forbids every rename between folders, which writing needs")
}

/// True if this kernel knows the right.
fn knows(right: AccessFs) -> bool {
    Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(right).is_ok()
}

/// TCP ports that stay allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ports {
    None,
    /// Connections to ports of servers; no listening.
    Connect,
    /// All ports, to connect and to listen.
    All,
}

enum RestrictError {
    Whole(RulesetError),
    /// The rule of the path with this index.
    Rule(usize, RulesetError),
}

impl From<RulesetError> for RestrictError {
    fn from(e: RulesetError) -> RestrictError {
        RestrictError::Whole(e)
    }
}

fn restrict_to(paths: &[&(PathBuf, Use)], ports: Ports) -> Result<RestrictionStatus, RestrictError> {
    let rules = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
    let rules = match ports {
        Ports::None => rules.handle_access(AccessNet::from_all(ABI::V4))?,
        Ports::Connect => rules.handle_access(AccessNet::BindTcp)?,
        Ports::All => rules,
    };
    let mut rules = rules.scope(Scope::from_all(NEWEST))?.create()?;
    for (at, (path, how)) in paths.iter().enumerate() {
        match PathFd::new(path) {
            Ok(fd) => {
                let rights = rights(*how, is_folder(&fd));
                rules =
                    rules.add_rule(PathBeneath::new(&fd, rights)).map_err(|e| RestrictError::Rule(at, e))?;
                remember(fd);
            }
            Err(e) => tracing::debug!("{} cannot be opened from now on: {e}", path.display()),
        }
    }
    Ok(rules.restrict_self()?)
}

/// The rights that a use needs. The kernel would refuse a right for folders on a file.
fn rights(how: Use, folder: bool) -> BitFlags<AccessFs> {
    let all = match how {
        Use::Read => make_bitflags!(AccessFs::{ReadFile | ReadDir}),
        Use::Write => {
            make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile
                | RemoveDir | Refer})
        }
        Use::Run => make_bitflags!(AccessFs::{ReadFile | ReadDir | Execute}),
        Use::Listen => {
            make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeSock | RemoveFile})
        }
        Use::Device => make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev}),
    };
    if folder { all } else { all & AccessFs::from_file(NEWEST) }
}

fn is_folder(fd: &impl AsFd) -> bool {
    rustix::fs::fstat(fd).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}

/// Keeps the descriptor open. The kernel forgets a file of `/proc` that no process has open, and its rule
/// with it.
fn remember(fd: PathFd) {
    static HELD: Mutex<Vec<PathFd>> = Mutex::new(Vec::new());
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(fd);
}

fn abi_of(done: &RestrictionStatus) -> Result<Option<u32>, String> {
    match (&done.landlock, &done.ruleset) {
        (_, RulesetStatus::NotEnforced) | (LandlockStatus::NotImplemented, _) => {
            Err("this kernel has none, or the container does not let it be used".into())
        }
        (LandlockStatus::NotEnabled, _) => Err("the kernel was started without it (lsm=)".into()),
        (LandlockStatus::Available { effective_abi, kernel_abi }, _) => {
            let known = effective_abi.to_string().parse().ok();
            Ok(kernel_abi.and_then(|abi| u32::try_from(abi).ok()).or(known))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_writes_does_without_it_where_it_would_forbid_every_rename() {
        let of = |how| vec![(PathBuf::from("a"), Use::Read), (PathBuf::from("b"), how)];
        let abi = |abi: ABI| move |right| AccessFs::from_all(abi).contains(right);
        let left_out = |how, known| obstacle(&of(how), abi(known)).is_some();
        assert!(left_out(Use::Write, ABI::V1));
        assert!(!left_out(Use::Write, ABI::V2) && !left_out(Use::Write, NEWEST));
        for how in [Use::Read, Use::Device] {
            assert!(!left_out(how, ABI::V1), "{how:?} renames nothing");
        }
        assert!(!left_out(Use::Write, ABI::Unsupported), "that there is none is another reason");
        assert!(obstacle(&[], abi(ABI::V1)).is_none(), "a parser writes nowhere");
    }

    #[test]
    fn what_the_kernel_knows_is_asked_of_the_kernel() {
        if !crate::confine::offered().landlock.in_force {
            eprintln!("skipped: no Landlock here");
            return;
        }
        assert!(knows(AccessFs::ReadFile));
        assert_eq!(knows(AccessFs::Refer), crate::confine::offered().landlock.abi > Some(1));
    }
}
