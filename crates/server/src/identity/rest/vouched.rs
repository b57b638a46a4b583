//! Whom an account's identity provider may bring in, as whom.
//!
//! In: what the provider said, checked. Out: a person of its account, or why not. A person is found by the provider,
//! issuer and subject together. An address counts only if the platform verified its domain for the account, and never
//! makes somebody the person of another account: whoever controls a provider could otherwise become anybody.

use slipway_access::Role;
use slipway_api::sso::SsoSettings;
use slipway_model::UserId;
use slipway_store::identity::{self, Identity, User};
use slipway_store::{Scope, Tx, sso};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::limits;
use crate::identity::oidc::Claims;
use crate::identity::rest::invitations::{Newcomer, join, new_user};

pub(crate) struct Vouching<'a> {
    pub(crate) server: &'a Server,
    pub(crate) row: &'a sso::SsoClient,
    pub(crate) settings: &'a SsoSettings,
    pub(crate) claims: &'a Claims,
}

impl Vouching<'_> {
    fn scope(&self) -> Scope {
        Scope::of(self.row.account)
    }

    fn known(&self, tx: &mut Tx<'_>) -> Result<Option<User>, ApiError> {
        Ok(identity::user_by_identity(tx, self.row.id, &self.claims.iss, &self.claims.sub)?)
    }

    fn keep(&self, tx: &mut Tx<'_>, user: UserId) -> Result<(), ApiError> {
        let identity = Identity {
            client: self.row.id,
            issuer: self.claims.iss.clone(),
            subject: self.claims.sub.clone(),
            user,
            created_ms: self.server.now_ms(),
        };
        Ok(identity::link_identity(tx, &identity)?)
    }

    /// Somebody who is signed in, and a member of the provider's account, is known there too from now on.
    pub(crate) fn link(&self, tx: &mut Tx<'_>, id: UserId) -> Result<User, ApiError> {
        let user = identity::user_by_id(tx, id)?.ok_or_else(ApiError::unauthenticated)?;
        let member = identity::member(tx, self.scope(), id)?.filter(identity::Member::is_open);
        if member.is_none() {
            return Err(ApiError::forbidden("you are no longer a member of this provider's account"));
        }
        match self.known(tx)? {
            Some(known) if known.id == id => {}
            Some(_) => return Err(ApiError::conflict("this identity belongs to another user")),
            None => self.keep(tx, id)?,
        }
        Ok(user)
    }

    /// The person who comes in, with the hash of an invitation's token if they hold one.
    pub(crate) fn enter(&self, tx: &mut Tx<'_>, invitation: Option<&str>) -> Result<User, ApiError> {
        let held = invitation.map(|hash| self.held(tx, hash)).transpose()?;
        let user = match (self.known(tx)?, &held) {
            (Some(user), _) => user,
            (None, Some(invitation)) => self.invited_newcomer(tx, invitation)?,
            (None, None) => self.newcomer(tx)?,
        };
        if !user.enabled {
            return Err(ApiError::refused_sign_in(
                "this user is disabled: ask an administrator of the platform",
            ));
        }
        match identity::member(tx, self.scope(), user.id)? {
            Some(member) if member.suspended => {
                Err(ApiError::refused_sign_in("you are suspended in this account: ask its Administrator"))
            }
            Some(_) => Ok(user),
            None => self.become_member(tx, user, held),
        }
    }

    fn become_member(
        &self,
        tx: &mut Tx<'_>,
        user: User,
        held: Option<identity::Invitation>,
    ) -> Result<User, ApiError> {
        let invitation = match held {
            Some(held) => Some(held),
            None => self.invitation_to(tx, &user.email)?,
        };
        if let Some(invitation) = invitation {
            join(tx, self.server, &invitation, &user)?;
            return Ok(user);
        }
        if !self.settings.create_members {
            return Err(not_a_member());
        }
        if let Some(refusal) = limits::refusal(tx, self.scope(), "seats")? {
            return Err(ApiError::over_limit(refusal));
        }
        identity::add_member(tx, self.scope(), user.id, Role::User.as_str(), self.server.now_ms())?;
        Ok(user)
    }

    /// The invitation whose token they brought. The token vouches for the address; the provider only for who they are.
    fn held(&self, tx: &mut Tx<'_>, hash: &str) -> Result<identity::Invitation, ApiError> {
        let found = identity::invitation_by_token(tx, hash)?
            .filter(|row| row.account == self.row.account && row.expires_ms >= self.server.now_ms());
        found.ok_or_else(|| {
            ApiError::not_found("this invitation: it was accepted, revoked or has expired; ask for a new one")
        })
    }

    fn invited_newcomer(&self, tx: &mut Tx<'_>, invitation: &identity::Invitation) -> Result<User, ApiError> {
        if identity::user_by_email(tx, &invitation.email)?.is_some() {
            return Err(taken());
        }
        self.create(tx, &invitation.email, Some(invitation))
    }

    /// An invitation of this address that is still good.
    fn invitation_to(&self, tx: &mut Tx<'_>, email: &str) -> Result<Option<identity::Invitation>, ApiError> {
        let all = identity::invitations(tx, self.scope())?;
        Ok(all.into_iter().find(|one| one.email == email && one.expires_ms >= self.server.now_ms()))
    }

    /// Somebody who was never here: invited, or because all are welcome. The provider speaks for their address.
    fn newcomer(&self, tx: &mut Tx<'_>) -> Result<User, ApiError> {
        let email = self.address(tx)?;
        if let Some(known) = identity::user_by_email(tx, &email)? {
            // Nobody but this account knows them: there is nobody else that the provider could impersonate.
            if !identity::is_unclaimed(tx, self.scope(), &known)? {
                return Err(taken());
            }
            self.keep(tx, known.id)?;
            return Ok(known);
        }
        let invitation = self.invitation_to(tx, &email)?;
        if invitation.is_none() && !self.settings.create_members {
            return Err(not_a_member());
        }
        self.create(tx, &email, invitation.as_ref())
    }

    /// The address that the provider checked, of a domain that it may speak for.
    fn address(&self, tx: &mut Tx<'_>) -> Result<String, ApiError> {
        let claimed = self.claims.email.as_deref().filter(|_| self.claims.email_verified);
        let email = claimed.map(crate::http::input::email).transpose()?.ok_or_else(|| {
            ApiError::refused_sign_in("the identity provider does not vouch for your e-mail address")
        })?;
        let domain = email.rsplit('@').next().unwrap_or_default();
        let verified = identity::domain(tx, domain)?.is_some_and(|row| row.account == self.row.account);
        if !verified {
            return Err(ApiError::refused_sign_in(format!(
                "this identity provider is not trusted for addresses of `{domain}`: an administrator of the platform can verify the domain for the account; if you have an invitation, open its link"
            )));
        }
        Ok(email)
    }

    fn create(
        &self,
        tx: &mut Tx<'_>,
        email: &str,
        invitation: Option<&identity::Invitation>,
    ) -> Result<User, ApiError> {
        let name = self.claims.name.as_deref().or(self.claims.preferred_username.as_deref());
        let name = name
            .filter(|name| !name.trim().is_empty())
            .map_or_else(|| email.split('@').next().unwrap_or_default(), str::trim);
        let new = Newcomer { email, name, password_hash: String::new(), account: self.row.account };
        let user = new_user(tx, self.server, new, invitation)?;
        self.keep(tx, user.id)?;
        if let Some(invitation) = invitation {
            join(tx, self.server, invitation, &user)?;
        }
        Ok(user)
    }
}

fn taken() -> ApiError {
    ApiError::refused_sign_in(
        "there is already a user with this e-mail: sign in as before, then link this identity provider in your settings",
    )
}

fn not_a_member() -> ApiError {
    ApiError::refused_sign_in("you are not a member of this account: ask its Administrator for an invitation")
}
