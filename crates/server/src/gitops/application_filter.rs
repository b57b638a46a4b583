//! Which Applications a list shows, in which order, and which part of it.
//!
//! In: the query of a request, and every row that the caller may see. Out: one page, the total, and how many there are by
//! state. It asks nobody and decides nothing about rights.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Deserialize;
use slipway_api::application::{ApplicationFacets, ApplicationList, ApplicationRow};
use slipway_model::{HealthCode, SyncCode};
use utoipa::IntoParams;

use crate::http::error::ApiError;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 500;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// At most this many, 1 to 500; 100 unless given.
    pub(crate) limit: Option<usize>,
    /// How many to leave out first.
    pub(crate) offset: Option<usize>,
    /// A part of the name, namespace, project, repository, path or destination; several words must all be found.
    pub(crate) search: Option<String>,
    /// Healthy, Progressing, Degraded, Suspended, Missing or Unknown; several with commas.
    pub(crate) health: Option<String>,
    /// Synced, OutOfSync or Unknown; several with commas.
    pub(crate) sync: Option<String>,
    /// Several with commas.
    pub(crate) runtime: Option<String>,
    /// The namespace that the Application is in; several with commas.
    pub(crate) namespace: Option<String>,
    /// Several with commas.
    pub(crate) project: Option<String>,
    /// `key=value` or `key`; several with commas must all be there.
    pub(crate) label: Option<String>,
    /// This very name.
    pub(crate) name: Option<String>,
    /// `name` (unless given), `problems` (what needs attention first) or `changed` (the latest change first).
    pub(crate) sort: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Name,
    Problems,
    Changed,
}

/// Every filter that a facet is counted without.
const FACETS: usize = 5;

pub(crate) struct Filter {
    limit: usize,
    offset: usize,
    words: Vec<String>,
    labels: Vec<(String, Option<String>)>,
    /// Health, sync, runtime, namespace and project; empty is any.
    chosen: [Vec<String>; FACETS],
    order: Order,
}

impl Filter {
    pub(crate) fn read(query: &ListQuery) -> Result<Self, ApiError> {
        let limit = query.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(ApiError::bad_request(format!(
                "limit is {limit}: give a number from 1 to {LIMIT_MAX}"
            )));
        }
        let order = match query.sort.as_deref() {
            None | Some("name") => Order::Name,
            Some("problems") => Order::Problems,
            Some("changed") => Order::Changed,
            Some(other) => {
                let said = format!("cannot sort by `{other}`: give name, problems or changed");
                return Err(ApiError::bad_request(said));
            }
        };
        let label = |text: String| match text.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (text, None),
        };
        let search = query.search.as_deref().unwrap_or_default().to_lowercase();
        Ok(Self {
            limit,
            offset: query.offset.unwrap_or(0),
            words: search.split_whitespace().map(str::to_owned).collect(),
            labels: several(query.label.as_deref()).into_iter().map(label).collect(),
            chosen: [
                several(query.health.as_deref()),
                several(query.sync.as_deref()),
                several(query.runtime.as_deref()),
                several(query.namespace.as_deref()),
                several(query.project.as_deref()),
            ],
            order,
        })
    }

    /// `rows` come by name.
    pub(crate) fn page(&self, rows: Vec<ApplicationRow>) -> ApplicationList {
        let (fitting, [health, sync, runtime, namespace, project]) = self.choose(rows);
        ApplicationList {
            total: fitting.len(),
            applications: fitting.into_iter().skip(self.offset).take(self.limit).collect(),
            facets: ApplicationFacets { health, sync, runtime, namespace, project },
        }
    }

    /// All that fit, in order.
    pub(crate) fn all(&self, rows: Vec<ApplicationRow>) -> Vec<ApplicationRow> {
        self.choose(rows).0
    }

    fn choose(&self, rows: Vec<ApplicationRow>) -> (Vec<ApplicationRow>, [BTreeMap<String, usize>; FACETS]) {
        let mut counts: [BTreeMap<String, usize>; FACETS] = Default::default();
        let mut fitting: Vec<ApplicationRow> = Vec::new();
        for row in rows.into_iter().filter(|row| self.is_searched_for(row)) {
            let values = facets_of(&row);
            let fits: [bool; FACETS] = std::array::from_fn(|facet| {
                let chosen = &self.chosen[facet];
                chosen.is_empty() || chosen.iter().any(|value| value == values[facet])
            });
            let misses = fits.iter().filter(|fit| !**fit).count();
            for facet in 0..FACETS {
                if misses == 0 || (misses == 1 && !fits[facet]) {
                    *counts[facet].entry(values[facet].to_owned()).or_default() += 1;
                }
            }
            if misses == 0 {
                fitting.push(row);
            }
        }
        match self.order {
            Order::Name => {}
            Order::Problems => fitting.sort_by_key(severity),
            Order::Changed => fitting.sort_by(|a, b| b.observed_at.cmp(&a.observed_at)),
        }
        (fitting, counts)
    }

    fn is_searched_for(&self, row: &ApplicationRow) -> bool {
        let has = |(key, value): &(String, Option<String>)| {
            row.labels.get(key).is_some_and(|held| value.as_ref().is_none_or(|value| held == value))
        };
        if !self.labels.iter().all(has) {
            return false;
        }
        if self.words.is_empty() {
            return true;
        }
        let texts = [
            &row.name,
            &row.namespace,
            &row.project,
            &row.repo_url,
            &row.path,
            &row.destination,
            &row.destination_name,
        ];
        let texts = texts.map(|text| text.to_lowercase());
        self.words.iter().all(|word| texts.iter().any(|text| text.contains(word.as_str())))
    }
}

