//! Memory that a start has needed, given back to the kernel.
//!
//! ```text
//!  Preparing ─► Running: libvirt has read QEMU's capabilities (some thousand lines of XML) and built its command line
//!                  └─► the C library gives the kernel back what is free by then
//! ```
//!
//! The C library keeps freed memory, in an arena for each thread that ever allocated; of a launcher, whose VM then runs
//! for weeks, that was the largest part of its private memory.
#![allow(unsafe_code)] // a function of the C library that no crate here has

use api::launcher::{Life, State};
use tokio::sync::watch;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn malloc_trim(pad: usize) -> std::ffi::c_int;
}

/// Gives free memory back after each start, as long as there is a VM's state to watch.
pub(crate) async fn give_back(mut state: watch::Receiver<State>) {
    loop {
        if state.wait_for(|state| state.life == Life::Preparing).await.is_err()
            || state.wait_for(|state| state.life != Life::Preparing).await.is_err()
        {
            return;
        }
        // The thread's result does not matter.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

/// Gives free memory back. It takes locks of the allocator, a moment each.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time; it takes the locks of the allocator itself.
    unsafe {
        malloc_trim(0);
    }
}
