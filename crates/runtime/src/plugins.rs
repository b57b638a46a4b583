//! The config-management plugins that the operator installed: every `*.yaml` in a folder, or in a folder of it.

use std::path::{Path, PathBuf};

use slipway_source::PluginSpec;

#[derive(Debug, thiserror::Error)]
pub enum PluginsError {
    #[error("cannot read {file}; check that it is there and readable")]
    Unreadable { file: String, source: std::io::Error },
    #[error("{file} is no config-management plugin: {problem}")]
    Invalid { file: String, problem: String },
}

pub(crate) fn read(folder: Option<&Path>) -> Result<Vec<PluginSpec>, PluginsError> {
    let Some(folder) = folder else { return Ok(Vec::new()) };
    let mut files = Vec::new();
    for entry in list(folder)? {
        if entry.is_dir() {
            files.extend(list(&entry)?);
        } else {
            files.push(entry);
        }
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml"));
    files.sort();
    let mut plugins = Vec::new();
    for file in files {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(&file)
            .map_err(|source| PluginsError::Unreadable { file: name.clone(), source })?;
        let spec =
            PluginSpec::parse(&text).map_err(|problem| PluginsError::Invalid { file: name, problem })?;
        plugins.push(spec);
    }
    Ok(plugins)
}

fn list(folder: &Path) -> Result<Vec<PathBuf>, PluginsError> {
    let failed = |source| PluginsError::Unreadable { file: folder.display().to_string(), source };
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}
