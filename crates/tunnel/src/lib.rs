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
mod carrier;
mod dial;
mod headers;
mod name;
mod relay;
mod sessions;
mod upgrade;

pub use agent::{Agent, Connection, answer_through, serve};
pub use carrier::{Carried, Carrier, accept_key};
pub use dial::{Dial, DialError, Proxy, Server};
pub use headers::{MisroutedHost, label_of, outside_headers, without_hops};
pub use name::{NotAName, TunnelName};
pub use relay::relay;
pub use sessions::{ForwardError, Payload, SessionStatus, Sessions};

/// What an agent asks to upgrade to when its bytes travel raw.
pub const PROTOCOL: &str = "slipway-tunnel";

/// Where an agent asks for it.
pub const PATH: &str = "/api/agent/tunnel";

/// How both halves set their HTTP/2 up.
pub(crate) mod limits {
    use std::time::Duration;

    /// A stream may hold this much that nobody has read yet, and the connection that of every stream it may have: whoever
    /// stops reading stalls its own stream and no other. Together they bound what one tunnel costs: 64 MiB.
    pub(crate) const STREAM_WINDOW: u32 = 64 << 10;
    pub(crate) const STREAMS: u32 = 1_000;
    pub(crate) const CONNECTION_WINDOW: u32 = STREAM_WINDOW * STREAMS;
    pub(crate) const HEADERS: u32 = 64 << 10;
    /// A connection that swallows everything is known to be dead after the two together.
    pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
    pub(crate) const PING_WITHIN: Duration = Duration::from_secs(5);
}
