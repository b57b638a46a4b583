//! `slipway app logs`: what the pods of an Application print, straight from its runtime.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use futures::StreamExt as _;
use slipway_api::Client;
use slipway_api::application::Application;
use slipway_api::proxy::{LogsRequest, PodLog, PodLogFailed};

use super::apps::{self, Name};
use super::proxy;

#[derive(Args)]
pub(crate) struct LogsArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// The kind of the resource whose pods are meant: Deployment, Job, Pod, …; without it, all pods of the Application
    #[arg(long, requires = "resource_name")]
    kind: Option<String>,
    /// The name of that resource; a pod's, without --kind
    #[arg(long = "name", id = "resource_name", value_name = "NAME")]
    resource_name: Option<String>,
    /// Its namespace, where several have that name
    #[arg(long, requires = "resource_name")]
    namespace: Option<String>,
    /// The container; without it, the default one of each pod
    #[arg(short = 'c', long)]
    container: Option<String>,
    /// Go on with what comes
    #[arg(short = 'f', long)]
    follow: bool,
    /// What was printed before the last restart
    #[arg(short = 'p', long, conflicts_with = "follow")]
    previous: bool,
    /// Only so many of the last lines of each pod
    #[arg(long, value_name = "LINES")]
    tail: Option<u64>,
    /// Only what was printed in the last 30s, 5m, 2h, …
    #[arg(long, value_name = "DURATION")]
    since: Option<String>,
    /// Put the time before each line
    #[arg(long)]
    timestamps: bool,
}

fn seconds(text: &str) -> anyhow::Result<u64> {
    let millis = slipway_dialect::duration::parse_or_seconds(text)
        .with_context(|| format!("`{text}` is not a duration: use 30s, 5m or 2h"))?;
    let seconds = millis.unsigned_abs().div_ceil(1000);
    if millis < 0 || seconds == 0 {
        bail!("--since has to be at least a second");
    }
    Ok(seconds)
}

pub(crate) async fn run(
    client: &Client,
    app: &Application,
    wish: &LogsArguments,
) -> anyhow::Result<ExitCode> {
    let mut request = LogsRequest {
        container: wish.container.clone().unwrap_or_default(),
        follow: wish.follow,
        previous: wish.previous,
        tail: wish.tail,
        since_seconds: wish.since.as_deref().map(seconds).transpose()?,
        timestamps: wish.timestamps,
        ..LogsRequest::default()
    };
    let mut alone = false;
    if let Some(name) = &wish.resource_name {
        let kind = wish.kind.as_deref().unwrap_or("Pod");
        let namespace = wish.namespace.iter().map(|namespace| format!("{namespace}/"));
        let node = apps::resource(app, &format!("{}{kind}/{name}", namespace.collect::<String>()))?;
        alone = node.kind == "Pod" && node.group.is_empty();
        request.group.clone_from(&node.group);
        request.kind.clone_from(&node.kind);
        request.namespace.clone_from(&node.namespace);
        request.resource_name.clone_from(&node.name);
    }
    let detail = serde_json::to_value(&request)?;
    let (runtime, path) = proxy::admitted(client, app, "logs", Some(detail)).await?;
    let asked = runtime.request(reqwest::Method::POST, &path).json(&request);
    let mut bytes = runtime.send(asked).await?.bytes_stream();
    let mut buffer = Vec::new();
    let mut code = ExitCode::SUCCESS;
    while let Some(part) = bytes.next().await {
        buffer.extend_from_slice(&part.context("the connection to the runtime was lost")?);
        while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = buffer.drain(..end + 2).collect();
            match Event::read(&String::from_utf8_lossy(&event)) {
                Event::End => return Ok(code),
                Event::Text(log) => print(&log, alone),
                Event::Failed(failed) => {
                    note!(
                        "{}{}",
                        if failed.pod.is_empty() { String::new() } else { format!("{}: ", failed.pod) },
                        failed.message
                    );
                    code = ExitCode::FAILURE;
                }
                Event::Other => {}
            }
        }
    }
    // Without its last event it was cut off: nobody takes half of a log for the whole.
    note!("The log ended before its end.");
    Ok(ExitCode::FAILURE)
}

enum Event {
    Text(PodLog),
    Failed(PodLogFailed),
    End,
    Other,
}

impl Event {
    fn read(text: &str) -> Self {
        let name = text.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or_default();
        let data: String = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let read = match name {
            "end" => Some(Self::End),
            "failed" => serde_json::from_str(&data).ok().map(Self::Failed),
            "" => serde_json::from_str(&data).ok().map(Self::Text),
            _ => None,
        };
        read.unwrap_or(Self::Other)
    }
}

/// Of several pods each line says whose it is.
fn print(log: &PodLog, alone: bool) {
    if alone {
        say_part!("{}", log.text);
        return;
    }
    for line in log.text.lines() {
        say!("[{}/{}] {line}", log.pod, log.container);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_durations_are_read() {
        assert!(matches!(Event::read("event: end\ndata: {}\n\n"), Event::End));
        assert!(matches!(Event::read(": still here\n\n"), Event::Other));
        let Event::Text(log) = Event::read("data: {\"pod\":\"a\",\"container\":\"c\",\"text\":\"x\\n\"}\n\n")
        else {
            panic!("a piece of a log")
        };
        assert_eq!((log.pod.as_str(), log.text.as_str()), ("a", "x\n"));
        let failed = Event::read("event: failed\ndata: {\"pod\":\"a\",\"message\":\"gone\"}\n\n");
        assert!(matches!(failed, Event::Failed(failed) if failed.message == "gone"));
        for (text, expected) in
            [("5m", Some(300)), ("90", Some(90)), ("1500ms", Some(2)), ("0s", None), ("x", None)]
        {
            assert_eq!(seconds(text).ok(), expected, "{text}");
        }
    }
}
