//! The hardware clock and the timers.

use crate::{object, words};

object! {
    /// The hardware clock.
    pub struct Clock {
        /// It shows UTC.
        pub utc: Option<UtcOffset> = "utc",
        /// It shows the time of a zone of the tz database.
        pub timezone: Option<String> = "timezone",
        /// The timers.
        pub timer: Option<Timers> = "timer",
    }
}

object! {
    /// A clock that shows UTC.
    pub struct UtcOffset {
        /// More or less by this.
        pub offset_seconds: Option<i64> = "offsetSeconds",
    }
}

object! {
    /// The timers.
    pub struct Timers {
        /// The high precision event timer.
        pub hpet: Option<HpetTimer> = "hpet",
        /// KVM's own clock.
        pub kvm: Option<KvmTimer> = "kvm",
        /// The programmable interval timer.
        pub pit: Option<PitTimer> = "pit",
        /// The real time clock.
        pub rtc: Option<RtcTimer> = "rtc",
        /// Hyper-V's own clock.
        pub hyperv: Option<HypervTimer> = "hyperv",
    }
}

object! {
    /// The high precision event timer.
    pub struct HpetTimer {
        /// What happens to ticks that were missed.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Whether the guest has it; not said is yes.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// KVM's own clock.
    pub struct KvmTimer {
        /// Whether the guest has it; not said is yes.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// The programmable interval timer.
    pub struct PitTimer {
        /// What happens to ticks that were missed.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Whether the guest has it; not said is yes.
        pub present: Option<bool> = "present",
    }
}

object! {
    /// The real time clock.
    pub struct RtcTimer {
        /// What happens to ticks that were missed.
        pub tick_policy: Option<TickPolicy> = "tickPolicy",
        /// Whether the guest has it; not said is yes.
        pub present: Option<bool> = "present",
        /// What it follows.
        pub track: Option<RtcTrack> = "track",
    }
}

object! {
    /// Hyper-V's own clock.
    pub struct HypervTimer {
        /// Whether the guest has it; not said is yes.
        pub present: Option<bool> = "present",
    }
}

words! {
    /// What happens to ticks that were missed; not every timer knows every word.
    #[allow(missing_docs)]
    pub enum TickPolicy {
        Delay = "delay",
        Catchup = "catchup",
        Merge = "merge",
        Discard = "discard",
    }
}

words! {
    /// What the real time clock follows.
    #[allow(missing_docs)]
    pub enum RtcTrack {
        Guest = "guest",
        Wall = "wall",
    }
}
