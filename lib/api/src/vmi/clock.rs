//! Hardware clock and timers of the guest.

use crate::{object, string_enum};

object! {
    /// Hardware clock and timers of the guest.
    pub struct Clock {
        /// Sets the hardware clock to UTC. Excludes `timezone`. Default: UTC without an offset.
        pub utc: Option<UtcOffset> = "utc",
        /// Time zone of the hardware clock from the tz database, for example `Europe/Berlin`. Excludes `utc`.
        pub timezone: Option<String> = "timezone",
        /// Timer devices of the guest. Unset: the defaults of QEMU.
        pub timer: Option<Timers> = "timer",
    }
}

object! {
    /// Hardware clock in UTC, with an optional offset.
    pub struct UtcOffset {
        /// Offset of the hardware clock from UTC in seconds, positive or negative. Default: 0.
        pub offset_seconds: Option<i64> = "offsetSeconds",
    }
}

object! {
    /// Timer devices of the guest.
    pub struct Timers {
        /// High Precision Event Timer (HPET) of the guest.
        pub hpet: Option<HpetTimer> = "hpet",
        /// KVM paravirtual clock of the guest (kvmclock).
        pub kvm: Option<KvmTimer> = "kvm",
        /// Programmable Interval Timer (PIT) of the guest.
        pub pit: Option<PitTimer> = "pit",
        /// Real-Time Clock (RTC) of the guest.
        pub rtc: Option<RtcTimer> = "rtc",
        /// Hyper-V reference time counter of the guest.
        pub hyperv: Option<HypervTimer> = "hyperv",
    }
}

object! {
    /// High Precision Event Timer (HPET) of the guest.
    pub struct HpetTimer {
        /// Policy for missed ticks of the timer. Unset: the default of QEMU.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Adds the timer to the guest. Default: true.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// KVM paravirtual clock of the guest (kvmclock).
    pub struct KvmTimer {
        /// Adds the clock to the guest. Default: true.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// Programmable Interval Timer (PIT) of the guest.
    pub struct PitTimer {
        /// Policy for missed ticks of the timer, all but `merge`. Unset: the default of QEMU.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Adds the timer to the guest. Default: true.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// Real-Time Clock (RTC) of the guest.
    pub struct RtcTimer {
        /// Policy for missed ticks of the clock, `delay` or `catchup` only. Unset: the default of QEMU.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Adds the clock to the guest. Default: true.
        pub present: Option<bool> = "present",
        /// Time source of the clock: guest time or wall clock time. Unset: the default of QEMU.
        pub track: Option<RtcTrack> = "track",
    }
}

object! {
    /// Hyper-V reference time counter of the guest.
    pub struct HypervTimer {
        /// Adds the clock to the guest. Default: true.
        pub present: Option<bool> = "present",
    }
}

string_enum! {
    /// Policy for missed ticks of a timer.
    pub enum TickPolicy {
        Delay = "delay",
        Catchup = "catchup",
        Merge = "merge",
        Discard = "discard",
    }
}

string_enum! {
    /// Time source of the Real-Time Clock.
    pub enum RtcTrack {
        Guest = "guest",
        Wall = "wall",
    }
}
