//! Where the pull request of a fork has its images: a store of its own that ends with the build.
//!
//! It reads the machine's store, so base images and layers of earlier builds are there; what it makes, tags or pulls goes
//! into a folder of the build. In one store for all it could call something `golang:1.25`, or leave a layer where the next
//! build of `main` looks for the result of the same line of a Dockerfile.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::engine::{self, Engine};
use crate::layout::{BuildDir, builds};

/// Where the machine's own images are, asked once.
#[derive(Default)]
pub(super) struct Stores {
    machine: OnceLock<Machine>,
}

struct Machine {
    root: String,
    driver: String,
}

impl Stores {
    /// Podman with the build's own store.
    pub(super) fn program(&self, engine: &Engine, dir: &BuildDir) -> io::Result<Vec<String>> {
        let machine = self.machine(engine)?;
        let mut program = engine.program.clone();
        program.extend([
            format!("--root={}", dir.images().display()),
            format!("--runroot={}", running(dir).display()),
            format!("--storage-driver={}", machine.driver),
            format!("--storage-opt=additionalimagestore={}", machine.root),
        ]);
        // Else the folder is a mount of its own, and stays when the build goes.
        program.extend(
            (machine.driver == "overlay").then(|| "--storage-opt=overlay.skip_mount_home=true".to_owned()),
        );
        crate::layout::create_private_dir(&dir.images())?;
        crate::layout::create_private_dir(&running(dir))?;
        Ok(program)
    }

    fn machine(&self, engine: &Engine) -> io::Result<&Machine> {
        if let Some(known) = self.machine.get() {
            return Ok(known);
        }
        let mut argv = engine.program.clone();
        argv.extend(["info", "--format={{.Store.GraphDriverName}} {{.Store.GraphRoot}}"].map(str::to_owned));
        let said = engine::run(&argv, Duration::from_secs(30)).map_err(io::Error::other)?;
        let (driver, root) = said
            .trim()
            .split_once(' ')
            .ok_or_else(|| io::Error::other(format!("{} does not say where its images are", engine.name)))?;
        Ok(self.machine.get_or_init(|| Machine { root: root.to_owned(), driver: driver.to_owned() }))
    }

    /// When nothing of the build runs any more.
    pub(super) fn remove(&self, dir: &BuildDir, remove: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
        for folder in [dir.images(), running(dir)] {
            if folder.exists() {
                remove(&folder)?;
            }
        }
        Ok(())
    }

    /// Builds that have one.
    pub(super) fn of_builds(&self, data: &Path) -> Vec<String> {
        let Ok(found) = std::fs::read_dir(builds(data)) else { return Vec::new() };
        found
            .flatten()
            .map(|entry| BuildDir(entry.path()))
            .filter(|dir| dir.images().exists())
            .filter_map(|dir| Some(dir.0.file_name()?.to_str()?.to_owned()))
            .collect()
    }
}

/// What is mounted, until the machine goes down. Podman takes no path of more than 50 bytes, so it is not in the build's
/// folder.
fn running(dir: &BuildDir) -> PathBuf {
    let base = if nix::unistd::geteuid().is_root() {
        Some(PathBuf::from("/run"))
    } else {
        std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
    };
    let name = hex::encode(&Sha256::digest(dir.0.as_os_str().as_encoded_bytes())[..8]);
    base.map_or_else(|| dir.0.join("images-run"), |base| base.join(format!("slipway-{name}")))
}
