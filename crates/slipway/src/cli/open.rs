//! `slipway open`: the pages of the platform, in a browser.

use std::process::{Command, ExitCode, Stdio};

use super::context;
use super::output::is_terminal;

/// Prints the address, and opens it where somebody looks.
pub(crate) fn open(path: &str) -> anyhow::Result<ExitCode> {
    let url = format!("{}/{}", context::client()?.base(), path.trim_start_matches('/'));
    say!("{url}");
    if is_terminal() {
        let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
        let started = Command::new(program)
            .arg(&url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if started.is_err() {
            note!("No browser can be started here: open the address above.");
        }
    }
    Ok(ExitCode::SUCCESS)
}
