//! One outbound connection that carries many requests the other way: a runtime dials the platform, and the platform's
//! callers reach the runtime through it.
//!
//! In: on the platform's side a byte stream whose other end has proved who it is, and requests for a tunnel's name; on the
//! runtime's side the platform's address, a credential and one local address. Out: responses, unchanged.
//!
//! The connection speaks HTTP/2 with the roles reversed: the side that dialled is the HTTP server. A request of a caller is one
//! stream, with flow control, trailers and resets as HTTP/2 has them; WebSockets and other upgrades are an extended CONNECT
//! (RFC 8441). It travels raw or inside of WebSocket frames, for proxies that let nothing else through.
//!
//! Does not know: accounts, runtimes and their rights (a name and a verdict come in), what is behind the local address, nor
//! where other processes of the platform hold their tunnels. A tunnel proves nothing about a caller: who is behind it asks for
//! itself.

mod agent;
mod ahead;
mod carrier;
mod client;
mod dial;
mod frames;
mod headers;
mod name;
mod pulse;
mod reading;
mod relay;
mod server;
mod sessions;
mod stream;
mod traffic;
mod upgrade;
mod window;

pub use agent::{Agent, Connection, serve};
pub use ahead::ReadAhead;
pub use carrier::{Carried, Carrier, accept_key};
pub use dial::{Dial, DialError, Proxy, Server};
pub use headers::{MisroutedHost, is_grpc, label_of, outside_headers, without_hops};
pub use name::{NotAName, TunnelName};
pub use relay::relay;
pub use server::answer_through;
pub use sessions::{ForwardError, Payload, SessionStatus, Sessions};
pub use traffic::Traffic;

/// What an agent asks to upgrade to when its bytes travel raw.
pub const PROTOCOL: &str = "slipway-tunnel";

/// Where an agent asks for it.
pub const PATH: &str = "/api/agent/tunnel";

/// Why a tunnel's connection ended.
#[derive(Debug, thiserror::Error)]
pub enum TunnelError {
    #[error("{0}")]
    Broken(#[from] h2::Error),
    #[error("the other end said nothing for {} seconds", (limits::PING_EVERY + limits::PING_WITHIN).as_secs())]
    Silent,
}

/// How both halves set their HTTP/2 up.
pub(crate) mod limits {
    use std::time::Duration;

    /// Of bodies, as much as travels in one piece; a ping never waits for more.
    pub(crate) const FRAME: u32 = 64 << 10;
    /// What is kept of a connection of HTTP/1.1 whose other end does not read.
    pub(crate) const BUFFER: usize = 64 << 10;
    /// Callers leave in the middle of answers, many at once: what still comes of those is known for a while as nobody's. By default h2
    /// knows twenty, and ends a connection after a thousand that it did not know, however long that took.
    pub(crate) const LEFT: usize = 2 << 10;
    pub(crate) const REMEMBERED: Duration = Duration::from_secs(10);
    pub(crate) const ASTRAY: usize = 1 << 20;
    pub(crate) const HEADERS: u32 = 64 << 10;
    /// A connection that swallows everything is known to be dead after the two together.
    pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
    pub(crate) const PING_WITHIN: Duration = Duration::from_secs(5);
}
