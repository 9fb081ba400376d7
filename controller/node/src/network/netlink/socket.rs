//! A conversation with the kernel, in the namespace of the thread that opened it.

use super::message::{ACK, Message, Reply, replies};
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
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
        let [high, low] = NF_TABLES.to_be_bytes();
        let bracket = |kind| Message::new(kind, 0, &[0, 0, high, low]);
        let (first, mut bytes) = self.numbered(bracket(BEGIN));
        let mut waiting = 0_usize;
        for message in messages {
            bytes.extend(self.numbered(message).1);
            waiting += 1;
        }
        bytes.extend(self.numbered(bracket(END)).1);
        self.send(&bytes)?;
        let mut failed = None;
        self.answers(|reply| {
            if reply.kind != ERROR || reply.sequence < first {
                return None;
            }
            let result = code(reply.payload);
            let whole = reply.sequence == first;
            if let (Err(e), None) = (result, &failed) {
                failed = Some(e);
            }
            waiting = waiting.saturating_sub(1);
            // What is wrong with the bracket is wrong with all of it.
            (whole || waiting == 0).then_some(Ok(()))
        })?;
        failed.map_or(Ok(()), Err)
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
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::AGAIN) => {
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
