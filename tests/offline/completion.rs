use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{commands, program};

/// A shell, and how to ask what it completes at the end of a line of the program.
struct Shell {
    name: &'static str,
    complete: fn(&Path, &[&str]) -> Command,
}

const SHELLS: [Shell; 3] = [
    Shell { name: "bash", complete: bash },
    Shell { name: "zsh", complete: zsh },
    Shell { name: "fish", complete: fish },
];

fn bash(folder: &Path, line: &[&str]) -> Command {
    let ask = r#"
        source "$0"
        COMP_WORDS=(node-resource-advertiser "$@") COMP_CWORD=$#
        function=$(complete -p node-resource-advertiser | sed 's/.*-F \([^ ]*\).*/\1/')
        "$function" node-resource-advertiser "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-eo", "pipefail", "-c", ask]).arg(folder.join("script")).args(line);
    bash
}

/// zsh completes in a terminal only: in one of its own, where what is offered goes to a file.
fn zsh(folder: &Path, line: &[&str]) -> Command {
    let setup = r#"
        fpath=($ZDOTDIR $fpath)
        autoload -Uz compinit
        compinit -u -D
        PROMPT=
        compadd() {
            # What only asks for matches offers none.
            [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]] && { builtin compadd "$@"; return $? }
            local -a found
            builtin compadd -A found "$@"
            (( $#found )) && print -rl -- $found >> $ZDOTDIR/found
            builtin compadd "$@"
        }
        finished() { print the completion has ended }
        complete-and-end() { comppostfuncs=(finished); zle complete-word }
        zle -N complete-and-end
        bindkey '^I' complete-and-end"#;
    let ask = r#"
        zmodload zsh/zpty
        zpty shell zsh -d -i
        zpty -w -n shell "$*"$'\t'
        zpty -r shell said '*the completion has ended*'
        cat $ZDOTDIR/found"#;
    std::fs::rename(folder.join("script"), folder.join("_node-resource-advertiser")).unwrap();
    std::fs::write(folder.join(".zshrc"), setup).unwrap();
    let mut zsh = Command::new("zsh");
    zsh.args(["-f", "-c", ask, "zsh", "node-resource-advertiser"]).args(line).env("ZDOTDIR", folder);
    zsh
}

fn fish(folder: &Path, line: &[&str]) -> Command {
    let ask = "source $argv[1]; complete -C (string join -- ' ' $argv[2..]) | string split -f 1 \\t";
    let mut fish = Command::new("fish");
    fish.args(["--no-config", "-c", ask]).arg(folder.join("script")).arg("node-resource-advertiser").args(line);
    fish
}

fn is_installed(shell: &str) -> bool {
    Command::new(shell).args(["-c", "true"]).output().is_ok()
}

impl Shell {
    /// Returns what the shell completes at the end of a line.
    fn completed(&self, line: &[&str]) -> Vec<String> {
        // Tests that run at once may ask the same.
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        let folder: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("completion-{number}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let script = program(&["completions", self.name]);
        assert!(script.status.success(), "{script:?}");
        std::fs::write(folder.join("script"), script.stdout).unwrap();
        let output = (self.complete)(&folder, line).env("HOME", &folder).output().unwrap();
        assert!(output.status.success(), "{} {line:?}: {output:?}", self.name);
        String::from_utf8(output.stdout).unwrap().lines().map(|word| word.trim().to_owned()).collect()
    }
}

#[test]
fn shells_complete_commands_flags_and_values() {
    for shell in SHELLS {
        let name = shell.name;
        if !is_installed(name) {
            println!("skipped: {name} is not installed");
            continue;
        }
        assert_eq!(shell.completed(&["va"]), ["validate"], "{name}");
        let mut formats = shell.completed(&["top", "-o", ""]);
        formats.sort();
        assert_eq!(formats, ["json", "name", "wide", "yaml"], "{name}");
        let offered = shell.completed(&[""]);
        for command in commands() {
            assert!(offered.contains(&command), "{name}: {command}: {offered:?}");
        }
        assert!(!offered.iter().any(|word| ["complete", "man"].contains(&&**word)), "{name}: hidden: {offered:?}");
        for command in ["why", "prune", "completions"] {
            let flags = shell.completed(&[command, "--"]);
            assert!(flags.iter().any(|flag| flag == "--color"), "{name}: {command}: {flags:?}");
        }
    }
}

/// Each command has cases of its own in the script, which clap_complete names wrongly for bash.
#[test]
fn bash_completes_the_flags_of_each_command() {
    let [bash, ..] = SHELLS;
    for command in commands() {
        let flags = bash.completed(&[&command, "--"]);
        assert!(flags.iter().any(|flag| flag == "--color"), "{command}: {flags:?}");
    }
}

/// PowerShell itself is in no registry that tests install from, so its script is read.
#[test]
fn powershell_has_a_case_with_flags_for_each_command() {
    println!("skipped: no pwsh runs the script, which is read instead");
    let script = String::from_utf8(program(&["completions", "powershell"]).stdout).unwrap();
    assert!(script.contains("Register-ArgumentCompleter -Native -CommandName 'node-resource-advertiser'"), "{script}");
    let case = |command: &str| {
        let (_, case) = script.split_once(&format!("'node-resource-advertiser;{command}' {{\n"))?;
        case.split_once("break\n").map(|(case, _)| case)
    };
    for command in commands() {
        let case = case(&command).unwrap_or_else(|| panic!("{command} has no case: {script}"));
        assert!(case.contains("CompletionResult]::new('--color'"), "{command}: {case}");
    }
    assert!(case("complete").is_none() && case("man").is_none(), "hidden commands are offered");
}
