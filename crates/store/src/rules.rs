//! Access rules of an account, as rows. What they mean, the `access` room decides.

use serde::{Deserialize, Serialize};
use slipway_model::RuleId;

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Rule {
    pub id: RuleId,
    pub kind: String,
    /// Ids of teams.
    pub teams: Vec<String>,
    pub actions: Vec<String>,
    pub related: Option<String>,
    pub tags: Vec<String>,
    pub tag_match: String,
    pub attributes: Vec<Attribute>,
    pub created_ms: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attribute {
    pub name: String,
    pub key: String,
    pub value: String,
}

const RULE: &str =
    "SELECT id, kind, teams, actions, related, tags, tag_match, attributes, created_ms FROM rules";

fn read(row: &Row) -> Result<Rule, StoreError> {
    Ok(Rule {
        id: row.id(0)?,
        kind: row.text(1)?,
        teams: row.json(2)?,
        actions: row.json(3)?,
        related: row.maybe_text(4)?,
        tags: row.json(5)?,
        tag_match: row.text(6)?,
        attributes: row.json(7)?,
        created_ms: row.int(8)?,
    })
}

pub fn create(tx: &mut Tx<'_>, scope: Scope, rule: &Rule) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO rules (id, account, kind, teams, actions, related, tags, tag_match, attributes, created_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        &[
            rule.id.into(),
            scope.account().into(),
            rule.kind.as_str().into(),
            crate::sql::json(&rule.teams)?,
            crate::sql::json(&rule.actions)?,
            rule.related.clone().into(),
            crate::sql::json(&rule.tags)?,
            rule.tag_match.as_str().into(),
            crate::sql::json(&rule.attributes)?,
            rule.created_ms.into(),
        ],
    )?;
    tx.rights_changed(rule.id);
    Ok(())
}

pub fn replace(tx: &mut Tx<'_>, scope: Scope, rule: &Rule) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE rules SET kind = $3, teams = $4, actions = $5, related = $6, tags = $7, tag_match = $8, attributes = $9 \
         WHERE account = $1 AND id = $2",
        &[
            scope.account().into(),
            rule.id.into(),
            rule.kind.as_str().into(),
            crate::sql::json(&rule.teams)?,
            crate::sql::json(&rule.actions)?,
            rule.related.clone().into(),
            crate::sql::json(&rule.tags)?,
            rule.tag_match.as_str().into(),
            crate::sql::json(&rule.attributes)?,
        ],
    )?;
    tx.rights_changed(rule.id);
    Ok(())
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Rule>, StoreError> {
    tx.all(&format!("{RULE} WHERE account = $1 ORDER BY kind, created_ms, id"), &[scope.account().into()])?
        .iter()
        .map(read)
        .collect()
}

/// Rules about one kind of entity: what a decision looks at.
pub fn about(tx: &mut Tx<'_>, scope: Scope, kind: &str) -> Result<Vec<Rule>, StoreError> {
    tx.ask(&asks_about(scope, kind))?.iter().map(read).collect()
}

/// What [`about`] asks.
pub fn asks_about(scope: Scope, kind: &str) -> Ask {
    Ask::new(
        format!("{RULE} WHERE account = $1 AND kind = $2 ORDER BY created_ms, id"),
        [scope.account().into(), kind.into()],
    )
}

pub fn one(tx: &mut Tx<'_>, scope: Scope, id: RuleId) -> Result<Option<Rule>, StoreError> {
    tx.one(&format!("{RULE} WHERE account = $1 AND id = $2"), &[scope.account().into(), id.into()])?
        .as_ref()
        .map(read)
        .transpose()
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: RuleId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM rules WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    tx.rights_changed(id);
    Ok(())
}
