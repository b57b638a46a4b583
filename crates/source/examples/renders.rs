//! What rendering costs: many charts and kustomizations, each once, as the engine does it.
//!
//! `cargo run -p slipway-source --example renders -- HELM-FOLDER KUSTOMIZE-FOLDER [COUNT]`. To compare two versions, run
//! both in turn on one machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use slipway_source::{
    Content, GitCache, GitOptions, Helm, HelmParameter, RenderLimits, RenderRequest, Renderer, Repository,
    Since, SourceOptions,
};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {word: x}\n";

#[tokio::main]
async fn main() {
    let mut words = std::env::args().skip(1);
    let tools: Vec<PathBuf> = words.by_ref().take(2).map(PathBuf::from).collect();
    let count: usize = words.next().and_then(|word| word.parse().ok()).unwrap_or(50);
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    write_repository(&work, count);
    let options = GitOptions { allow_local: true, ..GitOptions::default() };
    let git = Arc::new(GitCache::open(folder.path().join("mirrors"), options).expect("a cache"));
    let renderer =
        Renderer::new(git, folder.path().join("rendered"), RenderLimits::default()).expect("a renderer");
    let renderer = Arc::new(renderer.with_tools(tools));
    let repository = Repository::public(format!("file://{}", work.display()));
    let commit = renderer.git().resolve(&repository, "main", Since::now()).await.expect("resolved");
    for kind in ["helm", "kustomize"] {
        let request = |number: usize| RenderRequest {
            revision: commit.sha.clone(),
            content: Content::Git {
                repository: repository.clone(),
                commit: commit.clone(),
                submodules: Default::default(),
            },
            references: Default::default(),
            path: format!("{kind}/{number}"),
            options: match kind {
                "helm" => SourceOptions::Helm(Box::new(Helm {
                    parameters: vec![HelmParameter {
                        name: "a".into(),
                        value: "text".into(),
                        force_string: false,
                    }],
                    ..Helm::default()
                })),
                _ => SourceOptions::Detect,
            },
            application: format!("app-{number}"),
            project: "default".into(),
            repo_url: repository.url.clone(),
            target_revision: "main".into(),
            namespace: "demo".into(),
            kube_version: "1.34.0".into(),
            api_versions: Vec::new(),
            repositories: Default::default(),
            kustomize: Default::default(),
            lookup: None,
            fresh: false,
        };
        let mut times = Vec::new();
        for number in 0..count {
            let started = Instant::now();
            renderer.render(&request(number)).await.expect("rendered");
            times.push(started.elapsed());
        }
        let started = Instant::now();
        let tasks: Vec<_> = (count..2 * count)
            .map(|number| {
                let (renderer, request) = (renderer.clone(), request(number));
                tokio::spawn(async move { renderer.render(&request).await.map(drop) })
            })
            .collect();
        for task in tasks {
            task.await.expect("it ends").expect("rendered");
        }
        println!(
            "{kind:<10} {} one by one; {count} at once {:.2} s",
            told(times),
            started.elapsed().as_secs_f64()
        );
    }
}

fn told(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
    format!("p50 {:.1} ms, p95 {:.1} ms", at(50), at(95))
}

/// Twice as many as are rendered one by one, all different.
fn write_repository(work: &Path, count: usize) {
    let write = |path: String, text: String| {
        let path = work.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    for number in 0..2 * count {
        write(
            format!("helm/{number}/Chart.yaml"),
            format!("apiVersion: v2\nname: c{number}\nversion: 0.1.0\n"),
        );
        for template in 0..10 {
            write(
                format!("helm/{number}/templates/{template}.yaml"),
                MAP.replace("name: m", &format!("name: m{template}")),
            );
        }
        write(
            format!("kustomize/{number}/kustomization.yaml"),
            format!("namePrefix: k{number}-\nresources: [map.yaml]\n"),
        );
        write(format!("kustomize/{number}/map.yaml"), MAP.to_owned());
    }
    for arguments in [vec!["init", "-q", "-b", "main"], vec!["add", "-A"], vec!["commit", "-q", "-m", "x"]] {
        let status = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b"])
            .args(arguments)
            .current_dir(work)
            .status();
        assert!(status.expect("git runs").success());
    }
}
