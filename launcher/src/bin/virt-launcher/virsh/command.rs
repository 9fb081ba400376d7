//! The verbs of virsh, with options and help texts in the words of libvirt's program.

use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: &'static str,
    pub(super) says: &'static str,
    description: &'static str,
    options: &'static [Opt],
}

#[derive(Debug)]
struct Opt {
    name: &'static str,
    kind: Kind,
    says: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An option without a value: `--name`.
    Flag,
    /// A required argument, with or without its name.
    Word,
    /// Any number of arguments; `wanted`: at least one is required.
    Words { wanted: bool },
}

/// The arguments of a verb.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    flags: BTreeSet<&'static str>,
    pub(super) domain: Option<String>,
    pub(super) words: Vec<String>,
}

impl Arguments {
    pub(super) fn has(&self, flag: &str) -> bool {
        self.flags.contains(flag)
    }
}

const fn flag(name: &'static str, says: &'static str) -> Opt {
    Opt { name, kind: Kind::Flag, says }
}

const DOMAIN: Opt = Opt { name: "domain", kind: Kind::Word, says: "domain name, id or uuid" };
const INACTIVE: Opt = flag("inactive", "get inactive rather than running configuration");

/// The verbs that this program carries out.
pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "domblklist",
        says: "list all domain blocks",
        description: "Get the summary of block devices for a domain.",
        options: &[DOMAIN, INACTIVE, flag("details", "additionally display the type and device value")],
    },
    Command {
        name: "domid",
        says: "convert a domain name or UUID to domain id",
        description: "",
        options: &[DOMAIN],
    },
    Command {
        name: "domiflist",
        says: "list all domain virtual interfaces",
        description: "Get the summary of virtual interfaces for a domain.",
        options: &[DOMAIN, INACTIVE],
    },
    Command {
        name: "dominfo",
        says: "domain information",
        description: "Returns basic information about the domain.",
        options: &[DOMAIN],
    },
    Command {
        name: "domname",
        says: "convert a domain id or UUID to domain name",
        description: "",
        options: &[DOMAIN],
    },
    Command {
        name: "domstate",
        says: "domain state",
        description: "Returns state about a domain.",
        options: &[DOMAIN, flag("reason", "also print reason for the state")],
    },
    Command {
        name: "domstats",
        says: "get statistics about one or multiple domains",
        description: "Gets statistics about one or more (or all) domains",
        options: &[
            flag("state", "report domain state"),
            flag("cpu-total", "report domain physical cpu usage"),
            flag("balloon", "report domain balloon statistics"),
            flag("vcpu", "report domain virtual cpu information"),
            flag("interface", "report domain network interface information"),
            flag("block", "report domain block device statistics"),
            flag("perf", "report domain perf event statistics"),
            flag("iothread", "report domain IOThread information"),
            flag("memory", "report domain memory usage"),
            flag("dirtyrate", "report domain dirty rate information"),
            flag("vm", "report hypervisor-specific statistics"),
            flag("raw", "do not pretty-print the fields"),
            flag("enforce", "enforce requested stats parameters"),
            flag("backing", "add backing chain information to block stats"),
            flag("nowait", "report only stats that are accessible instantly"),
            Opt {
                name: "domain",
                kind: Kind::Words { wanted: false },
                says: "list of domains to get stats for",
            },
        ],
    },
    Command {
        name: "domuuid",
        says: "convert a domain name or id to domain UUID",
        description: "",
        options: &[DOMAIN],
    },
    Command {
        name: "dumpxml",
        says: "domain information in XML",
        description: "Output the domain information as an XML dump to stdout.",
        options: &[DOMAIN, flag("inactive", "show inactive defined XML")],
    },
    Command {
        name: "help",
        says: "print help",
        description: "Prints global help or command specific help.",
        options: &[Opt {
            name: "command",
            kind: Kind::Words { wanted: false },
            says: "Prints global help or command specific help.",
        }],
    },
    Command {
        name: "list",
        says: "list domains",
        description: "Returns list of domains.",
        options: &[
            flag("inactive", "list inactive domains"),
            flag("all", "list inactive & active domains"),
            flag("state-running", "list domains in running state"),
            flag("state-paused", "list domains in paused state"),
            flag("state-shutoff", "list domains in shutoff state"),
            flag("state-other", "list domains in other states"),
            flag("uuid", "list uuid's only"),
            flag("name", "list domain names only"),
            flag("id", "list domain IDs only"),
            flag("table", "list table (default)"),
        ],
    },
    Command {
        name: "qemu-monitor-command",
        says: "QEMU Monitor Command",
        description: "QEMU Monitor Command",
        options: &[
            DOMAIN,
            flag("hmp", "command is in human monitor protocol"),
            flag("pretty", "pretty-print any qemu monitor protocol output"),
            Opt { name: "cmd", kind: Kind::Words { wanted: true }, says: "command" },
        ],
    },
    Command { name: "uri", says: "print the hypervisor canonical URI", description: "", options: &[] },
    Command {
        name: "version",
        says: "show version",
        description: "Display the system version information.",
        options: &[],
    },
];

