//! Reports of the guest agent, in the fields of the API. Pure.

use api::launcher::{GuestCommand, GuestFilesystem, GuestInfo, GuestUser};
use serde_json::{Value, json};

pub(crate) fn os_info(info: &GuestInfo, users: &[GuestUser], filesystems: &[GuestFilesystem]) -> Value {
    let os = |key: &str| info.os.get(key).cloned().unwrap_or_default();
    let command = |one: &GuestCommand| json!({"name": one.name, "enabled": one.enabled});
    let commands: Vec<Value> = info.commands.iter().map(command).collect();
    let mut told = json!({
        "guestAgentVersion": info.agent_version.clone().unwrap_or_default(),
        "supportedCommands": commands,
        "hostname": info.hostname.clone().unwrap_or_default(),
        "os": {
            "name": os("name"),
            "kernelRelease": os("kernel-release"),
            "version": os("version"),
            "prettyName": os("pretty-name"),
            "versionId": os("version-id"),
            "kernelVersion": os("kernel-version"),
            "machine": os("machine"),
            "id": os("id"),
        },
        "timezone": info.timezone.clone().unwrap_or_default(),
        "userList": users.iter().map(user).collect::<Vec<_>>(),
        "fsInfo": {"disks": filesystems.iter().map(filesystem).collect::<Vec<_>>()},
    });
    if let Some(load) = &info.load {
        told["load"] = json!({});
        let all = [("load1m", load.load1m), ("load5m", load.load5m), ("load15m", load.load15m)];
        for (name, said) in all.into_iter().filter_map(|(name, said)| Some((name, said?))) {
            told["load"][name] = json!(said);
            told["load"][format!("{name}Set")] = json!(true);
        }
    }
    told
}

pub(crate) fn user_list(users: &[GuestUser]) -> Value {
    list("VirtualMachineInstanceGuestOSUserList", users.iter().map(user))
}

pub(crate) fn filesystem_list(filesystems: &[GuestFilesystem]) -> Value {
    list("VirtualMachineInstanceFileSystemList", filesystems.iter().map(filesystem))
}

fn list(kind: &str, items: impl Iterator<Item = Value>) -> Value {
    json!({"apiVersion": "kubevirt.io/v1", "kind": kind, "metadata": {}, "items": items.collect::<Vec<_>>()})
}

fn user(user: &GuestUser) -> Value {
    let mut is = json!({"userName": user.name, "loginTime": user.login_time.unwrap_or_default()});
    if let Some(domain) = &user.domain {
        is["domain"] = json!(domain);
    }
    is
}

fn filesystem(filesystem: &GuestFilesystem) -> Value {
    json!({
        "diskName": filesystem.name,
        "mountPoint": filesystem.mountpoint,
        "fileSystemType": filesystem.kind,
        "usedBytes": filesystem.used_bytes.unwrap_or_default(),
        "totalBytes": filesystem.total_bytes.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::GuestLoad;

    #[test]
    fn a_load_is_told_where_the_guest_agent_tells_one() {
        let told = |load| os_info(&GuestInfo { load, ..GuestInfo::default() }, &[], &[]).get("load").cloned();
        assert_eq!(told(None), None);
        let load = GuestLoad { load1m: Some(0.5), load5m: None, load15m: Some(0.0) };
        let wanted = json!({"load1m": 0.5, "load1mSet": true, "load15m": 0.0, "load15mSet": true});
        assert_eq!(told(Some(load)), Some(wanted));
    }
}
