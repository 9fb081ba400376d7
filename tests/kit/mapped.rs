//! A file system that chooses the owner of what is made on it, as an NFS server does that maps users.

/// Runs `work` on a thread whose files belong to another user, as where a server maps all users to one. Only for root.
#[allow(unsafe_code)]
pub fn as_mapped_by_a_server(uid: u32, work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let mapped = scope.spawn(|| {
            // SAFETY: a number, and it is of this thread alone.
            unsafe { libc::setfsuid(uid) };
            work();
        });
        mapped.join().expect("the work on the mapped thread");
    });
}
