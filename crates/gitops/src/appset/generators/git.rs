//! The git generator: a folder or a file is a parameter set.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use slipway_template::{Data, normalize};

use super::simple::json_params;
use super::{Failure, Outcome, World, text};
use crate::appset::needs::{Answer, Need};
use crate::appset::params::{Params, flatten};
use slipway_dialect::glob;

/// One entry of `directories` or `files`.
struct Pattern<'v> {
    path: &'v str,
    exclude: bool,
}

fn patterns(list: &Value) -> Vec<Pattern<'_>> {
    let entries = list.as_array().into_iter().flatten();
    entries
        .map(|entry| Pattern {
            path: text(entry, "path"),
            exclude: entry["exclude"].as_bool().unwrap_or(false),
        })
        .collect()
}

fn chosen(patterns: &[Pattern<'_>], matches: impl Fn(&str) -> bool) -> bool {
    let any = |exclude: bool| patterns.iter().any(|p| p.exclude == exclude && matches(p.path));
    any(false) && !any(true)
}

impl World<'_> {
    pub(super) fn git(&self, block: &Value) -> Outcome<Vec<Params>> {
        let (directories, files) = (patterns(&block["directories"]), patterns(&block["files"]));
        if directories.is_empty() && files.is_empty() {
            return Err(Failure::Problem(
                "git needs directories or files; name the paths that become Applications".into(),
            ));
        }
        let repo_url = text(block, "repoURL").to_owned();
        let revision =
            Some(text(block, "revision")).filter(|text| !text.is_empty()).unwrap_or("HEAD").to_owned();
        let Answer::Tree { commit, paths } =
            self.ask(Need::GitTree { repo_url: repo_url.clone(), revision }).map_err(named("directories"))?
        else {
            return Err(Failure::Problem("the answer to a git generator is not a tree".into()));
        };
        let prefix = text(block, "pathParamPrefix");
        if !directories.is_empty() {
            let mut all = Vec::new();
            for folder in folders(paths) {
                if chosen(&directories, |pattern| matches_segments(pattern, &folder)) {
                    let mut params = self.path_params(Params::new(), prefix, &folder, None);
                    self.filler.add_values(&block["values"], &mut params)?;
                    all.push(params);
                }
            }
            return Ok(all);
        }
        let wanted: Vec<String> = paths
            .iter()
            .filter(|path| chosen(&files, |pattern| matches_file(pattern, path)))
            .cloned()
            .collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let need = Need::GitFiles { repo_url: repo_url.clone(), commit: commit.clone(), paths: wanted };
        let Answer::Files(contents) = self.ask(need).map_err(named("files"))? else {
            return Err(Failure::Problem("the answer to a git generator is not a set of files".into()));
        };
        let mut all = Vec::new();
        for (path, content) in contents {
            let objects = objects(content).map_err(|error| {
                format!("unable to process file '{path}' from repository '{repo_url}': {error}")
            })?;
            for object in objects {
                let mut params = if self.filler.go {
                    json_params(&object)
                } else {
                    flatten(&Value::Object(object)).into_iter().map(|(k, v)| (k, v.into())).collect()
                };
                let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
                params = self.path_params(params, prefix, folder, Some(file));
                self.filler.add_values(&block["values"], &mut params)?;
                all.push(params);
            }
        }
        Ok(all)
    }

    /// Where it is: `path`, or `<prefix>.path`.
    fn path_params(&self, mut params: Params, prefix: &str, folder: &str, file: Option<&str>) -> Params {
        let basename = folder.rsplit('/').next().unwrap_or(folder);
        let mut facts: BTreeMap<&str, String> =
            BTreeMap::from([("basename", basename.to_owned()), ("basenameNormalized", normalize(basename))]);
        if let Some(file) = file {
            facts.insert("filename", file.to_owned());
            facts.insert("filenameNormalized", normalize(file));
        }
        let segments = folder.split('/');
        if self.filler.go {
            let mut path: Params = facts.into_iter().map(|(k, v)| (k.to_owned(), v.into())).collect();
            path.insert("path".into(), folder.into());
            path.insert("segments".into(), Data::Strings(segments.map(str::to_owned).collect()));
            let path = Data::Map(path);
            if prefix.is_empty() {
                params.insert("path".into(), path);
            } else {
                params.insert(prefix.to_owned(), Data::Map(BTreeMap::from([("path".into(), path)])));
            }
        } else {
            let name = if prefix.is_empty() { "path".to_owned() } else { format!("{prefix}.path") };
            params.insert(name.clone(), folder.into());
            params.extend(facts.into_iter().map(|(key, value)| (format!("{name}.{key}"), value.into())));
            for (index, segment) in segments.enumerate().filter(|(_, segment)| !segment.is_empty()) {
                params.insert(format!("{name}[{index}]"), segment.into());
            }
        }
        params
    }
}

fn named(what: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| match failure {
        Failure::Problem(message) => Failure::Problem(format!(
            "error generating params from git: error getting {what} from repo: {message}"
        )),
        waiting => waiting,
    }
}

/// Every folder that holds something, without hidden ones.
fn folders(paths: &[String]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for path in paths {
        for (at, _) in path.match_indices('/') {
            let folder = &path[..at];
            if folder.rsplit('/').next().is_some_and(|name| name.starts_with('.')) {
                break;
            }
            all.insert(folder.to_owned());
        }
    }
    all
}

/// Go's path.Match: a star stays within its segment.
fn matches_segments(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    pattern.len() == path.len()
        && pattern.iter().zip(&path).all(|(pattern, part)| glob::matches(pattern, part))
}

/// A git pathspec: a star crosses folders, and a folder's name stands for all in it.
fn matches_file(pattern: &str, path: &str) -> bool {
    let plain = pattern.trim_end_matches('/');
    // `**/` may stand for no folder at all.
    glob::matches(pattern, path)
        || (pattern.contains("**/") && glob::matches(&pattern.replace("**/", ""), path))
        || path.strip_prefix(plain).is_some_and(|rest| rest.starts_with('/'))
}

/// A file holds one object or a list of them.
fn objects(content: &str) -> Result<Vec<Map<String, Value>>, String> {
    let documents = slipway_yaml::load_all_json(content).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        format!("unable to parse file: {}", all.join("; "))
    })?;
    let wrong = || "unable to parse file: it must hold an object, or a list of objects".to_owned();
    match documents.into_iter().next().map(|(value, _)| value) {
        None => Ok(vec![Map::new()]),
        Some(Value::Object(object)) => Ok(vec![object]),
        Some(Value::Array(items)) => items
            .into_iter()
            .map(|item| match item {
                Value::Object(object) => Ok(object),
                _ => Err(wrong()),
            })
            .collect(),
        Some(_) => Err(wrong()),
    }
}
