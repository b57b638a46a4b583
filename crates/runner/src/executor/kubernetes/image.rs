//! Image steps: buildah in a pod without privileges, with plain files as its layers.
//!
//! The images of a build live in a folder beside its volume, so that a later `push` finds what an earlier `build` made;
//! the pipeline's next build gets it with the volume, without the images' names, for its layers. Everything else goes
//! through registries: pods of steps can use an image only after it was pushed.

use slipway_api::agent::RegistryAccess;
use slipway_pipeline::StepSpec;
use slipway_pipeline::spec::{Build, Push, PushTag};

use super::super::layers::{self, Builder};
use super::super::names::{qualified, split_tag};
use super::super::registries;
use super::super::script::{self, Output, SCRIPT, quote};
use super::super::{Place, Refusal, reach};
use super::{Kubernetes, open_folder};
use crate::layout::{BIN, create_private_dir};
use crate::task::{Context, Members, Run, Task};

const IMAGES: &str = "/codefresh/images";
const OUT: &str = "/codefresh/out";
const CONTEXT: &str = "/codefresh/context";
const DOCKERFILE: &str = "Dockerfile";
const AUTH: &str = "auth.json";
const IMAGE_ID: &str = "image-id";
const DIGEST: &str = "digest";

/// Plain files and a changed root need no privilege; a single user is enough for them.
const PREAMBLE: &str = r#"set -e
export HOME=/tmp/home XDG_RUNTIME_DIR=/tmp/run BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
mkdir -p "$HOME" "$XDG_RUNTIME_DIR"
engine() { buildah --root /codefresh/images --runroot /tmp/run/storage --storage-driver vfs --storage-opt vfs.ignore_chown_errors=true "$@"; }
"#;

/// What an image step comes with.
#[derive(Default)]
struct Brought {
    given: Option<RegistryAccess>,
    context: Option<Context>,
}

impl Kubernetes {
    pub(super) fn build_image(
        &self,
        step: &StepSpec,
        spec: &Build,
        place: &Place<'_>,
    ) -> Result<Task, Refusal> {
        let (mut context, directory) = reach::context(step, spec, place, false)?;
        context.dockerfile_to = place.at.bin().join(DOCKERFILE);
        script::write(&place.at.bin(), None)?;
        let registry =
            spec.registry.as_deref().or(self.config.registry.as_deref()).filter(|_| !spec.disable_push);
        let name = qualified(&spec.image_name, registry);
        reach::images(step, spec.tags.iter().map(|tag| format!("{name}:{tag}")))?;
        let mut words = vec!["engine".to_owned(), "bud".to_owned(), "--layers".to_owned()];
        words.push(format!("--file={BIN}/{DOCKERFILE}"));
        words.push(format!("--iidfile={OUT}/{IMAGE_ID}"));
        words.extend(spec.tags.iter().map(|tag| format!("--tag={name}:{tag}")));
        let (arguments, environment) = reach::arguments(spec, place)?;
        words.extend(arguments);
        words.extend(spec.target.iter().map(|target| format!("--target={target}")));
        words.extend(spec.platform.iter().map(|platform| format!("--platform={platform}")));
        words.extend(layers::flags(spec, place, Builder::Buildah));
        words.extend(spec.squash.then(|| "--squash".to_owned()));
        words.extend(self.base_flags());
        words.push(CONTEXT.to_owned());
        // In an environment of its own: arguments are seen by everybody on the node.
        let exported: String =
            environment.iter().map(|(name, value)| format!("export {name}={}; ", quote(value))).collect();
        let mut lines = vec![format!("({exported}{})", line(&words))];
        if registry.is_some() {
            lines.extend(spec.tags.iter().map(|tag| self.push_line(&format!("{name}:{tag}"))));
        }
        let tag = spec.tags.first().cloned().unwrap_or_else(|| "latest".to_owned());
        let mut members = Members::default();
        members.fixed.insert("imageName".to_owned(), name.clone());
        members.fixed.insert("imageTagName".to_owned(), tag.clone());
        members.from_files.insert("imageId".to_owned(), place.at.out().join(IMAGE_ID));
        members.from_files.insert("imageRepoDigest".to_owned(), place.at.out().join(DIGEST));
        if spec.options.contains_key("secrets") {
            return Err(Refusal::Unsupported(format!(
                "step `{}` has `secrets`, which reach a build by Podman and Docker only: use such a runner, or build in a freestyle step",
                step.name
            )));
        }
        let mut intro = vec![format!("Building image {name}:{tag} from {directory} in an unprivileged pod")];
        if registry.is_none() {
            intro.push("The image stays with this build: it is pushed to no registry, so no later step can run in it".to_owned());
        }
        self.image_task(step, place, intro, &lines, Brought { context: Some(context), given: None }, members)
    }

