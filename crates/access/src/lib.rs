//! One access decision for every door: who asks, what the door asks for → allow, or deny with a reason.
//!
//! In: a [`Principal`] and a [`Policy`]. Out: `Ok` or [`Denied`] with a sentence a person understands.
//! It knows no HTTP and no storage. Teams and attribute rules will join the decision here, nowhere else.

use slipway_model::{AccountId, BuildId, UserId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    pub account: AccountId,
    pub who: Who,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    User {
        id: UserId,
        name: String,
        email: String,
        role: Role,
    },
    /// A runner, by the name that its key is bound to.
    Runner {
        name: String,
    },
    /// A GitOps runtime, by the name that its key is bound to.
    Runtime {
        name: String,
    },
    /// A running build: it may use the Git host and nothing else.
    Build {
        id: BuildId,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    User,
    Administrator,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "User",
            Self::Administrator => "Admin",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::User, Self::Administrator].into_iter().find(|role| role.as_str() == text)
    }
}

impl Principal {
    /// For commits, audit and messages.
    pub fn display_name(&self) -> String {
        match &self.who {
            Who::User { name, .. } => name.clone(),
            Who::Runner { name } => format!("runner {name}"),
            Who::Runtime { name } => format!("runtime {name}"),
            Who::Build { id } => format!("build {id}"),
        }
    }
}

/// What a route asks for. Every route names one; there is no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Anybody, signed in or not.
    Public,
    /// Any person of the account.
    Member,
    Administrator,
    Runner,
    Runtime,
    /// Fetch and push: people, runtimes (fetch) and builds.
    Git,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// Nobody is signed in.
    Anonymous,
    Forbidden(String),
}

pub fn decide(principal: Option<&Principal>, policy: Policy) -> Result<(), Denied> {
    if policy == Policy::Public {
        return Ok(());
    }
    let Some(principal) = principal else { return Err(Denied::Anonymous) };
    let allowed = match (&principal.who, policy) {
        (Who::User { .. }, Policy::Member | Policy::Git) => true,
        (Who::User { role, .. }, Policy::Administrator) => *role == Role::Administrator,
        (Who::Runner { .. }, Policy::Runner) | (Who::Runtime { .. }, Policy::Runtime) => true,
        (Who::Build { .. } | Who::Runtime { .. }, Policy::Git) => true,
        _ => false,
    };
    if allowed { Ok(()) } else { Err(Denied::Forbidden(reason(principal, policy))) }
}

fn reason(principal: &Principal, policy: Policy) -> String {
    let wanted = match policy {
        Policy::Public => "nothing",
        Policy::Member => "a person's session or API key",
        Policy::Administrator => "the Administrator role",
        Policy::Runner => "a runner's key",
        Policy::Runtime => "a runtime's key",
        Policy::Git => "a person's API key or a running build's credential",
    };
    format!("this needs {wanted}, and {} is not that", principal.display_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principal(who: Who) -> Principal {
        Principal { account: AccountId::from_parts(1, [0; 5]), who }
    }

    fn user(role: Role) -> Principal {
        let id = UserId::from_parts(1, [0; 5]);
        principal(Who::User { id, name: "ada".into(), email: "ada@example.com".into(), role })
    }

    #[test]
    fn each_door_opens_for_those_it_names_and_for_nobody_else() {
        let build = principal(Who::Build { id: BuildId::from_parts(1, [0; 5]) });
        let runner = principal(Who::Runner { name: "r".into() });
        let runtime = principal(Who::Runtime { name: "t".into() });
        let (member, admin) = (user(Role::User), user(Role::Administrator));
        let everyone = [&member, &admin, &runner, &runtime, &build];
        for (policy, opens) in [
            (Policy::Public, [true, true, true, true, true]),
            (Policy::Member, [true, true, false, false, false]),
            (Policy::Administrator, [false, true, false, false, false]),
            (Policy::Runner, [false, false, true, false, false]),
            (Policy::Runtime, [false, false, false, true, false]),
            (Policy::Git, [true, true, false, true, true]),
        ] {
            let seen = everyone.map(|who| decide(Some(who), policy).is_ok());
            assert_eq!(seen, opens, "{policy:?}");
            assert_eq!(decide(None, policy).is_ok(), policy == Policy::Public, "{policy:?} for nobody");
        }
    }

    #[test]
    fn a_denial_says_what_is_needed() {
        let Err(Denied::Forbidden(reason)) = decide(Some(&user(Role::User)), Policy::Administrator) else {
            panic!("a user is no administrator")
        };
        assert_eq!(reason, "this needs the Administrator role, and ada is not that");
    }
}
