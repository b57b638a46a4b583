//! The binary: flags → configuration → wiring; and the CLI verbs, which are clients like any other.

#[macro_use]
mod say;
mod admin;
mod cli;
mod kube;
mod local;
mod private;
mod runner;
mod runtime;
mod serve;
mod up;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use cli::create;
use cli::nouns::{KeptCommand, NounCommand, SeenCommand};

/// A self-hosted CI/CD and GitOps platform in one binary.
#[derive(Parser)]
#[command(name = "slipway", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the whole platform on this machine, with a demo
    Up(up::UpArguments),
    /// Run one control-plane process of a platform on PostgreSQL, RabbitMQ and Redis
    Server(Box<serve::ServerArguments>),
    /// Run a runner: an agent that takes builds from a server; or install one in a cluster
    Runner(Box<runner::RunnerArguments>),
    /// Back up, restore and other administration of a platform
    #[command(subcommand)]
    Admin(admin::AdminCommand),
    /// Remove the containers of a stopped platform's pods; its data stays
    Down {
        /// Data folder of `slipway up`
        #[arg(long, default_value = ".slipway", env = "SLIPWAY_DATA")]
        data: PathBuf,
        /// Take out of a cluster of your own (`up --kubeconfig`) all that the platform put there; what was deployed stays
        #[arg(long)]
        remove: bool,
    },
    /// Run only the embedded Kubernetes, for trying out and testing on one machine
    Devcluster(DevclusterArguments),
    /// Manage contexts: which server, and who you are there
    #[command(subcommand)]
    Auth(cli::context::AuthCommand),
    /// Sign in to a server (short for `auth login`)
    Login(cli::context::LoginArguments),
    /// Show who you are to the server (short for `auth whoami`)
    Whoami(cli::output::OutputArguments),
    /// Manage pipelines: list, get, create, edit, delete, export, run
    #[command(subcommand)]
    Pipeline(Box<cli::pipelines::PipelineCommand>),
    /// Manage builds: list, get, logs, terminate, restart, debug, wait
    #[command(subcommand)]
    Build(Box<cli::builds::BuildCommand>),
    /// Print or follow the log of a build (short for `build logs`)
    Logs(cli::builds::LogsArguments),
    /// Run a pipeline file on this machine, or start a build of a pipeline on the server
    Run(cli::builds::RunArguments),
    /// Manage Applications: list, get, plan, diff, sync, rollback, set, wait
    #[command(subcommand)]
    App(cli::apps::AppCommand),
    /// Try out ApplicationSets
    #[command(subcommand)]
    Appset(cli::appset::AppsetCommand),
    /// Check Rollouts in files, look at those of a cluster, promote and abort them
    #[command(subcommand)]
    Rollout(Box<cli::rollouts::RolloutCommand>),
    /// Workflows in files
    #[command(subcommand)]
    Workflow(Box<cli::workflows::WorkflowCommand>),
    /// Manage projects
    #[command(subcommand)]
    Project(NounCommand<create::ProjectArguments>),
    /// Manage repositories of the built-in Git host, and who may push
    #[command(alias = "repos")]
    Repo(cli::repos::ReposArguments),
    /// Run a GitOps runtime that connects to a platform; or install, look after and remove runtimes in clusters
    Runtime(Box<runtime::RuntimeArguments>),
    /// Manage the clusters that runtimes deploy to: list, add, remove
    #[command(subcommand)]
    Cluster(cli::clusters::ClusterCommand),
    /// List runners; `slipway runner` runs one
    #[command(subcommand)]
    Runners(SeenCommand),
    /// Manage users; `create` invites one
    #[command(subcommand)]
    User(NounCommand<create::UserArguments>),
    /// Manage open invitations
    #[command(subcommand)]
    Invitation(KeptCommand),
    /// Manage teams
    #[command(subcommand)]
    Team(NounCommand<create::TeamArguments>),
    /// Manage service accounts
    #[command(subcommand)]
    ServiceAccount(NounCommand<create::ServiceAccountArguments>),
    /// Manage API keys
    #[command(subcommand, alias = "api-key")]
    Key(NounCommand<create::KeyArguments>),
    /// Manage shared configuration and integrations of the account
    #[command(subcommand)]
    Context(NounCommand<create::ContextArguments>),
    /// Manage access rules
    #[command(subcommand)]
    Rule(NounCommand<create::RuleArguments>),
    /// Manage accounts (administrators of the platform only)
    #[command(subcommand)]
    Account(NounCommand<create::AccountArguments>),
    /// Explain who may do what
    #[command(subcommand)]
    Access(cli::access::AccessCommand),
    /// Verify or download the audit log; `slipway get audit` lists it
    #[command(subcommand)]
    Audit(cli::access::AuditCommand),
    /// Rotate the keys that secrets are encrypted with
    #[command(subcommand)]
    Secrets(cli::access::SecretsCommand),
    /// List resources: usage, audit, identity-providers, …; for others older form of `slipway <noun> list`
    #[command(hide = true)]
    Get(cli::nouns::GetArguments),
    #[command(hide = true)]
    Describe(cli::nouns::DescribeArguments),
    #[command(subcommand, hide = true)]
    Create(create::CreateCommand),
    #[command(hide = true)]
    Delete(cli::nouns::DeleteArguments),
    #[command(hide = true)]
    Pipelines(cli::output::OutputArguments),
    /// Show or set how long the account keeps builds and logs
    Retention(cli::retention::RetentionArguments),
    /// Check whether the platform can be used from here, and say what to do if not
    Doctor(cli::doctor::DoctorArguments),
    /// Open the platform, or one of its pages, in a browser
    Open {
        /// Path of the page, for example /builds
        #[arg(default_value = "/")]
        path: String,
    },
    /// Print the version, or ask the platform which updates there are
    Version(cli::versions::VersionArguments),
    /// Check pipeline files: exit 0 when valid, 1 with findings, 2 when a file cannot be read
    Lint(cli::offline::LintArguments),
    /// Sign a pipeline file, for runners that run signed pipelines alone (`slipway runner --trust`)
    Sign(cli::offline::SignArguments),
    /// Evaluate a condition: prints true or false; exit 2 and the reason when it is not valid
    Eval(cli::offline::EvalArguments),
    /// Print the JSON Schema of pipeline files, for editors
    Schema,
    /// Run one engine alone on a cluster, without a control plane
    #[command(subcommand)]
    Engine(EngineCommand),
    /// Compare this version with acceptance data
    #[command(subcommand)]
    Conformance(cli::offline::ConformanceCommand),
    /// Print the definitions of all custom resources, for `kubectl apply --filename -`; an engine that may installs them itself
    Crds,
    /// Print a completion script
    Completion { shell: clap_complete::Shell },
}

