//! The verb `coracle completions`.

use crate::error::Error;
use crate::ui;
use clap_complete::env::Shells;

/// Environment variable by which a shell requests completions.
pub(crate) const COMPLETE: &str = "COMPLETE";

/// Print a completion script for a shell
///
/// For bash: coracle completions bash > /etc/bash_completion.d/coracle
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to print the completion script for
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> crate::error::Result<()> {
    print(&args.shell.to_string(), "coracle")
}

/// Prints the script by which a shell completes the arguments of a program.
pub(crate) fn print(shell: &str, program: &str) -> crate::error::Result<()> {
    let shells = Shells::builtins();
    let found = shells.completer(shell).ok_or_else(|| Error::failed(format!("{shell} completes nothing")))?;
    let mut script = Vec::new();
    // The script calls the program itself, so that names of VMs are completed too.
    found
        .write_registration(COMPLETE, program, program, program, &mut script)
        .map_err(|e| Error::io("cannot write the script", e))?;
    let script = String::from_utf8_lossy(&script);
    ui::out(&if shell == "bash" { with_colons(&script) } else { script.into_owned() })
}

/// The script for bash, which splits words at colons, with these words joined again: names of images have colons.
/// The answers lose the part before the last colon, which bash keeps.
fn with_colons(script: &str) -> String {
    script
        .replace(WORDS, JOINED_WORDS)
        .replace(INDEX, "")
        .replace(ANSWERED, &format!("{ANSWERED}{WITHOUT_PREFIX}"))
}

/// Parts of the script that are replaced.
const INDEX: &str = "    local _CLAP_COMPLETE_INDEX=${COMP_CWORD}\n";
const WORDS: &str = "    local words=(\"${COMP_WORDS[@]}\")
    if [[ \"${BASH_VERSINFO[0]}\" -ge 4 ]]; then
        words[COMP_CWORD]=\"$2\"
    fi
";
const ANSWERED: &str = "    if [[ $? != 0 ]]; then
        unset COMPREPLY
";

const JOINED_WORDS: &str = r#"    local words=() word before rest="$COMP_LINE" index _CLAP_COMPLETE_INDEX=0
    for ((index = 0; index < ${#COMP_WORDS[@]}; index++)); do
        word="${COMP_WORDS[index]}"
        if [[ -n $word ]]; then
            before="${rest%%"$word"*}"
            rest="${rest#"$before$word"}"
        else
            before=" "
        fi
        if ((index > 0)) && [[ -z $before && ($word == :* || ${COMP_WORDS[index - 1]} == *:) ]]; then
            words[${#words[@]} - 1]+="$word"
        else
            words+=("$word")
        fi
        if ((index == COMP_CWORD)); then
            _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1))
            break
        fi
    done
    local current="${words[_CLAP_COMPLETE_INDEX]}"
"#;

const WITHOUT_PREFIX: &str = r#"    elif [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${current%"${current##*:}"}"}")
        if [[ $_CLAP_COMPLETE_SPACE == false ]] && [[ "${COMPREPLY-}" =~ [=/:]$ ]]; then
            compopt -o nospace
        fi
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// The words that bash asks for, by a program that writes them down.
    #[test]
    fn a_name_with_colons_is_one_word_in_bash() {
        let mut script = vec![];
        let bash = Shells::builtins();
        let bash = bash.completer("bash").unwrap();
        bash.write_registration(COMPLETE, "coracle", "coracle", "asked", &mut script).unwrap();
        let script = with_colons(&String::from_utf8(script).unwrap());
        assert!(
            script.contains("local current") && script.contains("COMPREPLY=(\"${COMPREPLY[@]#"),
            "{script}"
        );
        for (line, words, index, reply) in [
            ("coracle inspect os:1", "coracle inspect os : 1", 4, "12"),
            ("coracle inspect os:", "coracle inspect os :", 3, "12"),
            ("coracle inspect os", "coracle inspect os", 2, "os:12"),
            ("coracle copy store:os:1", "coracle copy store : os : 1", 6, "12"),
        ] {
            let wanted = line.rsplit(' ').next().unwrap();
            let whole = if wanted.starts_with("store:") { "store:os:12" } else { "os:12" };
            let text = format!(
                "compopt() {{ return 1; }}
                asked() {{ echo \"$_CLAP_COMPLETE_INDEX ${{*: -1}}\" >&2; printf %s {whole}; }}
                {script}
                COMP_WORDS=({words}); COMP_CWORD={index}; COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
                current=${{COMP_WORDS[COMP_CWORD]}}
                _clap_complete_coracle coracle \"$current\" x
                echo \"${{COMPREPLY[*]}}\""
            );
            let Ok(done) = Command::new("bash").args(["-c", &text]).output() else { return };
            let said = (String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
            assert_eq!((said.0.trim(), said.1.trim()), (format!("2 {wanted}").as_str(), reply), "{line}");
        }
    }
}
