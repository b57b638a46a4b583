//! Developer tasks. `cargo xtask tidy` holds the shape of the workspace against ARCHITECTURE.md.

mod rooms;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let outcome = match task.as_str() {
        "tidy" => rooms::tidy(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(summary) => {
            println!("{summary}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
