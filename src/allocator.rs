//! Settings of the C library's allocator.
#![allow(unsafe_code)] // a function of the C library that no crate here has

/// Gives large buffers mappings of their own for as long as the process runs, so that the kernel has them back at once when they are
/// freed.
///
/// The allocator otherwise raises this limit to the size of each large buffer that is freed. Later buffers then lie in
/// the heap of their thread, which keeps the memory: the peak of one and the same conversion varied by 13 MiB.
pub(crate) fn return_large_buffers() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets a number in the allocator. No other thread runs yet.
    unsafe {
        const M_MMAP_THRESHOLD: std::ffi::c_int = -3;
        const LARGE: std::ffi::c_int = 256 << 10;
        unsafe extern "C" {
            fn mallopt(param: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        mallopt(M_MMAP_THRESHOLD, LARGE);
    }
}
