//! `commands` as one shell script that stops at the first failure.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::layout::{BIN, LOG};
use crate::shim::CF_EXPORT;

pub(super) const SCRIPT: &str = "script";

/// Writes `cf_export` and, if there are commands, the script into the folder that becomes [`BIN`].
pub(super) fn write(bin: &Path, commands: Option<&[String]>) -> io::Result<()> {
    write_with_output(bin, commands, Output::Streams)
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
    write_cf_export(bin)?;
    if let Some(commands) = commands {
        let file = bin.join(SCRIPT);
        std::fs::write(&file, text(commands, output))?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

pub(super) fn write_cf_export(folder: &Path) -> io::Result<()> {
    let file = folder.join("cf_export");
    std::fs::write(&file, CF_EXPORT)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))
}

pub(super) fn path() -> String {
    format!("{BIN}/{SCRIPT}")
}

fn text(commands: &[String], output: Output) -> String {
    let mut text = format!("{}export PATH=\"$PATH:{BIN}\"\nset -e\n", output.line());
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
