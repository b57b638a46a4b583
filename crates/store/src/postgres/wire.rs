//! One connection to PostgreSQL, driven by the thread that uses it.
//!
//! In: statements with their values. Out: rows and counts. A statement whose answer nobody needs yet is sent without
//! waiting ([`Wire::send`]); it travels with the next one that is waited for, and its failure is that one's. So the number
//! of round trips is the number of answers that decide something, not of statements. Transactions and what to do when
//! the connection breaks are the business of [`super::session`].

use std::borrow::Borrow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use futures::StreamExt;
use futures::future::join_all;
use postgres::types::ToSql;
use postgres::{NoTls, Statement};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error};

use super::values::{Parameter, Sent};
use super::{failure, questions, tls, values};
use crate::StoreError;
use crate::session::{Ask, EachRow};
use crate::sql::{Row, Value};

/// Texts with lists of places differ by their length; a session does not keep them all for ever.
const STATEMENTS_MAX: usize = 1_000;

type Answer = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;
type Driver = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

pub(super) struct Wire {
    client: Option<Arc<Client>>,
    connection: Driver,
    runtime: Runtime,
    /// In the order in which they were sent, each with what it was sent for; nobody has looked at them.
    unread: Vec<(usize, Answer)>,
    /// What is sent now is sent for this.
    pub(super) sending_for: usize,
    /// What the first failure of those that were sent was for.
    pub(super) failed_for: Option<usize>,
    /// By text, then by the types of the values.
    statements: HashMap<String, HashMap<Vec<u8>, Statement>>,
    kept: usize,
    over: bool,
    traffic: Arc<Traffic>,
}

/// What connections cost.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    /// How often an answer was waited for.
    pub(crate) trips: AtomicU64,
    pub(crate) statements: AtomicU64,
}

fn driver<S, T>(mut connection: Connection<S, T>) -> Driver
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::new(move |cx| connection.poll_message(cx))
}

fn lost() -> StoreError {
    StoreError::Unavailable { why: "the connection was lost".into() }
}

/// The first failure of those that were sent, or the count of the last.
async fn read(unread: Vec<(usize, Answer)>, failed_for: &mut Option<usize>) -> Result<u64, Error> {
    let mut count = 0;
    for (sent_for, answer) in unread {
        count = answer.await.inspect_err(|_| *failed_for = Some(sent_for))?;
    }
    Ok(count)
}

/// What is asked at once.
pub(super) enum Asked {
    /// Several statements in one text, without values.
    Batch(String),
    Question(Question),
}

/// A statement that answers one question, or several.
pub(super) struct Question {
    statement: Statement,
    values: Vec<Parameter>,
    /// How each of several is read; empty of one.
    parts: Vec<questions::Part>,
}

impl Question {
    /// Rows of each question that it answers.
    fn answers(&self, rows: Vec<Row>) -> Result<Vec<Vec<Row>>, StoreError> {
        if self.parts.is_empty() {
            return Ok(vec![rows]);
        }
        let mut answers = vec![Vec::new(); questions::count(&self.parts)];
        for row in &rows {
            let (place, row) = questions::answer(row, &self.parts)?;
            answers.get_mut(place).ok_or_else(|| StoreError::corrupt("an answer to no question"))?.push(row);
        }
        Ok(answers)
    }
}

