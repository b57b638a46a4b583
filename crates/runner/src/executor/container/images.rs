//! Image steps: the engine builds, tags and pushes; what it builds from is copied out of the volume before.

use std::collections::BTreeMap;
use std::path::PathBuf;

use slipway_pipeline::StepSpec;
use slipway_pipeline::spec::{Build, Push, PushTag};

use super::super::layers::{self, Builder};
use super::super::names::{qualified, split_tag};
use super::super::{Place, Refusal, reach, registries, secrets, task};
use super::Container;
use crate::layout::create_private;
use crate::task::{Members, Run, Task};

impl Container {
    pub(super) fn build(&self, step: &StepSpec, spec: &Build, place: &Place<'_>) -> Result<Task, Refusal> {
        let (context, directory) = reach::context(step, spec, place, self.podman())?;
        let registry = spec.registry.as_deref().filter(|_| !spec.disable_push);
        let name = qualified(&spec.image_name, registry);
        reach::images(step, spec.tags.iter().map(|tag| format!("{name}:{tag}")))?;
        let mut argv = self.command_of(place, &["build"])?;
        argv.extend(self.login_flag(place)?);
        argv.extend(self.engine.build_flags.iter().cloned());
        argv.push(format!("--file={}", context.dockerfile_to.display()));
        argv.push(format!("--iidfile={}", place.at.image_id().display()));
        argv.extend(spec.tags.iter().map(|tag| format!("--tag={name}:{tag}")));
        let (arguments, environment) = reach::arguments(spec, place)?;
        argv.extend(arguments);
        argv.extend(secrets::flags(step, spec, place)?);
        argv.extend(spec.target.iter().map(|target| format!("--target={target}")));
        argv.extend(spec.platform.iter().map(|platform| format!("--platform={platform}")));
        argv.extend(layers::flags(
            spec,
            place,
            if self.podman() { Builder::Buildah } else { Builder::Docker },
        ));
        argv.extend((spec.squash && self.podman()).then(|| "--squash".to_owned()));
        // Else the engine gives its own to what it runs.
        argv.extend(self.podman().then(|| "--http-proxy=false".to_owned()));
        argv.push("--".to_owned());
        argv.push(context.to.display().to_string());
        let mut commands = vec![argv];
        if registry.is_some() {
            for tag in &spec.tags {
                commands.push(self.push_command(place, &format!("{name}:{tag}"))?);
            }
        }
        let tag = spec.tags.first().cloned().unwrap_or_else(|| "latest".to_owned());
        let mut members = Members::default();
        members.fixed.insert("imageName".to_owned(), name.clone());
        members.fixed.insert("imageTagName".to_owned(), tag.clone());
        members.from_files.insert("imageId".to_owned(), place.at.image_id());
        let intro = vec![format!("Building image {name}:{tag} from {directory} by {}", self.engine.name)];
        let run = Run::Engine { commands, members, environment, context: Some(context) };
        Ok(task(step, place, intro, run))
    }

