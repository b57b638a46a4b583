//! Projects: a name that pipelines share, with tags that rules look at and variables that their builds get.

use slipway_model::{ChangeKind, ProjectId};

use crate::{Ask, Row, Scope, StoreError, Tx};

#[derive(Debug, Clone)]
pub struct Project {
    pub id: ProjectId,
    pub name: String,
    pub tags: Vec<String>,
    /// JSON list of variables; encrypted ones arrive here sealed.
    pub variables: String,
    /// Names of shared configuration that every pipeline of the project gets.
    pub contexts: Vec<String>,
    pub created_ms: i64,
    pub updated_ms: i64,
}

const PROJECT: &str = "SELECT id, name, tags, variables, contexts, created_ms, updated_ms FROM projects";

fn project(row: &Row) -> Result<Project, StoreError> {
    Ok(Project {
        id: row.id(0)?,
        name: row.text(1)?,
        tags: row.json(2)?,
        variables: row.text(3)?,
        contexts: row.json(4)?,
        created_ms: row.int(5)?,
        updated_ms: row.int(6)?,
    })
}

pub fn create(tx: &mut Tx<'_>, scope: Scope, new: &Project) -> Result<(), StoreError> {
    if by_name(tx, scope, &new.name)?.is_some() {
        return Err(StoreError::Duplicate { what: format!("project `{}`", new.name) });
    }
    tx.execute(
        "INSERT INTO projects (id, account, name, tags, variables, contexts, created_ms, updated_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &[
            new.id.into(),
            scope.account().into(),
            new.name.as_str().into(),
            crate::sql::json(&new.tags)?,
            new.variables.as_str().into(),
            crate::sql::json(&new.contexts)?,
            new.created_ms.into(),
            new.updated_ms.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Pipeline, new.id);
    Ok(())
}

/// The project of that name, made when it is not there.
pub fn ensure(
    tx: &mut Tx<'_>,
    scope: Scope,
    id: ProjectId,
    name: &str,
    now_ms: i64,
) -> Result<Project, StoreError> {
    if let Some(known) = by_name(tx, scope, name)? {
        return Ok(known);
    }
    let new = Project {
        id,
        name: name.to_owned(),
        tags: Vec::new(),
        variables: "[]".into(),
        contexts: Vec::new(),
        created_ms: now_ms,
        updated_ms: now_ms,
    };
    create(tx, scope, &new)?;
    Ok(new)
}

pub fn by_name(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Option<Project>, StoreError> {
    tx.ask(&asks_by_name(scope, name))?.first().map(project).transpose()
}

/// What [`by_name`] asks.
pub fn asks_by_name(scope: Scope, name: &str) -> Ask {
    Ask::new(format!("{PROJECT} WHERE account = $1 AND name = $2"), [scope.account().into(), name.into()])
}

pub fn by_id(tx: &mut Tx<'_>, scope: Scope, id: ProjectId) -> Result<Option<Project>, StoreError> {
    tx.one(&format!("{PROJECT} WHERE account = $1 AND id = $2"), &[scope.account().into(), id.into()])?
        .as_ref()
        .map(project)
        .transpose()
}

pub fn list(tx: &mut Tx<'_>, scope: Scope) -> Result<Vec<Project>, StoreError> {
    tx.ask(&asks_list(scope))?.iter().map(project).collect()
}

/// What [`list`] asks.
pub fn asks_list(scope: Scope) -> Ask {
    Ask::new(format!("{PROJECT} WHERE account = $1 ORDER BY name"), [scope.account().into()])
}

pub fn update(tx: &mut Tx<'_>, scope: Scope, project: &Project) -> Result<(), StoreError> {
    if by_name(tx, scope, &project.name)?.is_some_and(|other| other.id != project.id) {
        return Err(StoreError::Duplicate { what: format!("project `{}`", project.name) });
    }
    tx.execute(
        "UPDATE projects SET name = $3, tags = $4, variables = $5, contexts = $6, updated_ms = $7 \
         WHERE account = $1 AND id = $2",
        &[
            scope.account().into(),
            project.id.into(),
            project.name.as_str().into(),
            crate::sql::json(&project.tags)?,
            project.variables.as_str().into(),
            crate::sql::json(&project.contexts)?,
            project.updated_ms.into(),
        ],
    )?;
    tx.changed(scope.account(), ChangeKind::Pipeline, project.id);
    Ok(())
}

pub fn delete(tx: &mut Tx<'_>, scope: Scope, id: ProjectId) -> Result<(), StoreError> {
    tx.execute("DELETE FROM projects WHERE account = $1 AND id = $2", &[scope.account().into(), id.into()])?;
    tx.changed(scope.account(), ChangeKind::Pipeline, id);
    Ok(())
}
