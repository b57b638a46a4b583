//! Developer tasks. `cargo xtask tidy` compares the workspace with ARCHITECTURE.md, sees to it that handlers of the server
//! are no library, that rooms which are to grow no further do not, and compares the tests that documents name with
//! those in the sources; `cargo xtask tidy --ran FILE` compares them with those that ran.

mod handlers;
mod named_tests;
mod ratchet;
mod rooms;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => rooms::tidy().and_then(|rooms| {
            let (handlers, grown) = (handlers::check()?, ratchet::check()?);
            Ok(format!("{rooms}\n{handlers}\n{grown}\n{}", named_tests::check(None)?))
        }),
        ["tidy", "--ran", list] => named_tests::check(Some(list.as_ref())),
        _ => {
            eprintln!("usage: cargo xtask tidy [--ran FILE]");
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
