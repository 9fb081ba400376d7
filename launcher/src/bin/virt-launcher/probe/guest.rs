//! The code that runs inside the probe's VM. Assembled with this program, copied into the guest's memory.
//!
//! It reports a finished step on port 0x10, and an exception on port 0x11. It runs at any address: every
//! address that it uses is one of the constants below.
#![allow(unsafe_code)] // the guest's code is assembler, and its bounds are two symbols

use std::arch::global_asm;

/// Port on which the guest reports a finished step.
pub(super) const DONE: u16 = 0x10;
/// Port on which the guest reports an exception.
pub(super) const FAULT: u16 = 0x11;
/// Address of a page without memory behind it: cmpxchg16b must work there on the first access.
pub(super) const FRESH: u64 = 0x10_0000;

global_asm!(
    ".pushsection .rodata.coracle_probe, \"a\"",
    // An optimised build makes several objects of this program, and names them across.
    ".globl coracle_probe_begin, coracle_probe_timer, coracle_probe_fault, coracle_probe_end",
    ".hidden coracle_probe_begin, coracle_probe_timer, coracle_probe_fault, coracle_probe_end",
    ".balign 16",
    "coracle_probe_begin:",
    // 1: the code runs.
    "mov al, 1",
    "out 0x10, al",
    // 2: CPUID has leaves.
    "xor eax, eax",
    "cpuid",
    "test eax, eax",
    "jz coracle_probe_fault",
    "mov al, 2",
    "out 0x10, al",
    // 3: SSE computes, and its state is kept over an exit.
    "mov eax, 0x40490fdb",
    "movd xmm0, eax",
    "movd xmm1, eax",
    "addps xmm0, xmm1",
    "mov al, 0",
    "out 0x12, al",
    "movd ebx, xmm0",
    "cmp ebx, 0x40c90fdb",
    "jne coracle_probe_fault",
    "mov al, 3",
    "out 0x10, al",
    // 4: cmpxchg16b on memory that the host has not allocated yet.
    "mov rdi, {fresh}",
    "xor eax, eax",
    "xor edx, edx",
    "mov ebx, 1",
    "mov ecx, 2",
    "lock cmpxchg16b [rdi]",
    "jnz coracle_probe_fault",
    "cmp qword ptr [rdi + 8], 2",
    "jne coracle_probe_fault",
    "mov al, 4",
    "out 0x10, al",
    // 5: IA32_LSTAR keeps the written value.
    "mov ecx, 0xc0000082",
    "mov eax, 0x12345678",
    "xor edx, edx",
    "wrmsr",
    "xor eax, eax",
    "rdmsr",
    "cmp eax, 0x12345678",
    "jne coracle_probe_fault",
    "mov al, 5",
    "out 0x10, al",
    // 6: the local APIC's timer interrupts.
    "mov edi, 0xfee00000",
    "mov dword ptr [rdi + 0xf0], 0x1ff",
    "mov dword ptr [rdi + 0x3e0], 0xb",
    "mov dword ptr [rdi + 0x320], 0x40",
    "mov dword ptr [rdi + 0x380], 100000",
    "sti",
    "5: hlt",
    "jmp 5b",
    ".balign 16",
    "coracle_probe_timer:",
    "mov al, 6",
    "out 0x10, al",
    "6: hlt",
    "jmp 6b",
    ".balign 16",
    "coracle_probe_fault:",
    "mov al, 1",
    "out 0x11, al",
    "7: hlt",
    "jmp 7b",
    "coracle_probe_end:",
    ".popsection",
    fresh = const FRESH,
);

unsafe extern "C" {
    static coracle_probe_begin: u8;
    static coracle_probe_timer: u8;
    static coracle_probe_fault: u8;
    static coracle_probe_end: u8;
}

/// The code, with the offsets of its handlers for interrupts and faults.
pub(super) struct Code {
    pub(super) bytes: &'static [u8],
    pub(super) timer: u64,
    pub(super) fault: u64,
}

pub(super) fn code() -> Code {
    let begin = &raw const coracle_probe_begin;
    let at = |symbol: *const u8| symbol as u64 - begin as u64;
    let end = at(&raw const coracle_probe_end);
    // SAFETY: both symbols bound the bytes above, which are constant and live as long as the program.
    let bytes = unsafe { std::slice::from_raw_parts(begin, end as usize) };
    Code { bytes, timer: at(&raw const coracle_probe_timer), fault: at(&raw const coracle_probe_fault) }
}
