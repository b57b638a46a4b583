//! Who holds what: names that processes hold at this moment, in a table of Redis that all of them read.
//!
//! A process says every few seconds that it lives, and what it holds; what it says is forgotten when it has been silent for
//! [`SILENCE`]. No clocks are compared: a process is alive as long as Redis has its key. The table is rebuilt by whoever holds
//! something, so that a Redis which lost everything has it again after one [`Holders::say`].

use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::Mutex;

use crate::{BusError, LiveUrl};

/// A process that was not heard of for this long holds nothing.
pub const SILENCE: Duration = Duration::from_secs(15);
/// A name that nobody has said for this long leaves the table, whoever held it.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);
/// Somebody waits for the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Somebody who holds a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub process: String,
    /// Where other processes reach it; empty: it does not say.
    pub address: String,
    /// What it says about the name.
    pub note: String,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Holders {
    table: Option<Arc<Table>>,
}

struct Table {
    client: redis::Client,
    connection: Mutex<Option<MultiplexedConnection>>,
    process: String,
    address: String,
}

fn name_key(name: &str) -> String {
    format!("slipway:held:{name}")
}

fn process_key(process: &str) -> String {
    format!("slipway:holder:{process}")
}

impl Holders {
    /// There are no other processes.
    pub fn in_process() -> Self {
        Self { table: None }
    }

    /// Nothing is asked of Redis yet.
    pub fn new(url: &LiveUrl, process: &str, address: &str) -> Result<Self, BusError> {
        let LiveUrl::Redis(cache) = url else { return Ok(Self::in_process()) };
        let client = redis::Client::open(cache.url.as_str())
            .map_err(|error| BusError::Refused { why: error.to_string() })?;
        let (process, address) = (process.to_owned(), address.to_owned());
        let table = Table { client, connection: Mutex::new(None), process, address };
        Ok(Self { table: Some(Arc::new(table)) })
    }

    pub fn reaches_others(&self) -> bool {
        self.table.is_some()
    }

    /// This process lives and holds these, each with a note. What it said of other names before stays.
    pub async fn say(&self, held: &[(String, String)]) -> Result<(), BusError> {
        let Some(table) = &self.table else { return Ok(()) };
        let mut all = redis::pipe();
        all.set_ex(process_key(&table.process), &table.address, SILENCE.as_secs()).ignore();
        for (name, note) in held {
            let key = name_key(name);
            all.hset(&key, &table.process, note).ignore();
            all.expire(&key, i64::try_from(FORGOTTEN.as_secs()).unwrap_or(i64::MAX)).ignore();
        }
        table.run::<()>(&all).await
    }

    /// This process does not hold it any more.
    pub async fn release(&self, name: &str) -> Result<(), BusError> {
        match &self.table {
            Some(table) => self.forget(name, &table.process).await,
            None => Ok(()),
        }
    }

    /// Somebody who was asked does not hold it.
    pub async fn forget(&self, name: &str, process: &str) -> Result<(), BusError> {
        let Some(table) = &self.table else { return Ok(()) };
        let mut forgetting = redis::pipe();
        forgetting.hdel(name_key(name), process).ignore();
        table.run::<()>(&forgetting).await
    }

    /// This process ends: nobody waits until its silence is noticed.
    pub async fn leave(&self) -> Result<(), BusError> {
        let Some(table) = &self.table else { return Ok(()) };
        let mut leaving = redis::pipe();
        leaving.del(process_key(&table.process)).ignore();
        table.run::<()>(&leaving).await
    }

    /// For each name the *other* processes that hold it.
    pub async fn others(&self, names: &[String]) -> Result<Vec<Vec<Holder>>, BusError> {
        let Some(table) = self.table.as_ref().filter(|_| !names.is_empty()) else {
            return Ok(names.iter().map(|_| Vec::new()).collect());
        };
        let mut asking = redis::pipe();
        for name in names {
            asking.hgetall(name_key(name));
        }
        let said: Vec<Vec<(String, String)>> = table.run(&asking).await?;
        let mut processes: Vec<_> = said.iter().flatten().map(|(process, _)| process.clone()).collect();
        processes.retain(|process| *process != table.process);
        processes.sort_unstable();
        processes.dedup();
        let mut alive = std::collections::HashMap::new();
        if !processes.is_empty() {
            let mut asking = redis::pipe();
            for process in &processes {
                asking.get(process_key(process));
            }
            let addresses: Vec<Option<String>> = table.run(&asking).await?;
            alive = processes.into_iter().zip(addresses).collect();
        }
        let living = |(process, note): (String, String)| {
            let address = alive.get(&process)?.clone()?;
            Some(Holder { process, address, note })
        };
        Ok(said.into_iter().map(|of_name| of_name.into_iter().filter_map(living).collect()).collect())
    }
}

impl Table {
    /// A connection that broke is made anew once.
    async fn run<T: redis::FromRedisValue>(&self, commands: &redis::Pipeline) -> Result<T, BusError> {
        let away = |why: String| BusError::CacheAway { why };
        let asking = async {
            let mut again = true;
            loop {
                let mut connection = self.connected().await?;
                match commands.query_async(&mut connection).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) if again && (error.is_io_error() || error.is_connection_dropped()) => {
                        again = false;
                        *self.connection.lock().await = None;
                    }
                    Err(error) => {
                        *self.connection.lock().await = None;
                        return Err(away(error.to_string()));
                    }
                }
            }
        };
        match tokio::time::timeout(ANSWER_WITHIN, asking).await {
            Ok(answer) => answer,
            Err(_) => {
                // Whatever hangs there, the next one does not wait for it.
                if let Ok(mut connection) = self.connection.try_lock() {
                    *connection = None;
                }
                Err(away("not in time".to_owned()))
            }
        }
    }

    async fn connected(&self) -> Result<MultiplexedConnection, BusError> {
        let mut connection = self.connection.lock().await;
        if let Some(open) = &*connection {
            return Ok(open.clone());
        }
        let opened = self.client.get_multiplexed_async_connection().await;
        let opened = opened.map_err(|error| BusError::CacheAway { why: error.to_string() })?;
        *connection = Some(opened.clone());
        Ok(opened)
    }
}
