//! What a route asks for, before it looks at any entity.

use crate::principal::{Principal, Role, Who};
use crate::scope::{Resource, Verb};

/// Every route names one; there is no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// Anybody, signed in or not.
    Public,
    /// Any person or service account, whatever their key is limited to: reading who one is, and doors behind which every
    /// field asks for itself. Nothing is changed through one.
    Known,
    /// A person or service account about themselves: sessions, password, which account. Not with a limited key.
    Oneself,
    /// A runtime's app-proxy asks for its caller. Which scope that needs the operation says that it asks about.
    Proxied,
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
        Policy::Known | Policy::Oneself | Policy::Proxied | Policy::Member(_) => role.is_some(),
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
        Policy::Known if verb == Verb::Read => return Ok(()),
        Policy::Known | Policy::Oneself => return unlimited(principal),
        // Which verb a Git call or an operation of an app-proxy is, its own handler knows.
        Policy::Public | Policy::Proxied | Policy::Runner | Policy::Runtime | Policy::Git => return Ok(()),
    };
    match lacks_scope(principal, resource, verb) {
        None => Ok(()),
        Some(reason) => Err(Denied::Forbidden(reason)),
    }
}

/// Why a limited key is not enough for this; `None` when it is.
pub fn lacks_scope(principal: &Principal, resource: Resource, verb: Verb) -> Option<String> {
    if principal.scopes.allow(resource, verb) {
        return None;
    }
    let wanted = match verb {
        Verb::Read => format!("{}:read", resource.word()),
        Verb::Write => resource.word().to_owned(),
    };
    Some(format!(
        "this key is limited to other scopes: it needs `{wanted}`; make a key with that scope, or use another one"
    ))
}

fn unlimited(principal: &Principal) -> Result<(), Denied> {
    if !principal.scopes.is_limited() {
        return Ok(());
    }
    let reason = "a key that is limited to scopes does nothing to its owner's sessions, password and accounts: sign in, or use a key without scopes";
    Err(Denied::Forbidden(reason.into()))
}

fn reason(principal: &Principal, policy: Policy) -> String {
    let wanted = match policy {
        Policy::Public => "nothing",
        Policy::Known | Policy::Oneself | Policy::Proxied | Policy::Member(_) => {
            "a person's session, or the API key of a person or service account"
        }
        Policy::Administrator(_) => "the Administrator role",
        Policy::Platform(_) => "platform administrator rights",
        Policy::Runner => "a runner's key",
        Policy::Runtime => "a runtime's key",
        Policy::Git => "a person's API key or a running build's credential",
    };
    format!("{} needs {wanted} to do this", principal.display_name())
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
            (Policy::Known, [true, true, true, true, false, false, false]),
            (Policy::Oneself, [true, true, true, true, false, false, false]),
            (Policy::Proxied, [true, true, true, true, false, false, false]),
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
        assert!(ask(Policy::Member(Resource::Builds), Verb::Read) && ask(Policy::Known, Verb::Read));
        // Reading who one is needs no scope; doing anything to oneself needs a key without limits.
        for (policy, verb) in
            [(Policy::Known, Verb::Write), (Policy::Oneself, Verb::Read), (Policy::Oneself, Verb::Write)]
        {
            assert!(!ask(policy, verb), "{policy:?} {verb:?}");
        }
        assert!(!ask(Policy::Member(Resource::Builds), Verb::Write));
        assert!(!ask(Policy::Administrator(Resource::Users), Verb::Read));
    }

    #[test]
    fn a_denial_says_what_is_needed() {
        let denied =
            decide(Some(&user(Role::User, false)), Policy::Administrator(Resource::Users), Verb::Read);
        let Err(Denied::Forbidden(reason)) = denied else { panic!("a user is no administrator") };
        assert_eq!(reason, "ada needs the Administrator role to do this");
    }
}
