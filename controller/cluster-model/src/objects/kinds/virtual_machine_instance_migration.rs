//! VirtualMachineInstanceMigration: live migration of a VMI. No program of the control plane uses it yet; `coracle virt`
//! cancels one.

use crate::objects::About;

pub(crate) const ABOUT: About =
    About::new("kubevirt.io/v1", "VirtualMachineInstanceMigration", "virtualmachineinstancemigrations");
