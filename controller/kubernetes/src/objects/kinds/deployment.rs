//! Deployment: virt-api and virt-controller of the installation.

use super::workload::FOLLOWED;
use crate::objects::About;
use crate::objects::about::kept;

pub(crate) const ABOUT: About =
    About { kept: kept!(deployments), ..FOLLOWED.called("Deployment", "deployments") };
