//! `cf_export`: the script that steps call, and what they left for the steps after them.

use std::io::Read;
use std::path::Path;

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;

use crate::task::Export;
use crate::within::file_at;

const EXPORTS_FILE: &str = "env_vars_to_export";
/// Names of exports whose values must not be shown.
const MASKS_FILE: &str = "env_vars_to_mask";
const BYTES_MAX: u64 = 1 << 20;

/// POSIX sh, because that is all an image can be expected to have.
pub(crate) const SCRIPT: &str = r#"#!/bin/sh
# cf_export [--mask] NAME=VALUE ... | NAME ...
# Gives variables to the steps after this one.
volume="${CF_VOLUME_PATH:-/codefresh/volume}"
mask=
for argument in "$@"; do
  case "$argument" in
    --mask) mask=1 ;;
    -*) echo "cf_export: unknown option $argument" >&2; exit 1 ;;
    *)
      name="${argument%%=*}"
      case "$name" in
        ''|[0-9]*|*[!A-Za-z0-9_.-]*) echo "cf_export: $name is not a name" >&2; exit 1 ;;
      esac
      case "$argument" in
        *=*) value="${argument#*=}" ;;
        *)
          case "$name" in *[!A-Za-z0-9_]*) echo "cf_export: $name is not a name" >&2; exit 1 ;; esac
          eval "value=\"\${$name}\"" ;;
      esac
      if [ -n "$mask" ]; then printf '%s\n' "$name" >> "$volume/env_vars_to_mask"; fi
      printf '%s=%s\n' "$name" "$value" >> "$volume/env_vars_to_export" ;;
  esac
done
"#;

/// Takes the exports out of the volume, so that the next step starts with none.
pub(crate) fn take(volume: &Path) -> Vec<Export> {
    let masked = take_file(volume, MASKS_FILE);
    let masked: Vec<&str> = masked.lines().map(str::trim).collect();
    take_file(volume, EXPORTS_FILE)
        .lines()
        .filter_map(|line| {
            let (name, value) = line.strip_suffix('\r').unwrap_or(line).split_once('=')?;
            let name = name.trim();
            let name = name.strip_prefix("export ").unwrap_or(name).trim();
            (!name.is_empty()).then(|| Export {
                name: name.to_owned(),
                value: value.to_owned(),
                masked: masked.contains(&name),
            })
        })
        .collect()
}

/// A step may have put a link, a pipe or a device there: only a plain file is read.
fn take_file(volume: &Path, name: &str) -> String {
    let mut text = Vec::new();
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let file = nix::fcntl::open(volume, flags, Mode::empty()).map_err(std::io::Error::from);
    if let Ok(file) = file.and_then(|folder| file_at(&folder, name.as_ref())) {
        let _ = file.take(BYTES_MAX).read_to_end(&mut text);
    }
    let _ = std::fs::remove_file(volume.join(name));
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(volume: &Path, args: &[&str]) -> bool {
        let script = volume.join("script");
        std::fs::write(&script, SCRIPT).unwrap();
        let status = std::process::Command::new("sh")
            .arg(&script)
            .args(args)
            .env("CF_VOLUME_PATH", volume)
            .env("EXISTING", "it's \"quoted\" $x")
            .status()
            .unwrap();
        status.success()
    }

    #[test]
    fn what_a_step_exports_comes_out_once() {
        let volume = tempfile::tempdir().unwrap();
        assert!(export(volume.path(), &["A=1", "B=x=y z", "EXISTING"]));
        assert!(export(volume.path(), &["--mask", "TOKEN=s3cret"]));
        assert!(!export(volume.path(), &["a b=1"]) && !export(volume.path(), &["$(id)"]));
        let found: Vec<_> = take(volume.path()).into_iter().map(|e| (e.name, e.value, e.masked)).collect();
        let expected = [
            ("A", "1", false),
            ("B", "x=y z", false),
            ("EXISTING", "it's \"quoted\" $x", false),
            ("TOKEN", "s3cret", true),
        ];
        assert_eq!(found, expected.map(|(name, value, masked)| (name.into(), value.into(), masked)));
        assert!(take(volume.path()).is_empty());
    }

    #[test]
    fn a_link_in_place_of_the_exports_is_not_read() {
        let volume = tempfile::tempdir().unwrap();
        std::fs::write(volume.path().join("secret"), "A=1\n").unwrap();
        std::os::unix::fs::symlink("secret", volume.path().join(EXPORTS_FILE)).unwrap();
        assert!(take(volume.path()).is_empty());
    }
}