fn several(text: Option<&str>) -> Vec<String> {
    let parts = text.unwrap_or_default().split(',').map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn facets_of(row: &ApplicationRow) -> [&str; FACETS] {
    [row.health_status.as_str(), row.sync_status.as_str(), &row.runtime, &row.namespace, &row.project]
}

/// What a person should look at first: broken, then unknown, then on its way, then what differs from Git.
fn severity(row: &ApplicationRow) -> (usize, usize, Reverse<String>) {
    // A word that nobody knows is looked at as the worst.
    let health = match row.health_status.known() {
        Some(HealthCode::Degraded) | None => 0,
        Some(HealthCode::Missing) => 1,
        Some(HealthCode::Unknown) => 2,
        Some(HealthCode::Progressing) => 3,
        Some(HealthCode::Suspended) => 4,
        Some(HealthCode::Healthy) => 5,
    };
    let sync = match row.sync_status.known() {
        Some(SyncCode::Unknown) | None => 0,
        Some(SyncCode::OutOfSync) => 1,
        Some(SyncCode::Synced) => 2,
    };
    // An Application whose manifests cannot be read is as urgent as one that is degraded, however well the old version runs.
    let failed =
        row.operation.as_ref().is_some_and(|operation| matches!(&*operation.phase, "Failed" | "Error"));
    let urgent = if failed || (sync == 0 && health > 1) { 1 } else { health };
    (urgent, sync, Reverse(row.observed_at.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, health: &str, sync: &str) -> ApplicationRow {
        ApplicationRow {
            runtime: "local".into(),
            namespace: "argocd".into(),
            name: name.into(),
            project: "default".into(),
            repo_url: "https://git.example.com/team/shop.git".into(),
            health_status: health.into(),
            sync_status: sync.into(),
            ..ApplicationRow::default()
        }
    }

    fn names(list: &ApplicationList) -> Vec<&str> {
        list.applications.iter().map(|row| row.name.as_str()).collect()
    }

    fn ask(query: ListQuery, rows: &[ApplicationRow]) -> ApplicationList {
        Filter::read(&query).map_err(|error| error.to_string()).unwrap().page(rows.to_vec())
    }

    #[test]
    fn a_page_is_a_part_and_the_total_is_of_all() {
        let rows: Vec<_> = (0..25).map(|at| row(&format!("app-{at:02}"), "Healthy", "Synced")).collect();
        let page = ask(ListQuery { limit: Some(10), offset: Some(20), ..ListQuery::default() }, &rows);
        assert_eq!((page.applications.len(), page.total), (5, 25));
        assert_eq!(names(&page)[0], "app-20");
        assert_eq!(page.facets.health["Healthy"], 25);
    }

    #[test]
    fn facets_say_what_another_choice_would_show() {
        let rows = [
            row("a", "Healthy", "Synced"),
            row("b", "Degraded", "Synced"),
            row("c", "Degraded", "OutOfSync"),
        ];
        let page = ask(ListQuery { health: Some("Degraded".into()), ..ListQuery::default() }, &rows);
        assert_eq!(names(&page), ["b", "c"]);
        assert_eq!((page.facets.health["Healthy"], page.facets.health["Degraded"]), (1, 2));
        assert_eq!((page.facets.sync["Synced"], page.facets.sync["OutOfSync"]), (1, 1));
    }

    #[test]
    fn every_word_of_a_search_is_found_somewhere() {
        let mut rows = [row("web", "Healthy", "Synced"), row("worker", "Healthy", "Synced")];
        rows[0].labels.insert("team".into(), "blue".into());
        let page = ask(ListQuery { search: Some("SHOP we".into()), ..ListQuery::default() }, &rows);
        assert_eq!(names(&page), ["web"]);
        let page = ask(ListQuery { label: Some("team=blue".into()), ..ListQuery::default() }, &rows);
        assert_eq!(names(&page), ["web"]);
        let page = ask(ListQuery { label: Some("team=red".into()), ..ListQuery::default() }, &rows);
        assert_eq!((page.total, page.facets.health.len()), (0, 0));
    }

    #[test]
    fn problems_come_first_and_an_unreadable_one_is_a_problem() {
        let rows = [
            row("fine", "Healthy", "Synced"),
            row("behind", "Healthy", "OutOfSync"),
            row("unreadable", "Healthy", "Unknown"),
            row("broken", "Degraded", "Synced"),
            row("starting", "Progressing", "Synced"),
        ];
        let page = ask(ListQuery { sort: Some("problems".into()), ..ListQuery::default() }, &rows);
        assert_eq!(names(&page), ["broken", "unreadable", "starting", "behind", "fine"]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for query in [
            ListQuery { limit: Some(0), ..ListQuery::default() },
            ListQuery { limit: Some(501), ..ListQuery::default() },
            ListQuery { sort: Some("luck".into()), ..ListQuery::default() },
        ] {
            assert!(Filter::read(&query).is_err(), "{query:?}");
        }
    }
}
