//! The control plane: identity, pipelines, builds, the Git host, the read model of GitOps, and the web UI.
//!
//! In: HTTP. Out: answers after commit, long-polled work for runners and runtimes, live pages. It dials
//! no agent: runners and runtimes come to it. It holds no kubeconfig, and no source code beyond the
//! repositories of the built-in host; of Git providers it has what a context gives it, sealed.

mod agents;
mod background;
pub mod bootstrap;
mod ci;
mod ctx;
mod facts;
mod gitops;
mod http;
mod identity;
mod seal;
mod seams;
mod settings;

pub use ctx::{Config, Network, Parts, Server, StartError};
pub use gitops::peers::peer_address;
pub use http::egress::EgressRules;
pub use http::error::ApiError;
pub use http::graphql::sdl as graphql_schema;
pub use http::listen::{serve, serve_with};
pub use http::roles::{Role, Roles};
pub use http::router::{doors, openapi, router};
pub use http::routes::Door;
pub use http::tls::{Tls, TlsError};
pub use identity::tokens::NewKey;
pub use seams::Seams;
