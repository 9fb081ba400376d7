//! Settings of cloud-init in the guest, from their flags.

use super::super::public_key::key_of;
use super::params::fault;
use super::usage;
use crate::error::{Error, Result};
use crate::ui;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// First line of user data in cloud-init's own format.
const HEADER: &str = "#cloud-config";
/// Name of the volume.
pub(super) const DISK: &str = "cloudinitdisk";
/// Maximum size of a password file in bytes.
const PASSWORD: u64 = 4 << 10;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of cloud-init")]
pub(super) struct CloudInitArgs {
    /// User of the guest, for --ssh-key and --password-file
    #[arg(long, value_name = "NAME", conflicts_with = "cloud_init_user_data")]
    pub(super) user: Option<String>,

    /// File with the password of the user, which stands in the manifest in
    /// cleartext
    #[arg(long, value_name = "FILE", conflicts_with = "cloud_init_user_data")]
    password_file: Option<PathBuf>,

    /// Public SSH key itself, not its file, for the user; repeat for several,
    /// or separate them by commas
    #[arg(long, value_name = "KEY", value_delimiter = ',', conflicts_with = "cloud_init_user_data")]
    ssh_key: Vec<String>,

    /// Permission for the guest agent to write SSH keys, where SELinux asks
    /// for it
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    #[arg(conflicts_with = "cloud_init_user_data", value_parser = clap::builder::BoolishValueParser::new())]
    ga_manage_ssh: Option<bool>,

    /// Data source of cloud-init: nocloud, configdrive or none
    #[arg(long, value_name = "SOURCE", hide_default_value = true)]
    cloud_init: Option<String>,

    /// User data, in base64
    #[arg(long, value_name = "BASE64")]
    cloud_init_user_data: Option<String>,

    /// Network data, in base64
    #[arg(long, value_name = "BASE64")]
    cloud_init_network_data: Option<String>,
}

/// Requirements of a VM's credentials on cloud-init.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// True if the guest agent writes SSH keys.
    pub(super) guest_agent: bool,
    /// Data source that brings SSH keys.
    pub(super) source: Option<&'static str>,
}

impl CloudInitArgs {
    /// Data source of the flag, if given.
    pub(super) fn source(&self) -> Option<&str> {
        self.cloud_init.as_deref()
    }

    /// The volume, if the flags ask for one.
    pub(super) fn volume(&self, needs: &Needs) -> Result<Option<Value>> {
        let said = self.cloud_init.as_deref().or(needs.source);
        let manages = self.ga_manage_ssh.unwrap_or(needs.guest_agent);
        if self.password_file.is_some() {
            ui::say("WARNING: --password-file: The password is stored in cleartext in the VM definition!");
        }
        let field = match said.unwrap_or("nocloud").to_lowercase().as_str() {
            "nocloud" => "cloudInitNoCloud",
            "configdrive" => "cloudInitConfigDrive",
            "none" => {
                if self.has_data() {
                    ui::say(
                        "WARNING: --cloud-init: was set to none, not creating a data source although other cloud-init \
                         options were set",
                    );
                }
                return Ok(None);
            }
            other => {
                let what = format!(
                    "invalid cloud-init data source type \"{other}\", supported values are: nocloud, configdrive, none"
                );
                return Err(fault("cloud-init", &what));
            }
        };
        let mut source = json!({});
        if let Some(network) = &self.cloud_init_network_data {
            source["networkDataBase64"] = json!(network);
        }
        match &self.cloud_init_user_data {
            Some(data) => source["userDataBase64"] = json!(data),
            None => {
                let text = self.user_data(manages)?;
                // A volume without content is made only if a flag asks for it.
                if said.is_none() && text == HEADER && self.cloud_init_network_data.is_none() {
                    return Ok(None);
                }
                source["userData"] = json!(text);
            }
        }
        Ok(Some(json!({"name": DISK, field: source})))
    }

    /// Names of the given flags.
    pub(super) fn given(&self) -> Vec<&'static str> {
        let all = [
            (self.user.is_some(), "--user"),
            (self.password_file.is_some(), "--password-file"),
            (!self.ssh_key.is_empty(), "--ssh-key"),
            (self.ga_manage_ssh.is_some(), "--ga-manage-ssh"),
            (self.cloud_init.is_some(), "--cloud-init"),
            (self.cloud_init_user_data.is_some(), "--cloud-init-user-data"),
            (self.cloud_init_network_data.is_some(), "--cloud-init-network-data"),
        ];
        all.into_iter().filter_map(|(is_given, flag)| is_given.then_some(flag)).collect()
    }

    fn has_data(&self) -> bool {
        self.password_file.is_some()
            || !self.ssh_key.is_empty()
            || self.ga_manage_ssh.is_some()
            || self.cloud_init_user_data.is_some()
            || self.cloud_init_network_data.is_some()
    }

    fn user_data(&self, manages: bool) -> Result<String> {
        let mut text = HEADER.to_owned();
        if let Some(user) = &self.user {
            let _ = write!(text, "\nuser: {}", word(user));
        }
        if let Some(password) = self.password()? {
            let _ = write!(text, "\npassword: {}\nchpasswd: {{ expire: False }}", word(&password));
        }
        if !self.ssh_key.is_empty() {
            text += "\nssh_authorized_keys:";
            for key in &self.ssh_key {
                let _ = write!(text, "\n  - {}", word(public_key(key)?));
            }
        }
        if manages {
            text += "\nruncmd:\n  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]";
        }
        Ok(text)
    }

    fn password(&self) -> Result<Option<String>> {
        let Some(path) = &self.password_file else { return Ok(None) };
        let cannot = |e| Error::io(format!("cannot read --password-file {}", path.display()), e);
        let size = std::fs::metadata(path).map_err(cannot)?.len();
        if size > PASSWORD {
            let what = format!("--password-file {} has {size} bytes, and no password", path.display());
            return Err(usage(what).with_hint("write the password alone, in a line"));
        }
        let text = std::fs::read_to_string(path).map_err(cannot)?;
        Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty()))
    }
}

