//! Who there is: accounts, people and their memberships, teams, service accounts, sessions and keys.
//! Secrets arrive here already hashed.

mod accounts;
mod bearer;
mod invitations;
mod keys;
mod service_accounts;
mod sessions;
mod teams;
mod users;
mod vouching;

pub use accounts::*;
pub use bearer::*;
pub use invitations::*;
pub use keys::*;
pub use service_accounts::*;
pub use sessions::*;
pub use teams::*;
pub use users::*;
pub use vouching::*;
