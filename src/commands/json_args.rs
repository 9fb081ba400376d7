//! Flags for JSON output: `--json` and `-o json`, in every verb that has such an output.

/// Choice of JSON as the output of a verb.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct JsonArgs {
    /// Print the result as JSON; -o json is the same
    #[arg(long)]
    json: bool,

    /// Output format
    #[arg(short, long, value_enum, value_name = "FORMAT", hide_short_help = true)]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
}

impl JsonArgs {
    /// True if one of the flags is given.
    pub(crate) fn is_json(self) -> bool {
        self.json || self.output == Some(Format::Json)
    }
}
