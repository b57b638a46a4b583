//! Power cuts without cutting the power: a file system in a file, whose backing file is copied while it is
//! mounted. What had not reached the "disk" by then is not in the copy.
//!
//! The file system commits its own journal every five minutes, so nothing gets there by luck: a file that was
//! not synced is lost. Needs root, a loop device and mkfs.ext4.

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Disk {
    folder: tempfile::TempDir,
    image: PathBuf,
    mounted: PathBuf,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot start {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {} (power cuts are simulated as root, with loop devices)",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are text")
}

impl Disk {
    pub fn new(megabytes: u64) -> Self {
        // In memory: a copy takes milliseconds, and no cache of the real disk is involved.
        let folder =
            tempfile::Builder::new().prefix("slipway-disk-").tempdir_in("/dev/shm").expect("/dev/shm");
        let image = folder.path().join("image");
        let file = std::fs::File::create(&image).expect("our own folder");
        file.set_len(megabytes << 20).expect("memory for the disk");
        run("mkfs.ext4", &["-q", "-F", text(&image)]);
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted).expect("our own folder");
        let disk = Self { folder, image, mounted };
        disk.mount();
        disk
    }

    fn mount(&self) {
        run("mount", &["-o", "loop,commit=300", text(&self.image), text(&self.mounted)]);
    }

    pub fn path(&self) -> &Path {
        &self.mounted
    }

    /// The power goes: what is there afterwards is what had been synced. Nobody may hold files on it any more.
    pub fn cut(&mut self) {
        let copy = self.folder.path().join("copy");
        run("cp", &["--sparse=always", text(&self.image), text(&copy)]);
        run("umount", &["--lazy", text(&self.mounted)]);
        std::fs::rename(&copy, &self.image).expect("our own folder");
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.mounted).status();
    }
}
