//! Annotations and images: what a build says about itself and about what it made.
//!
//! Both are lists in the journal that only grow and go out whole with every report, so telling them twice is telling
//! them once. A build may annotate itself, its pipeline, its project and images; everything else is left out, and the
//! log says so.

use slipway_api::agent::{AnnotationChange, BuiltImage};
use slipway_pipeline::annotate::{Change, Entity, changes};
use slipway_pipeline::spec::Annotate;
use slipway_pipeline::{Pipeline, StepKind, StepSpec};

use super::Build;
use crate::journal::log_of;
use crate::layout::now_ms;
use crate::task::Exit;
use crate::within::Volume;

/// More than anybody reads; a loop that annotates is cut here.
const CHANGES_MAX: usize = 200;
const VALUE_BYTES_MAX: u64 = 8_000;

impl Build {
    /// What an image step says about itself is kept until it has succeeded.
    pub(super) fn note_for_later(&mut self, step: &str, spec: &StepSpec) {
        let StepKind::Build(build) = &spec.kind else { return };
        let option = |name: &str| build.options.get(name).cloned().unwrap_or_default();
        let noted = Annotate { annotations: option("annotations"), metadata: option("metadata") };
        if noted != Annotate::default() {
            self.journal.noted.insert(step.to_owned(), noted);
        }
    }

    /// The image of a step that has made or pushed one, and what the step says about it.
    pub(super) fn note_image(&mut self, pipeline: &Pipeline, step: &str, exit: &Exit) {
        let noted = self.journal.noted.remove(step);
        if !exit.is_success() {
            return;
        }
        let member = |name: &str| exit.members.get(name).cloned().filter(|value| !value.is_empty());
        let (id, name) = (member("imageId"), member("imageName"));
        if let Some(name) = name {
            let image = BuiltImage {
                step: step.to_owned(),
                id: id.clone().unwrap_or_else(|| name.clone()),
                name,
                tag: member("imageTagName").unwrap_or_else(|| "latest".to_owned()),
                registry: member("registry"),
                digest: member("imageRepoDigest"),
                at_ms: exit.finished_ms,
            };
            self.journal.images.push(image);
        }
        if let Some(noted) = noted {
            self.annotate(pipeline, step, &noted, id.as_deref());
        }
    }

    /// Takes the changes up; what cannot be one is told in the step's log.
    pub(super) fn annotate(&mut self, pipeline: &Pipeline, step: &str, spec: &Annotate, image: Option<&str>) {
        let (changes, findings) = changes(spec, pipeline, &self.journal.state);
        for finding in findings {
            self.journal.say(log_of(step), &format!("Not annotated: {finding}"));
        }
        for change in changes {
            let line = match self.take_up(&change, image) {
                Ok(line) => line,
                Err(why) => format!("Not annotated with `{}`: {why}", change.name),
            };
            self.journal.say(log_of(step), &line);
        }
    }

    fn take_up(&mut self, change: &Change, image: Option<&str>) -> Result<String, String> {
        if self.journal.annotations.len() >= CHANGES_MAX {
            return Err(format!("a build has at most {CHANGES_MAX} annotations"));
        }
        let entity_id = match (change.entity, change.id.as_deref()) {
            (Entity::Image, None) => {
                image.ok_or("it is about an image, and does not say which: set `entity_id`")?.to_owned()
            }
            (Entity::Image, Some(id)) => id.to_owned(),
            (entity, given) => {
                let own = self.own(entity);
                if given.is_some_and(|given| given != own) {
                    return Err(format!(
                        "a build annotates itself, its own pipeline and project, and images: {} {} is none of them",
                        entity.as_str(),
                        given.unwrap_or_default()
                    ));
                }
                own
            }
        };
        let value = match &change.value {
            Some(serde_json::Value::String(text)) => Some(self.text_of(text).into()),
            other => other.clone(),
        };
        let word = change.entity.as_str();
        let line = match &value {
            Some(value) => format!("Annotated {word} {entity_id}: {} = {value}", change.name),
            None => format!("Annotation {} of {word} {entity_id} removed", change.name),
        };
        self.journal.annotations.push(AnnotationChange {
            entity_type: word.to_owned(),
            entity_id,
            key: change.name.clone(),
            value,
            at_ms: now_ms(),
        });
        Ok(line)
    }

    fn own(&self, entity: Entity) -> String {
        let pipeline = &self.taken.pipeline_name;
        match entity {
            Entity::Pipeline => pipeline.clone(),
            Entity::Project => {
                pipeline.split_once('/').map_or(pipeline.as_str(), |(project, _)| project).to_owned()
            }
            Entity::Build | Entity::Image => self.taken.id.clone(),
        }
    }

    /// `file:PATH` is what the file of the volume holds, if there is one; secrets are masked in any case.
    fn text_of(&self, text: &str) -> String {
        let read = text.strip_prefix("file:").and_then(|path| {
            let relative =
                path.trim().trim_start_matches(crate::layout::VOLUME).trim_start_matches(['/', '.']);
            let file = Volume::open(&self.dir.volume())
                .and_then(|volume| volume.file(std::path::Path::new(relative)));
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut std::io::Read::take(file.ok()?, VALUE_BYTES_MAX), &mut bytes)
                .ok()?;
            Some(String::from_utf8_lossy(&bytes).trim_end().to_owned())
        });
        self.masker.mask_whole(&read.unwrap_or_else(|| text.to_owned()))
    }
}
