//! Fields that the pipeline language has and no runner here acts on.
//!
//! One table for the linter, which names each with its place, and for runners, which refuse a step that would be something
//! else without the field: an image that should be signed must not be pushed unsigned.

/// A field of a step, and what to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unsupported {
    pub field: &'static str,
    /// What a person does about it.
    pub instead: &'static str,
}

/// Of `build` steps: the step is refused.
pub const BUILD: &[Unsupported] = &[
    Unsupported {
        field: "cosign",
        instead: "sign the pushed image in a freestyle step, with the key in an encrypted variable",
    },
    Unsupported { field: "ssh", instead: "clone with a git-clone step, and COPY the folder into the image" },
    Unsupported { field: "provider", instead: "leave it out: the runner's own container engine builds" },
];

/// Of any step: it runs as if the field were not there.
pub const WITHOUT_EFFECT: &[Unsupported] = &[
    Unsupported {
        field: "buildx",
        instead: "the runner's own container engine builds for `platform`, without a builder of its own",
    },
    Unsupported { field: "docker_machine", instead: "use a runner on the machine that the step needs" },
    Unsupported { field: "env", instead: "there are no environments here: leave it out" },
    Unsupported {
        field: "use_proxy",
        instead: "the runner uses its own HTTP_PROXY, HTTPS_PROXY and NO_PROXY for every clone",
    },
    Unsupported { field: "role_arn", instead: "take on the role in a freestyle step with the AWS CLI" },
    Unsupported { field: "aws_session_name", instead: "take on the role in a freestyle step" },
    Unsupported { field: "aws_duration_seconds", instead: "take on the role in a freestyle step" },
];

/// The findings of a build step's options, in one sentence; nothing when all of them are acted on.
pub fn refusal<'a>(options: impl Iterator<Item = &'a str>) -> Option<String> {
    let wrong: Vec<String> = options
        .filter_map(|option| BUILD.iter().find(|known| known.field == option))
        .map(|known| format!("`{}` is not supported ({})", known.field, known.instead))
        .collect();
    (!wrong.is_empty()).then(|| wrong.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_cannot_be_done_is_named_at_once() {
        let said = refusal(["cosign", "metadata", "provider"].into_iter()).unwrap();
        assert!(
            said.contains("`cosign`") && said.contains("`provider`") && !said.contains("metadata"),
            "{said}"
        );
        assert_eq!(refusal(["metadata", "annotations", "secrets"].into_iter()), None);
    }
}
