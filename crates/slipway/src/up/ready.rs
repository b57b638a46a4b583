//! What `up` says when it is ready.

use std::io::{IsTerminal, Write};
use std::path::Path;

use serde_json::json;
use slipway_server::bootstrap::FirstAdministrator;

use super::Output;
use super::existing::Existing;
use crate::cli::context;

#[expect(clippy::too_many_arguments, reason = "what is said, part by part")]
pub(super) fn announce(
    output: Output,
    url: &str,
    first: Option<&FirstAdministrator>,
    data: &Path,
    kubeconfig: &Path,
    cluster: &str,
    existing: Option<&Existing>,
    demo: bool,
) -> anyhow::Result<()> {
    let saved = context::keep(url, data, first.map(|first| first.api_key.expose().as_str()));
    let mut out = std::io::stdout().lock();
    if output == Output::Json {
        let line = json!({
            "url": url,
            "adminEmail": first.map(|first| &first.email),
            "adminPassword": first.and_then(|first| first.password.as_ref()).map(|password| password.expose()),
            "apiKey": first.map(|first| first.api_key.expose()),
            "kubeconfig": kubeconfig,
            "context": existing.map(|existing| &existing.chosen.context.name),
            "namespace": existing.map_or("argocd", |existing| &existing.namespace),
        });
        writeln!(out, "{line}")?;
        return Ok(out.flush()?);
    }
    let bold = |text: &str| {
        let fancy = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        if fancy { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    };
    writeln!(out, "\n  {} is ready at {}\n", bold("Slipway"), bold(url))?;
    if let Some(first) = first {
        writeln!(out, "  Sign in     {}", first.email)?;
        if let Some(password) = &first.password {
            writeln!(out, "  Password    {}", bold(password.expose()))?;
        }
        writeln!(out, "  API key     {}", first.api_key.expose())?;
        writeln!(out, "              (shown now and never again)")?;
    } else {
        writeln!(out, "  Sign in     with the credentials that the first start printed")?;
    }
    writeln!(out, "  Cluster     {cluster}")?;
    match existing {
        Some(existing) => {
            writeln!(out, "              Applications are in namespace {}", existing.namespace)?
        }
        None => writeln!(out, "              export KUBECONFIG={}", kubeconfig.display())?,
    }
    match saved {
        Ok(context::Kept::InUse(name)) => writeln!(out, "  CLI         uses this platform (context {name})")?,
        Ok(context::Kept::Beside { own, used }) => {
            writeln!(
                out,
                "  CLI         still uses context {used}; for this platform: {} auth use-context {own}",
                this_program()
            )?;
        }
        Ok(context::Kept::Unknown) => {
            writeln!(out, "  CLI         {} auth login --url {url} --email EMAIL", this_program())?;
        }
        Err(error) => writeln!(
            out,
            "  CLI         set SLIPWAY_URL and SLIPWAY_API_KEY (the context could not be saved: {error:#})"
        )?,
    }
    if demo {
        let with_key = first.map_or_else(
            || url.to_owned(),
            |first| url.replacen("://", &format!("://me:{}@", first.api_key.expose()), 1),
        );
        writeln!(out, "\n  Try it      git clone {with_key}/git/demo/demo-app.git")?;
        writeln!(
            out,
            "              edit www/index.html, commit, git push; then: {} logs -f",
            this_program()
        )?;
    }
    if existing.is_some() {
        writeln!(
            out,
            "\n  The demo is left out: its pods run images of this machine, which this cluster cannot pull."
        )?;
        writeln!(
            out,
            "  Ctrl-C stops it; the next start continues where it left off. `{} down --remove`",
            this_program()
        )?;
        writeln!(out, "  takes out of the cluster what was put there; what was deployed stays.\n")?;
        return Ok(out.flush()?);
    }
    writeln!(
        out,
        "\n  Ctrl-C stops it; the next start continues where it left off. Pods keep running meanwhile:"
    )?;
    writeln!(out, "  `{} down` removes their containers.\n", this_program())?;
    Ok(out.flush()?)
}

/// How a person calls this program: by its name where the shell would find this very file, else by its path.
fn this_program() -> String {
    let Ok(own) = std::env::current_exe() else { return "slipway".to_owned() };
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join("slipway")).find(|file| file.is_file());
    if found.and_then(|file| file.canonicalize().ok()).as_deref() == Some(own.as_path()) {
        return "slipway".to_owned();
    }
    let here = std::env::current_dir().unwrap_or_default();
    own.strip_prefix(&here).unwrap_or(&own).display().to_string()
}
