//! DaemonSet: virt-handler of the installation.

use super::workload::FOLLOWED;
use crate::objects::about::kept;
use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    kept: kept!(daemon_sets),
    controller: Use { names: &["virt-handler"], ..FOLLOWED.controller },
    ..FOLLOWED.renamed("DaemonSet", "daemonsets")
};
