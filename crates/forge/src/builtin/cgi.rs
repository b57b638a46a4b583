//! Smart HTTP by `git http-backend`, spoken to as CGI: it knows every version of the protocol.
//! It sees the one repository and no network.

use std::path::PathBuf;

use slipway_cage::{Child, Stream, Streams};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::GitHostError;
use super::repository::{cage, command};

pub struct CgiRequest<R> {
    /// The folder that holds the repository.
    pub repository: PathBuf,
    /// Folders of objects that the repository borrows: Git may read them besides. A repository of the host borrows none.
    pub borrows: Vec<PathBuf>,
    /// What follows the repository in the path: `/info/refs`, `/git-upload-pack` or `/git-receive-pack`.
    pub path: String,
    pub method: String,
    pub query: String,
    pub content_type: String,
    pub content_encoding: String,
    pub git_protocol: String,
    pub user: String,
    pub body: R,
}

pub struct CgiAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: BufReader<pipe::Receiver>,
    /// Wait for it after the body: a push is done when Git has ended well.
    pub child: Child,
}

pub async fn serve<R>(request: CgiRequest<R>) -> Result<CgiAnswer, GitHostError>
where
    R: AsyncRead + Send + Unpin + 'static,
{
    let mut command = command(&request.repository);
    command
        .arg("http-backend")
        .env_remove("GIT_DIR")
        .env("GIT_PROJECT_ROOT", &request.repository)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", &request.path)
        .env("REQUEST_METHOD", &request.method)
        .env("QUERY_STRING", &request.query)
        .env("CONTENT_TYPE", &request.content_type)
        .env("HTTP_CONTENT_ENCODING", &request.content_encoding)
        .env("GIT_PROTOCOL", &request.git_protocol)
        .env("REMOTE_USER", &request.user);
    let streams = Streams { stderr: Stream::Null, ..Streams::talking() };
    let cage = request.borrows.iter().fold(cage(&request.repository), |cage, folder| cage.read(folder));
    let mut child = cage.spawn(&command, streams).map_err(GitHostError::Start)?;
    let mut stdin = slipway_cage::writer(child.stdin.take().expect("stdin is piped"))?;
    let mut input = request.body;
    tokio::spawn(async move {
        // Git closes its end early when it refuses; that is its answer, not an error of ours.
        let _ = tokio::io::copy(&mut input, &mut stdin).await;
        let _ = stdin.shutdown().await;
    });
    let mut body = BufReader::new(slipway_cage::reader(child.stdout.take().expect("stdout is piped"))?);
    let mut status = 200;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        if body.read_line(&mut line).await? == 0 {
            return Err(GitHostError::Answer { command: "http-backend".into(), repository: request.path });
        }
        let line = line.trim_end();
        if line.is_empty() {
            return Ok(CgiAnswer { status, headers, body, child });
        }
        if let Some((name, value)) = line.split_once(':') {
            let value = value.trim();
            if name.eq_ignore_ascii_case("status") {
                status = value.split(' ').next().and_then(|code| code.parse().ok()).unwrap_or(500);
            } else {
                headers.push((name.to_ascii_lowercase(), value.to_owned()));
            }
        }
    }
}
