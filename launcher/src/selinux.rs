//! The SELinux context of this process, for the status of its VMI.

use std::fs;

/// Word for a host without SELinux.
const NONE: &str = "none";

/// The context, or `none` on a host without SELinux; `None` if it cannot be read.
pub(crate) fn context() -> Option<String> {
    let filesystems = fs::read_to_string("/proc/filesystems").ok()?;
    current_label(&filesystems, || fs::read_to_string("/proc/self/attr/current").ok())
}

/// Without SELinux that file may have the label of another security module, so it is not read.
fn current_label(filesystems: &str, current: impl FnOnce() -> Option<String>) -> Option<String> {
    if !filesystems.lines().any(|line| line.split_whitespace().last() == Some("selinuxfs")) {
        return Some(NONE.to_owned());
    }
    let context = current()?.trim_end_matches(['\0', '\n']).to_owned();
    (!context.is_empty()).then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_is_that_of_selinux_and_of_no_other_security_module() {
        let with = "nodev\tsysfs\nnodev\tselinuxfs\n\text4\n";
        let read = || Some("system_u:system_r:container_t:s0:c1,c2\0".to_owned());
        assert_eq!(current_label(with, read).as_deref(), Some("system_u:system_r:container_t:s0:c1,c2"));
        assert_eq!(
            current_label("nodev\tsysfs\n", || Some("cri-containerd (enforce)\n".into())).as_deref(),
            Some("none")
        );
        assert_eq!(current_label(with, || None), None);
    }
}
