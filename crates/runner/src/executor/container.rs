//! Steps as containers of Podman or Docker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use slipway_pipeline::spec::{Build, Dockerfile, Freestyle, Push, PushTag, Shell};
use slipway_pipeline::{StepKind, StepSpec};

use super::beside::{Beside, Service, Work};
use super::engine::{self, Engine};
use super::layers::{self, Builder};
use super::names::{qualified, split_tag};
use super::registries;
use super::stores::Stores;
use super::{
    Executor, Place, Refusal, container_name, in_volume, make_working_directory, script, task,
    working_directory,
};
use crate::layout::{BIN, BuildDir, Missing, VOLUME, confined, create_private};
use crate::shell::shell_name;
use crate::task::{Limits, Members, Run, Sandbox, Task};

/// Marks our containers, so that those of dead builds are found.
const LABEL: &str = "io.slipway.build";
/// Tells the containers of one runner of the machine from those of another.
const OWNER: &str = "io.slipway.runner";

pub(super) struct Container {
    engine: Engine,
    sandbox: Option<Sandbox>,
    describe: String,
    owner: String,
    data: PathBuf,
    stores: Stores,
}

impl Container {
    pub(super) fn new(engine: Engine, sandbox: Option<Sandbox>, data: &Path) -> Self {
        let data = data.canonicalize().unwrap_or_else(|_| data.to_owned());
        let owner = hex::encode(&Sha256::digest(data.as_os_str().as_encoded_bytes())[..8]);
        let describe = format!("Steps run in containers by {} {}", engine.name, engine.version);
        Self { engine, sandbox, describe, owner, data, stores: Stores::default() }
    }

    fn podman(&self) -> bool {
        self.engine.name == "podman"
    }

