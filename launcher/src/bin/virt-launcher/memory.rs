//! Memory that a start has needed and nobody needs any more.
//!
//! ```text
//!  Preparing ─► Running: libvirt has read what QEMU can do (some thousand lines of XML) and drawn its command line
//!                  └─► the C library gives the kernel back what is free by then
//! ```
//!
//! The C library keeps what is freed, in an arena for each thread that ever asked; of a launcher, whose machine then runs
//! for weeks, that was the largest part of what is its alone.
#![allow(unsafe_code)] // a function of the C library that no crate here has

use api::launcher::{Life, State};
use tokio::sync::watch;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn malloc_trim(pad: usize) -> std::ffi::c_int;
}

/// Gives back what is free after each start, as long as there is a machine's state to watch.
pub(crate) async fn give_back(mut state: watch::Receiver<State>) {
    loop {
        if state.wait_for(|state| state.life == Life::Preparing).await.is_err()
            || state.wait_for(|state| state.life != Life::Preparing).await.is_err()
        {
            return;
        }
        // It takes locks of the allocator, a moment each. What became of the thread is of no use to anyone.
        let _ = tokio::task::spawn_blocking(trim).await;
    }
}

fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time; it takes the locks of the allocator itself.
    unsafe {
        malloc_trim(0);
    }
}
