//! Services beside a step: containers of the same pod, which start before the step and end after it.

use std::path::PathBuf;

use super::super::beside::{Beside, Work};
use super::super::{Place, Refusal, script};
use super::Kubernetes;
use super::pod::{Mount, PodShape, Side, SideKind};
use crate::layout::{BIN, VOLUME};

impl Kubernetes {
    pub(super) fn put_beside(
        &self,
        shape: &mut PodShape,
        beside: &Beside,
        place: &Place<'_>,
    ) -> Result<(), Refusal> {
        if beside.is_empty() {
            return Ok(());
        }
        // A file instead of host aliases: names of compose services may hold what a host's name may not.
        let hosts = place.at.bin().join("hosts");
        std::fs::write(&hosts, format!("127.0.0.1 localhost slipway {}\n", beside.names().join(" ")))?;
        let hosts = self.mount(&hosts, "/etc/hosts", true)?;
        shape.mounts.push(hosts.clone());
        for service in &beside.services {
            let mut mounts = vec![hosts.clone()];
            for volume in &service.volumes {
                mounts.extend(self.service_volume(volume, place)?);
            }
            shape.sides.push(Side {
                name: format!("service-{}", dns(&service.name)),
                kind: SideKind::Service,
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
            shape.sides.push(self.work("readiness", &work, &hosts, place)?);
        }
        if let Some(setup) = &beside.setup {
            shape.sides.push(self.work("setup", setup, &hosts, place)?);
        }
        Ok(())
    }

    /// Commands that end before the step begins.
    fn work(&self, name: &str, work: &Work, hosts: &Mount, place: &Place<'_>) -> Result<Side, Refusal> {
        let folder: PathBuf = place.at.bin().join(name);
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

    /// The build's volume by its name, or a folder of it.
    fn service_volume(&self, volume: &str, place: &Place<'_>) -> Result<Vec<Mount>, Refusal> {
        if let Some(target) = volume.strip_prefix(&format!("slipway-{}:", place.build)) {
            return Ok(vec![self.mount(&place.dir.volume(), target, false)?]);
        }
        self.user_volumes(std::slice::from_ref(&volume.to_owned()), place)
    }
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