#[derive(Subcommand)]
enum EngineCommand {
    /// Reconcile Argo CD's Applications
    Gitops {
        /// The cluster; the pod's own service account when left out
        #[arg(long, env = "KUBECONFIG")]
        kubeconfig: Option<PathBuf>,
        /// Where the Applications and their Secrets are
        #[arg(long, default_value = "argocd")]
        namespace: String,
        /// Where mirrors of repositories and rendered manifests are kept
        #[arg(long, default_value = ".slipway/engine")]
        data: PathBuf,
        /// Where metrics are served and webhooks come in; nowhere when left out
        #[arg(long)]
        listen: Option<std::net::SocketAddr>,
        #[command(flatten)]
        engines: Box<runtime::EngineOptions>,
    },
    /// Carry out Rollouts
    Rollouts {
        /// The cluster; the pod's own service account when left out
        #[arg(long, env = "KUBECONFIG")]
        kubeconfig: Option<PathBuf>,
        /// The engine's own namespace; Rollouts of all namespaces are looked after
        #[arg(long, default_value = "argo-rollouts")]
        namespace: String,
        /// A folder of the engine's own
        #[arg(long, default_value = ".slipway/engine")]
        data: PathBuf,
        /// Where metrics are served; nowhere when left out
        #[arg(long)]
        listen: Option<std::net::SocketAddr>,
        /// Only Rollouts whose label argo-rollouts.argoproj.io/controller-instance-id says this
        #[arg(long, default_value = "")]
        instance_id: String,
    },
    /// Carry out Workflows: containers, scripts, steps, graphs, pauses; what is not supported yet is refused by name
    Workflows {
        /// The cluster; the pod's own service account when left out
        #[arg(long, env = "KUBECONFIG")]
        kubeconfig: Option<PathBuf>,
        /// The engine's own namespace
        #[arg(long, default_value = "argo")]
        namespace: String,
        /// Only Workflows of this namespace; of all when left out
        #[arg(long)]
        managed_namespace: Option<String>,
        /// A folder of the engine's own
        #[arg(long, default_value = ".slipway/engine")]
        data: PathBuf,
        /// Where metrics are served; nowhere when left out
        #[arg(long)]
        listen: Option<std::net::SocketAddr>,
        /// Only Workflows whose label workflows.argoproj.io/controller-instanceid says this
        #[arg(long, default_value = "")]
        instance_id: String,
        /// The image with slipway-executor, for outputs of containers; Workflows that need it are refused without it
        #[arg(long)]
        executor_image: Option<String>,
    },
}

