//! What a route asks for, before it looks at any entity.

use crate::principal::{Principal, Role, Who};
use crate::scope::{Resource, Verb};

/// Every route names one; there is no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Anybody, signed in or not.
    Public,
    /// Any person or service account, about themselves: who one is, whether one may.
    Oneself,
    /// Any person or service account of the account.
    Member(Resource),
    /// An administrator of the account.
    Administrator(Resource),
    /// An administrator of the platform.
    Platform(Resource),
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

pub fn decide(principal: Option<&Principal>, policy: Policy, verb: Verb) -> Result<(), Denied> {
    if policy == Policy::Public {
        return Ok(());
    }
    let Some(principal) = principal else { return Err(Denied::Anonymous) };
    let role = principal.role();
    let allowed = match policy {
        Policy::Public => true,
        Policy::Oneself | Policy::Member(_) => role.is_some(),
        Policy::Administrator(_) => role == Some(Role::Administrator),
        Policy::Platform(_) => principal.is_platform(),
        Policy::Runner => matches!(principal.who, Who::Runner { .. }),
        Policy::Runtime => matches!(principal.who, Who::Runtime { .. }),
        Policy::Git => !matches!(principal.who, Who::Runner { .. }),
    };
    if !allowed {
        return Err(Denied::Forbidden(reason(principal, policy)));
    }
    let resource = match policy {
        Policy::Member(resource) | Policy::Administrator(resource) | Policy::Platform(resource) => resource,
        // Which verb a Git call is, its own handler knows.
        _ => return Ok(()),
    };
    if principal.scopes.allow(resource, verb) {
        return Ok(());
    }
    let wanted = match verb {
        Verb::Read => format!("{}:read", resource.word()),
        Verb::Write => resource.word().to_owned(),
    };
    Err(Denied::Forbidden(format!(
        "this key is limited to other scopes: it needs `{wanted}`; make a key with that scope, or use another one"
    )))
}

fn reason(principal: &Principal, policy: Policy) -> String {
    let wanted = match policy {
        Policy::Public => "nothing",
        Policy::Oneself | Policy::Member(_) => {
            "a person's session, or the API key of a person or service account"
        }
        Policy::Administrator(_) => "the Administrator role",
        Policy::Platform(_) => "an administrator of the platform",
        Policy::Runner => "a runner's key",
        Policy::Runtime => "a runtime's key",
        Policy::Git => "a person's API key or a running build's credential",
    };
    format!("this needs {wanted}, and {} is not that", principal.display_name())
}

#[cfg(test)]
mod tests {
    use slipway_model::{AccountId, BuildId, ServiceAccountId, UserId};

    use super::*;
    use crate::scope::Scopes;

    fn principal(who: Who) -> Principal {
        Principal { account: AccountId::from_parts(1, [0; 5]), who, scopes: Scopes::unlimited() }
    }

    fn user(role: Role, platform: bool) -> Principal {
        let id = UserId::from_parts(1, [0; 5]);
        let (name, email, teams) = ("ada".into(), "ada@example.com".into(), vec![]);
        principal(Who::User { id, name, email, role, platform, teams })
    }

    #[test]
    fn each_door_opens_for_those_it_names_and_for_nobody_else() {
        let build = principal(Who::Build { id: BuildId::from_parts(1, [0; 5]) });
        let runner = principal(Who::Runner { name: "r".into() });
        let runtime = principal(Who::Runtime { name: "t".into() });
        let id = ServiceAccountId::from_parts(1, [0; 5]);
        let robot =
            principal(Who::ServiceAccount { id, name: "bot".into(), role: Role::User, teams: vec![] });
        let (member, admin) = (user(Role::User, false), user(Role::Administrator, false));
        let platform = user(Role::User, true);
        let everyone = [&member, &admin, &platform, &robot, &runner, &runtime, &build];
        let pipelines = Resource::Pipelines;
        for (policy, opens) in [
            (Policy::Public, [true, true, true, true, true, true, true]),
            (Policy::Oneself, [true, true, true, true, false, false, false]),
            (Policy::Member(pipelines), [true, true, true, true, false, false, false]),
            (Policy::Administrator(pipelines), [false, true, false, false, false, false, false]),
            (Policy::Platform(pipelines), [false, false, true, false, false, false, false]),
            (Policy::Runner, [false, false, false, false, true, false, false]),
            (Policy::Runtime, [false, false, false, false, false, true, false]),
            (Policy::Git, [true, true, true, true, false, true, true]),
        ] {
            let seen = everyone.map(|who| decide(Some(who), policy, Verb::Write).is_ok());
            assert_eq!(seen, opens, "{policy:?}");
            let anonymous = decide(None, policy, Verb::Read).is_ok();
            assert_eq!(anonymous, policy == Policy::Public, "{policy:?} for nobody");
        }
    }

    #[test]
    fn a_limited_key_opens_what_it_names() {
        let mut admin = user(Role::Administrator, true);
        admin.scopes = Scopes::parse(&["build:read"]).unwrap();
        let ask = |policy, verb| decide(Some(&admin), policy, verb).is_ok();
        assert!(ask(Policy::Member(Resource::Builds), Verb::Read) && ask(Policy::Oneself, Verb::Read));
        assert!(!ask(Policy::Member(Resource::Builds), Verb::Write));
        assert!(!ask(Policy::Administrator(Resource::Users), Verb::Read));
    }

    #[test]
    fn a_denial_says_what_is_needed() {
        let denied =
            decide(Some(&user(Role::User, false)), Policy::Administrator(Resource::Users), Verb::Read);
        let Err(Denied::Forbidden(reason)) = denied else { panic!("a user is no administrator") };
        assert_eq!(reason, "this needs the Administrator role, and ada is not that");
    }
}
