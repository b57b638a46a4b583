//! The demo's base image, made on this machine from its busybox: nothing is downloaded.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

pub(crate) const DEMO_BASE: &str = "localhost/slipway/demo-base:1";
const PAGE: &str =
    "<!doctype html><title>demo</title><h1>Nothing shipped yet</h1><p>Push to demo-app and look again.</p>\n";

/// Makes the image unless it is there. Without an engine or busybox it says so, and the demo's builds will too.
pub(crate) async fn ensure_demo_base() {
    for engine in ["podman", "docker"] {
        if !works(engine).await {
            continue;
        }
        match make(engine).await {
            Ok(()) => return,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), engine, "Cannot build the demo's base image.")
            }
        }
    }
}

async fn works(engine: &str) -> bool {
    quiet(engine, &["version"]).await
}

async fn quiet(engine: &str, arguments: &[&str]) -> bool {
    let status = Command::new(engine)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.await.is_ok_and(|status| status.success())
}

async fn make(engine: &str) -> anyhow::Result<()> {
    if quiet(engine, &["image", "inspect", DEMO_BASE]).await {
        return Ok(());
    }
    let tree = tokio::task::spawn_blocking(tree).await??;
    let command = r#"CMD ["/bin/httpd", "-f", "-p", "8080", "-h", "/www"]"#;
    let mut child = Command::new(engine)
        .args(["import", "--change", command, "--change", "ENV PATH=/bin", "-", DEMO_BASE])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("stdin is piped")?.write_all(&tree).await?;
    let output = child.wait_with_output().await?;
    if !output.status.success() {
        bail!("{engine} import failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    tracing::info!(image = DEMO_BASE, engine, "Built the demo's base image from this machine's busybox.");
    Ok(())
}

/// A root file system of one static busybox with a link for each of its programs.
fn tree() -> anyhow::Result<Vec<u8>> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.exists())
        .context("no busybox on this machine: install it (apt-get install busybox-static)")?;
    let listed =
        std::process::Command::new(busybox).arg("--list").output().context("busybox does not run")?;
    let mut archive = tar::Builder::new(Vec::new());
    for folder in ["bin/", "etc/", "tmp/", "proc/", "sys/", "dev/", "www/", "root/"] {
        let mode = if folder == "tmp/" { 0o1777 } else { 0o755 };
        entry(&mut archive, folder, tar::EntryType::Directory, mode, &[])?;
    }
    entry(&mut archive, "bin/busybox", tar::EntryType::Regular, 0o755, &std::fs::read(busybox)?)?;
    for program in
        String::from_utf8(listed.stdout)?.lines().filter(|name| *name != "busybox" && !name.contains('/'))
    {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        header.set_mode(0o777);
        archive.append_link(&mut header, format!("bin/{program}"), "/bin/busybox")?;
    }
    entry(&mut archive, "etc/passwd", tar::EntryType::Regular, 0o644, b"root:x:0:0:root:/root:/bin/sh\n")?;
    entry(&mut archive, "etc/group", tar::EntryType::Regular, 0o644, b"root:x:0:\n")?;
    entry(&mut archive, "www/index.html", tar::EntryType::Regular, 0o644, PAGE.as_bytes())?;
    Ok(archive.into_inner()?)
}

fn entry(
    archive: &mut tar::Builder<Vec<u8>>,
    path: &str,
    kind: tar::EntryType,
    mode: u32,
    bytes: &[u8],
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    archive.append_data(&mut header, path, bytes)
}