#[derive(clap::Args)]
struct DevclusterArguments {
    /// Where the cluster keeps everything
    #[arg(long, default_value = ".slipway/cluster")]
    data: PathBuf,
    /// Where the API listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:6440")]
    listen: std::net::SocketAddr,
    /// Where to write the kubeconfig
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
}

fn main() -> ExitCode {
    // The supervisor of a build's step is this program again; it must not start threads first.
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == slipway_runner::shim::SUBCOMMAND) {
        return slipway_runner::shim::main(words);
    }
    private::from_now_on();
    slipway_heap::share_heaps();
    let arguments = Arguments::parse();
    rustls::crypto::aws_lc_rs::default_provider().install_default().expect("the first to install a provider");
    let outcome = match arguments.command {
        Command::Lint(arguments) => return cli::offline::lint(&arguments),
        Command::Sign(arguments) => cli::offline::sign(&arguments),
        Command::Eval(arguments) => return cli::offline::eval(&arguments),
        Command::Schema => return cli::offline::schema(),
        Command::Appset(command) => cli::appset::run(&command),
        Command::Rollout(command) => {
            cli::rollouts::run(&command).unwrap_or_else(|| run(Command::Rollout(command)))
        }
        Command::Workflow(command) => {
            cli::workflows::run(&command).unwrap_or_else(|| run(Command::Workflow(command)))
        }
        Command::Conformance(command) => return cli::offline::conformance(&command),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "slipway", &mut std::io::stdout());
            return ExitCode::SUCCESS;
        }
        Command::Crds => {
            let all: Vec<_> = slipway_crd::manifests().iter().map(slipway_yaml::to_yaml).collect();
            say_part!("{}", all.join("---\n"));
            return ExitCode::SUCCESS;
        }
        Command::Version(arguments) if !arguments.check => cli::offline::version(arguments.output),
        online => run(online),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            note!("error: {}", cli::context::explain(&error));
            ExitCode::FAILURE
        }
    }
}

/// By then a start is over; who lives longer is somebody who serves, or waits.
const SETTLED_AFTER: std::time::Duration = std::time::Duration::from_secs(10);

async fn settle() {
    tokio::time::sleep(SETTLED_AFTER).await;
    let _ = tokio::task::spawn_blocking(slipway_heap::settle).await;
}

