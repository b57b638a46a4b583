//! `volumes` of steps and services: which folder of the build's volume is seen where.
//!
//! In: what somebody wrote, variables filled in. Out: a source below the volume, an absolute target, and whether it may
//! be written. There are no other options: what engines read behind a second colon (layers, labels, propagation) reaches
//! the machine, and a pipeline never does. The module knows no disk: whether the source is there, and is no link, is
//! seen by whoever opens it.

use std::fmt;
use std::path::{Component, Path, PathBuf};

/// Where the volume is for every step.
pub const VOLUME: &str = "/codefresh/volume";
/// Nothing is mounted over, in or around these: the runner's own files and the kernel's.
const RESERVED: [&str; 5] = ["/codefresh", "/proc", "/sys", "/dev", "/etc/hosts"];
/// What separates values in a flag of an engine, or in a list of such flags.
const SEPARATORS: [char; 4] = [',', '"', '\'', '\\'];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Below the volume, of plain names; empty for all of it.
    pub source: PathBuf,
    pub target: String,
    pub read_only: bool,
}

/// Why a volume cannot be mounted, for the person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeError(&'static str);

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for VolumeError {}

impl Volume {
    /// Takes `source:target`, `source:target:ro` and `source:target:rw`. `name` is what the whole volume of this build
    /// is called (`CF_VOLUME_NAME`).
    pub fn parse(written: &str, name: Option<&str>) -> Result<Self, VolumeError> {
        let parts: Vec<&str> = written.split(':').collect();
        let (source, target, read_only) = match parts.as_slice() {
            [source, target] | [source, target, "rw"] => (*source, *target, false),
            [source, target, "ro"] => (*source, *target, true),
            _ => {
                return Err(VolumeError(
                    "write `source:target` or `source:target:ro`: there are no other options",
                ));
            }
        };
        if written.chars().any(|c| c.is_control() || SEPARATORS.contains(&c)) {
            return Err(VolumeError(
                "it has a comma, a quote, a backslash or a control character in it: use plain paths",
            ));
        }
        let source = if name == Some(source) { PathBuf::new() } else { below_volume(source)? };
        let target = in_container(target)?;
        if target == VOLUME && !source.as_os_str().is_empty() {
            return Err(VolumeError("only the whole volume can be mounted at /codefresh/volume"));
        }
        Ok(Self { source, target, read_only })
    }

    /// The whole volume where it is anyway.
    pub fn is_the_volume_itself(&self) -> bool {
        self.source.as_os_str().is_empty() && self.target == VOLUME
    }
}

fn below_volume(source: &str) -> Result<PathBuf, VolumeError> {
    const OUTSIDE: VolumeError = VolumeError(
        "the source is a path below the volume: relative, or below /codefresh/volume, without `..`",
    );
    if source.is_empty() {
        return Err(VolumeError("the source is empty: name a folder of the volume, or `.` for all of it"));
    }
    let path = Path::new(source);
    let relative = if path.is_absolute() { path.strip_prefix(VOLUME).map_err(|_| OUTSIDE)? } else { path };
    plain(relative).ok_or(OUTSIDE)
}

fn in_container(target: &str) -> Result<String, VolumeError> {
    let path = Path::new(target);
    let names = path.strip_prefix("/").ok().and_then(plain).filter(|names| !names.as_os_str().is_empty());
    let names = names
        .ok_or(VolumeError("the target is an absolute path in the container, without `..`, and not `/`"))?;
    let whole = Path::new("/").join(names);
    if whole == Path::new(VOLUME) {
        return Ok(VOLUME.to_owned());
    }
    if RESERVED.iter().any(|reserved| whole.starts_with(reserved) || Path::new(reserved).starts_with(&whole))
    {
        return Err(VolumeError(
            "the target is not yours: nothing is mounted over /codefresh, /proc, /sys, /dev or /etc/hosts",
        ));
    }
    Ok(whole.to_string_lossy().into_owned())
}

/// The path without `.`; nothing if there is anything but names in it.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_is_a_source_a_target_and_whether_it_is_written() {
        let volume = |source: &str, target: &str, read_only| Volume {
            source: source.into(),
            target: target.into(),
            read_only,
        };
        for (written, expected) in [
            ("x:/m", volume("x", "/m", false)),
            ("./marks:/marks", volume("marks", "/marks", false)),
            ("a/b/:/m/n/:ro", volume("a/b", "/m/n", true)),
            ("a:/m:rw", volume("a", "/m", false)),
            ("/codefresh/volume/.m2:/root/.m2", volume(".m2", "/root/.m2", false)),
            (".:/all", volume("", "/all", false)),
            ("slipway-7:/codefresh/volume", volume("", VOLUME, false)),
        ] {
            assert_eq!(Volume::parse(written, Some("slipway-7")), Ok(expected), "{written}");
        }
    }

    #[test]
    fn nothing_else_is_a_volume() {
        for written in [
            "",
            ":",
            "x",
            "x:",
            ":/m",
            "x:m",
            "x:/",
            "x:/.",
            "x://",
            "x:/../m",
            "x:/m/../..",
            "../x:/m",
            "a/../../x:/m",
            "/etc:/m",
            "/codefresh/volumes:/m",
            "/codefresh/volume/../x:/m",
            "x:/m:z",
            "x:/m:",
            "x:/m:ro,z",
            "x:/m:ro:rw",
            "x:/m:O,upperdir=/etc,workdir=/var/tmp",
            "x:/m:O",
            "x:/m:U",
            "x:/m:shared",
            "x:/m,readonly=false",
            "x,src=/etc:/m",
            "x\"y:/m",
            "x:/m\n",
            "x\0:/m",
            "x:/proc",
            "x:/proc/self",
            "x:/sys/fs",
            "x:/dev/shm",
            "x:/codefresh",
            "x:/codefresh/bin",
            "x:/codefresh/bin/script",
            "x:/codefresh/volume",
            "x:/codefresh/volume/y",
            "x:/etc/hosts",
            "x:/etc",
            "slipway-8:/codefresh/volume/../bin",
        ] {
            assert!(Volume::parse(written, Some("slipway-7")).is_err(), "{written:?}");
        }
    }
}
