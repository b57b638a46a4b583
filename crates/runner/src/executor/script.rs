//! `commands` as one shell script that stops at the first failure.

use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::layout::{BIN, LOG};
use crate::shim::CF_EXPORT;

pub(super) const SCRIPT: &str = "script";
/// Read by the script before anything else, if it is there.
const VARIABLES: &str = "variables";
const CF_EXPORT_NAME: &str = "cf_export";

/// Writes `cf_export` and, if there are commands, the script into the folder that becomes [`BIN`].
pub(super) fn write(bin: &Path, commands: Option<&[String]>) -> io::Result<()> {
    write_with_output(bin, commands, Output::Streams)
}

/// As [`write`], with variables that the script sets by itself.
pub(super) fn write_with(
    bin: &Path,
    commands: Option<&[String]>,
    exported: &std::collections::BTreeMap<String, String>,
) -> io::Result<()> {
    write(bin, commands)?;
    let lines: String =
        exported.iter().map(|(name, value)| format!("export {name}={}\n", quote(value))).collect();
    let file = bin.join(VARIABLES);
    std::fs::write(&file, lines)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))
}

/// Where the script's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Streams,
    /// Into the file at [`LOG`].
    File,
}

impl Output {
    /// One stream: an engine that carries two does not keep their order.
    pub(super) fn line(self) -> String {
        match self {
            Self::Streams => "exec 2>&1\n".to_owned(),
            Self::File => format!("exec >>{LOG} 2>&1\n"),
        }
    }
}

pub(super) fn write_with_output(bin: &Path, commands: Option<&[String]>, output: Output) -> io::Result<()> {
    // Others may read it: on the host the step runs as a user of its own.
    std::fs::create_dir_all(bin)?;
    std::fs::set_permissions(bin, std::fs::Permissions::from_mode(0o755))?;
    write_cf_export(bin, None)?;
    if let Some(commands) = commands {
        let file = bin.join(SCRIPT);
        std::fs::write(&file, text(commands, output))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Made anew, whatever a step of an earlier build has put there: through a link this would be a file of the machine.
pub(super) fn write_cf_export(folder: &Path, user: Option<u32>) -> io::Result<()> {
    let file = folder.join(CF_EXPORT_NAME);
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => crate::tree::remove(
            &nix::fcntl::open(folder, nix::fcntl::OFlag::O_DIRECTORY, nix::sys::stat::Mode::empty())?,
            CF_EXPORT_NAME.as_ref(),
        )?,
        _ => {}
    }
    let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(&file)?;
    new.write_all(CF_EXPORT.as_bytes())?;
    if let Some(user) = user {
        std::os::unix::fs::fchown(&new, Some(user), Some(user))?;
    }
    new.set_permissions(std::fs::Permissions::from_mode(0o755))
}

pub(super) fn variables_path() -> String {
    format!("{BIN}/{VARIABLES}")
}

pub(super) fn path() -> String {
    format!("{BIN}/{SCRIPT}")
}

fn text(commands: &[String], output: Output) -> String {
    let mut text = format!(
        "{}export PATH=\"$PATH:{BIN}\"\nif [ -s {BIN}/{VARIABLES} ]; then . {BIN}/{VARIABLES}; fi\nset -e\n",
        output.line()
    );
    let mut announce = true;
    for command in commands {
        if announce {
            text.push_str(&format!("printf '%s\\n' {}\n", quote(&announcement(command))));
        }
        text.push_str(command);
        text.push('\n');
        // A line that goes on in the next command, or a here-document that may: nothing goes between.
        announce = announce && !command.ends_with('\\') && !command.contains("<<");
    }
    text
}

fn announcement(command: &str) -> String {
    let mut lines = command.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    let more = if lines.next().is_some() { " …" } else { "" };
    format!("Executing command: {first}{more}")
}

/// As one word of a shell.
pub(super) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(commands: &[&str]) -> (String, Option<i32>) {
        let commands: Vec<String> = commands.iter().map(|c| (*c).to_owned()).collect();
        let output = std::process::Command::new("sh")
            .arg("-c")
            .arg(text(&commands, Output::Streams))
            .output()
            .unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    }

    #[test]
    fn commands_share_a_shell_and_stop_at_the_first_failure() {
        let (out, code) = run(&["cd /tmp; X='it works'", "echo \"$X\"", "false", "echo never"]);
        assert_eq!(code, Some(1));
        assert!(
            out.ends_with("Executing command: echo \"$X\"\nit works\nExecuting command: false\n"),
            "{out}"
        );
    }

    #[test]
    fn an_announcement_never_gets_between_the_lines_of_one_command() {
        let (out, code) = run(&["if true; then", "echo yes", "fi", "echo a \\", "b", "cat <<E", "text", "E"]);
        assert_eq!(code, Some(0), "{out}");
        assert!(out.contains("\na b\n") && out.ends_with("text\n"), "{out}");
    }
}
