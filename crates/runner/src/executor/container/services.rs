//! Services of a step and of a whole build: containers beside the step's own, in one network.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use slipway_pipeline::StepSpec;

use super::super::beside::{Beside, Service, Work};
use super::super::{ATTEMPT, Place, Refusal, container_name, reach, script};
use super::{Container, LABEL, OWNER, Stage, bind};
use crate::layout::{BIN, BuildDir, VOLUME};
use crate::task::Staged;

/// Services of a step: how they start, and what they are called.
#[derive(Default)]
pub(super) struct Side {
    pub(super) before: Vec<Vec<String>>,
    /// Containers that end with the step.
    pub(super) names: Vec<String>,
    /// Those of them that have to succeed.
    pub(super) also: Vec<String>,
    /// Whose containers they are; the whole build's when absent.
    attempt: Option<String>,
    /// The container whose network all share.
    network: Option<String>,
    /// Their names in everybody's `/etc/hosts`.
    hosts: Option<PathBuf>,
    /// What is mounted into them.
    pub(super) mounts: Vec<Staged>,
}

impl Container {
    /// All in the network of the first service, where every name is this machine.
    pub(super) fn beside(
        &self,
        step: &StepSpec,
        place: &Place<'_>,
        beside: &Beside,
    ) -> Result<Side, Refusal> {
        let own = container_name(step, place);
        let mut side = Side { attempt: Some(own.clone()), ..Side::default() };
        if beside.all_names().is_empty() {
            return Ok(side);
        }
        let scratch = place.at.0.join("tmp");
        crate::layout::create_private_dir(&scratch)?;
        let hosts = place.at.0.join("hosts");
        write_hosts(&hosts, beside)?;
        side.hosts = Some(hosts);
        if let Some(root) = &beside.of_build {
            let (command, network, mounts) = self.of_build(place, root)?;
            side.before.push(command);
            side.network = Some(network);
            side.mounts = mounts;
        }
        for service in beside.services.iter().chain(&beside.candidates) {
            let name = format!("{own}-{}", service.name);
            let command = self.service(&name, place, service, &mut side, &scratch, &Stage::of_step(place))?;
            side.before.push(command);
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
            // It has no name; when its client is killed, it is found by these.
            argv.extend(self.labels(place, side.attempt.as_deref()));
            argv.extend(self.login_flag(place)?);
            argv.extend(self.network(side));
            argv.push(bind(&place.dir.volume(), VOLUME, false));
            argv.push(bind(&folder, BIN, true));
            argv.extend([work.image.clone(), script::path()]);
            commands.push(argv);
        }
        Ok(commands)
    }

    /// One command that starts the services of the whole build unless they run, and the container whose network is
    /// theirs. Steps at once wait for each other; what a crash left half started is started again.
    fn of_build(
        &self,
        place: &Place<'_>,
        root: &Beside,
    ) -> Result<(Vec<String>, String, Vec<Staged>), Refusal> {
        let folder = services_folder(place.dir);
        let scratch = folder.join("tmp");
        crate::layout::create_private_dir(&scratch)?;
        let hosts = folder.join("hosts");
        write_hosts(&hosts, root)?;
        let mut side = Side { hosts: Some(hosts), ..Side::default() };
        let stage = Stage { folder: folder.join("mounts"), shared: true };
        for service in &root.services {
            let name = format!("slipway-{}-services-{}", place.build, service.name);
            let command = self.service(&name, place, service, &mut side, &scratch, &stage)?;
            side.before.push(command);
            side.network.get_or_insert_with(|| name.clone());
            side.names.push(name);
        }
        side.before.extend(self.works(place, root, &side, &folder)?);
        let network = side.network.clone().unwrap_or_default();
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
            let remove = self.command_of(place, &["rm", "--force", "--volumes", name])?;
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
        Ok((command, network, side.mounts))
    }

    fn service(
        &self,
        container: &str,
        place: &Place<'_>,
        service: &Service,
        side: &mut Side,
        scratch: &Path,
        stage: &Stage,
    ) -> Result<Vec<String>, Refusal> {
        let mut argv = self.command_of(place, &["run", "--detach", "--pull=missing"])?;
        argv.extend(self.login_flag(place)?);
        argv.push(format!("--name={container}"));
        argv.extend(self.labels(place, side.attempt.as_deref()));
        argv.extend(self.network(side));
        let file = scratch.join(format!("{}.env", service.name));
        reach::write_environment(&file, reach::one_line(&service.environment))?;
        argv.push(format!("--env-file={}", file.display()));
        argv.extend(service.working_directory.iter().map(|path| format!("--workdir={path}")));
        argv.extend(self.mounts(&service.volumes, place, stage, &mut side.mounts)?);
        let mut entry = service.entry_point.iter().flatten();
        argv.extend(entry.next().map(|program| format!("--entrypoint={program}")));
        argv.push(service.image.clone());
        argv.extend(entry.cloned());
        argv.extend(service.cmd.iter().flatten().cloned());
        Ok(argv)
    }

    /// By which containers are found when everything else about them is lost.
    fn labels(&self, place: &Place<'_>, attempt: Option<&str>) -> Vec<String> {
        let mut labels =
            vec![format!("--label={LABEL}={}", place.build), format!("--label={OWNER}={}", self.owner)];
        labels.extend(attempt.map(|attempt| format!("--label={ATTEMPT}={attempt}")));
        labels
    }

    /// The flags without which nothing starts here, and the network of the services if there are some.
    pub(super) fn network(&self, side: &Side) -> Vec<String> {
        let mut flags = self.engine.run_flags.clone();
        // Else the engine gives its own to what it runs.
        flags.extend(self.podman().then(|| "--http-proxy=false".to_owned()));
        let host = flags.iter().any(|flag| flag == "--network=host");
        match &side.network {
            Some(first) if !host => flags.push(format!("--network=container:{first}")),
            // A network that is somebody else's has their name.
            _ => flags.push("--hostname=slipway".to_owned()),
        }
        if let Some(hosts) = &side.hosts {
            flags.extend(self.podman().then(|| "--no-hosts".to_owned()));
            flags.push(bind(hosts, "/etc/hosts", true));
        }
        flags
    }
}

/// Of the services of the whole build: how they are started, and whether they were.
pub(super) fn services_folder(dir: &BuildDir) -> PathBuf {
    dir.0.join("services")
}

/// For everybody in the container, whatever the runner keeps for itself.
fn write_hosts(path: &Path, beside: &Beside) -> std::io::Result<()> {
    std::fs::write(path, format!("127.0.0.1 localhost slipway {}\n", beside.all_names().join(" ")))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644))
}
