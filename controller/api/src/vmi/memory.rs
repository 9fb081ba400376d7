//! Memory.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// The memory.
    pub struct Memory {
        /// Made of huge pages.
        pub hugepages: Option<Hugepages> = "hugepages",
        /// What the guest has.
        pub guest: Option<Quantity> = "guest",
        /// What it may have one day.
        pub max_guest: Option<Quantity> = "maxGuest",
        /// Memory beside the guest's own.
        pub reserved_overhead: Option<ReservedOverhead> = "reservedOverhead",
    }
}

object! {
    /// Memory made of huge pages.
    pub struct Hugepages {
        /// The size of one: `2Mi`, `1Gi`.
        pub page_size: Option<String> = "pageSize",
    }
}

object! {
    /// Memory beside the guest's own.
    pub struct ReservedOverhead {
        /// How much.
        pub added_overhead: Option<Quantity> = "addedOverhead",
        /// Whether it must stay in memory.
        pub mem_lock: Option<String> = "memLock",
    }
}