impl Wire {
    pub(super) fn connect(
        config: &Config,
        tls: Option<tls::Connector>,
        traffic: Arc<Traffic>,
    ) -> Result<Self, StoreError> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
        let connected = runtime.block_on(async {
            Ok(match tls {
                None => {
                    let (client, connection) = config.connect(NoTls).await?;
                    (client, driver(connection))
                }
                Some(connector) => {
                    let (client, connection) = config.connect(connector).await?;
                    (client, driver(connection))
                }
            })
        });
        let (client, connection) = connected.map_err(|error: Error| failure(&error))?;
        let (unread, statements) = (Vec::new(), HashMap::new());
        Ok(Self {
            client: Some(Arc::new(client)),
            connection,
            runtime,
            unread,
            sending_for: 0,
            failed_for: None,
            statements,
            kept: 0,
            over: false,
            traffic,
        })
    }

    fn client(&self) -> Arc<Client> {
        self.client.clone().expect("it goes with the connection")
    }

    pub(super) fn is_closed(&self) -> bool {
        self.over || self.client.as_ref().is_none_or(|client| client.is_closed())
    }

    /// Until `work` is done, with the connection moving beside it.
    fn drive<T>(&mut self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.over {
            return Err(lost());
        }
        let (runtime, connection, over) = (&self.runtime, &mut self.connection, &mut self.over);
        self.traffic.trips.fetch_add(1, Ordering::Relaxed);
        let mut work = pin!(work);
        runtime.block_on(poll_fn(|cx| {
            // First, so that what it sends goes out in this turn.
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            loop {
                match connection(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(Some(Err(error))) => {
                        *over = true;
                        return Poll::Ready(Err(failure(&error)));
                    }
                    Poll::Ready(None) => {
                        *over = true;
                        return Poll::Ready(Err(lost()));
                    }
                    Poll::Pending => break,
                }
            }
            work.as_mut().poll(cx)
        }))
    }

    /// What was sent and not waited for leaves now.
    pub(super) fn push(&mut self) {
        if self.over {
            return;
        }
        // Nobody waits for it.
        self.traffic.trips.fetch_sub(1, Ordering::Relaxed);
        let _ = self.drive(async {
            let mut first = true;
            poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(Ok(())) }).await
        });
    }

    /// Nobody wants the answers to what was sent.
    pub(super) fn forget(&mut self) {
        self.unread.clear();
    }

    fn counted(&self, statements: usize) {
        self.traffic.statements.fetch_add(statements as u64, Ordering::Relaxed);
    }

    fn later(&mut self, answer: impl Future<Output = Result<u64, Error>> + Send + 'static) {
        self.counted(1);
        let mut answer: Answer = Box::pin(answer);
        // Being asked once puts it into the connection's queue.
        let asked = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let answer = match asked {
            Poll::Ready(done) => Box::pin(std::future::ready(done)),
            Poll::Pending => answer,
        };
        self.unread.push((self.sending_for, answer));
    }

    /// Several statements in one text, without values.
    pub(super) fn send_batch(&mut self, sql: String) {
        let client = self.client();
        self.later(async move { client.batch_execute(&sql).await.map(|()| 0) });
    }

    pub(super) fn send<V: Sent + Send + 'static>(&mut self, statement: Statement, values: Vec<V>) {
        let client = self.client();
        self.later(async move { client.execute_raw(&statement, values).await });
    }

    /// Waits for all that was sent; the count is the last one's.
    pub(super) fn flush(&mut self) -> Result<u64, StoreError> {
        if self.unread.is_empty() {
            return Ok(0);
        }
        let (unread, mut failed_for) = (std::mem::take(&mut self.unread), None);
        let done = self.drive(async { read(unread, &mut failed_for).await.map_err(|error| failure(&error)) });
        self.failed_for = self.failed_for.or(failed_for);
        self.noted(done)
    }

    pub(super) fn prepared<V: Sent>(&mut self, sql: &str, values: &[V]) -> Result<Statement, StoreError> {
        let types: Vec<u8> = values.iter().map(Sent::letter).collect();
        if let Some(known) = self.statements.get(sql).and_then(|of_text| of_text.get(&types)) {
            return Ok(known.clone());
        }
        if self.kept >= STATEMENTS_MAX {
            self.forget_statements();
        }
        self.counted(1);
        let client = self.client();
        let text = values::nulls_written_out(sql, values).into_owned();
        let declared: Vec<_> = values.iter().map(Sent::declared).collect();
        let statement = self.drive(async move {
            client.prepare_typed(&text, &declared).await.map_err(|error| failure(&error))
        })?;
        self.statements.entry(sql.to_owned()).or_default().insert(types, statement.clone());
        self.kept += 1;
        Ok(statement)
    }

    fn forget_statements(&mut self) {
        self.statements.clear();
        self.kept = 0;
    }

    /// Row by row, for more than fits in memory.
    pub(super) fn each(
        &mut self,
        statement: &Statement,
        values: &[Value],
        each: &mut EachRow<'_>,
    ) -> Result<(), StoreError> {
        self.counted(1);
        let (unread, client) = (std::mem::take(&mut self.unread), self.client());
        let mut failed_for = None;
        let done = self.drive(async {
            let parameters = values.iter().map(|value| value as &(dyn ToSql + Sync));
            let (before, rows) =
                tokio::join!(read(unread, &mut failed_for), client.query_raw(statement, parameters));
            before.map_err(|error| failure(&error))?;
            let mut rows = pin!(rows.map_err(|error| failure(&error))?);
            while let Some(row) = rows.next().await {
                let row = row.map_err(|error| failure(&error))?;
                values::row(&row).and_then(&mut *each)?;
            }
            Ok(())
        });
        self.failed_for = self.failed_for.or(failed_for);
        self.noted(done)
    }

    /// Questions as few statements as they can be, and where among their answers that of each question will stand.
    pub(super) fn questions(
        &mut self,
        asks: &[impl Borrow<Ask>],
    ) -> Result<(Vec<Question>, Vec<usize>), StoreError> {
        let families = questions::families(asks);
        let mut order = vec![0; asks.len()];
        for (answer, &place) in families.iter().flatten().enumerate() {
            order[place] = answer;
        }
        let asks = |places: &Vec<usize>| places.iter().map(|&place| asks[place].borrow()).collect();
        let families: Vec<Vec<&Ask>> = families.iter().map(asks).collect();
        let questions = families
            .chunks(questions::TOGETHER_MAX)
            .map(|some| self.question(some))
            .collect::<Result<_, _>>()?;
        Ok((questions, order))
    }

    /// `families`: questions that differ in their values alone.
    fn question(&mut self, families: &[Vec<&Ask>]) -> Result<Question, StoreError> {
        let mut parts = Vec::with_capacity(families.len());
        for family in families {
            let ask = family[0];
            let statement = self.prepared(&ask.sql, &ask.values)?;
            if families.len() == 1 && family.len() == 1 {
                let values = ask.values.iter().cloned().map(Parameter::One).collect();
                return Ok(Question { statement, values, parts });
            }
            let columns = statement.columns().iter().map(|column| column.type_().clone()).collect();
            parts.push(questions::Part { columns, count: family.len() });
        }
        let (sql, values) = questions::united(families, &parts);
        Ok(Question { statement: self.prepared(&sql, &values)?, values, parts })
    }

    /// Several that do not depend on each other's answers: one round trip. Gives the rows of each question.
    pub(super) fn all(&mut self, asked: &[Asked]) -> Result<Vec<Vec<Row>>, StoreError> {
        self.counted(asked.len());
        let (unread, client) = (std::mem::take(&mut self.unread), self.client());
        let mut failed_for = None;
        let one = async |asked: &Asked| {
            let question = match asked {
                Asked::Question(question) => question,
                Asked::Batch(sql) => {
                    return client
                        .batch_execute(sql)
                        .await
                        .map(|()| Vec::new())
                        .map_err(|error| failure(&error));
                }
            };
            let parameters = question.values.iter().map(|value| value as &(dyn ToSql + Sync));
            let found = client.query_raw(&question.statement, parameters).await;
            let mut found = pin!(found.map_err(|error| failure(&error))?);
            let mut rows = Vec::new();
            while let Some(row) = found.next().await {
                rows.push(values::row(&row.map_err(|error| failure(&error))?)?);
            }
            question.answers(rows)
        };
        let done = self.drive(async {
            let asking = join_all(asked.iter().map(&one));
            let (before, found) = tokio::join!(read(unread, &mut failed_for), asking);
            before.map_err(|error| failure(&error))?;
            Ok(found.into_iter().collect::<Result<Vec<_>, StoreError>>()?.into_iter().flatten().collect())
        });
        self.failed_for = self.failed_for.or(failed_for);
        self.noted(done)
    }

    /// A plan may have become stale under us; the next use prepares it again.
    fn noted<T>(&mut self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(&done, Err(StoreError::Database { why }) if STALE.iter().any(|code| why.ends_with(code)))
        {
            self.forget_statements();
        }
        done
    }
}

/// How [`failure`] ends for a statement that was prepared before a table changed, or that the server has forgotten.
const STALE: [&str; 2] = ["(0A000)", "(26000)"];

impl Drop for Wire {
    /// Says good-bye, so that the server does not have to find out.
    fn drop(&mut self) {
        self.forget();
        self.statements.clear();
        self.client = None;
        if self.over {
            return;
        }
        let (runtime, connection) = (&self.runtime, &mut self.connection);
        let end = poll_fn(|cx| {
            loop {
                match connection(cx) {
                    Poll::Ready(Some(Ok(_))) => {}
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let _ = runtime.block_on(async { tokio::time::timeout(PARTING, end).await });
    }
}

const PARTING: std::time::Duration = std::time::Duration::from_secs(1);
