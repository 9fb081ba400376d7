//! The probe's VM: one vCPU, 2 MiB, an interrupt controller, page tables that map 4 GiB onto themselves.
//!
//! ```text
//!  0x01000 page tables (PML4, PDPT, 4 directories)   0x07000 GDT   0x08000 IDT   0x0b000 stack's end
//!  0x10000 code                                     0x100000 a page that is fresh
//! ```
#![allow(unsafe_code)] // the guest's memory is mapped and written by hand

use super::guest::{self, Code, DONE, FAULT};
use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::io::Write;
use std::ptr;

const SIZE: usize = 2 << 20;
const TABLES: usize = 0x1000;
const GDT: usize = 0x7000;
const IDT: usize = 0x8000;
const STACK: u64 = 0xb000;
const CODE: usize = 0x10000;
const TIMER: usize = 0x40;

/// In the child: runs the guest and writes its progress to standard output.
pub(crate) fn run() {
    if let Err(why) = try_run() {
        say(&format!("stopped {why}"));
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may be gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn try_run() -> Result<(), String> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: kvm_ioctls::Error| format!("{what}: {e}")
    };
    let kvm = Kvm::new().map_err(failed("/dev/kvm cannot be opened"))?;
    if kvm.get_api_version() != 12 {
        return Err(format!("KVM speaks version {}, not 12", kvm.get_api_version()));
    }
    let vm = kvm.create_vm().map_err(failed("KVM creates no VM"))?;
    vm.create_irq_chip().map_err(failed("KVM creates no interrupt controller"))?;
    // SAFETY: a fresh mapping that lives until this process ends.
    let memory = unsafe {
        mmap_anonymous(ptr::null_mut(), SIZE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    };
    let memory = memory.map_err(|e| format!("no memory for the guest: {e}"))?.cast::<u8>();
    let code = guest::code();
    // SAFETY: the mapping is SIZE bytes; no other code uses it before the guest runs.
    write_tables(unsafe { std::slice::from_raw_parts_mut(memory, SIZE / 2) }, &code);
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: 0,
        memory_size: SIZE as u64,
        userspace_addr: memory as u64,
    };
    // SAFETY: the region is the mapping above, which stays.
    unsafe { vm.set_user_memory_region(region) }.map_err(failed("KVM accepts no memory"))?;
    let mut cpu = vm.create_vcpu(0).map_err(failed("KVM creates no vCPU"))?;
    let cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(failed("KVM reports no CPUID"))?;
    cpu.set_cpuid2(&cpuid).map_err(failed("KVM accepts no CPUID"))?;
    real_mode(&cpu).map_err(failed("KVM accepts no registers"))?;
    until(&mut cpu, 0)?;
    long_mode(&cpu).map_err(failed("KVM accepts no registers for long mode"))?;
    until(&mut cpu, 6)
}

/// Runs the guest until it has reported the step `last`.
fn until(cpu: &mut VcpuFd, last: u8) -> Result<(), String> {
    loop {
        match cpu.run() {
            Ok(VcpuExit::IoOut(port, data)) => {
                let value = data.first().copied().unwrap_or_default();
                if port == FAULT {
                    return Err("it raised an exception, or computed wrongly".into());
                }
                if port == DONE {
                    say(&format!("step {value}"));
                    if value == last {
                        return Ok(());
                    }
                }
            }
            Ok(VcpuExit::Shutdown) => return Err("it raised three exceptions in a row".into()),
            Ok(VcpuExit::InternalError) => return Err("the host cannot emulate an instruction".into()),
            Ok(VcpuExit::FailEntry(reason, _)) => {
                return Err(format!("the CPU does not enter the guest ({reason:#x})"));
            }
            Ok(other) => return Err(format!("it left with {other:?}")),
            Err(e) if e.errno() == rustix::io::Errno::INTR.raw_os_error() => {}
            Err(e) => return Err(format!("it cannot be run: {e}")),
        }
    }
}

/// `mov al, 0; out 0x10, al; hlt`, at 0xc000, as firmware runs.
fn real_mode(cpu: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut special = cpu.get_sregs()?;
    (special.cs.base, special.cs.selector) = (0, 0);
    cpu.set_sregs(&special)?;
    let mut registers = cpu.get_regs()?;
    (registers.rip, registers.rflags) = (REAL as u64, 2);
    cpu.set_regs(&registers)
}

const REAL: usize = 0xc000;

fn long_mode(cpu: &VcpuFd) -> Result<(), kvm_ioctls::Error> {
    let mut special = cpu.get_sregs()?;
    let segment = |selector: u16, type_: u8, l: u8, db: u8| kvm_segment {
        base: 0,
        limit: 0xffff_ffff,
        selector,
        type_,
        present: 1,
        dpl: 0,
        db,
        s: 1,
        l,
        g: 1,
        ..Default::default()
    };
    special.cs = segment(8, 0xb, 1, 0);
    for data in [&mut special.ds, &mut special.es, &mut special.fs, &mut special.gs, &mut special.ss] {
        *data = segment(16, 3, 0, 1);
    }
    (special.gdt.base, special.gdt.limit) = (GDT as u64, 23);
    (special.idt.base, special.idt.limit) = (IDT as u64, 0xfff);
    // Protection, the coprocessor's switches, write protection, paging; PAE, SSE and its exceptions; long
    // mode.
    special.cr0 = 0x8001_0033;
    special.cr3 = TABLES as u64;
    special.cr4 = 0x620;
    special.efer = 0x500;
    cpu.set_sregs(&special)?;
    let mut registers = cpu.get_regs()?;
    (registers.rip, registers.rsp, registers.rflags) = (CODE as u64, STACK, 2);
    cpu.set_regs(&registers)
}

/// Fills the lower half of the memory; the fresh page lies in the upper half.
fn write_tables(memory: &mut [u8], code: &Code) {
    let mut put = |at: usize, value: u64| {
        if let Some(place) = memory.get_mut(at..at + 8) {
            place.copy_from_slice(&value.to_le_bytes());
        }
    };
    let (pdpt, directories) = (TABLES + 0x1000, TABLES + 0x2000);
    put(TABLES, pdpt as u64 | 3);
    for gib in 0..4 {
        put(pdpt + gib * 8, (directories + gib * 0x1000) as u64 | 3);
        for page in 0..512 {
            // Present, writable, 2 MiB; the APIC's page is not cached.
            let address = ((gib * 512 + page) << 21) as u64;
            let uncached = if address >= 0xfec0_0000 { 0x18 } else { 0 };
            put(directories + gib * 0x1000 + page * 8, address | 0x83 | uncached);
        }
    }
    put(GDT + 8, 0x00af_9b00_0000_ffff);
    put(GDT + 16, 0x00cf_9300_0000_ffff);
    for vector in 0..256 {
        let handler = CODE as u64 + if vector == TIMER { code.timer } else { code.fault };
        // An interrupt gate of the code segment, present.
        put(IDT + vector * 16, handler & 0xffff | 8 << 16 | 0x8e00 << 32 | (handler & 0xffff_0000) << 32);
        put(IDT + vector * 16 + 8, 0);
    }
    let mut copy = |at: usize, bytes: &[u8]| {
        if let Some(place) = memory.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    };
    copy(REAL, &[0xb0, 0x00, 0xe6, 0x10, 0xf4]);
    copy(CODE, code.bytes);
}
