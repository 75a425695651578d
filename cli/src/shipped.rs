//! Completions for shells, and man pages: both are made from the arguments.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::exit::Failure;
use crate::output;

const HELP: &str = "\
Examples:
  fairlock completions bash

For all sessions, in their places of a distribution:
  fairlock completions bash > /usr/share/bash-completion/completions/fairlock
  fairlock completions zsh > /usr/share/zsh/vendor-completions/_fairlock
  fairlock completions fish > /usr/share/fish/vendor_completions.d/fairlock.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP, override_usage = "fairlock completions SHELL")]
pub(crate) struct Completions {
    /// The shell
    shell: Known,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Known {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManPages {
    /// The folder that they are written to
    folder: PathBuf,
}

/// Prints the completions of this command.
pub(crate) fn completions(command: Command, args: &Completions) -> Result<u8, Failure> {
    // What helps do not show is not offered either.
    let shown = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned();
    let shown = shown.map(|subcommand| match subcommand.get_name() {
        "hold" => subcommand.mut_arg("signal", |arg| arg.value_parser(SIGNALS)),
        _ => subcommand,
    });
    let version = env!("CARGO_PKG_VERSION");
    let mut command = Command::new("fairlock")
        .version(version)
        .args(command.get_arguments().filter(|arg| arg.is_global_set()).cloned())
        .subcommands(shown);
    let shell = match args.shell {
        Known::Bash => Shell::Bash,
        Known::Zsh => Shell::Zsh,
        Known::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "fairlock", &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = match args.shell {
        Known::Bash => format!("{script}{BASH_NAMES}"),
        Known::Zsh => of_zsh(&script),
        Known::Fish => format!("{script}{FISH_NAMES}"),
    };
    output::write(&script).map(|()| 0)
}

/// The signals that a script may want. `hold --signal` takes all others, too.
const SIGNALS: [&str; 6] = ["TERM", "INT", "HUP", "USR1", "USR2", "KILL"];

/// bash takes a colon for the end of a word, so the part of a name before it is not repeated. The other shells know by
/// themselves where a command stands.
const BASH_NAMES: &str = r#"
_fairlock_or_names() {
    _fairlock "$@"
    local line="${COMP_LINE:0:COMP_POINT}" name IFS=$'\n'
    local typed="${line##* }"
    local before="${typed%"$2"}"
    local -a names=()
    local found
    found=$(printf '%s\n' "$line" | fairlock __names 2>/dev/null)
    case $? in
        3) COMPREPLY=($(compgen -c -- "$2")); return ;;
        4) COMPREPLY=(); return ;;
    esac
    for name in $found; do
        names+=("${name#"$before"}")
    done
    [[ ${#names[@]} -eq 0 ]] || COMPREPLY=("${names[@]}")
}
complete -F _fairlock_or_names -o bashdefault -o default fairlock
"#;

const FISH_NAMES: &str = r#"
complete -c fairlock -n "__fish_fairlock_using_subcommand status wait break watch history hold" -f
complete -c fairlock -n "not __fish_fairlock_needs_command; and command -q fairlock" \
    -a "(commandline -cp | fairlock __names 2>/dev/null)"
"#;

const ZSH_NAMES: &str = r#"
_fairlock_names() {
    local -a names
    names=("${(@f)$(print -r -- "${BUFFER[1,CURSOR]}" | fairlock __names 2>/dev/null)}")
    compadd -a names
}
"#;

fn of_zsh(script: &str) -> String {
    let is_name =
        |line: &str| ["':name -- ", "'*::names -- ", "'*-a+[", "'*--and=["].iter().any(|at| line.starts_with(at));
    let mut done = String::new();
    for line in script.lines() {
        // zsh completes a command as such only if the words before it are left out, which takes a third colon.
        let line = line.replace("'*::command -- ", "'*:::command -- ");
        done += &if is_name(&line) { line.replace(":_default'", ":_fairlock_names'") } else { line };
        done.push('\n');
        if done.ends_with("#compdef fairlock\n") {
            done += ZSH_NAMES;
        }
    }
    done
}

/// Writes a page for the command, and one for each of its subcommands.
pub(crate) fn man_pages(command: Command, args: &ManPages) -> Result<u8, Failure> {
    let mut command = told_in_full(command);
    command.build();
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    let pages = subcommands.map(|one| (format!("fairlock-{}", one.get_name()), one.clone()));
    for (name, page) in pages.chain([("fairlock".to_owned(), command.clone())]) {
        write(&args.folder, &name, page.display_name(&name)).map_err(|error| {
            Failure::because(&format!("cannot write the page {name}.1 to {}", args.folder.display()), error)
        })?;
    }
    Ok(0)
}

/// An option that the short help leaves out has its only help in a page, too.
fn told_in_full(command: Command) -> Command {
    let command = command.mut_args(|arg| match (arg.get_long_help(), arg.get_help().cloned()) {
        (None, Some(help)) => arg.long_help(help),
        _ => arg,
    });
    command.mut_subcommands(told_in_full)
}

fn write(folder: &Path, name: &str, command: Command) -> std::io::Result<()> {
    let mut file = std::fs::File::create(folder.join(format!("{name}.1")))?;
    let more = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command).title(name.to_uppercase()).section("1").source(env!("CARGO_PKG_VERSION"));
    man.render_title(&mut file)?;
    man.render_name_section(&mut file)?;
    man.render_synopsis_section(&mut file)?;
    man.render_description_section(&mut file)?;
    man.render_options_section(&mut file)?;
    if has_subcommands {
        man.render_subcommands_section(&mut file)?;
    }
    sections(&more.unwrap_or_default()).to_writer(&mut file)?;
    file.flush()
}

/// The text below a help. A line that ends with a colon is the heading of what follows; one with columns stays as it
/// is.
fn sections(text: &str) -> Roff {
    let mut page = Roff::new();
    let mut headed = false;
    for line in text.lines() {
        let content = line.trim();
        if let Some(heading) = line.strip_suffix(':').filter(|heading| !heading.starts_with(' ')) {
            headed = true;
            page.control("SH", [heading.to_uppercase().as_str()]);
        } else if content.is_empty() {
            page.control("PP", []);
        } else {
            if !headed {
                headed = true;
                page.control("SH", ["NOTES"]);
            }
            if content.contains("  ") || (line.starts_with("  ") && content.starts_with("fairlock ")) {
                page.control("nf", []).text([roman(line)]).control("fi", []);
            } else {
                page.text([roman(content)]);
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::sections;

    #[test]
    fn headings_columns_and_paragraphs_are_told_apart() {
        let text = "Examples:\n  fairlock run x\n\nExit codes:\n  0    fine\n\nA long\n.text";
        let page = sections(text).to_roff();
        let expected = ".SH EXAMPLES\n.nf\n  fairlock run x\n.fi\n.PP\n.SH \"EXIT CODES\"\n.nf\n  0    fine\n.fi\n.PP\nA long\n\\&.text\n";
        assert_eq!(page, expected);
        assert!(sections("Only text.").to_roff().starts_with(".SH NOTES\n"));
    }
}
