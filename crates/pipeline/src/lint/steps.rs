//! The shape of every built-in step and of the root: tables, read top to bottom.

use crate::duration::is_step_timeout;
use crate::expression::EXPRESSION_CHARS_MAX;
use crate::lint::shape::{
    Field, Object, Rule, Shape, any_key, any_object, assignment, list, list_of, map, may, must, object, text,
    variable_key, word, word_key,
};

/// What a shape depends on besides the type.
pub(super) struct Setting<'a> {
    pub(super) stages: &'a [String],
    /// Build steps know `tags`, `registry` and `disable_push`.
    pub(super) build_v2: bool,
    pub(super) in_hook: bool,
}

/// The root of the file; steps and hooks are looked at one by one afterwards.
pub(super) fn root() -> Shape {
    object(vec![
        must("version", Shape::Positive),
        must("steps", map(any_key, any_object())),
        may("stages", list(text())),
        may("mode", word(&["sequential", "parallel"])),
        may("hooks", hooks()),
        may("fail_fast", Shape::Either(vec![any_object(), text(), Shape::Flag])),
        may("strict_fail_fast", Shape::StrictFlag),
        may("success_criteria", success_criteria()),
        may("indicators", list(Shape::Any)),
        may("services", any_object()),
        may("build_version", word(&["v1", "v2"])),
    ])
}

/// Types of which the reference validator takes `arguments` that are no map (`arguments: NA`), because it never looks
/// into them.
pub(super) const TOLERANT: [&str; 5] =
    ["freestyle", "composition", "launch-composition", "deploy", "parallel"];

/// The shape of a step by its whole `type`; `None` for types whose fields belong to a plugin.
pub(super) fn step(type_name: &str, setting: &Setting<'_>) -> Option<Shape> {
    let mut object = match type_name {
        "freestyle" => freestyle(),
        "build" => build(setting),
        "push" => push(),
        "push-tag" => push_tag(),
        "git-clone" => git_clone(),
        "composition" => composition(),
        "launch-composition" => launch_composition(),
        "deploy" => deploy(),
        "pending-approval" => pending_approval(),
        "parallel" => Object {
            fields: vec![
                must("steps", map(any_key, any_object())),
                may("success_criteria", success_criteria()),
            ],
            ..Object::default()
        },
        "helm" => Object { fields: vec![may("working_directory", text())], open: true, ..Object::default() },
        "travis" => travis(),
        "simple_travis" => simple_travis(),
        "integration-test" => integration_test(),
        _ => return None,
    };
    if type_name != "freestyle" {
        object.fields.push(may("type", word(&[type_name])));
    }
    for field in common(setting) {
        // A step's own field wins over the common one of the same name.
        if !object.fields.iter().any(|own| own.name == field.name) {
            object.fields.push(field);
        }
    }
    if TOLERANT.contains(&type_name) {
        object.fields.retain(|field| field.name != "arguments");
        object.fields.push(may("arguments", Shape::Any));
    }
    if setting.in_hook {
        for name in ["debug", "on_start", "on_finish", "on_fail", "hooks", "stage"] {
            object.fields.retain(|field| field.name != name);
            object.fields.push(may(name, Shape::Forbidden));
        }
    }
    object.renames.push(("fail-fast", "fail_fast"));
    if object.fields.iter().any(|field| field.name == "working_directory") {
        object.renames.push(("working-directory", "working_directory"));
    }
    Some(Shape::Object(Box::new(object)))
}

fn common(setting: &Setting<'_>) -> Vec<Field> {
    vec![
        may("description", text()),
        may("title", text()),
        may("fail_fast", Shape::Flag),
        may("strict_fail_fast", Shape::StrictFlag),
        may(
            "docker_machine",
            Shape::Either(vec![
                object(vec![may("create", object(vec![may("provider", text())]))]),
                object(vec![may("use", object(vec![may("node", text())]))]),
            ]),
        ),
        may("arguments", any_object()),
        may("when", when()),
        may("stage", Shape::Word(setting.stages.to_vec())),
        may("retry", retry()),
        may(
            "timeout",
            Shape::OrNull(Box::new(Shape::TextLike(
                is_step_timeout,
                "<duration><s|m|h>, for example 30s or 1.5h",
            ))),
        ),
        may("debug", debug(&["before", "after"])),
        may("hooks", hooks()),
        may("on_success", old_hook()),
        may("on_fail", old_hook()),
        may("on_finish", old_hook()),
        may("env", environment()),
    ]
}

