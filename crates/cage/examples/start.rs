//! What a cage costs: programs started with and without one, in turn.
//!
//! `cargo run --release -p slipway-cage --example start [COUNT] [MEGABYTES]`; the second number is memory that the
//! starting process holds; a fork would copy its page tables.

use std::process::Command;
use std::time::{Duration, Instant};

use slipway_cage::{Cage, Level, Streams};

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<usize>().ok());
    let count = numbers.next().unwrap_or(200);
    let held = vec![1u8; numbers.next().unwrap_or(64) << 20];
    println!("in force here: {}", slipway_cage::level()?.describe());
    let mut bare = Vec::new();
    let mut levels =
        [Level::Namespaces, Level::UserNamespace, Level::Landlock].map(|level| (level, Vec::new()));
    for _ in 0..count {
        bare.push(timed(|| Command::new("/bin/true").spawn()?.wait())?);
        for (level, times) in &mut levels {
            times.push(timed(|| {
                Cage::new()
                    .at(*level)
                    .spawn(&Command::new("/bin/true"), Streams::listening())?
                    .wait_blocking()
            })?);
        }
    }
    println!("{:<40} {}", "bare", told(bare));
    for (level, times) in levels {
        println!("{:<40} {}", format!("{level:?}"), told(times));
    }
    drop(held);
    Ok(())
}

fn timed<T>(work: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<Duration> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}

fn told(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    format!("p50 {:.2} ms, p95 {:.2} ms", at(50), at(95))
}
