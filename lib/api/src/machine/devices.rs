//! The smaller devices.

/// An input device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Virtio, else USB.
    pub virtio: bool,
}

/// USB devices of clients that a VMI may have at once.
pub const REDIRECTIONS: usize = 4;

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
pub enum WatchdogAction {
    Poweroff,
    Reset,
    Shutdown,
}

/// A TPM 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpm {
    /// Its state outlives the VMI.
    pub persistent: bool,
}

/// The model of a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Video {
    /// `vga` under BIOS, `bochs` under EFI.
    Default,
    /// One that libvirt knows: `vga`, `virtio`, `bochs`, `cirrus`, `ramfb`, …
    Model(String),
}

/// A sound card. What it plays is heard by nobody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: SoundModel,
}

/// The model of a sound card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundModel {
    Ich9,
    Ac97,
}

/// A device by which a guest says that it has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panic {
    Hyperv,
    Isa,
    Pvpanic,
}
