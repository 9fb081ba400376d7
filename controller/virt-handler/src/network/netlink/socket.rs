//! Netlink socket, in the network namespace of the thread that opened it.
//!
//! A batch of rules is one message to the kernel, which must fit into the socket's send buffer, and each
//! answer takes space in the receive buffer. So both buffers are made as large as the batch needs, and only
//! the last change is confirmed if there are no errors.

use super::message::{ACK, Message, Reply, replies};
use rustix::io::Errno;
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, set_socket_timeout,
};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Time limit of the kernel's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Buffer size, larger than any single write of the kernel.
const LARGEST: usize = 64 << 10;
/// Message types that all families share.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Types of the messages around a batch, which is applied completely or not at all.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
/// Subsystem of a batch of rules.
const NF_TABLES: u16 = 10;
/// Minimum size of the buffers for a batch.
const BUFFERS: usize = 256 << 10;

/// A netlink socket in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// Opens a socket for links, addresses and routes.
    pub(crate) fn route() -> io::Result<Socket> {
        Socket::open(None)
    }

    /// Opens a socket for rules.
    pub(crate) fn netfilter() -> io::Result<Socket> {
        Socket::open(Some(NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Socket> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Socket { fd, sequence: 0 })
    }

    /// Sends one change, and waits for the kernel's answer.
    pub(crate) fn change(&mut self, message: Message) -> io::Result<()> {
        let (sequence, bytes) = self.numbered(message);
        self.send(&bytes)?;
        self.read_replies(|reply| match (reply.sequence == sequence, reply.kind) {
            (true, ERROR) => Some(code(reply.payload)),
            _ => None,
        })
    }

    /// Requests a list. Returns the payloads.
    pub(crate) fn list(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        let (sequence, bytes) = self.numbered(message);
        self.send(&bytes)?;
        let mut found = Vec::new();
        self.read_replies(|reply| match (reply.sequence == sequence, reply.kind) {
            (true, ERROR | DONE) => Some(code(reply.payload)),
            (true, _) => {
                found.push(reply.payload.to_vec());
                None
            }
            (false, _) => None,
        })?;
        Ok(found)
    }

    /// Changes rules, all or none.
    pub(crate) fn batch(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let Some(Batch { first, last, bytes }) = self.bracketed(messages) else { return Ok(()) };
        self.make_room(bytes.len());
        self.send(&bytes).map_err(|e| match e.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
            true => too_long(bytes.len()),
            false => e,
        })?;
        let result = self.read_replies(|reply| {
            let ours = reply.kind == ERROR && (first..=last).contains(&reply.sequence);
            // One failed change fails the batch; an answer to the begin message is about all of them.
            match (ours, code(reply.payload)) {
                (true, Err(e)) => Some(Err(e)),
                (true, Ok(())) if reply.sequence == last => Some(Ok(())),
                _ => None,
            }
        });
        if result.is_err() {
            self.forget();
        }
        result
    }

    /// Discards further answers: the kernel answers a batch while it is sent, and the next answers would find
    /// no space.
    fn forget(&self) {
        let mut buffer = vec![0; LARGEST];
        while let Ok(_) | Err(Errno::INTR | Errno::NOBUFS) =
            recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT)
        {}
    }

    /// The batch as one message; `None` if there are no changes.
    fn bracketed(&mut self, mut messages: Vec<Message>) -> Option<Batch> {
        let end = messages.pop()?.with_ack();
        let [high, low] = NF_TABLES.to_be_bytes();
        let bracket = |kind| Message::new(kind, 0, &[0, 0, high, low]);
        let (first, mut bytes) = self.numbered(bracket(BEGIN));
        for message in messages {
            bytes.extend(self.numbered(message).1);
        }
        let (last, message) = self.numbered(end);
        bytes.extend(message);
        bytes.extend(self.numbered(bracket(END)).1);
        Some(Batch { first, last, bytes })
    }

    /// Makes the buffers large enough for a batch of this size, beyond the limits of the node. The kernel
    /// answers each failed rule with a copy of it. Without the privilege for that the buffers stay as they
    /// are, and `send` fails.
    fn make_room(&self, bytes: usize) {
        let bytes = bytes.max(BUFFERS);
        let _ = set_socket_send_buffer_size_force(&self.fd, bytes);
        let _ = set_socket_recv_buffer_size_force(&self.fd, bytes.saturating_mul(2));
    }

    fn numbered(&mut self, message: Message) -> (u32, Vec<u8>) {
        self.sequence += 1;
        (self.sequence, message.finish(self.sequence))
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let sent = sendto(&self.fd, bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        match sent == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::other("the kernel accepted only a part of the message")),
        }
    }

    /// Reads answers until `take` returns a result.
    fn read_replies(&self, mut take: impl FnMut(Reply<'_>) -> Option<io::Result<()>>) -> io::Result<()> {
        let mut buffer = vec![0; LARGEST];
        loop {
            let (length, _) = match recv(&self.fd, &mut buffer[..], RecvFlags::empty()) {
                // Lost answers are reported once; those that fitted can still be read.
                Err(Errno::INTR | Errno::NOBUFS) => continue,
                Err(Errno::AGAIN) => {
                    let what = format!("the kernel did not answer within {} s", PATIENCE.as_secs());
                    return Err(io::Error::new(io::ErrorKind::TimedOut, what));
                }
                result => result?,
            };
            for reply in replies(buffer.get(..length).unwrap_or_default()) {
                if let Some(end) = take(reply) {
                    return end;
                }
            }
        }
    }
}

/// Changes that are applied together.
struct Batch {
    /// Sequence number of the begin message.
    first: u32,
    /// Sequence number of the last change.
    last: u32,
    bytes: Vec<u8>,
}

fn too_long(bytes: usize) -> io::Error {
    let what = format!(
        "the rules of the interface take {bytes} bytes, which is more than a socket may send at once; virt-handler needs \
         the capability NET_ADMIN, or name fewer ports or portRanges"
    );
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Result in an answer: zero, or a negative error number.
fn code(payload: &[u8]) -> io::Result<()> {
    let code = payload.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

/// Flags of a change that is confirmed.
pub(crate) const CHANGE: u16 = ACK;

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags of each message, in order.
    fn flags(mut bytes: &[u8]) -> Vec<u16> {
        let mut all = vec![];
        while bytes.len() >= 16 {
            let length = u32::from_ne_bytes(bytes[..4].try_into().unwrap());
            all.push(u16::from_ne_bytes(bytes[6..8].try_into().unwrap()));
            bytes = &bytes[usize::try_from(length).unwrap().next_multiple_of(4)..];
        }
        all
    }

    #[test]
    fn of_a_batch_the_last_change_alone_is_answered() {
        let mut socket = Socket::netfilter().unwrap();
        let change = || Message::new(6, 0x400, &[2, 0, 0, 0]).text(1, "nat");
        let batch = socket.bracketed(vec![change(), change(), change()]).unwrap();
        assert_eq!((batch.first, batch.last), (1, 4));
        assert_eq!(flags(&batch.bytes), [1, 0x401, 0x401, 0x401 | ACK, 1]);
        assert!(socket.bracketed(vec![]).is_none());
    }
}
