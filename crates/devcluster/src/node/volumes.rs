//! Volumes of a pod as folders on this machine.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::config;
use crate::api::Cluster;
use crate::value::{Json as _, base64_decode};

/// Files of a volume by relative path.
type Files = BTreeMap<String, (Vec<u8>, u32)>;

/// Prepares every volume. The error is what `FailedMount` says; the pod waits until it can be done.
pub(super) fn prepare(
    cluster: &Cluster,
    pod: &Value,
    folder: &Path,
) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut paths = BTreeMap::new();
    for volume in pod.list_at("spec.volumes") {
        let name = volume.str_at("name");
        let own = folder.join("volumes").join(name);
        let path = one(cluster, pod, volume, own)
            .map_err(|why| format!("MountVolume.SetUp failed for volume \"{name}\" : {why}"))?;
        paths.insert(name.to_owned(), path);
    }
    Ok(paths)
}

fn one(cluster: &Cluster, pod: &Value, volume: &Value, own: PathBuf) -> Result<PathBuf, String> {
    if volume.get("emptyDir").is_some() {
        make_folder(&own, 0o777)?;
        share_with_group(pod, &own);
        return Ok(own);
    }
    if let Some(host) = volume.get("hostPath") {
        return host_path(host);
    }
    if let Some(claim) = volume.get("persistentVolumeClaim") {
        let path = claimed(cluster, pod.namespace(), claim.str_at("claimName"))?;
        share_with_group(pod, &path);
        return Ok(path);
    }
    let files = match files_of(cluster, pod, volume)? {
        Some(files) => files,
        None => {
            let kinds: Vec<&str> = volume
                .as_object()
                .into_iter()
                .flatten()
                .map(|(k, _)| k.as_str())
                .filter(|k| *k != "name")
                .collect();
            return Err(format!(
                "volumes of type {} are not supported by the embedded cluster",
                kinds.join(", ")
            ));
        }
    };
    make_folder(&own, 0o755)?;
    write_files(&own, &files).map_err(|e| format!("{} cannot be written: {e}", own.display()))?;
    Ok(own)
}

fn make_folder(path: &Path, mode: u32) -> Result<(), String> {
    let fail = |e: std::io::Error| format!("{} cannot be made: {e}", path.display());
    if !path.exists() {
        open_folders(path).map_err(fail)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(fail)?;
    }
    Ok(())
}

/// Folders that a container's user may walk through, whatever this process lets others do with what it makes.
pub(crate) fn open_folders(path: &Path) -> std::io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        open_folders(parent)?;
    }
    match std::fs::create_dir(path) {
        Ok(()) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// `fsGroup`: the group owns the folder and what is made in it.
fn share_with_group(pod: &Value, path: &Path) {
    let Some(group) = pod.int_at("spec.securityContext.fsGroup") else { return };
    if std::os::unix::fs::chown(path, None, Some(group as u32)).is_ok() {
        let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o2777));
    }
}

fn host_path(host: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(host.str_at("path"));
    let wrong = |what: &str| Err(format!("hostPath type check failed: {} is not {what}", path.display()));
    match host.str_at("type") {
        "DirectoryOrCreate" => make_folder(&path, 0o755)?,
        "FileOrCreate" if !path.exists() => {
            let _ = std::fs::write(&path, "")
                .and_then(|()| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)));
        }
        "Directory" if !path.is_dir() => return wrong("a directory"),
        "File" if !path.is_file() => return wrong("a file"),
        "" if !path.exists() => make_folder(&path, 0o755)?,
        _ => {}
    }
    Ok(path)
}

fn claimed(cluster: &Cluster, namespace: &str, name: &str) -> Result<PathBuf, String> {
    let Some(claim) = cluster.get("persistentvolumeclaims", namespace, name) else {
        return Err(format!("persistentvolumeclaim \"{name}\" not found"));
    };
    if claim.str_at("status.phase") != "Bound" {
        return Err(format!("persistentvolumeclaim \"{name}\" is not bound yet"));
    }
    let volume = cluster.get("persistentvolumes", "", claim.str_at("spec.volumeName")).unwrap_or_default();
    let path =
        ["spec.hostPath.path", "spec.local.path"].iter().map(|p| volume.str_at(p)).find(|p| !p.is_empty());
    let Some(path) = path else {
        return Err(format!("volume \"{}\" is neither hostPath nor local", volume.name()));
    };
    make_folder(Path::new(path), 0o777)?;
    Ok(PathBuf::from(path))
}

fn files_of(cluster: &Cluster, pod: &Value, volume: &Value) -> Result<Option<Files>, String> {
    let mut files = Files::new();
    for (field, name_field) in [("configMap", "name"), ("secret", "secretName")] {
        if let Some(source) = volume.get(field) {
            let mode = source.int_at("defaultMode").unwrap_or(0o644) as u32;
            from_object(
                cluster,
                pod.namespace(),
                field,
                source.str_at(name_field),
                source,
                mode,
                &mut files,
            )?;
            return Ok(Some(files));
        }
    }
    if let Some(source) = volume.get("downwardAPI") {
        downward(pod, source, source.int_at("defaultMode").unwrap_or(0o644) as u32, &mut files);
        return Ok(Some(files));
    }
    let Some(projected) = volume.get("projected") else { return Ok(None) };
    let mode = projected.int_at("defaultMode").unwrap_or(0o644) as u32;
    for source in projected.list_at("sources") {
        for field in ["configMap", "secret"] {
            if let Some(inner) = source.get(field) {
                from_object(cluster, pod.namespace(), field, inner.str_at("name"), inner, mode, &mut files)?;
            }
        }
        if let Some(inner) = source.get("downwardAPI") {
            downward(pod, inner, mode, &mut files);
        }
        if let Some(inner) = source.get("serviceAccountToken") {
            files.insert(inner.str_at("path").to_owned(), (token(cluster, pod, inner)?, mode));
        }
    }
    Ok(Some(files))
}

