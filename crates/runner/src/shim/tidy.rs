//! What an attempt leaves on the machine, removed before its end counts.
//!
//! In: an engine, and containers by name or by label. Out: nothing of them is left, or a sentence that says what is and
//! why. An engine may be busy, or refuse to remove a container because another one uses its network; so removal is
//! retried until it holds or patience ends. What is left then is found by the runner's sweep.

use std::thread::sleep;
use std::time::{Duration, Instant};

use slipway_model::Backoff;

use crate::executor::engine;

/// How long removal is retried before the step ends without it.
const PATIENCE: Duration = Duration::from_secs(60);
/// For one call of the engine.
const CALL: Duration = Duration::from_secs(30);
const PAUSE_LEAST: Duration = Duration::from_millis(100);
const PAUSE_MOST: Duration = Duration::from_secs(2);

/// Removes containers by name, the last first: one whose network others use cannot go before them.
pub(crate) fn named(engine: &[String], names: &[String]) -> Result<(), String> {
    retry(|| remove(engine, names.iter().rev()))
}

/// Removes every container that has this label.
pub(crate) fn labelled(engine: &[String], label: &str) -> Result<(), String> {
    retry(|| {
        let found = list(engine, label)?;
        remove(engine, found.iter())
    })
}

/// Removes containers by name or id, once each.
pub(crate) fn remove<'a>(engine: &[String], names: impl Iterator<Item = &'a String>) -> Result<(), String> {
    let mut left = Vec::new();
    for name in names {
        let mut argv = engine.to_vec();
        argv.extend(["rm", "--force", "--volumes"].map(str::to_owned));
        // Podman waits ten seconds for a process that ignores SIGTERM; Docker does not, and has no such flag.
        argv.extend((engine[0] == "podman").then(|| "--time=0".to_owned()));
        argv.push(name.clone());
        if let Err(why) = engine::run(&argv, CALL)
            && !why.to_lowercase().contains("no such container")
        {
            left.push(format!("container {name} cannot be removed: {why}"));
        }
    }
    if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
}

/// The newest first, so that what uses the network of another goes before it.
pub(crate) fn list(engine: &[String], label: &str) -> Result<Vec<String>, String> {
    let mut argv = engine.to_vec();
    argv.extend(["ps", "--all", "--no-trunc", "--format={{.ID}}"].map(str::to_owned));
    argv.push(format!("--filter=label={label}"));
    let said = engine::run(&argv, CALL).map_err(|why| format!("containers cannot be listed: {why}"))?;
    Ok(said.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Until it holds, or patience ends.
pub(crate) fn retry(mut work: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    let mut backoff = Backoff::new(PAUSE_LEAST, PAUSE_MOST);
    loop {
        match work() {
            Err(_) if Instant::now() < until => sleep(backoff.failed()),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// An engine that says no twice, and then does it.
    #[test]
    fn removal_is_retried_until_the_engine_does_it() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("engine");
        let count = dir.path().join("count");
        let text = format!(
            "#!/bin/sh\necho \"$@\" >> {0}\n[ $(wc -l < {0}) -gt 2 ] && exit 0\necho busy >&2; exit 125\n",
            count.display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        named(&[program.display().to_string()], &["one".to_owned()]).unwrap();
        let calls = std::fs::read_to_string(&count).unwrap();
        assert_eq!(calls.lines().collect::<Vec<_>>(), ["rm --force --volumes one"; 3]);
    }

    #[test]
    fn what_uses_a_network_goes_before_the_container_whose_network_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("engine");
        let calls = dir.path().join("calls");
        std::fs::write(&program, format!("#!/bin/sh\necho \"$4\" >> {}\n", calls.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let names = ["owner", "second", "third"].map(str::to_owned);
        named(&[program.display().to_string()], &names).unwrap();
        assert_eq!(std::fs::read_to_string(&calls).unwrap(), "third\nsecond\nowner\n");
    }
}
