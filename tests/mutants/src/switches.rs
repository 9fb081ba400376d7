//! Switches of mutants in a rewritten crate: `main.rs` puts this file into a module at the end of each crate root.
//!
//! `MUTANT` has the number of the mutant that is on. `MUTANT_SEEN` names a file that has a byte for each number; the byte of
//! each switch that is asked becomes 1. Both are read before `main`, by libc alone: a crate may be linked without any other.

use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

static ON: AtomicU32 = AtomicU32::new(0);
static SEEN: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// True if this mutant is on.
#[inline(never)]
pub(crate) fn on(number: u32) -> bool {
    // Keeps the linker from removing the entry.
    std::hint::black_box(&ENTRY);
    let seen = SEEN.load(Ordering::Relaxed);
    if !seen.is_null() {
        unsafe { seen.add(number as usize).write_volatile(1) };
    }
    ON.load(Ordering::Relaxed) == number
}

unsafe extern "C" {
    fn getenv(name: *const c_char) -> *const c_char;
    fn open(path: *const c_char, flags: i32, ...) -> i32;
    fn lseek(file: i32, offset: i64, whence: i32) -> i64;
    fn mmap(at: *mut u8, len: usize, protection: i32, flags: i32, file: i32, offset: i64) -> *mut u8;
    fn close(file: i32) -> i32;
}

#[used]
#[unsafe(link_section = ".init_array")]
static ENTRY: extern "C" fn() = start;

extern "C" fn start() {
    const READ_WRITE_CLOSE_ON_EXEC: i32 = 0o2000002;
    const END: i32 = 2;
    const READ_WRITE: i32 = 3;
    const SHARED: i32 = 1;
    unsafe {
        let on = getenv(c"MUTANT".as_ptr());
        if !on.is_null() {
            let digits = CStr::from_ptr(on).to_bytes();
            let number = digits.iter().fold(0_u32, |n, digit| n.wrapping_mul(10).wrapping_add(u32::from(digit & 15)));
            ON.store(number, Ordering::Relaxed);
        }
        let seen = getenv(c"MUTANT_SEEN".as_ptr());
        if seen.is_null() {
            return;
        }
        let file = open(seen, READ_WRITE_CLOSE_ON_EXEC);
        if file >= 0 {
            let len = lseek(file, 0, END) as usize;
            let at = mmap(std::ptr::null_mut(), len, READ_WRITE, SHARED, file, 0);
            close(file);
            if at as isize != -1 {
                SEEN.store(at, Ordering::Relaxed);
            }
        }
    }
}
