//! DaemonSet: virt-handler of the installation.

use super::workload::FOLLOWED;
use crate::objects::About;
use crate::objects::about::kept;

pub(crate) const ABOUT: About =
    About { kept: kept!(daemon_sets), ..FOLLOWED.called("DaemonSet", "daemonsets") };
