//! Services beside a step: containers of the same pod, which start before the step and end after it.

use std::path::{Path, PathBuf};

use slipway_pipeline::{StepKind, StepSpec};

use super::super::beside::{Beside, Work};
use super::super::{Place, Refusal, script};
use super::Kubernetes;
use super::pod::{Mount, PodShape, Side, SideKind};
use crate::layout::{BIN, VOLUME, create_private_dir};
use crate::task::ServicePod;

const IDLE: &str = "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done";

impl Kubernetes {
    pub(super) fn put_beside(
        &self,
        shape: &mut PodShape,
        beside: &Beside,
        place: &Place<'_>,
    ) -> Result<(), Refusal> {
        if beside.all_names().is_empty() {
            return Ok(());
        }
        // A file instead of host aliases: names of compose services may hold what a host's name may not.
        let hosts = hosts_path(place);
        std::fs::write(&hosts, format!("127.0.0.1 localhost slipway {}\n", beside.names().join(" ")))?;
        let hosts = self.mount(&hosts, "/etc/hosts", true)?;
        shape.mounts.push(hosts.clone());
        self.put_services(shape, beside, place, &hosts, &place.at.bin())
    }

    fn put_services(
        &self,
        shape: &mut PodShape,
        beside: &Beside,
        place: &Place<'_>,
        hosts: &Mount,
        scripts: &Path,
    ) -> Result<(), Refusal> {
        let services = beside.services.iter().map(|service| (service, SideKind::Service, "service"));
        let candidates = beside.candidates.iter().map(|other| (other, SideKind::Candidate, "candidate"));
        for (service, kind, prefix) in services.chain(candidates) {
            let mut mounts = vec![hosts.clone()];
            mounts.extend(self.user_volumes(&service.volumes, place)?);
            shape.sides.push(Side {
                name: format!("{prefix}-{}", dns(&service.name)),
                kind,
                image: service.image.clone(),
                command: service.entry_point.clone().unwrap_or_default(),
                arguments: service.cmd.clone().unwrap_or_default(),
                environment: service.environment.clone(),
                working_directory: service.working_directory.clone(),
                mounts,
            });
        }
        if let Some(probe) = &beside.readiness {
            let work = Work { image: probe.work.image.clone(), commands: probe.script() };
            shape.sides.push(self.work("readiness", &work, hosts, place, scripts)?);
        }
        if let Some(setup) = &beside.setup {
            shape.sides.push(self.work("setup", setup, hosts, place, scripts)?);
        }
        Ok(())
    }

    /// The services of the whole build as one pod. Something in it has to stay when they are ready: a shell that
    /// sleeps, in an image that is known to have one.
    pub(super) fn services_of_build(
        &self,
        step: &StepSpec,
        root: &Beside,
        place: &Place<'_>,
    ) -> Result<ServicePod, Refusal> {
        let folder = place.dir.0.join("services");
        create_private_dir(&folder)?;
        let hosts = folder.join("hosts");
        let names = root.names();
        std::fs::write(&hosts, format!("127.0.0.1 localhost slipway {}\n", names.join(" ")))?;
        let hosts = self.mount(&hosts, "/etc/hosts", true)?;
        let waits = root.readiness.as_ref().map(|probe| &probe.work).or(root.setup.as_ref());
        let own = match &step.kind {
            StepKind::Freestyle(spec) => spec.image.as_str(),
            _ => "",
        };
        let mut shape = self.shape(waits.map_or(own, |work| work.image.as_str()));
        shape.lasts = true;
        shape.command = ["sh", "-c", IDLE].map(str::to_owned).to_vec();
        self.put_services(&mut shape, root, place, &hosts, &folder)?;
        // The same for every step of the build.
        let all = StepSpec { id: "services".to_owned(), ..step.clone() };
        let registries = place.registries.clone();
        let once = Place { attempt: 0, variables: Default::default(), services: None, registries, ..*place };
        let name = shape.name(&all, &once);
        Ok(ServicePod {
            pod: shape.pod(&name, &all, &once),
            name,
            hosts: hosts_path(place),
            names: names.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Commands that end before the step begins.
    fn work(
        &self,
        name: &str,
        work: &Work,
        hosts: &Mount,
        place: &Place<'_>,
        scripts: &Path,
    ) -> Result<Side, Refusal> {
        let folder: PathBuf = scripts.join(name);
        script::write(&folder, Some(&work.commands))?;
        Ok(Side {
            name: name.to_owned(),
            kind: SideKind::Before,
            image: work.image.clone(),
            command: vec!["sh".to_owned(), script::path()],
            arguments: Vec::new(),
            environment: Default::default(),
            working_directory: Some(VOLUME.to_owned()),
            mounts: vec![
                self.mount(&place.dir.volume(), VOLUME, false)?,
                self.mount(&folder, BIN, true)?,
                hosts.clone(),
            ],
        })
    }
}

/// What the step finds at `/etc/hosts`.
fn hosts_path(place: &Place<'_>) -> PathBuf {
    place.at.bin().join("hosts")
}

fn dns(name: &str) -> String {
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(50)
        .collect();
    plain.trim_matches('-').to_owned()
}