    fn command(&self, args: &[&str]) -> Vec<String> {
        self.engine.program.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned())).collect()
    }

    /// The engine as this build may use it.
    fn program(&self, place: &Place<'_>) -> Result<Vec<String>, Refusal> {
        if place.trust.is_fork() && self.podman() {
            return Ok(self.stores.program(&self.engine, place.dir)?);
        }
        let mut program = self.engine.program.clone();
        if !self.podman() {
            // Docker takes a folder with a config.json in it, before its verb.
            program.extend(self.logins(place)?.map(|folder| format!("--config={}", folder.display())));
        }
        Ok(program)
    }

    fn command_of(&self, place: &Place<'_>, args: &[&str]) -> Result<Vec<String>, Refusal> {
        Ok(self.program(place)?.into_iter().chain(args.iter().map(|arg| (*arg).to_owned())).collect())
    }

    fn run_args(
        &self,
        step: &StepSpec,
        spec: &Freestyle,
        place: &Place<'_>,
        side: &Side,
    ) -> Result<Vec<String>, Refusal> {
        let mut args = vec![
            "--rm=false".to_owned(),
            "--pull=missing".to_owned(),
            format!("--name={}", container_name(step, place)),
            format!("--label={LABEL}={}", place.build),
            format!("--label={OWNER}={}", self.owner),
        ];
        args.extend(self.login_flag(place)?);
        args.extend(self.network(side));
        if self.podman() {
            // Kept by the engine too, should the supervisor be lost.
            args.push("--log-driver=k8s-file".to_owned());
        } else {
            args.push("--init".to_owned());
        }
        args.extend(self.limits(step));
        args.push(format!("--volume={}:{VOLUME}", place.dir.volume().display()));
        args.push(format!("--volume={}:{BIN}:ro", place.at.bin().display()));
        for volume in &spec.volumes {
            let (source, target) = volume.split_once(':').unwrap_or((volume, volume));
            let relative = in_volume(source).unwrap_or_else(|| source.trim_start_matches('/').into());
            let source = confined(&place.dir.volume(), &relative, Missing::Make(None)).map_err(|error| {
                Refusal::Unsupported(format!("volume `{volume}` cannot be mounted: {error}"))
            })?;
            args.push(format!("--volume={}:{target}", source.display()));
        }
        if let Some(directory) = working_directory(step) {
            make_working_directory(&directory, place, None)?;
            args.push(format!("--workdir={directory}"));
        }
        Ok(args)
    }

    fn limits(&self, step: &StepSpec) -> Vec<String> {
        let limits = Limits::of(step);
        if !self.engine.limits {
            return Vec::new();
        }
        let cpu = limits.cpu_millis.map(|millis| format!("--cpus={}.{:03}", millis / 1000, millis % 1000));
        let memory = limits.memory_bytes.map(|bytes| format!("--memory={bytes}b"));
        cpu.into_iter().chain(memory).collect()
    }

    /// One line a variable in a file; what has several lines goes through the engine's own environment.
    fn environment(
        &self,
        spec: &Freestyle,
        place: &Place<'_>,
        args: &mut Vec<String>,
    ) -> Result<(std::collections::BTreeMap<String, String>, Vec<String>), Refusal> {
        use std::io::Write;
        let mut file = create_private(&place.at.environment())?;
        let (mut passed, mut left_out) = (std::collections::BTreeMap::new(), Vec::new());
        for (name, value) in &spec.environment {
            if !value.contains(['\n', '\r', '\0']) {
                writeln!(file, "{name}={value}")?;
            } else if concerns_engine(name) || value.contains('\0') {
                left_out.push(name.clone());
            } else {
                passed.insert(name.clone(), value.clone());
                args.push(format!("--env={name}"));
            }
        }
        args.push(format!("--env-file={}", place.at.environment().display()));
        Ok((passed, left_out))
    }

    /// Of `run`, for a person's shell where the step runs. Its services are the step's alone.
    fn shell_args(
        &self,
        step: &StepSpec,
        spec: &Freestyle,
        place: &Place<'_>,
        environment: &std::collections::BTreeMap<String, String>,
    ) -> Result<Vec<String>, Refusal> {
        let own = ["--rm=", "--name=", "--log-driver="];
        let mut args: Vec<String> = self
            .run_args(step, spec, place, &Side::default())?
            .into_iter()
            .filter(|flag| !own.iter().any(|own| flag.starts_with(own)))
            .collect();
        args.extend(["--rm".to_owned(), "--interactive".to_owned(), "--tty".to_owned()]);
        args.push(format!("--name={}", shell_name(&container_name(step, place))));
        args.extend(environment.keys().map(|name| format!("--env={name}")));
        args.push(format!("--env-file={}", place.at.environment().display()));
        args.extend(["--entrypoint=sh".to_owned(), spec.image.clone()]);
        Ok(args)
    }

    fn build(&self, step: &StepSpec, spec: &Build, place: &Place<'_>) -> Result<Task, Refusal> {
        let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
        let context = self.context(&directory, place)?;
        let dockerfile = match &spec.dockerfile {
            Dockerfile::Path(path) => {
                let relative = in_volume(path).unwrap_or_else(|| {
                    in_volume(&directory).unwrap_or_default().join(path.trim_start_matches('/'))
                });
                confined(&place.dir.volume(), &relative, Missing::Refuse).map_err(|error| {
                    Refusal::Unsupported(format!("there is no Dockerfile at {directory}/{path}: {error}"))
                })?
            }
            Dockerfile::Content(text) => {
                let path = place.at.0.join("Dockerfile");
                std::fs::write(&path, text)?;
                path
            }
        };
        let registry = spec.registry.as_deref().filter(|_| !spec.disable_push);
        let name = qualified(&spec.image_name, registry);
        let mut argv = self.command_of(place, &["build"])?;
        argv.extend(self.login_flag(place)?);
        argv.extend(self.engine.build_flags.iter().cloned());
        argv.push(format!("--file={}", dockerfile.display()));
        argv.push(format!("--iidfile={}", place.at.image_id().display()));
        argv.extend(spec.tags.iter().map(|tag| format!("--tag={name}:{tag}")));
        argv.extend(spec.build_arguments.iter().map(|argument| format!("--build-arg={argument}")));
        argv.extend(spec.target.iter().map(|target| format!("--target={target}")));
        argv.extend(spec.platform.iter().map(|platform| format!("--platform={platform}")));
        argv.extend(layers::flags(
            spec,
            place,
            if self.podman() { Builder::Buildah } else { Builder::Docker },
        ));
        argv.extend((spec.squash && self.podman()).then(|| "--squash".to_owned()));
        argv.push("--".to_owned());
        argv.push(context.display().to_string());
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
        let mut intro = vec![format!("Building image {name}:{tag} from {directory} by {}", self.engine.name)];
        let left_out: Vec<&str> = spec
            .options
            .keys()
            .map(String::as_str)
            .filter(|key| !matches!(*key, "metadata" | "annotations"))
            .collect();
        if !left_out.is_empty() {
            intro.push(format!("Not supported by this runner and left out: {}", left_out.join(", ")));
        }
        Ok(task(step, place, intro, Run::Engine { commands, members }))
    }

    fn context(&self, directory: &str, place: &Place<'_>) -> Result<PathBuf, Refusal> {
        let no = |error: &dyn std::fmt::Display| {
            Refusal::Unsupported(format!(
                "the build context {directory} cannot be used: {error}. Clone the repository in an earlier step, or set working_directory"
            ))
        };
        let relative = in_volume(directory).ok_or_else(|| no(&"it is not in the volume"))?;
        confined(&place.dir.volume(), &relative, Missing::Refuse).map_err(|error| no(&error))
    }

    fn push(&self, step: &StepSpec, spec: &Push, place: &Place<'_>) -> Result<Task, Refusal> {
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
        Ok(task(step, place, intro, Run::Engine { commands, members }))
    }

    fn push_tag(&self, step: &StepSpec, spec: &PushTag, place: &Place<'_>) -> Result<Task, Refusal> {
        let (name, _) = split_tag(&spec.image_name);
        let name = qualified(name, spec.registry.as_deref());
        let mut commands = Vec::new();
        for tag in &spec.tags {
            commands.push(self.command_of(place, &["tag", &spec.image_name, &format!("{name}:{tag}")])?);
            if spec.registry.is_some() {
                commands.push(self.push_command(place, &format!("{name}:{tag}"))?);
            }
        }
        let intro = vec![format!("Tagging {}", spec.image_name)];
        Ok(task(step, place, intro, Run::Engine { commands, members: Members::default() }))
    }

    fn push_command(&self, place: &Place<'_>, image: &str) -> Result<Vec<String>, Refusal> {
        let mut argv = self.command_of(place, &["push"])?;
        argv.extend(self.login_flag(place)?);
        argv.push(image.to_owned());
        Ok(argv)
    }

    fn login_flag(&self, place: &Place<'_>) -> Result<Option<String>, Refusal> {
        if !self.podman() {
            return Ok(None);
        }
        let folder = self.logins(place)?;
        Ok(folder.map(|folder| format!("--authfile={}", folder.join("config.json").display())))
    }

    /// A folder with what opens registries for this attempt; none when that is what the machine's user has anyway.
    /// Whoever the machine's user is there, the pull request of a fork is nobody.
    fn logins(&self, place: &Place<'_>) -> Result<Option<PathBuf>, Refusal> {
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

/// Services of a step: how they start, and what they are called.
#[derive(Default)]
struct Side {
    before: Vec<Vec<String>>,
    /// Containers that end with the step.
    names: Vec<String>,
    /// Those of them that have to succeed.
    also: Vec<String>,
    /// The container whose network all share.
    network: Option<String>,
    /// Their names in everybody's `/etc/hosts`.
    hosts: Option<PathBuf>,
}

impl Container {
    /// All in the network of the first service, where every name is this machine.
    fn beside(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Side, Refusal> {
        let mut side = Side::default();
        if beside.all_names().is_empty() {
            return Ok(side);
        }
        let scratch = place.at.0.join("tmp");
        crate::layout::create_private_dir(&scratch)?;
        let hosts = place.at.0.join("hosts");
        std::fs::write(&hosts, hosts_file(beside))?;
        side.hosts = Some(hosts);
        if let Some(root) = &beside.of_build {
            let (command, network) = self.of_build(place, root)?;
            side.before.push(command);
            side.network = Some(network);
        }
        let own = container_name(step, place);
        for service in beside.services.iter().chain(&beside.candidates) {
            let name = format!("{own}-{}", service.name);
            side.before.push(self.service(&name, place, service, &side, &scratch)?);
            side.network.get_or_insert_with(|| name.clone());
            side.names.push(name);
        }
        side.also = beside.candidates.iter().map(|other| format!("{own}-{}", other.name)).collect();
        side.before.extend(self.works(place, beside, &side, &place.at.bin())?);
        Ok(side)
    }

    /// Waiting for services, then what is done once they are ready.
    fn works(
        &self,
        place: &Place<'_>,
        beside: &Beside,
        side: &Side,
        scripts: &Path,
    ) -> Result<Vec<Vec<String>>, Refusal> {
        let readiness = beside
            .readiness
            .as_ref()
            .map(|probe| ("readiness", Work { image: probe.work.image.clone(), commands: probe.script() }));
        let mut commands = Vec::new();
        for (name, work) in readiness.into_iter().chain(beside.setup.clone().map(|work| ("setup", work))) {
            let folder = scripts.join(name);
            script::write(&folder, Some(&work.commands))?;
            let mut argv = self.command_of(place, &["run", "--rm", "--entrypoint=sh"])?;
            argv.extend(self.login_flag(place)?);
            argv.extend(self.network(side));
            argv.push(format!("--volume={}:{VOLUME}", place.dir.volume().display()));
            argv.push(format!("--volume={}:{BIN}:ro", folder.display()));
            argv.extend([work.image.clone(), script::path()]);
            commands.push(argv);
        }
        Ok(commands)
    }

    /// One command that starts the services of the whole build unless they run, and the container whose network is
    /// theirs. Steps at once wait for each other; what a crash left half started is started again.
    fn of_build(&self, place: &Place<'_>, root: &Beside) -> Result<(Vec<String>, String), Refusal> {
        let folder = services_folder(place.dir);
        let scratch = folder.join("tmp");
        crate::layout::create_private_dir(&scratch)?;
        let hosts = folder.join("hosts");
        std::fs::write(&hosts, hosts_file(root))?;
        let mut side = Side { hosts: Some(hosts), ..Side::default() };
        for service in &root.services {
            let name = format!("slipway-{}-services-{}", place.build, service.name);
            side.before.push(self.service(&name, place, service, &side, &scratch)?);
            side.network.get_or_insert_with(|| name.clone());
            side.names.push(name);
        }
        side.before.extend(self.works(place, root, &side, &folder)?);
        let network = side.network.unwrap_or_default();
        let words =
            |argv: &[String]| argv.iter().map(|word| script::quote(word)).collect::<Vec<_>>().join(" ");
        let ready = script::quote(&folder.join("ready").display().to_string());
        let format = "--format={{.State.Running}}";
        let inspect = self.command_of(place, &["container", "inspect", format, network.as_str()])?;
        let mut text = format!(
            "if [ -e {ready} ] && [ \"$({} 2>/dev/null)\" = true ]; then exit 0; fi\nrm -f {ready}\n",
            words(&inspect)
        );
        // Those that share a network go before the one whose network it is.
        for name in side.names.iter().rev() {
            let remove = self.command_of(place, &["rm", "--force", name])?;
            text.push_str(&format!("{} >/dev/null 2>&1\n", words(&remove)));
        }
        text.push_str("set -e\n");
        for argv in &side.before {
            text.push_str(&words(argv));
            text.push('\n');
        }
        text.push_str(&format!("touch {ready}\n"));
        let file = folder.join("start");
        crate::layout::write_atomic(&file, text.as_bytes(), crate::layout::Lasting::Process)?;
        let lock = folder.join("lock").display().to_string();
        let command = ["flock", &lock, "sh", &file.display().to_string()].map(str::to_owned).to_vec();
        Ok((command, network))
    }

    fn service(
        &self,
        container: &str,
        place: &Place<'_>,
        service: &Service,
        side: &Side,
        scratch: &Path,
    ) -> Result<Vec<String>, Refusal> {
        use std::io::Write;
        if service.image.starts_with('-') {
            return Err(Refusal::Unsupported(format!("`{}` is not the name of an image", service.image)));
        }
        let mut argv = self.command_of(place, &["run", "--detach", "--pull=missing"])?;
        argv.extend(self.login_flag(place)?);
        argv.push(format!("--name={container}"));
        argv.push(format!("--label={LABEL}={}", place.build));
        argv.push(format!("--label={OWNER}={}", self.owner));
        argv.extend(self.network(side));
        let file = scratch.join(format!("{}.env", service.name));
        let mut written = create_private(&file)?;
        for (name, value) in service.environment.iter().filter(|(_, value)| !value.contains(['\n', '\0'])) {
            writeln!(written, "{name}={value}")?;
        }
        argv.push(format!("--env-file={}", file.display()));
        argv.extend(service.working_directory.iter().map(|path| format!("--workdir={path}")));
        for volume in &service.volumes {
            argv.push(self.service_volume(volume, place)?);
        }
        let mut entry = service.entry_point.iter().flatten();
        argv.extend(entry.next().map(|program| format!("--entrypoint={program}")));
        argv.push(service.image.clone());
        argv.extend(entry.cloned());
        argv.extend(service.cmd.iter().flatten().cloned());
        Ok(argv)
    }

    /// The build's volume by its name, or a folder of it.
    fn service_volume(&self, volume: &str, place: &Place<'_>) -> Result<String, Refusal> {
        let (source, target) = volume.split_once(':').unwrap_or((volume, volume));
        if source == format!("slipway-{}", place.build) {
            return Ok(format!("--volume={}:{target}", place.dir.volume().display()));
        }
        let relative = in_volume(source).unwrap_or_else(|| source.trim_start_matches(['/', '.']).into());
        let found = confined(&place.dir.volume(), &relative, Missing::Make(None))
            .map_err(|error| Refusal::Unsupported(format!("volume `{volume}` cannot be mounted: {error}")))?;
        Ok(format!("--volume={}:{target}", found.display()))
    }

    /// The flags without which nothing starts here, and the network of the services if there are some.
    fn network(&self, side: &Side) -> Vec<String> {
        let mut flags = self.engine.run_flags.clone();
        let host = flags.iter().any(|flag| flag == "--network=host");
        match &side.network {
            Some(first) if !host => flags.push(format!("--network=container:{first}")),
            // A network that is somebody else's has their name.
            _ => flags.push("--hostname=slipway".to_owned()),
        }
        if let Some(hosts) = &side.hosts {
            flags.extend(self.podman().then(|| "--no-hosts".to_owned()));
            flags.push(format!("--volume={}:/etc/hosts:ro", hosts.display()));
        }
        flags
    }
}

impl Executor for Container {
    fn name(&self) -> &'static str {
        if self.podman() { "podman" } else { "docker" }
    }

    fn describe(&self) -> &str {
        &self.describe
    }

    fn user(&self) -> Option<u32> {
        None
    }

    fn sandbox(&self) -> Option<Sandbox> {
        self.sandbox.clone()
    }

    fn freestyle(&self, step: &StepSpec, place: &Place<'_>, beside: &Beside) -> Result<Task, Refusal> {
        let StepKind::Freestyle(spec) = &step.kind else { unreachable!("called for freestyle steps only") };
        if spec.image.is_empty() || spec.image.starts_with('-') {
            return Err(Refusal::Unsupported(format!("step `{}` has no image it could run in", step.name)));
        }
        let side = self.beside(step, place, beside)?;
        let mut args = self.run_args(step, spec, place, &side)?;
        let (environment, left_out) = self.environment(spec, place, &mut args)?;
        script::write(&place.at.bin(), spec.commands.as_deref())?;
        let shell = self.shell_args(step, spec, place, &environment)?;
        if spec.commands.is_some() {
            let interpreter = match spec.shell {
                Shell::Sh => "sh",
                Shell::Bash => "bash",
            };
            args.push(format!("--entrypoint={interpreter}"));
            args.extend([spec.image.clone(), script::path()]);
        } else {
            let mut entry = spec.entry_point.iter().flatten();
            args.extend(entry.next().map(|program| format!("--entrypoint={program}")));
            args.push(spec.image.clone());
            args.extend(entry.cloned());
            args.extend(spec.cmd.iter().flatten().cloned());
        }
        let mut intro = vec![format!("Running in image {} by {}", spec.image, self.engine.name)];
        if !Limits::of(step).is_empty() && !self.engine.limits {
            intro.push(format!(
                "The limits of this step are not enforced: {} starts no container with limits on this machine",
                self.engine.name
            ));
        }
        intro
            .extend(left_out.iter().map(|name| format!("Variable {name} has several lines and is left out")));
        let run = Run::Container {
            engine: self.program(place)?,
            name: container_name(step, place),
            args,
            environment,
            before: side.before,
            beside: side.names,
            also: side.also,
            shell,
        };
        Ok(task(step, place, intro, run))
    }

    fn image(&self, step: &StepSpec, place: &Place<'_>) -> Result<Task, Refusal> {
        if place.trust.is_fork() && !self.podman() {
            return Err(Refusal::Unsupported(format!(
                "step `{}` would leave an image where every other build of this machine finds it, and this one is the pull request of a fork: Docker has one store for all. Use a runner with Podman or Kubernetes, or leave the step out for forks",
                step.name
            )));
        }
        match &step.kind {
            StepKind::Build(spec) => self.build(step, spec, place),
            StepKind::Push(spec) => self.push(step, spec, place),
            StepKind::PushTag(spec) => self.push_tag(step, spec, place),
            _ => unreachable!("called for image steps only"),
        }
    }

    /// Without root, files of a container's other users belong to numbers that only the engine may touch.
    fn remove(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::remove_dir_all(folder).or_else(|error| {
            if !self.podman() || !folder.exists() {
                return Err(error);
            }
            let argv = self.command(&["unshare", "rm", "-rf", "--", &folder.display().to_string()]);
            engine::run(&argv, Duration::from_secs(60)).map(drop).map_err(std::io::Error::other)
        })
    }

    /// Containers of steps end with their steps; those of the build end here.
    fn release(&self, build: &str) {
        let dir = BuildDir::new(&self.data, build);
        let fork = dir.images().exists();
        if !fork && !services_folder(&dir).exists() {
            return;
        }
        let program = match self.stores.program(&self.engine, &dir) {
            Ok(program) if fork => program,
            _ => self.engine.program.clone(),
        };
        let command = |args: &[&str]| -> Vec<String> {
            program.iter().cloned().chain(args.iter().map(|arg| (*arg).to_owned())).collect()
        };
        let list = command(&["ps", "--all", "--quiet", &format!("--filter=label={LABEL}={build}")]);
        for id in engine::run(&list, Duration::from_secs(30)).unwrap_or_default().lines() {
            let _ = engine::run(&command(&["rm", "--force", "--volumes", id]), Duration::from_secs(30));
        }
        if fork && let Err(error) = self.stores.remove(&dir, |folder| self.remove(folder)) {
            tracing::warn!(build, %error, "The images of a fork's build are not removed; the next look does it.");
        }
    }

    fn reap(&self, active: &[String]) {
        for build in self.stores.left_behind(&self.data, active) {
            self.release(&build);
        }
        let format = format!("--format={{{{.ID}}}} {{{{index .Labels \"{LABEL}\"}}}}");
        let format =
            if self.podman() { format } else { format!("--format={{{{.ID}}}} {{{{.Label \"{LABEL}\"}}}}") };
        let filter = format!("--filter=label={OWNER}={}", self.owner);
        let Ok(text) =
            engine::run(&self.command(&["ps", "--all", &filter, &format]), Duration::from_secs(30))
        else {
            return;
        };
        for (id, build) in text.lines().filter_map(|line| line.split_once(' ')) {
            if !active.iter().any(|kept| kept == build.trim()) {
                let _ = engine::run(&self.command(&["rm", "--force", id]), Duration::from_secs(30));
            }
        }
    }
}

/// Of the services of the whole build: how they are started, and whether they were.
fn services_folder(dir: &BuildDir) -> PathBuf {
    dir.0.join("services")
}

fn hosts_file(beside: &Beside) -> String {
    format!("127.0.0.1 localhost slipway {}\n", beside.all_names().join(" "))
}

/// Names that change what the engine itself does.
fn concerns_engine(name: &str) -> bool {
    const PREFIXES: [&str; 9] =
        ["LD_", "XDG_", "DOCKER_", "CONTAINER", "BUILDAH_", "PODMAN_", "STORAGE_", "REGISTRY_", "GODEBUG"];
    const NAMES: [&str; 6] = ["PATH", "HOME", "TMPDIR", "SHELL", "USER", "BASH_ENV"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
