//! Limit of open files of this process: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;

/// Files that are reserved for other uses: the API server, logs, libraries, and connections that are being
/// closed.
const RESERVE: u64 = 512;
/// More files are not needed, and some programs loop over all possible descriptors.
const MOST: u64 = 64 << 10;

/// Raises the soft limit as far as permitted without privileges.
pub fn raise() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let Some(now) = limit.current else { return Ok(()) };
    let wanted = limit.maximum.unwrap_or(MOST).min(MOST);
    if wanted <= now {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum }).map_err(|e| {
        io::Error::other(format!("cannot raise the limit of open files from {now} to {wanted}: {e}"))
    })
}

/// Number of connections that the limit permits.
pub(super) fn spare() -> usize {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(MOST);
    // If the limit is very low, half of it.
    usize::try_from(most.saturating_sub(RESERVE).max(most / 2)).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_raised_and_some_are_kept() {
        raise().unwrap();
        let limit = getrlimit(Resource::Nofile);
        let (current, maximum) = (limit.current.unwrap_or(MOST), limit.maximum.unwrap_or(MOST));
        assert!(current >= maximum.min(MOST), "{current} of {maximum}");
        assert!((spare() as u64) < current);
    }
}
