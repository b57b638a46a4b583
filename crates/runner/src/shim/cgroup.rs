//! Limits of CPU and memory for a process of this machine, where the kernel's control groups can be written.
//!
//! In: the folder of an attempt and its limits. Out: a group with them, which the first process of the sandbox joins
//! before it starts anything, or a sentence on why there is none. Both versions of control groups are known. A group is
//! removed after its last process; one that a crash left behind is empty and costs nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::layout::AttemptDir;
use crate::task::Limits;

const ROOT: &str = "/sys/fs/cgroup";
const PERIOD_US: u64 = 100_000;
/// The kernel takes no less.
const QUOTA_US_MIN: u64 = 1_000;

/// Where the groups of an attempt are: one, or with the first version one a controller.
fn places(dir: &AttemptDir) -> Vec<(PathBuf, &'static str)> {
    let name = format!("slipway-{}", hex::encode(&Sha256::digest(dir.0.as_os_str().as_encoded_bytes())[..8]));
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return vec![(root.join(&name), "unified")];
    }
    ["memory", "cpu"].into_iter().map(|controller| (root.join(controller).join(&name), controller)).collect()
}

/// What has to be written where.
fn settings(controller: &str, limits: &Limits) -> Vec<(&'static str, String)> {
    let quota = limits.cpu_millis.map(|millis| (millis * PERIOD_US / 1000).max(QUOTA_US_MIN));
    let memory = limits.memory_bytes.map(|bytes| bytes.to_string());
    let mut all = Vec::new();
    match controller {
        "unified" => {
            all.extend(quota.map(|quota| ("cpu.max", format!("{quota} {PERIOD_US}"))));
            all.extend(memory.map(|bytes| ("memory.max", bytes)));
        }
        "memory" => all.extend(memory.map(|bytes| ("memory.limit_in_bytes", bytes))),
        _ => {
            if let Some(quota) = quota {
                all.push(("cpu.cfs_period_us", PERIOD_US.to_string()));
                all.push(("cpu.cfs_quota_us", quota.to_string()));
            }
        }
    }
    all
}

/// Makes the groups, or says why the limits are not kept here. What could be made is made.
pub(super) fn make(dir: &AttemptDir, limits: &Limits) -> Result<(), String> {
    let no = |error: &io::Error| {
        format!("the limits of this step are not enforced: control groups cannot be used here ({error})")
    };
    for (place, controller) in places(dir) {
        let settings = settings(controller, limits);
        if settings.is_empty() {
            continue;
        }
        if controller == "unified" {
            // Controllers may be passed on already; if they cannot be, the files below are missing.
            let _ = fs::write(Path::new(ROOT).join("cgroup.subtree_control"), "+cpu +memory");
        }
        fs::create_dir_all(&place).map_err(|error| no(&error))?;
        for (file, value) in settings {
            fs::write(place.join(file), value).map_err(|error| no(&error))?;
        }
        if controller == "unified" && limits.memory_bytes.is_some() {
            // Otherwise memory goes to the swap instead of an end.
            let _ = fs::write(place.join("memory.swap.max"), "0");
        }
    }
    Ok(())
}

/// This process, and all that it starts, are in the groups of the attempt from now on.
pub(super) fn join(dir: &AttemptDir) -> io::Result<()> {
    for (place, _) in places(dir).into_iter().filter(|(place, _)| place.exists()) {
        fs::write(place.join("cgroup.procs"), "0")?;
    }
    Ok(())
}

/// Whether something in it was killed because of its memory.
pub(super) fn ran_out(dir: &AttemptDir) -> bool {
    places(dir).iter().any(|(place, _)| {
        ["memory.events", "memory.oom_control"].iter().any(|file| {
            let text = fs::read_to_string(place.join(file)).unwrap_or_default();
            text.lines().any(|line| line.strip_prefix("oom_kill ").is_some_and(|count| count.trim() != "0"))
        })
    })
}

pub(super) fn remove(dir: &AttemptDir) {
    for (place, _) in places(dir) {
        // Busy as long as a process is in it.
        let removed = super::tidy::retry(|| {
            fs::remove_dir(&place).or_else(crate::layout::gone).map_err(|error| error.to_string())
        });
        if let Err(why) = removed {
            eprintln!("slipway: the control group {} cannot be removed: {why}", place.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_become_what_the_kernel_reads() {
        let limits = Limits { cpu_millis: Some(1500), memory_bytes: Some(1 << 20) };
        let one = settings("unified", &limits);
        assert_eq!(one, [("cpu.max", "150000 100000".to_owned()), ("memory.max", "1048576".to_owned())]);
        assert_eq!(settings("memory", &limits), [("memory.limit_in_bytes", "1048576".to_owned())]);
        assert_eq!(settings("cpu", &limits)[1], ("cpu.cfs_quota_us", "150000".to_owned()));
        let little = Limits { cpu_millis: Some(1), memory_bytes: None };
        assert_eq!(settings("cpu", &little)[1].1, "1000", "the kernel takes no less");
    }
}