#[tokio::main]
async fn run(command: Command) -> anyhow::Result<ExitCode> {
    tokio::spawn(settle());
    match command {
        Command::Up(arguments) => up::up(arguments).await,
        Command::Server(arguments) => serve::serve(*arguments).await,
        Command::Runner(arguments) => runner::run(*arguments).await,
        Command::Admin(command) => admin::run(command).await,
        Command::Down { data, remove } => up::down(&data, remove).await,
        Command::Devcluster(arguments) => {
            up::devcluster(arguments.data, arguments.listen, arguments.kubeconfig).await
        }
        Command::Engine(EngineCommand::Gitops { kubeconfig, namespace, data, listen, engines }) => {
            private::folder(&data)?;
            let mut config = slipway_runtime::Config::new("engine", kubeconfig, data);
            config.namespace = namespace;
            config.listen = listen;
            engines.apply(&mut config)?;
            up::engine(config).await
        }
        Command::Engine(EngineCommand::Rollouts { kubeconfig, namespace, data, listen, instance_id }) => {
            private::folder(&data)?;
            let mut config = slipway_runtime::Config::new("engine", kubeconfig, data);
            config.namespace = namespace;
            config.listen = listen;
            config.rollouts = Some(slipway_runtime::RolloutsConfig { instance_id });
            config.engines_off = slipway_runtime::Config::all_but_rollouts();
            up::engine(config).await
        }
        Command::Engine(EngineCommand::Workflows {
            kubeconfig,
            namespace,
            managed_namespace,
            data,
            listen,
            instance_id,
            executor_image,
        }) => {
            private::folder(&data)?;
            let mut config = slipway_runtime::Config::new("engine", kubeconfig, data);
            config.namespace = namespace;
            config.listen = listen;
            let namespace = managed_namespace;
            config.workflows =
                Some(slipway_runtime::WorkflowsConfig { instance_id, namespace, executor_image });
            config.engines_off = slipway_runtime::Config::all_but_workflows();
            up::engine(config).await
        }
        Command::Rollout(command) => cli::rollouts::run_online(*command).await,
        Command::Workflow(command) => cli::workflows::run_online(*command).await,
        Command::Auth(command) => cli::context::run(command).await,
        Command::Login(arguments) => cli::context::login(arguments).await,
        Command::Whoami(output) => cli::context::whoami(output).await,
        Command::Pipeline(command) => cli::pipelines::run(*command).await,
        Command::Build(command) => cli::builds::run(*command).await,
        Command::Logs(arguments) => cli::builds::logs(arguments).await,
        Command::Run(arguments) => cli::builds::start(arguments).await,
        Command::App(command) => cli::apps::run(command).await,
        Command::Project(command) => cli::nouns::run("project", command).await,
        Command::Repo(arguments) => cli::repos::run(arguments).await,
        Command::Runtime(arguments) => runtime::run(*arguments).await,
        Command::Cluster(command) => cli::clusters::run(command).await,
        Command::Runners(command) => cli::nouns::run_seen("runner", command).await,
        Command::User(command) => cli::nouns::run("user", command).await,
        Command::Invitation(command) => cli::nouns::run_kept("invitation", command).await,
        Command::Team(command) => cli::nouns::run("team", command).await,
        Command::ServiceAccount(command) => cli::nouns::run("service-account", command).await,
        Command::Key(command) => cli::nouns::run("api-key", command).await,
        Command::Context(command) => cli::nouns::run("context", command).await,
        Command::Rule(command) => cli::nouns::run("rule", command).await,
        Command::Account(command) => cli::nouns::run("account", command).await,
        Command::Access(command) => cli::access::access(command).await,
        Command::Audit(command) => cli::access::audit(command).await,
        Command::Secrets(command) => cli::access::secrets(command).await,
        Command::Get(arguments) => cli::nouns::get(arguments).await,
        Command::Describe(arguments) => cli::nouns::describe(arguments).await,
        Command::Create(command) => cli::create::run(command).await,
        Command::Delete(arguments) => cli::nouns::delete(arguments).await,
        Command::Pipelines(output) => cli::pipelines::list_all(output).await,
        Command::Retention(arguments) => cli::retention::run(arguments).await,
        Command::Doctor(arguments) => cli::doctor::run(arguments).await,
        Command::Version(arguments) => cli::versions::check(arguments.output).await,
        Command::Open { path } => cli::open::open(&path),
        _ => unreachable!("answered without a runtime"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What prints in a form of its own, and why `-o` would promise something that it does not do.
    const WITHOUT_FORMAT: &[(&str, &str)] = &[
        ("up", "runs until it is stopped; `--output json` is one line for scripts"),
        ("server", "runs until it is stopped; `--output json` is one line for scripts"),
        ("runner", "runs until it is stopped, or prints what its subcommands do"),
        ("devcluster", "runs until it is stopped"),
        ("engine gitops", "runs until it is stopped"),
        ("engine rollouts", "runs until it is stopped"),
        ("engine workflows", "runs until it is stopped"),
        ("runtime", "runs until it is stopped"),
        ("runtime run", "runs until it is stopped"),
        ("down", "prints its progress"),
        ("runtime install", "prints its progress, as lines of JSON with --silent, or manifests"),
        ("runtime upgrade", "prints its progress, as lines of JSON with --silent"),
        ("runtime rollback", "prints its progress, as lines of JSON with --silent"),
        ("runtime uninstall", "prints its progress, as lines of JSON with --silent"),
        ("runtime logs", "a log"),
        ("runner install", "prints its progress, or manifests"),
        ("runner uninstall", "prints its progress"),
        ("build logs", "a log"),
        ("app logs", "a log"),
        ("workflow logs", "a log"),
        ("app exec", "what the command prints"),
        ("logs", "a log"),
        ("run", "a log"),
        ("pipeline run", "a log"),
        ("build debug", "a shell"),
        ("pipeline export", "YAML that `pipeline create -f` takes"),
        ("app render", "manifests that kubectl takes"),
        ("sign", "the signed file"),
        ("schema", "a JSON Schema"),
        ("crds", "what kubectl reads"),
        ("completion", "a script"),
        ("open", "opens a browser"),
        ("conformance pipelines", "a report whose last line is its result"),
        ("conformance gitops", "a report whose last line is its result"),
        ("conformance rollouts", "a report whose last line is its result"),
        ("conformance workflows", "a report whose last line is its result"),
    ];

    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        let mut verbs = 0;
        for verb in command.get_subcommands().filter(|verb| verb.get_name() != "help") {
            verbs += 1;
            leaves(verb, format!("{path} {}", verb.get_name()).trim_start(), found);
        }
        if verbs == 0 || !command.is_subcommand_required_set() {
            found.push((path.to_owned(), command.clone()));
        }
    }

    fn commands() -> Vec<(String, clap::Command)> {
        let mut command = Arguments::command();
        command.build();
        let mut found = Vec::new();
        leaves(&command, "", &mut found);
        found.retain(|(path, _)| !path.is_empty());
        found
    }

    #[test]
    fn everything_that_prints_takes_every_output_format() {
        Arguments::command().debug_assert();
        let formats = ["table", "wide", "json", "yaml", "name"];
        let mut wrong = Vec::new();
        for (path, command) in commands() {
            let output = command.get_arguments().find(|argument| argument.get_short() == Some('o'));
            let values = output.map(|output| output.get_possible_values()).unwrap_or_default();
            let named: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
            let exempt = WITHOUT_FORMAT.iter().any(|(name, _)| *name == path);
            let hidden_refusal = path == "admin agent-key";
            if (named == formats) == exempt && !hidden_refusal {
                wrong.push(path);
            }
        }
        assert_eq!(wrong, Vec::<String>::new(), "with `-o` but excepted, or without it and not excepted");
        for (name, _) in WITHOUT_FORMAT {
            assert!(commands().iter().any(|(path, _)| path == name), "there is no `{name}`");
        }
    }

    #[test]
    fn lists_that_change_can_be_watched() {
        for name in ["app list", "app get", "build list"] {
            let all = commands();
            let (_, command) = all.iter().find(|(path, _)| path == name).unwrap();
            assert!(command.get_arguments().any(|argument| argument.get_short() == Some('w')), "{name}");
        }
    }

    #[test]
    fn an_engine_that_does_not_exist_cannot_be_switched_off() {
        let parse =
            |name: &str| Arguments::try_parse_from(["slipway", "engine", "gitops", "--without", name]);
        for name in ["applications", "application-sets", "hydrator", "notifications"] {
            assert!(parse(name).is_ok(), "{name}");
        }
        // Who reports is not somebody else's.
        for wrong in ["application", "report-applications"] {
            let error = parse(wrong).err().expect("refused").to_string();
            assert!(error.contains(wrong) && error.contains("application-sets"), "{error}");
        }
    }
}
