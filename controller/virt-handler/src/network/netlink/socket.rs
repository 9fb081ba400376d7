//! A conversation with the kernel, in the namespace of the thread that opened it.
//!
//! A batch of rules is one message to the kernel, which takes no more than the socket's buffer for sending holds, and each
//! answer takes a place in the buffer for receiving. So both buffers are made as large as the batch needs, and only the
//! last change is answered where all goes well.

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

/// How long the kernel may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than the kernel writes at once.
const LARGEST: usize = 64 << 10;
/// The kinds of answers that every family has.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// The brackets around changes that are made all together or not at all.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;
/// The part of netfilter that such a batch is for.
const NF_TABLES: u16 = 10;
/// The buffers of a batch that is smaller.
const BUFFERS: usize = 256 << 10;

/// A conversation with the kernel.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

impl Socket {
    /// About links, addresses and routes.
    pub(crate) fn route() -> io::Result<Socket> {
        Socket::open(None)
    }

    /// About rules.
    pub(crate) fn netfilter() -> io::Result<Socket> {
        Socket::open(Some(NETFILTER))
    }

    fn open(protocol: Option<Protocol>) -> io::Result<Socket> {
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Socket { fd, sequence: 0 })
    }

    /// Changes one thing.
    pub(crate) fn change(&mut self, message: Message) -> io::Result<()> {
        let (sequence, bytes) = self.numbered(message);
        self.send(&bytes)?;
        self.answers(|reply| match (reply.sequence == sequence, reply.kind) {
            (true, ERROR) => Some(code(reply.payload)),
            _ => None,
        })
    }

    /// Asks for a list; gives the payloads.
    pub(crate) fn list(&mut self, message: Message) -> io::Result<Vec<Vec<u8>>> {
        let (sequence, bytes) = self.numbered(message);
        self.send(&bytes)?;
        let mut found = Vec::new();
        self.answers(|reply| match (reply.sequence == sequence, reply.kind) {
            (true, ERROR | DONE) => Some(code(reply.payload)),
            (true, _) => {
                found.push(reply.payload.to_vec());
                None
            }
            (false, _) => None,
        })?;
        Ok(found)
    }

    /// Changes rules: all of it or nothing.
    pub(crate) fn batch(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let Some(Batch { first, last, bytes }) = self.bracketed(messages) else { return Ok(()) };
        self.make_room(bytes.len());
        self.send(&bytes).map_err(|e| match e.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) {
            true => too_long(bytes.len()),
            false => e,
        })?;
        let result = self.answers(|reply| {
            let ours = reply.kind == ERROR && (first..=last).contains(&reply.sequence);
            // One that fails is the end of all of them; an answer to the bracket is for all of them.
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

    /// Reads what is left: the kernel answers a batch while it is sent, and would find no place for the next answers.
    fn forget(&self) {
        let mut buffer = vec![0; LARGEST];
        while let Ok(_) | Err(Errno::INTR | Errno::NOBUFS) =
            recv(&self.fd, &mut buffer[..], RecvFlags::DONTWAIT)
        {}
    }

    /// All of a batch in one message; none where nothing is to be changed.
    fn bracketed(&mut self, mut messages: Vec<Message>) -> Option<Batch> {
        let end = messages.pop()?.answered();
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

    /// Makes the buffers large enough for a batch of so many bytes, beyond the limits of the node. Each rule that fails is
    /// answered with the whole of it. Whoever may not do that has the buffers that there are, and is told by `send`.
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
            false => Err(io::Error::other("the kernel took only a part of the message")),
        }
    }

    /// Reads until `take` says that it is over.
    fn answers(&self, mut take: impl FnMut(Reply<'_>) -> Option<io::Result<()>>) -> io::Result<()> {
        let mut buffer = vec![0; LARGEST];
        loop {
            let (length, _) = match recv(&self.fd, &mut buffer[..], RecvFlags::empty()) {
                // Answers that found no place are told once; those that did are there still.
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

/// Changes that are made together.
struct Batch {
    /// The number of the bracket before them.
    first: u32,
    /// The number of the last change.
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

/// An answer that says how it went begins with an error number below zero, or zero.
fn code(payload: &[u8]) -> io::Result<()> {
    let code = payload.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
    match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

/// A change that is answered.
pub(crate) const CHANGE: u16 = ACK;

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags of each message, in order.
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