impl Command {
    pub(super) fn named(name: &str) -> Option<&'static Command> {
        COMMANDS.iter().find(|command| command.name == name)
    }

    /// Parses the arguments of the verb.
    pub(super) fn given(&self, words: &[String]) -> Result<Arguments, String> {
        let name = self.name;
        let find = |wanted: &str| self.options.iter().find(|option| option.name == wanted);
        let lists = self.options.iter().any(|option| matches!(option.kind, Kind::Words { .. }));
        let takes_domain = find(DOMAIN.name).is_some_and(|option| option.kind == Kind::Word);
        let mut given = Arguments::default();
        let mut words = words.iter();
        let mut only_words = false;
        while let Some(word) = words.next() {
            let long = word.strip_prefix("--").filter(|_| !only_words);
            match long
                .map(|long| long.split_once('=').map_or((long, None), |(long, value)| (long, Some(value))))
            {
                Some(("", None)) => only_words = true,
                Some((long, value)) => {
                    let option = find(long);
                    let option =
                        option.ok_or_else(|| format!("command '{name}' doesn't support option --{long}"))?;
                    if option.kind == Kind::Flag {
                        given.flags.insert(option.name);
                        continue;
                    }
                    let value = value.map(str::to_owned).or_else(|| words.next().cloned());
                    let value = value.ok_or_else(|| format!("expected syntax: --{long} <string>"))?;
                    match option.kind {
                        Kind::Word => given.domain = Some(value),
                        _ => given.words.push(value),
                    }
                }
                None if takes_domain && given.domain.is_none() => given.domain = Some(word.clone()),
                None if lists => given.words.push(word.clone()),
                None => return Err(format!("unexpected data '{word}'")),
            }
        }
        let lacks = self.options.iter().find(|option| match option.kind {
            Kind::Word => given.domain.is_none(),
            Kind::Words { wanted } => wanted && given.words.is_empty(),
            Kind::Flag => false,
        });
        match lacks {
            Some(option) => Err(format!("command '{name}' requires <{}> option", option.name)),
            None => Ok(given),
        }
    }

    /// The help of one verb.
    pub(super) fn help(&self) -> String {
        let synopsis: String = self
            .options
            .iter()
            .map(|Opt { name, kind, .. }| match kind {
                Kind::Flag => format!(" [--{name}]"),
                Kind::Word => format!(" <{name}>"),
                Kind::Words { wanted: true } => format!(" {{[--{name}] <string>}}..."),
                Kind::Words { wanted: false } => format!(" [[--{name}] <string>]..."),
            })
            .collect();
        let mut text =
            format!("  NAME\n    {} - {}\n\n  SYNOPSIS\n    {}{synopsis}\n", self.name, self.says, self.name);
        if !self.description.is_empty() {
            text += &format!("\n  DESCRIPTION\n    {}\n", self.description);
        }
        if !self.options.is_empty() {
            text += "\n  OPTIONS\n";
            for Opt { name, kind, says } in self.options {
                let shown = match kind {
                    Kind::Flag => format!("--{name}"),
                    _ => format!("[--{name}] <string>"),
                };
                text += &format!("    {shown:<15}  {says}\n");
            }
        }
        text.push('\n');
        text
    }
}
