//! Tap device: created here, and opened by QEMU, which runs as a user without rights.

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, ioctl, opcode};
use std::ffi::c_int;
use std::io;

/// User and group of the tap.
const OWNER: usize = api::launcher::USER as usize;

const TAP: u16 = 0x0002;
const NO_HEADER_OF_TUN: u16 = 0x1000;
const VIRTIO_HEADER: u16 = 0x4000;
const MANY_QUEUES: u16 = 0x0100;

const SET_INTERFACE: Opcode = opcode::write::<c_int>(b'T', 202);
const SET_PERSIST: Opcode = opcode::write::<c_int>(b'T', 203);
const SET_OWNER: Opcode = opcode::write::<c_int>(b'T', 204);
const SET_GROUP: Opcode = opcode::write::<c_int>(b'T', 206);

/// `struct ifreq` with flags.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Creates a persistent tap.
#[allow(unsafe_code)] // ioctls
#[expect(
    clippy::disallowed_methods,
    reason = "a device of virt-handler's own container, in work of virt_handler::blocking"
)]
pub(super) fn make(name: &str, queues: bool) -> io::Result<()> {
    if name.len() > 15 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("the link name {name} is too long")));
    }
    let device = rustix::fs::open("/dev/net/tun", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| io::Error::new(io::Error::from(e).kind(), format!("cannot open /dev/net/tun: {e}")))?;
    let mut request = Request { name: [0; 16], flags: TAP | NO_HEADER_OF_TUN | VIRTIO_HEADER, rest: [0; 22] };
    for (place, byte) in request.name.iter_mut().zip(name.bytes()) {
        *place = byte;
    }
    if queues {
        request.flags |= MANY_QUEUES;
    }
    // SAFETY: this ioctl reads and writes a `struct ifreq`, which `Request` is in size and layout.
    let attached = unsafe { ioctl(&device, Setter::<SET_INTERFACE, Request>::new(request)) };
    match attached {
        Err(Errno::BUSY) => {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, format!("{name} is in use")));
        }
        other => other?,
    }
    // SAFETY: these ioctls take a number, not an address.
    unsafe {
        ioctl(&device, IntegerSetter::<SET_OWNER>::new_usize(OWNER))?;
        ioctl(&device, IntegerSetter::<SET_GROUP>::new_usize(OWNER))?;
        ioctl(&device, IntegerSetter::<SET_PERSIST>::new_usize(1))?;
    }
    Ok(())
}