    pub(super) fn push(&self, step: &StepSpec, spec: &Push, place: &Place<'_>) -> Result<Task, Refusal> {
        let registry = spec.registry.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
            Refusal::Unsupported(format!("step `{}` needs `registry`: the host to push to", step.name))
        })?;
        let (_, candidate_tag) = split_tag(&spec.candidate);
        let short =
            spec.image_name.as_deref().unwrap_or_else(|| registries::short_name(&spec.candidate, place));
        let name = qualified(short, Some(registry));
        let tags = if spec.tags.is_empty() {
            vec![candidate_tag.unwrap_or("latest").to_owned()]
        } else {
            spec.tags.clone()
        };
        let all = tags.iter().map(|tag| format!("{name}:{tag}"));
        reach::images(step, all.chain([spec.candidate.clone()]))?;
        let mut commands = Vec::new();
        for tag in &tags {
            commands.push(self.command_of(place, &["tag", &spec.candidate, &format!("{name}:{tag}")])?);
            commands.push(self.push_command(place, &format!("{name}:{tag}"))?);
        }
        let mut members = Members::default();
        members.fixed.insert("registry".to_owned(), registry.to_owned());
        members.fixed.insert("imageName".to_owned(), name.clone());
        members.fixed.insert("imageTagName".to_owned(), tags[0].clone());
        let intro = vec![format!("Pushing {} to {name}", spec.candidate)];
        Ok(task(step, place, intro, engine_run(commands, members)))
    }

    pub(super) fn push_tag(
        &self,
        step: &StepSpec,
        spec: &PushTag,
        place: &Place<'_>,
    ) -> Result<Task, Refusal> {
        let (name, _) = split_tag(&spec.image_name);
        let name = qualified(name, spec.registry.as_deref());
        let all = spec.tags.iter().map(|tag| format!("{name}:{tag}"));
        reach::images(step, all.chain([spec.image_name.clone()]))?;
        let mut commands = Vec::new();
        for tag in &spec.tags {
            commands.push(self.command_of(place, &["tag", &spec.image_name, &format!("{name}:{tag}")])?);
            if spec.registry.is_some() {
                commands.push(self.push_command(place, &format!("{name}:{tag}"))?);
            }
        }
        let intro = vec![format!("Tagging {}", spec.image_name)];
        Ok(task(step, place, intro, engine_run(commands, Members::default())))
    }

    fn push_command(&self, place: &Place<'_>, image: &str) -> Result<Vec<String>, Refusal> {
        let mut argv = self.command_of(place, &["push"])?;
        argv.extend(self.login_flag(place)?);
        argv.push(image.to_owned());
        Ok(argv)
    }

    pub(super) fn login_flag(&self, place: &Place<'_>) -> Result<Option<String>, Refusal> {
        if !self.podman() {
            return Ok(None);
        }
        let folder = self.logins(place)?;
        Ok(folder.map(|folder| format!("--authfile={}", folder.join("config.json").display())))
    }

    /// A folder with what opens registries for this attempt; none when that is what the machine's user has anyway.
    /// Whoever the machine's user is there, the pull request of a fork is nobody.
    pub(super) fn logins(&self, place: &Place<'_>) -> Result<Option<PathBuf>, Refusal> {
        use std::io::Write;
        if !place.trust.is_fork() && place.registries.is_empty() {
            return Ok(None);
        }
        let mut own = self.own_config();
        if place.trust.is_fork()
            && let Some((_, config)) = &mut own
        {
            registries::forget_logins(config);
        }
        let folder = place.at.0.join("login");
        crate::layout::create_private_dir(&folder)?;
        if let Some(beside) = own.as_ref().and_then(|(path, _)| path.parent()).filter(|_| !self.podman()) {
            // Docker finds its daemon and its parts beside the file, and would not without them.
            for name in ["contexts", "cli-plugins"].into_iter().filter(|name| beside.join(name).is_dir()) {
                let link = std::os::unix::fs::symlink(beside.join(name), folder.join(name));
                link.or_else(|error| if folder.join(name).exists() { Ok(()) } else { Err(error) })?;
            }
        }
        let config = own.map(|(_, config)| config);
        let text = registries::config(config, &place.registries).to_string();
        create_private(&folder.join("config.json"))?.write_all(text.as_bytes())?;
        Ok(Some(folder))
    }

    /// The first of the files where the engine itself looks, in its order.
    fn own_config(&self) -> Option<(PathBuf, serde_json::Value)> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let docker = variable("DOCKER_CONFIG").or_else(|| Some(variable("HOME")?.join(".docker")));
        let mut places = Vec::new();
        if self.podman() {
            places.extend(variable("REGISTRY_AUTH_FILE"));
            let run = variable("XDG_RUNTIME_DIR")
                .unwrap_or_else(|| PathBuf::from(format!("/run/containers/{}", nix::unistd::geteuid())));
            places.push(run.join("containers/auth.json"));
            places.push(run.join("auth.json"));
            places.extend(variable("HOME").map(|home| home.join(".config/containers/auth.json")));
        }
        places.extend(docker.map(|folder| folder.join("config.json")));
        let (path, text) =
            places.into_iter().find_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))?;
        Some((path, serde_json::from_str(&text).ok()?))
    }
}

fn engine_run(commands: Vec<Vec<String>>, members: Members) -> Run {
    Run::Engine { commands, members, environment: BTreeMap::new(), context: None }
}
