//! A shell of this machine: in a sandbox, or in a container of the engine. A terminal is made here, and a process of
//! ours takes it up (see [`crate::shim`]).

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use slipway_api::debug::DebugOrder;
use tokio::process::Child;
use tokio::sync::mpsc;

use super::{Ends, QUEUE};
use crate::layout::AttemptDir;
use crate::shim::SUBCOMMAND;

pub(super) fn start(
    executable: &Path,
    dir: &AttemptDir,
    order: &DebugOrder,
) -> std::io::Result<(Ends, Child)> {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&terminal)?;
    unlockpt(&terminal)?;
    let name = ptsname(&terminal, Vec::new())?;
    let name = name.to_str().map_err(std::io::Error::other)?.to_owned();
    let size = Winsize { ws_row: order.rows, ws_col: order.columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size)?;
    let child = tokio::process::Command::new(executable)
        .args([SUBCOMMAND, "shell"])
        .arg(&dir.0)
        .arg(&name)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .env_clear()
        .envs(slipway_container::environment())
        .kill_on_drop(true)
        .spawn()?;
    let terminal = File::from(terminal);
    Ok((ends(terminal)?, child))
}

/// Threads, because a terminal's reads and writes wait. They end with the terminal's other side.
fn ends(terminal: File) -> std::io::Result<Ends> {
    let (said, printed) = mpsc::channel::<Vec<u8>>(QUEUE);
    let (typed, mut wanted) = mpsc::channel::<Vec<u8>>(QUEUE);
    let mut reader = terminal.try_clone()?;
    let mut writer = terminal;
    std::thread::Builder::new().name("shell-out".to_owned()).spawn(move || {
        let mut buffer = [0; 8 << 10];
        let mut opened = false;
        loop {
            match reader.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    opened = true;
                    if said.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
                // Nobody has the other side open: not yet, or not any more.
                _ if !opened && !said.is_closed() => std::thread::sleep(std::time::Duration::from_millis(20)),
                _ => return,
            }
        }
    })?;
    std::thread::Builder::new().name("shell-in".to_owned()).spawn(move || {
        while let Some(bytes) = wanted.blocking_recv() {
            if writer.write_all(&bytes).is_err() {
                return;
            }
        }
    })?;
    Ok(Ends { printed, typed })
}
