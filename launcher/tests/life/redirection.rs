//! The USB device of a client: one that is played here, and a guest that reads who it is.

use crate::vm::{Vm, vmi};
use serde_json::json;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// Packets of usbredir, by their numbers there.
const HELLO: u32 = 0;
const DEVICE_CONNECT: u32 = 1;
const INTERFACE_INFO: u32 = 4;
const EP_INFO: u32 = 5;
const SET_CONFIGURATION: u32 = 6;
const GET_CONFIGURATION: u32 = 7;
const CONFIGURATION_STATUS: u32 = 8;
const CONTROL: u32 = 100;

/// What xHCI needs of the protocol: sizes of packets in EP_INFO (bit 4), numbers of 64 bits in all that follows the
/// greeting (5), lengths of 32 bits (6).
const CAPABILITIES: u32 = 0x70;
/// The size of the greeting's head, and of others.
const HEAD: (usize, usize) = (12, 16);

/// What it is: USB 1.1 at full speed, of the vendor 1209h and the product c0c0h.
const DEVICE: [u8; 18] = [18, 1, 0x10, 1, 0xff, 0, 0, 64, 0x09, 0x12, 0xc0, 0xc0, 0, 1, 0, 0, 0, 1];
/// One configuration with one interface, which has no endpoint of its own.
const CONFIGURATION: [u8; 18] = [9, 2, 18, 0, 1, 1, 0, 0x80, 50, 9, 4, 0, 0, 0, 0xff, 0, 0, 0];

#[test]
fn a_guest_finds_the_usb_device_of_a_client() {
    let mut vmi = vmi("redirected");
    vmi["spec"]["domain"]["devices"]["clientPassthrough"] = json!({});
    let vm = Vm::running(&vmi);
    let client = connected(&vm);
    let device = client.try_clone().unwrap();
    let played = std::thread::spawn(move || play(device));
    let mut console = vm.console();
    console.log_in();
    let found = "until grep -l c0c0 /sys/bus/usb/devices/*/idProduct; do sleep 0.1; done 2>/dev/null";
    let found = console.runs(found);
    let folder = found.trim().trim_end_matches("/idProduct");
    assert_eq!(console.runs(&format!("cat {folder}/idVendor {folder}/speed")), "1209\n12\n");

    // Its client goes, and so does the device.
    client.shutdown(std::net::Shutdown::Both).unwrap();
    played.join().unwrap();
    let gone = format!("while [ -e {folder} ]; do sleep 0.1; done; echo gone");
    assert_eq!(console.runs(&gone), "gone\n");
    // Its place is free again: there are four.
    let _all = [(); 4].map(|()| connected(&vm));
}

/// A client whose stream QEMU has answered, by its own greeting.
fn connected(vm: &Vm) -> UnixStream {
    let mut stream = UnixStream::connect(vm.socket()).unwrap();
    let upgrade = "Connection: Upgrade\r\nUpgrade: coracle-stream\r\n\r\n";
    write!(stream, "GET /v1/usbredir HTTP/1.1\r\nHost: x\r\n{upgrade}").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&head)));
        head.push(byte[0]);
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", String::from_utf8_lossy(&head));
    let (kind, _, greeting) = packet(&mut stream, HEAD.0).unwrap();
    assert_eq!(kind, HELLO);
    assert!(greeting.starts_with(b"qemu usb-redir guest"), "{}", String::from_utf8_lossy(&greeting));
    stream
}

/// Is the device, as long as there is a stream.
fn play(mut stream: UnixStream) {
    let mut greeting = b"a test".to_vec();
    greeting.resize(64, 0);
    greeting.extend(CAPABILITIES.to_le_bytes());
    send(&mut stream, HELLO, 0, &greeting);
    // One interface, of the vendor's own class; the classes, subclasses and protocols of 32.
    let mut interfaces = 1_u32.to_le_bytes().to_vec();
    interfaces.resize(4 + 4 * 32, 0);
    interfaces[4 + 32] = 0xff;
    send(&mut stream, INTERFACE_INFO, 0, &interfaces);
    // Of 32 endpoints, out and in, that of control alone: type, interval and interface of each, and two bytes of size.
    let mut endpoints = vec![255; 32];
    (endpoints[0], endpoints[16]) = (0, 0);
    endpoints.resize(5 * 32, 0);
    (endpoints[96], endpoints[96 + 2 * 16]) = (64, 64);
    send(&mut stream, EP_INFO, 0, &endpoints);
    // Full speed, its class, and who it is.
    send(&mut stream, DEVICE_CONNECT, 0, &[1, 0xff, 0, 0, 0x09, 0x12, 0xc0, 0xc0]);
    while let Some((kind, id, body)) = packet(&mut stream, HEAD.1) {
        match kind {
            CONTROL => control(&mut stream, id, &body),
            SET_CONFIGURATION => send(&mut stream, CONFIGURATION_STATUS, id, &[0, body[0]]),
            GET_CONFIGURATION => send(&mut stream, CONFIGURATION_STATUS, id, &[0, 1]),
            _ => {}
        }
    }
}

/// endpoint, request, type, status; value, index, length. Descriptors are given; whatever else is asked has no answer (2).
fn control(stream: &mut UnixStream, id: u64, body: &[u8]) {
    let length = u16::from_le_bytes([body[8], body[9]]);
    let descriptor: Option<&[u8]> = match (body[2], body[1], body[5]) {
        (0x80, 6, 1) => Some(&DEVICE),
        (0x80, 6, 2) => Some(&CONFIGURATION),
        _ => None,
    };
    let data = descriptor.map_or(&[][..], |data| &data[..data.len().min(length.into())]);
    let mut answer = body[..10].to_vec();
    answer[3] = if descriptor.is_some() { 0 } else { 2 };
    answer[8..].copy_from_slice(&u16::try_from(data.len()).unwrap().to_le_bytes());
    answer.extend(data);
    send(stream, CONTROL, id, &answer);
}

fn send(stream: &mut UnixStream, kind: u32, id: u64, body: &[u8]) {
    let mut bytes = [kind, u32::try_from(body.len()).unwrap()].map(u32::to_le_bytes).concat();
    bytes.extend(id.to_le_bytes());
    bytes.truncate(if kind == HELLO { HEAD.0 } else { HEAD.1 });
    bytes.extend(body);
    match stream.write_all(&bytes) {
        // The client may be gone.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => panic!("{e}"),
        _ => {}
    }
}

/// The next packet, with a head of this size: its kind, its number, and the rest.
fn packet(stream: &mut UnixStream, size: usize) -> Option<(u32, u64, Vec<u8>)> {
    let mut head = [0; HEAD.1];
    stream.read_exact(&mut head[..size]).ok()?;
    let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
    let mut body = vec![0; word(4) as usize];
    stream.read_exact(&mut body).ok()?;
    Some((word(0), u64::from_le_bytes(head[8..].try_into().unwrap()), body))
}
