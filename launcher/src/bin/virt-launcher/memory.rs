//! Returns the memory of a start to the kernel.
//!
//! ```text
//!  Preparing ─► Running: libvirt has read QEMU's capabilities (some thousand lines of XML) and built its command line
//!                  └─► the C library gives the kernel back what is free by then
//! ```
//!
//! The C library keeps freed memory, in an arena for each thread that ever allocated. The VM of a launcher
//! runs for weeks, and that memory was the largest part of the launcher's private memory.
#![allow(unsafe_code)] // a function of the C library that no crate here has

use api::launcher::{Life, State};
use tokio::sync::watch;

#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn malloc_trim(pad: usize) -> std::ffi::c_int;
}

/// Returns free memory after each start, until the VM's state has no publisher.
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

/// Returns free memory to the kernel. It takes each of the allocator's locks for a moment.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    // SAFETY: any thread may call it at any time; it takes the locks of the allocator itself.
    unsafe {
        malloc_trim(0);
    }
}
