//! Groups of an identity provider as teams of its account.

use slipway_access::Role;
use slipway_api::sso::SsoSettings;
use slipway_store::sso;
use slipway_store::{Scope, Tx, identity};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::oidc::Claims;

/// A group becomes a team. Teams that were made by hand are not the provider's to fill, whatever its groups are called.
pub(crate) fn sync_teams(
    tx: &mut Tx<'_>,
    server: &Server,
    row: &sso::SsoClient,
    settings: &SsoSettings,
    claims: &Claims,
    user: &identity::User,
) -> Result<(), ApiError> {
    let Some(claim) = &settings.groups_claim else { return Ok(()) };
    let (scope, member, client) = (Scope::of(row.account), user.id.to_string(), row.id.to_string());
    let groups = claims.groups(claim);
    let mut wanted = Vec::new();
    for group in &groups {
        let name = team_name(group);
        if crate::http::input::plain_name("a team", &name).is_err()
            || [identity::EVERYBODY, identity::ADMINISTRATORS].contains(&name.as_str())
        {
            continue;
        }
        let ours = Some((client.clone(), group.clone()));
        let team = match identity::team_by_name(tx, scope, &name)? {
            Some(mut team) => {
                if team.source == "sso" && team.group.is_none() {
                    identity::claim_team(tx, team.id, &client, group)?;
                    team.group.clone_from(&ours);
                }
                team
            }
            None => {
                let team = identity::Team {
                    id: server.seams().new_id(),
                    name,
                    kind: "custom".into(),
                    source: "sso".into(),
                    group: ours.clone(),
                    tags: Vec::new(),
                    created_ms: server.now_ms(),
                };
                identity::create_team(tx, scope, &team)?;
                team
            }
        };
        // Another group, or another provider's, whose name comes out the same does not open this team.
        if team.source == "sso" && team.group == ours {
            identity::add_to_team(tx, team.id, &member, "sso")?;
            wanted.push(team.id);
        }
    }
    for team in identity::teams(tx, scope)?
        .into_iter()
        .filter(|team| team.source == "sso" && !wanted.contains(&team.id))
        .filter(|team| team.group.as_ref().is_none_or(|(of, _)| *of == client))
    {
        identity::remove_from_team(tx, team.id, &member)?;
    }
    if let Some(admins) = &settings.admin_group {
        let role = if groups.contains(admins) { Role::Administrator } else { Role::User };
        let others = identity::administrators(tx, scope)?.into_iter().any(|id| id != user.id);
        // The last Administrator stays one, whatever the provider thinks.
        if role == Role::Administrator || others {
            identity::set_role(tx, scope, user.id, role.as_str())?;
        }
    }
    Ok(())
}

/// `Platform Team` → `platform-team`.
fn team_name(group: &str) -> String {
    let mapped: String = group
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .take(63)
        .collect();
    mapped.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_names_that_teams_can_have() {
        assert_eq!(team_name("Platform Team"), "platform-team");
        assert_eq!(team_name("org:dev_ops"), "org-dev-ops");
        assert_eq!(team_name("--x--"), "x");
    }
}
