//! `slipway retention`: how long the account keeps builds and their logs.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::context;
use super::output::{OutputArguments, print_one};

#[derive(Args)]
pub(crate) struct RetentionArguments {
    /// Delete builds that ended so many days ago, with their logs; `forever` keeps them
    #[arg(long, value_name = "DAYS", value_parser = days)]
    builds: Option<Kept>,
    /// Delete logs of builds that ended so many days ago; `forever` keeps them as long as their builds
    #[arg(long, value_name = "DAYS", value_parser = days)]
    logs: Option<Kept>,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Clone, Copy)]
enum Kept {
    Forever,
    Days(i64),
}

fn days(text: &str) -> Result<Kept, String> {
    match text {
        "forever" => Ok(Kept::Forever),
        number => {
            number.parse().map(Kept::Days).map_err(|_| "give a number of days, or `forever`".to_owned())
        }
    }
}

/// Changes what was given, and says how it is then.
pub(crate) async fn run(arguments: RetentionArguments) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    let mut account: Value = client.get("/api/account").await?;
    let wanted = [("keepBuildsDays", arguments.builds), ("keepLogsDays", arguments.logs)];
    if wanted.iter().any(|(_, kept)| kept.is_some()) {
        let mut settings = account["settings"].as_object().cloned().unwrap_or_default();
        for (name, kept) in wanted {
            match kept {
                Some(Kept::Days(days)) => settings.insert(name.to_owned(), days.into()),
                Some(Kept::Forever) => settings.remove(name),
                None => None,
            };
        }
        let request = client.request(reqwest::Method::PATCH, "/api/account");
        account = client.send(request.json(&json!({"settings": settings}))).await?.json().await?;
    }
    let settings = &account["settings"];
    let kept =
        json!({"keepBuildsDays": settings["keepBuildsDays"], "keepLogsDays": settings["keepLogsDays"]});
    print_one(arguments.output.output, &kept, "retention", || {
        for (what, name) in [("Builds", "keepBuildsDays"), ("Logs", "keepLogsDays")] {
            match settings[name].as_i64() {
                Some(days) => say!("{what} are kept for {days} days after the end of the build"),
                None if name == "keepLogsDays" => say!("Logs are kept as long as their builds"),
                None => say!("{what} are kept for ever"),
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}
