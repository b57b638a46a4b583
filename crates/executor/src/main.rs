//! The program beside a step of a Workflow: it runs the step's own command and says what the step left.
//!
//! In: `run -- COMMAND…`, and what is wanted in the environment (`SLIPWAY_OUTPUTS`). Out: the command's own output and exit code, and its
//! outputs as one JSON text where Kubernetes reads the last words of a container. `copy FILE` puts this program where the step finds it.
//!
//! It talks to nobody: a step needs no rights in the cluster. Knows nothing of workflows. Has to be one file without libraries, because it runs in images
//! that have none.

mod outputs;
mod run;

use std::path::Path;
use std::process::ExitCode;

/// Not the command's own failure: as upstream's program says it.
const OUR_FAULT: u8 = 64;

fn main() -> ExitCode {
    let words: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let done = match words.split_first() {
        Some((word, [to])) if word == "copy" => copy(Path::new(to)),
        Some((word, rest)) if word == "run" => match rest.split_first() {
            Some((dashes, command)) if dashes == "--" && !command.is_empty() => run::run(command),
            _ => Err("write: run -- COMMAND [ARGUMENT…]".into()),
        },
        _ => Err("write: copy FILE, or: run -- COMMAND [ARGUMENT…]".into()),
    };
    done.unwrap_or_else(|why| {
        eprintln!("slipway-executor: {why}");
        outputs::say(&serde_json::json!({"error": why}));
        ExitCode::from(OUR_FAULT)
    })
}

fn copy(to: &Path) -> Result<ExitCode, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot find itself: {error}"))?;
    std::fs::copy(&own, to).map_err(|error| format!("cannot copy itself to {}: {error}", to.display()))?;
    Ok(ExitCode::SUCCESS)
}
