//! What an image is built from, brought out of the volume before the builder looks at it.

use std::io;
use std::path::Path;

use super::supervise::Supervisor;
use crate::layout::{VOLUME, create_private_dir};
use crate::task::{Context, Recipe};
use crate::tree::Copy;
use crate::within::Volume;

const DOCKERFILE_BYTES_MAX: u64 = 1 << 20;
/// Read by builders before they look at anything else: a link would lead them to another file of the machine.
const RULES: [&str; 2] = [".dockerignore", ".containerignore"];

impl Supervisor {
    /// An error is a sentence for the log.
    pub(super) fn bring(&mut self, context: &Context) -> Result<(), String> {
        let volume = Volume::open(&self.task.volume).map_err(|error| error.to_string())?;
        let shown = format!("{VOLUME}/{}", context.from.display());
        let no = |error: io::Error| {
            format!(
                "the build context {shown} cannot be used: {error}. Clone the repository in an earlier step, or set working_directory"
            )
        };
        let from = volume.folder(&context.from).map_err(no)?;
        let text = match &context.dockerfile {
            Recipe::Content(text) => text.clone(),
            Recipe::Path(path) => volume
                .read(path, DOCKERFILE_BYTES_MAX)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|error| format!("there is no Dockerfile at {VOLUME}/{}: {error}", path.display()))?,
        };
        if context.names_only {
            crate::dockerfile::check(&text, &context.arguments)?;
        }
        let copied = (|| {
            let _ = std::fs::remove_dir_all(&context.to);
            create_private_dir(&context.to)?;
            let to = Volume::open(&context.to)?.folder(Path::new(""))?;
            let nothing = |_: &Path| false;
            Copy::new(None, &nothing, &mut || self.wanted().is_some()).all(&from, &to)?;
            for name in RULES.map(|name| context.to.join(name)) {
                if name.symlink_metadata().is_ok_and(|about| !about.is_file()) {
                    std::fs::remove_file(name)?;
                }
            }
            std::fs::write(&context.dockerfile_to, text)
        })();
        copied.map_err(no)
    }
}