/// Checks that a flag has a public key itself; it is easily confused with the name of its file.
fn public_key(text: &str) -> Result<&str> {
    let key = text.trim();
    if key_of(key).is_some() {
        return Ok(key);
    }
    // The text may be a private key, so the message does not repeat it.
    let (what, file) = match Path::new(key).is_file() {
        true => (format!("--ssh-key: {key} is a file, and not the public key itself"), key),
        false => ("--ssh-key: this is not a public key".to_owned(), "FILE.pub"),
    };
    Err(usage(what).with_hint(format!("say --ssh-key=\"$(cat {file})\"")))
}

/// A text as YAML scalar: plain if YAML reads it back as that text, else in quotes.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./+=@ ".contains(c);
    let means_itself = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && !text.ends_with(' ')
        && text.chars().all(plain)
        && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    match means_itself {
        true => text.to_owned(),
        // A JSON string is also a YAML string.
        false => Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    fn volume(args: &[&str], needs: &Needs) -> Result<Option<Value>> {
        let command = CloudInitArgs::augment_args(clap::Command::new("vm").no_binary_name(true));
        let matches = command.try_get_matches_from(args).unwrap();
        CloudInitArgs::from_arg_matches(&matches).unwrap().volume(needs)
    }

    #[test]
    fn settings_are_written_as_virtctl_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p");
        std::fs::write(&file, "  secret\n").unwrap();
        let file = format!("--password-file={}", file.display());
        let args = ["--user=me", file.as_str(), "--ssh-key=ssh-rsa AAA= me@x,ssh-rsa BBB", "--ga-manage-ssh"];
        let made = volume(&args, &Needs::default()).unwrap().unwrap();
        let text = "#cloud-config\nuser: me\npassword: secret\nchpasswd: { expire: False }\nssh_authorized_keys:\n  \
                    - ssh-rsa AAA= me@x\n  - ssh-rsa BBB\nruncmd:\n  - [ setsebool, -P, 'virt_qemu_ga_manage_ssh', 'on' ]";
        assert_eq!(made, json!({"name": DISK, "cloudInitNoCloud": {"userData": text}}));
    }

    #[test]
    fn a_volume_is_made_where_it_says_something_or_is_asked_for() {
        let needs = Needs::default();
        let none = Needs::default();
        assert_eq!(volume(&[], &none).unwrap(), None);
        assert_eq!(volume(&["--cloud-init=none", "--user=me"], &none).unwrap(), None);
        let drive = json!({"name": DISK, "cloudInitConfigDrive": {"userData": HEADER}});
        assert_eq!(volume(&["--cloud-init=ConfigDrive"], &needs).unwrap(), Some(drive.clone()));
        let needs = Needs { source: Some("configdrive"), ..Needs::default() };
        assert_eq!(volume(&[], &needs).unwrap(), Some(drive));
        let needs = Needs { guest_agent: true, ..Needs::default() };
        let made = volume(&[], &needs).unwrap().unwrap();
        assert!(made["cloudInitNoCloud"]["userData"].as_str().unwrap().contains("setsebool"));
        assert_eq!(volume(&["--ga-manage-ssh=false"], &needs).unwrap(), None);
        let given = ["--cloud-init-user-data=QQ==", "--cloud-init-network-data=Qg=="];
        let wanted = json!({"name": DISK, "cloudInitNoCloud": {"userDataBase64": "QQ==", "networkDataBase64": "Qg=="}});
        assert_eq!(volume(&given, &none).unwrap(), Some(wanted));
        assert!(volume(&["--cloud-init=tape"], &none).unwrap_err().to_string().contains("\"tape\""));
    }

    #[test]
    fn a_file_is_not_taken_for_the_key_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ssh-keys").display().to_string();
        let refused = |key: &str| {
            let flag = format!("--ssh-key={key}");
            let e = volume(&["--user=me", &flag], &Needs::default()).unwrap_err();
            assert_eq!(e.kind(), crate::error::ErrorKind::Usage, "{key}: {e}");
            e.to_string()
        };
        assert!(refused(&file).contains("this is not a public key"));
        std::fs::write(&file, "ssh-ed25519 AAA= me@x").unwrap();
        let said = refused(&file);
        assert!(said.contains(&format!("{file} is a file, and not the public key itself")), "{said}");
        assert!(said.contains(&format!("--ssh-key=\"$(cat {file})\"")), "{said}");
        let secret = "-----BEGIN OPENSSH PRIVATE KEY----- c2VjcmV0";
        assert!(!refused(secret).contains("c2VjcmV0"));
        refused("my ssh-key.pub");
        refused("");
        for key in ["ecdsa-sha2-nistp256 AAA=", "sk-ssh-ed25519@openssh.com AAA= c", "no-pty ssh-rsa AAA= c"]
        {
            let made = volume(&["--ssh-key", key], &Needs::default()).unwrap().unwrap();
            assert!(made["cloudInitNoCloud"]["userData"].as_str().unwrap().contains(key), "{made}");
        }
    }

    #[test]
    fn a_word_that_yaml_would_misread_is_quoted() {
        for (text, wanted) in
            [("me", "me"), ("a: b #c", "\"a: b #c\""), ("123", "\"123\""), ("no", "\"no\""), ("", "\"\"")]
        {
            assert_eq!(word(text), wanted);
        }
    }
}
