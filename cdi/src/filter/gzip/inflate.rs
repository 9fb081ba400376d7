//! The deflate decoder: zlib-rs by its C interface. flate2 runs on the same decoder, and has no call that stops
//! between two deflate blocks or begins inside a byte.

use libz_rs_sys as zlib;
use std::ffi::{CStr, c_int, c_uint};

/// The most bytes that a match reaches back.
pub(super) const WINDOW: usize = 32 << 10;
/// No zlib or gzip header; a window of 2¹⁵ bytes.
const RAW: c_int = -15;

/// Parts of the decoder's state after a call, as zlib defines `data_type`: unused bits, in the last block,
/// between two blocks.
const BITS: u32 = 63;
const LAST: c_int = 64;
const BETWEEN: c_int = 128;

/// A decoder of one deflate stream.
pub(super) struct Inflate {
    /// In a place that does not change: the interface is one of pointers.
    stream: Box<zlib::z_stream>,
}

// SAFETY: all that the stream points to belongs to it, but the buffers of a call, which no call leaves behind.
#[allow(unsafe_code)]
unsafe impl Send for Inflate {}

/// The result of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) taken: usize,
    pub(super) made: usize,
    /// True after the last byte of the deflate stream.
    pub(super) ended: bool,
    /// If the call stopped between two blocks: the bits of the taken bytes that belong to the next one.
    pub(super) boundary: Option<u32>,
}

#[allow(unsafe_code)]
impl Inflate {
    pub(super) fn new() -> Result<Self, String> {
        let mut stream = Box::<zlib::z_stream>::default();
        let size = size_of::<zlib::z_stream>() as c_int;
        // SAFETY: the default stream has its allocator, and the version is the library's own.
        let code = unsafe { zlib::inflateInit2_(&raw mut *stream, RAW, zlib::zlibVersion(), size) };
        let inflate = Inflate { stream };
        inflate.judged(code).map(|_| inflate)
    }

    /// Begins another deflate stream.
    pub(super) fn reset(&mut self) -> Result<(), String> {
        // SAFETY: the stream was initialized.
        let code = unsafe { zlib::inflateReset(&raw mut *self.stream) };
        self.judged(code).map(drop)
    }

    /// Begins in the middle of a deflate stream, between two blocks. `window`: the bytes before it; `bits`: the
    /// number of bits in `value` that belong to the next block.
    pub(super) fn enter(&mut self, window: &[u8], bits: u32, value: u8) -> Result<(), String> {
        self.reset()?;
        // SAFETY: the stream was initialized, and the bytes of the window are copied.
        let code = unsafe {
            zlib::inflateSetDictionary(&raw mut *self.stream, window.as_ptr(), window.len() as c_uint)
        };
        self.judged(code)?;
        // SAFETY: the stream was initialized.
        let code = unsafe { zlib::inflatePrime(&raw mut *self.stream, bits as c_int, c_int::from(value)) };
        self.judged(code).map(drop)
    }

    /// Decodes from `input` to `output`; with `stops`, no further than to the end of a block.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8], stops: bool) -> Result<Step, String> {
        let (given, room) = (limited(input.len()), limited(output.len()));
        self.stream.next_in = input.as_ptr();
        self.stream.avail_in = given;
        self.stream.next_out = output.as_mut_ptr();
        self.stream.avail_out = room;
        let flush = if stops { zlib::Z_BLOCK } else { zlib::Z_NO_FLUSH };
        // SAFETY: the stream was initialized, and both buffers have the stated bytes until the call returns.
        let code = unsafe { zlib::inflate(&raw mut *self.stream, flush) };
        let (left, free) = (self.stream.avail_in, self.stream.avail_out);
        self.stream.next_in = std::ptr::null();
        self.stream.next_out = std::ptr::null_mut();
        (self.stream.avail_in, self.stream.avail_out) = (0, 0);
        let ended = self.judged(code)?;
        let state = self.stream.data_type;
        let is_boundary = stops && state & BETWEEN != 0 && state & LAST == 0;
        Ok(Step {
            taken: given.saturating_sub(left) as usize,
            made: room.saturating_sub(free) as usize,
            ended,
            boundary: is_boundary.then_some(state as u32 & BITS),
        })
    }

    /// The last bytes that were decoded, at most [`WINDOW`].
    pub(super) fn window(&self) -> Vec<u8> {
        let (mut window, mut len) = (vec![0; WINDOW], 0);
        // SAFETY: the stream was initialized, and a window is no longer than the buffer.
        let code =
            unsafe { zlib::inflateGetDictionary(&raw const *self.stream, window.as_mut_ptr(), &raw mut len) };
        let len = if code == zlib::Z_OK { len as usize } else { 0 };
        window.truncate(len);
        window
    }

    /// True at the end of the deflate stream; an error for bytes that are not deflate.
    fn judged(&self, code: c_int) -> Result<bool, String> {
        match code {
            // No progress is not an error: the caller looks at the counts.
            zlib::Z_OK | zlib::Z_BUF_ERROR => Ok(false),
            zlib::Z_STREAM_END => Ok(true),
            zlib::Z_MEM_ERROR => Err("no memory for the decoder".to_owned()),
            _ if self.stream.msg.is_null() => Err(format!("zlib's code {code}")),
            // SAFETY: a message is a constant of the library.
            _ => Err(unsafe { CStr::from_ptr(self.stream.msg) }.to_string_lossy().into_owned()),
        }
    }
}

#[allow(unsafe_code)]
impl Drop for Inflate {
    fn drop(&mut self) {
        // SAFETY: the stream was initialized, or has no state, which is refused; it is not used after this.
        unsafe { zlib::inflateEnd(&raw mut *self.stream) };
    }
}

fn limited(bytes: usize) -> c_uint {
    c_uint::try_from(bytes).unwrap_or(c_uint::MAX)
}
