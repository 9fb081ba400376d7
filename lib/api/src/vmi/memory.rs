//! Guest memory.

use crate::object;
use crate::quantity::Quantity;

object! {
    /// Guest memory: its size and its page size.
    pub struct Memory {
        /// Backs the guest memory with hugepages. Unset: regular pages.
        pub hugepages: Option<Hugepages> = "hugepages",
        /// Size of the guest memory, for example `2Gi`; at least `1Mi`. Default: the memory request, the
        /// memory limit or one hugepage.
        pub guest: Option<Quantity> = "guest",
        /// Maximum size of the guest memory after hotplug, a multiple of `2Mi`; the address space up to it is
        /// kept free. Unset: memory cannot be added.
        pub max_guest: Option<Quantity> = "maxGuest",
        /// Memory of the launcher pod beyond the guest memory and the computed overhead.
        pub reserved_overhead: Option<ReservedOverhead> = "reservedOverhead",
    }
}

object! {
    /// Hugepages that back the guest memory.
    pub struct Hugepages {
        /// Size of one hugepage: `2Mi` or `1Gi`. Required; the guest memory must be a multiple.
        pub page_size: Option<String> = "pageSize",
    }
}

object! {
    /// Memory of the launcher pod beyond the guest memory and the computed overhead.
    pub struct ReservedOverhead {
        /// Amount of memory to add to the memory request of the launcher pod. Default: 0.
        pub added_overhead: Option<Quantity> = "addedOverhead",
        /// Memory locking of the guest: `Required` raises the limit of locked memory (`RLIMIT_MEMLOCK`) of
        /// the launcher to the guest memory and `1Gi`. `NotRequired` leaves the limit. Default:
        /// `NotRequired`.
        pub mem_lock: Option<String> = "memLock",
    }
}
