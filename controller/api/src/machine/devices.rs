//! The smaller devices.

/// An input device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Virtio, else USB.
    pub virtio: bool,
}

/// A watchdog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// Its name.
    pub name: String,
    /// What happens when the guest does not answer it.
    pub action: WatchdogAction,
}

/// What a watchdog does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WatchdogAction {
    Poweroff,
    Reset,
    Shutdown,
}

/// The model of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Video {
    /// `vga` under BIOS, `bochs` under EFI.
    Default,
    /// One that libvirt knows: `vga`, `virtio`, `bochs`, `cirrus`, `ramfb`, …
    Model(String),
}

/// A device by which a guest says that it has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Panic {
    Hyperv,
    Isa,
    Pvpanic,
}
