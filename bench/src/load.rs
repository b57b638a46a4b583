//! An open-loop generator: requests are due at fixed moments, and a late one's wait counts as its latency.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The request with this number, and which kind it counts as.
pub(crate) type Make = dyn Fn(usize) -> (&'static str, http::Request<Full<Bytes>>) + Send + Sync;

pub(crate) struct Outcome {
    /// Kind, latency, and whether the answer was a good one.
    pub(crate) answers: Vec<(&'static str, Duration, bool)>,
    pub(crate) took: Duration,
}

impl Outcome {
    pub(crate) fn per_second(&self) -> f64 {
        self.answers.iter().filter(|(.., good)| *good).count() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn failed(&self) -> usize {
        self.answers.iter().filter(|(.., good)| !*good).count()
    }

    /// In milliseconds.
    pub(crate) fn percentile(&self, kind: &str, share: f64) -> f64 {
        let mut times: Vec<_> =
            self.answers.iter().filter(|(of, ..)| *of == kind).map(|(_, time, _)| *time).collect();
        times.sort();
        let index = ((times.len() as f64 * share) as usize).min(times.len().saturating_sub(1));
        times.get(index).map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0)
    }
}

pub(crate) async fn connect(address: &str) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// `rate` of 0: as fast as `connections` can. Else one request is due every 1/rate seconds.
pub(crate) async fn run(
    address: &str,
    connections: usize,
    rate: u64,
    count: usize,
    make: Arc<Make>,
) -> anyhow::Result<Outcome> {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let workers: Vec<_> = (0..connections)
        .map(|_| {
            let (address, next, make) = (address.to_owned(), next.clone(), make.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                let mut sender = connect(&address).await?;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return anyhow::Ok(answers);
                    }
                    let due = match 1_000_000_000_u64.checked_div(rate) {
                        Some(pause) => started + Duration::from_nanos(pause * number as u64),
                        None => Instant::now(),
                    };
                    // A timer counts whole milliseconds: who has nothing to wait for does not ask it.
                    if rate > 0 {
                        tokio::time::sleep_until(due.into()).await;
                    }
                    let (kind, request) = make(number);
                    let good = match answer(&mut sender, request).await {
                        Ok(good) => good,
                        Err(_) => {
                            sender = connect(&address).await?;
                            false
                        }
                    };
                    answers.push((kind, due.elapsed(), good));
                }
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(count);
    for worker in workers {
        answers.extend(worker.await??);
    }
    Ok(Outcome { answers, took: started.elapsed() })
}

async fn answer(
    sender: &mut SendRequest<Full<Bytes>>,
    request: http::Request<Full<Bytes>>,
) -> anyhow::Result<bool> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    let good = response.status().is_success();
    response.into_body().collect().await?;
    Ok(good)
}