fn debug(phases: &[&'static str]) -> Shape {
    object(vec![may("phases", object(phases.iter().map(|phase| may(phase, Shape::Flag)).collect()))])
}

fn retry() -> Shape {
    object(vec![
        may("exponentialFactor", Shape::Positive),
        may("delay", Shape::Positive),
        may("maxAttempts", Shape::Positive),
    ])
}

fn condition() -> Shape {
    let expression = || {
        Shape::TextLike(
            |text| text.encode_utf16().count() <= EXPRESSION_CHARS_MAX,
            "at most 12000 characters",
        )
    };
    object(vec![may("all", map(word_key, expression())), may("any", map(word_key, expression()))])
}

fn when() -> Shape {
    let states = [
        "success",
        "running",
        "failure",
        "skipped",
        "pending",
        "terminating",
        "terminated",
        "finished",
        "approved",
        "denied",
    ];
    let dependency = || object(vec![must("name", text()), may("on", list_of(word(&states), 1))]);
    let either = Object {
        fields: vec![may("all", list_of(dependency(), 1)), may("any", list_of(dependency(), 1))],
        rules: vec![Rule::OneOf("all", "any")],
        ..Object::default()
    };
    object(vec![
        may("branch", object(vec![may("ignore", list(text())), may("only", list(text()))])),
        may("condition", condition()),
        may("steps", Shape::Either(vec![Shape::Object(Box::new(either)), list_of(dependency(), 1)])),
    ])
}

fn success_criteria() -> Shape {
    let names = || list_of(text(), 1);
    object(vec![
        may(
            "steps",
            Shape::Either(vec![object(vec![may("ignore", names()), may("only", names())]), list(text())]),
        ),
        may("condition", condition()),
    ])
}

fn hooks() -> Shape {
    let hook = || Shape::Either(vec![list(text()), any_object()]);
    object(["on_elected", "on_success", "on_fail", "on_finish"].map(|point| may(point, hook())).to_vec())
}

/// `on_success`, `on_fail`, `on_finish` beside a step's fields.
fn old_hook() -> Shape {
    object(vec![may("metadata", metadata()), may("annotations", annotations())])
}

pub(super) fn metadata() -> Shape {
    object(vec![may("set", list(map(any_key, metadata_values())))])
}

/// A list of names, or of names with a value.
fn metadata_values() -> Shape {
    list(Shape::Either(vec![annotation_object(), annotation_name()]))
}

fn annotation_object() -> Shape {
    let evaluated = object(vec![must("evaluate", text())]);
    map(word_key, Shape::Either(vec![text(), Shape::Flag, Shape::Number, evaluated]))
}

fn annotation_name() -> Shape {
    Shape::TextLike(word_key, "letters, digits and underscores")
}

pub(super) fn annotations() -> Shape {
    let entity = |values: Shape| {
        vec![may("entity_id", text()), may("entity_type", text()), must("annotations", list(values))]
    };
    let mut set = entity(Shape::Either(vec![annotation_object(), annotation_name()]));
    set.push(may("display", text()));
    object(vec![may("set", list(object(set))), may("unset", list(object(entity(annotation_name()))))])
}

/// What a hook may hold around its steps.
pub(super) fn hook_frame(exec: Shape) -> Shape {
    object(vec![may("exec", exec), may("metadata", metadata()), may("annotations", annotations())])
}

pub(super) fn hook_steps() -> Shape {
    object(vec![
        may("mode", word(&["sequential", "parallel"])),
        may("fail_fast", Shape::Flag),
        may("strict_fail_fast", Shape::StrictFlag),
        may("steps", map(any_key, any_object())),
    ])
}

/// `env`: the environment that a step deploys to.
fn environment() -> Shape {
    object(vec![
        must("name", text()),
        may("endpoints", list(object(vec![may("name", text()), may("url", text())]))),
        may("type", word(&["kubernetes", "helm-release"])),
        may("change", text()),
        may(
            "filters",
            list(object(vec![
                may("cluster", text()),
                may("namespace", text()),
                may("releaseName", text()),
                may("selectors", list(text())),
            ])),
        ),
    ])
}

fn credentials() -> Shape {
    object(vec![must("username", text()), must("password", text())])
}

fn freestyle() -> Object {
    let words = || Shape::Either(vec![text(), list(text())]);
    Object {
        fields: vec![
            may("working_directory", text()),
            must("image", text()),
            may("commands", list(text())),
            may("cmd", words()),
            may("volumes", list(Shape::TextLike(|volume| volume.contains(':'), "source:target"))),
            may("environment", list(text())),
            may("entry_point", words()),
            may("shell", word(&["sh", "bash"])),
            may("services", Shape::Either(vec![any_object(), list(Shape::Any)])),
            may("debug", debug(&["before", "override", "after"])),
            may("registry_context", text()),
            may("registry_contexts", Shape::Forbidden),
            may("role_arn", text()),
            may("cache", Shape::Either(vec![cache(), list_of(cache(), 1)])),
        ],
        open: true,
        rules: vec![
            Rule::Without("commands", "cmd"),
            Rule::Without("shell", "cmd"),
            Rule::With("role_arn", "registry_context"),
        ],
        ..Object::default()
    }
}

/// Folders of the volume that are kept between builds under a key.
fn cache() -> Shape {
    object(vec![
        must("key", text()),
        must("paths", list_of(text(), 1)),
        may("files", list_of(text(), 1)),
        may("restore_keys", list(text())),
    ])
}

fn build(setting: &Setting<'_>) -> Object {
    let texts = |names: &[&'static str]| names.iter().map(|name| may(name, text())).collect::<Vec<_>>();
    let mut fields = vec![
        must("image_name", text()),
        may("dockerfile", Shape::Either(vec![text(), object(vec![may("content", text())])])),
        may("tag_policy", word(&["original", "lowercase"])),
        may("metadata", object(vec![may("set", metadata_values())])),
        may("annotations", annotations()),
        may("ssh", ssh()),
        may("secrets", secrets()),
        may("buildx", buildx()),
        may("provider", provider()),
        may("cosign", object(vec![must("sign", Shape::Flag), may("options", map(any_key, text()))])),
        may("aws_duration_seconds", Shape::Number),
    ];
    fields.extend(texts(&[
        "working_directory",
        "tag",
        "target",
        "progress",
        "region",
        "role_arn",
        "aws_session_name",
    ]));
    for name in ["no_cache", "no_cf_cache", "squash", "buildkit"] {
        fields.push(may(name, Shape::Flag));
    }
    for name in ["cache_from", "cache_to", "build_arguments", "registry_contexts"] {
        fields.push(may(name, list(text())));
    }
    if setting.build_v2 {
        fields.push(may("tags", list(text())));
        fields.push(may("registry", text()));
        fields.push(may("disable_push", Shape::Flag));
    }
    Object {
        fields,
        renames: vec![
            ("image-name", "image_name"),
            ("build-arguments", "build_arguments"),
            ("tag-policy", "tag_policy"),
        ],
        rules: vec![Rule::NeedsSwitch { field: "platform", switch: "buildx" }],
        ..Object::default()
    }
}

fn ssh() -> Shape {
    Shape::Either(vec![
        word(&["default"]),
        list_of(text(), 1),
        Shape::Map { key: any_key, value: Box::new(text()), min: 1 },
    ])
}

fn secrets() -> Shape {
    let secret = object(vec![must("id", text()), must("src", text())]);
    Shape::Either(vec![list_of(secret, 1), list_of(text(), 1)])
}

fn buildx() -> Shape {
    Shape::Either(vec![
        Shape::Flag,
        object(vec![
            may("qemu", object(vec![may("image", text()), may("platforms", text())])),
            may("builder", object(vec![may("driver", text()), may("driver_opts", text())])),
        ]),
    ])
}

/// Google's builder has arguments of its own; the built-in one takes any.
fn provider() -> Shape {
    let arguments = object(vec![
        may("google_app_creds", text()),
        must("cache", object(vec![must("repo", text()), may("ttl", text())])),
        may("timeout", text()),
        may("machineType", word(&["UNSPECIFIED", "N1_HIGHCPU_8", "N1_HIGHCPU_32"])),
        may("diskSizeGb", Shape::Number),
        may("logsBucket", text()),
    ]);
    Shape::Either(vec![
        object(vec![must("type", word(&["gcb"])), may("arguments", arguments)]),
        object(vec![may("type", word(&["cf"])), may("arguments", Shape::Any)]),
    ])
}

fn push() -> Object {
    let mut fields = vec![
        must("candidate", text()),
        may(
            "provider",
            Shape::TextLike(
                |name| name.starts_with("standard") || name.contains("docker") || name.ends_with("ecr"),
                "standard, docker or ecr",
            ),
        ),
        may("credentials", credentials()),
        may("tags", list(text())),
        may("aws_duration_seconds", Shape::Number),
    ];
    let texts = [
        "registry",
        "registry_context",
        "tag",
        "image_name",
        "accessKeyId",
        "secretAccessKey",
        "region",
        "role_arn",
        "aws_session_name",
    ];
    fields.extend(texts.map(|name| may(name, text())));
    Object { fields, ..Object::default() }
}

fn push_tag() -> Object {
    Object {
        fields: vec![
            must("image_name", text()),
            must("tags", list(text())),
            may("region", text()),
            may("role_arn", text()),
            may("aws_session_name", text()),
            may("aws_duration_seconds", Shape::Number),
        ],
        ..Object::default()
    }
}

fn git_clone() -> Object {
    Object {
        fields: vec![
            may("working_directory", text()),
            must("repo", text()),
            may("revision", text()),
            may("credentials", credentials()),
            may("git", text()),
            may("use_proxy", Shape::Flag),
            may("depth", Shape::Number),
            may("exclude_blobs", Shape::Flag),
            may("skip_tags_on_update", Shape::Flag),
        ],
        ..Object::default()
    }
}

fn composition() -> Object {
    let candidate =
        Object { fields: vec![may("working_directory", Shape::Forbidden)], open: true, ..Object::default() };
    Object {
        fields: vec![
            may("working_directory", text()),
            must("composition", Shape::Either(vec![any_object(), text()])),
            must("composition_candidates", map(|_| true, Shape::Object(Box::new(candidate)))),
            may("composition_variables", list(text())),
            may("registry_contexts", list(text())),
            may("registry_context", Shape::Forbidden),
        ],
        open: true,
        renames: vec![
            ("composition-candidates", "composition_candidates"),
            ("composition-variables", "composition_variables"),
        ],
        ..Object::default()
    }
}

fn launch_composition() -> Object {
    Object {
        fields: vec![
            may("working_directory", text()),
            must("composition", Shape::Either(vec![any_object(), text()])),
            may("composition_variables", list(text())),
        ],
        open: true,
        renames: vec![("composition-variables", "composition_variables")],
        ..Object::default()
    }
}

fn deploy() -> Object {
    Object {
        fields: vec![
            must("kind", text()),
            must("cluster", text()),
            must("namespace", text()),
            may("file_path", text()),
            may("timeout", text()),
            may("candidate", object(vec![must("image", text()), must("registry", text())])),
        ],
        open: true,
        rules: vec![Rule::InsteadOf { if_field: "file_path", field: "service" }],
        ..Object::default()
    }
}

fn pending_approval() -> Object {
    Object {
        fields: vec![may(
            "timeout",
            object(vec![
                may("timeUnit", word(&["hours", "minutes"])),
                may("duration", Shape::Positive),
                may("finalState", word(&["terminated", "approved", "denied"])),
            ]),
        )],
        ..Object::default()
    }
}

fn side_services() -> Shape {
    let environment =
        Shape::Either(vec![list(Shape::TextLike(assignment, "NAME=value")), map(variable_key, text())]);
    map(
        |_| true,
        object(vec![must("image", text()), may("ports", list(Shape::Any)), may("environment", environment)]),
    )
}

fn ready_made_services() -> Shape {
    list(word(&[
        "mysql",
        "postgresql",
        "mariadb",
        "mongodb",
        "couchdb",
        "rabbitmq",
        "memcached",
        "redis",
        "cassandra",
        "neo4j",
        "elasticsearch",
        "rethinkdb",
    ]))
}

fn test_with(commands: Field) -> Shape {
    object(vec![must("image", text()), commands, may("working_directory", text())])
}

fn travis() -> Object {
    Object {
        fields: vec![must("services", side_services()), must("test", test_with(must("command", text())))],
        open: true,
        ..Object::default()
    }
}

fn simple_travis() -> Object {
    Object {
        fields: vec![
            must("services", ready_made_services()),
            must("test", test_with(must("command", text()))),
        ],
        open: true,
        ..Object::default()
    }
}

fn integration_test() -> Object {
    let commands = list_of(Shape::TextLike(|command| !command.trim().is_empty(), "a command"), 1);
    Object {
        fields: vec![
            may("services", side_services()),
            may("preconfigured_services", ready_made_services()),
            must("test", test_with(must("commands", commands))),
        ],
        open: true,
        ..Object::default()
    }
}
