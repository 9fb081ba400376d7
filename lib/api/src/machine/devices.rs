//! Devices with few fields.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    pub name: String,
    /// Bus: virtio if true, else USB.
    pub virtio: bool,
}

/// USB devices that clients may attach to a VMI at once.
pub const REDIRECTIONS: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchdog {
    pub name: String,
    /// Action when the guest stops answering.
    pub action: WatchdogAction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchdogAction {
    Poweroff,
    Reset,
    Shutdown,
}

/// A TPM of version 2.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tpm {
    /// The state outlives the VMI.
    pub persistent: bool,
}

/// Model of the video device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Video {
    /// `vga` under BIOS, `bochs` under EFI.
    Default,
    /// A model of libvirt: `vga`, `virtio`, `bochs`, `cirrus`, `ramfb`, …
    Model(String),
}

/// A sound card without a playback device: its sound is discarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    pub name: String,
    pub model: SoundModel,
}

/// Model of a sound card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SoundModel {
    Ich9,
    Ac97,
}

/// Device by which a guest reports a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Panic {
    Hyperv,
    Isa,
    Pvpanic,
}