    pub(super) fn push_image(
        &self,
        step: &StepSpec,
        spec: &Push,
        place: &Place<'_>,
    ) -> Result<Task, Refusal> {
        let registry = spec
            .registry
            .as_deref()
            .or(self.config.registry.as_deref())
            .filter(|name| !name.is_empty())
            .ok_or_else(|| {
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
        let mut lines = vec![self.fetch_line(&spec.candidate)];
        for tag in &tags {
            let target = format!("{name}:{tag}");
            lines.push(line(&["engine".into(), "tag".into(), spec.candidate.clone(), target.clone()]));
            lines.push(self.push_line(&target));
        }
        let mut members = Members::default();
        members.fixed.insert("registry".to_owned(), registry.to_owned());
        members.fixed.insert("imageName".to_owned(), name.clone());
        members.fixed.insert("imageTagName".to_owned(), tags[0].clone());
        members.from_files.insert("imageRepoDigest".to_owned(), place.at.out().join(DIGEST));
        let intro = vec![format!("Pushing {} to {name}", spec.candidate)];
        let given = spec.credentials.as_ref().map(|credentials| RegistryAccess {
            domain: registry.split('/').next().unwrap_or(registry).to_owned(),
            username: credentials.username.clone(),
            password: credentials.password.clone(),
            ..RegistryAccess::default()
        });
        self.image_task(step, place, intro, &lines, Brought { given, context: None }, members)
    }

    pub(super) fn tag_image(
        &self,
        step: &StepSpec,
        spec: &PushTag,
        place: &Place<'_>,
    ) -> Result<Task, Refusal> {
        let (name, _) = split_tag(&spec.image_name);
        let registry = spec.registry.as_deref().or(self.config.registry.as_deref());
        let name = qualified(name, registry);
        let all = spec.tags.iter().map(|tag| format!("{name}:{tag}"));
        reach::images(step, all.chain([spec.image_name.clone()]))?;
        let mut lines = vec![self.fetch_line(&spec.image_name)];
        for tag in &spec.tags {
            let target = format!("{name}:{tag}");
            lines.push(line(&["engine".into(), "tag".into(), spec.image_name.clone(), target.clone()]));
            lines.extend(registry.map(|_| self.push_line(&target)));
        }
        let intro = vec![format!("Tagging {}", spec.image_name)];
        self.image_task(step, place, intro, &lines, Brought::default(), Members::default())
    }

    fn image_task(
        &self,
        step: &StepSpec,
        place: &Place<'_>,
        intro: Vec<String>,
        lines: &[String],
        brought: Brought,
        members: Members,
    ) -> Result<Task, Refusal> {
        script::write(&place.at.bin(), None)?;
        self.write_login(place, brought.given)?;
        let text = format!("{}{PREAMBLE}{}\n", Output::File.line(), lines.join("\n"));
        std::fs::write(place.at.bin().join(SCRIPT), text)?;
        let images = place.dir.images();
        create_private_dir(&images)?;
        open_folder(&images)?;
        let mut shape = self.shape(&self.config.builder_image);
        shape.command = vec!["sh".to_owned(), script::path()];
        shape.builds_images = true;
        // Not the volume: a link in it would lead the builder to the credentials beside it.
        shape.mounts = vec![
            self.mount(&place.at.bin(), BIN, true)?,
            self.mount(&images, IMAGES, false)?,
            self.mount(&place.at.out(), OUT, false)?,
            self.log_mount(place)?,
        ];
        if let Some(context) = &brought.context {
            create_private_dir(&context.to)?;
            shape.mounts.push(self.mount(&context.to, CONTEXT, true)?);
        }
        let mut task = self.task(step, place, intro, &shape, members);
        if let Run::Pod(work) = &mut task.run {
            work.context = brought.context;
        }
        Ok(task)
    }

    /// The runner's own credentials, over them the account's, and over those what the step brings.
    fn write_login(&self, place: &Place<'_>, given: Option<RegistryAccess>) -> Result<(), Refusal> {
        // The pull request of a fork is nobody at our registries.
        let own = match &self.config.registry_config {
            Some(path) if !place.trust.is_fork() => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    Refusal::Unsupported(format!(
                        "the registries' credentials in {} cannot be read: {error}",
                        path.display()
                    ))
                })?;
                serde_json::from_str(&text).ok()
            }
            _ => None,
        };
        let all: Vec<RegistryAccess> = given.into_iter().chain(place.registries.iter().cloned()).collect();
        std::fs::write(place.at.bin().join(AUTH), registries::config(own, &all).to_string())?;
        Ok(())
    }

    fn base_flags(&self) -> Vec<String> {
        let mut flags = vec![format!("--authfile={BIN}/{AUTH}")];
        // One flag for all: a build may start from images of several registries.
        flags.extend((!self.config.insecure_registries.is_empty()).then(|| "--tls-verify=false".to_owned()));
        flags
    }

    fn registry_flags(&self, image: &str) -> Vec<String> {
        let host = image.split('/').next().unwrap_or_default();
        let mut flags = vec![format!("--authfile={BIN}/{AUTH}")];
        let insecure = self.config.insecure_registries.iter().any(|known| known == host);
        flags.extend(insecure.then(|| "--tls-verify=false".to_owned()));
        flags
    }

    fn push_line(&self, image: &str) -> String {
        let mut words = vec!["engine".to_owned(), "push".to_owned(), format!("--digestfile={OUT}/{DIGEST}")];
        words.extend(self.registry_flags(image));
        words.push(image.to_owned());
        line(&words)
    }

    /// Of an earlier step of this build, or from a registry.
    fn fetch_line(&self, image: &str) -> String {
        let look =
            line(&["engine".to_owned(), "inspect".to_owned(), "--type=image".to_owned(), image.to_owned()]);
        let mut words = vec!["engine".to_owned(), "pull".to_owned()];
        words.extend(self.registry_flags(image));
        words.push(image.to_owned());
        format!("{look} >/dev/null 2>&1 || {}", line(&words))
    }
}

fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}