fn token(cluster: &Cluster, pod: &Value, source: &Value) -> Result<Vec<u8>, String> {
    let account = pod.str_at("spec.serviceAccountName");
    let Some(object) = cluster.get("serviceaccounts", pod.namespace(), account) else {
        return Err(format!("serviceaccount \"{account}\" not found"));
    };
    let audiences: Vec<Value> = source.get("audience").cloned().into_iter().collect();
    // The file is written once and not refreshed, so the token lives as long as a pod reasonably does.
    let seconds = source.int_at("expirationSeconds").unwrap_or(3600).max(86_400 * 365);
    let mut claims = crate::auth::claims(pod.namespace(), account, object.uid(), &audiences, seconds);
    claims["kubernetes.io"]["pod"] = json!({"name": pod.name(), "uid": pod.uid()});
    // Stable per pod: otherwise every look at the pod would rewrite the file.
    for field in ["iat", "nbf"] {
        let made =
            crate::value::parse_time(pod.str_at("metadata.creationTimestamp")).map_or(0, |t| t.as_second());
        claims[field] = json!(made);
        claims["exp"] = json!(made + seconds);
    }
    claims["jti"] = json!(pod.uid());
    Ok(cluster.tokens.issue(&claims).into_bytes())
}

fn from_object(
    cluster: &Cluster,
    namespace: &str,
    kind: &str,
    name: &str,
    source: &Value,
    mode: u32,
    files: &mut Files,
) -> Result<(), String> {
    let storage = if kind == "secret" { "secrets" } else { "configmaps" };
    let Some(object) = cluster.get(storage, namespace, name) else {
        return if source.bool_at("optional") {
            Ok(())
        } else {
            Err(format!("{} \"{name}\" not found", kind.to_lowercase()))
        };
    };
    let mut data: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (key, value) in object.map_at("data").into_iter().flatten() {
        let text = value.as_str().unwrap_or("");
        data.insert(
            key.clone(),
            if kind == "secret" { base64_decode(text).unwrap_or_default() } else { text.as_bytes().to_vec() },
        );
    }
    for (key, value) in object.map_at("binaryData").into_iter().flatten() {
        data.insert(key.clone(), base64_decode(value.as_str().unwrap_or("")).unwrap_or_default());
    }
    let items = source.list_at("items");
    if items.is_empty() {
        files.extend(data.into_iter().map(|(key, value)| (key, (value, mode))));
        return Ok(());
    }
    for item in items {
        let key = item.str_at("key");
        match data.get(key) {
            Some(value) => drop(files.insert(
                item.str_at("path").to_owned(),
                (value.clone(), item.int_at("mode").map_or(mode, |m| m as u32)),
            )),
            None if source.bool_at("optional") => {}
            None => return Err(format!("references non-existent {} key: {key}", kind.to_lowercase())),
        }
    }
    Ok(())
}

fn downward(pod: &Value, source: &Value, mode: u32, files: &mut Files) {
    for item in source.list_at("items") {
        let text = match item.get("resourceFieldRef") {
            Some(reference) => config::resource_field(pod, &Value::Null, reference),
            None => config::field(pod, item.str_at("fieldRef.fieldPath")),
        };
        files.insert(item.str_at("path").to_owned(), (text.into_bytes(), mode));
    }
}

/// Kubernetes' way of changing all files at once: they are links into `..data`, which is a link that is swapped.
fn write_files(folder: &Path, files: &Files) -> std::io::Result<()> {
    let digest = crate::value::hash(
        &json!(
            files.iter().map(|(k, (v, m))| json!([k, crate::value::base64_encode(v), m])).collect::<Vec<_>>()
        ),
        0,
    );
    let version = format!("..v{digest:08x}");
    let current = std::fs::read_link(folder.join("..data")).ok();
    if current.as_deref() == Some(Path::new(&version)) {
        return Ok(());
    }
    let target = folder.join(&version);
    for (path, (content, mode)) in files {
        let file = target.join(path);
        if let Some(parent) = file.parent() {
            open_folders(parent)?;
        }
        std::fs::write(&file, content)?;
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(*mode))?;
    }
    open_folders(&target)?;
    let beside = folder.join("..data_tmp");
    let _ = std::fs::remove_file(&beside);
    symlink(&version, &beside)?;
    std::fs::rename(&beside, folder.join("..data"))?;
    let tops: std::collections::BTreeSet<&str> =
        files.keys().filter_map(|path| path.split('/').next()).collect();
    for top in &tops {
        let link = folder.join(top);
        if std::fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(top), link)?;
        }
    }
    for entry in std::fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("..v") && name != version {
            let _ = std::fs::remove_dir_all(entry.path());
        } else if !name.starts_with("..") && !tops.contains(name.as_str()) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}
