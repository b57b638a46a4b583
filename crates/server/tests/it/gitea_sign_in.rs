//! Signing in through a real identity provider: Gitea, with its own sign-in form and its own question.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_server::{EgressRules, Network};
use slipway_testkit::gitea;

use crate::support::Platform;

/// What a browser does: keeps cookies for each site, follows where it is sent, fills in forms.
struct Visitor {
    http: reqwest::Client,
    cookies: BTreeMap<(String, String), String>,
}

struct Seen {
    address: reqwest::Url,
    status: u16,
    text: String,
}

impl Visitor {
    fn new() -> Self {
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        Self { http, cookies: BTreeMap::new() }
    }

    /// Ports are told apart although cookies are not: the two sites would be two hosts.
    fn site(address: &reqwest::Url) -> String {
        address.port().unwrap_or_default().to_string()
    }

    fn cookie(&self, address: &reqwest::Url) -> String {
        let of = Self::site(address);
        let ours = self.cookies.iter().filter(|((site, _), _)| *site == of);
        ours.map(|((_, name), value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    /// Goes there and on to wherever it is sent, until there is a page.
    async fn go(&mut self, address: &str, form: Option<Vec<(String, String)>>) -> Seen {
        let mut address = reqwest::Url::parse(address).unwrap();
        let mut form = form;
        for _ in 0..12 {
            let mut request = match form.take() {
                Some(fields) => {
                    let body = reqwest::Url::parse_with_params("http://x/", &fields).unwrap();
                    self.http
                        .post(address.clone())
                        .header("content-type", "application/x-www-form-urlencoded")
                        .header("origin", address.origin().ascii_serialization())
                        .body(body.query().unwrap_or_default().to_owned())
                }
                None => self.http.get(address.clone()),
            };
            request = request.header("accept", "text/html").header("sec-fetch-site", "same-origin");
            let answer = request.header("cookie", self.cookie(&address)).send().await.unwrap();
            for value in answer.headers().get_all("set-cookie") {
                let (name, value) =
                    value.to_str().unwrap().split(';').next().unwrap().split_once('=').unwrap();
                self.cookies.insert((Self::site(&address), name.to_owned()), value.to_owned());
            }
            let status = answer.status().as_u16();
            match answer.headers().get("location") {
                Some(onward) if answer.status().is_redirection() => {
                    address = address.join(onward.to_str().unwrap()).unwrap();
                }
                _ => return Seen { address, status, text: answer.text().await.unwrap() },
            }
        }
        panic!("sent around in a circle: {address}");
    }

    /// Fills in the page's form that goes to `action`, with what is hidden in it.
    async fn submit(&mut self, seen: &Seen, action: &str, fields: &[(&str, &str)]) -> Seen {
        let forms = seen.text.split("<form").skip(1).map(|rest| rest.split("</form>").next().unwrap());
        let form = forms.into_iter().find(|form| form.split('>').next().unwrap().contains(action));
        let form = form.unwrap_or_else(|| {
            panic!("no form to {action} at {}: {} {}", seen.address, seen.status, seen.text)
        });
        let inputs = form.split("<input").skip(1).map(|rest| rest.split('>').next().unwrap());
        let mut all: Vec<(String, String)> = inputs
            .filter(|input| input.contains("hidden"))
            .filter_map(|input| {
                Some((attribute(input, "name")?, attribute(input, "value").unwrap_or_default()))
            })
            .collect();
        all.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let address = seen.address.join(action).unwrap();
        self.go(address.as_str(), Some(all)).await
    }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let value = tag.split(&format!("{name}=\"")).nth(1)?.split('"').next()?;
    Some(value.replace("&#34;", "\"").replace("&#43;", "+").replace("&amp;", "&").replace("&#39;", "'"))
}

async fn platform(gitea: &gitea::Server) -> (Platform, gitea::OauthApp) {
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let callback = format!("{}/api/auth/gitea/callback", platform.url);
    let app = tokio::task::block_in_place(|| gitea.oauth_app(&gitea.name("slipway-"), &callback));
    let settings = json!({"displayName": "Gitea", "issuer": gitea.url(), "clientId": app.client_id,
        "scopes": ["groups"], "groupsClaim": "groups", "createMembers": false});
    let body = json!({"name": "gitea", "settings": settings, "clientSecret": app.client_secret});
    let made = platform.post("/api/idp", body).await;
    assert_eq!(made["callbackUrl"], callback);
    (platform, app)
}

/// From the button on the sign-in page to the page that was wanted; says yes when Gitea asks.
async fn sign_in(platform: &Platform, visitor: &mut Visitor, user: &str) -> Seen {
    let start = format!("{}/api/auth/gitea/login?return_to=/api/user", platform.url);
    let mut seen = visitor.go(&start, None).await;
    if seen.address.path() == "/user/login" {
        let fields = [("user_name", user), ("password", gitea::PASSWORD)];
        seen = visitor.submit(&seen, "/user/login", &fields).await;
    }
    if seen.address.path().starts_with("/login/oauth/authorize") {
        seen = visitor.submit(&seen, "/login/oauth/grant", &[("granted", "true")]).await;
    }
    seen
}

fn user(seen: &Seen) -> Value {
    assert_eq!((seen.status, seen.address.path()), (200, "/api/user"), "{}", seen.text);
    serde_json::from_str(&seen.text).unwrap()
}

/// Gitea may speak for addresses like this one.
async fn verify_domain(platform: &Platform, email: &str) {
    let domain = email.rsplit('@').next().unwrap();
    platform.post("/api/admin/accounts/default/domains", json!({"domain": domain})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_of_gitea_signs_in_and_their_groups_there_are_their_teams_here() {
    let gitea = tokio::task::block_in_place(gitea::shared);
    let (platform, app) = platform(gitea).await;
    let (name, org) = (gitea.name("ada"), gitea.name("acme"));
    let (email, team) = tokio::task::block_in_place(|| {
        let email = gitea.user(&name);
        gitea.org(&org);
        let team = gitea.team(&org, "Platform");
        gitea.add_to_team(team, &name);
        (email, team)
    });

    verify_domain(&platform, &email).await;
    // Nobody invited them: Gitea lets them in, the platform says why it does not, on its own page.
    let mut visitor = Visitor::new();
    let refused = sign_in(&platform, &mut visitor, &name).await;
    assert_eq!(refused.address.path(), "/login", "{}", refused.text);
    let told = visitor.cookies.iter().find(|((_, name), _)| name == "slipway_sign_in_problem").unwrap().1;
    assert!(told.starts_with("you%20are%20not%20a%20member"), "{told}");

    platform.post("/api/invitations", json!({"email": email, "role": "User"})).await;
    let first = user(&sign_in(&platform, &mut visitor, &name).await);
    assert_eq!((&first["email"], &first["roles"]), (&json!(email), &json!(["User"])));
    assert_eq!(first["teams"], json!([org, format!("{org}-platform"), "users"]));

    // The same person next time, without a question, and out of what they were taken out of.
    let second_team = tokio::task::block_in_place(|| {
        let second_team = gitea.team(&org, "Second");
        gitea.add_to_team(second_team, &name);
        gitea.remove_from_team(team, &name);
        second_team
    });
    let second = user(&sign_in(&platform, &mut visitor, &name).await);
    assert_eq!(second["_id"], first["_id"]);
    assert_eq!(second["teams"], json!([org, format!("{org}-second"), "users"]));
    tokio::task::block_in_place(|| gitea.remove_from_team(second_team, &name));
    let third = user(&sign_in(&platform, &mut visitor, &name).await);
    assert_eq!(third["teams"], json!(["users"]), "out of the organisation");
    let members = platform.get("/api/users").await;
    assert_eq!(members.as_array().unwrap().len(), 2, "made once");
    assert!(!platform.get("/api/audit?limit=1000").await.to_string().contains(&app.client_secret));
}

/// Somebody who has a password here is not whoever says so elsewhere; they say so themselves.
#[tokio::test(flavor = "multi_thread")]
async fn somebody_who_is_here_already_links_gitea_while_signed_in() {
    let gitea = tokio::task::block_in_place(gitea::shared);
    let (platform, _) = platform(gitea).await;
    let name = gitea.name("bob");
    let email = tokio::task::block_in_place(|| gitea.user(&name));
    let browser = platform.invited(&platform.admin_key, &email, "User").await;
    verify_domain(&platform, &email).await;
    let refused = sign_in(&platform, &mut Visitor::new(), &name).await;
    assert_eq!(refused.address.path(), "/login");

    let mut visitor = Visitor::new();
    let (cookie, session) = browser.cookie.split_once('=').unwrap();
    let site = Visitor::site(&platform.url.parse().unwrap());
    visitor.cookies.insert((site.clone(), cookie.to_owned()), session.to_owned());
    let begun = browser.request(&platform, "POST", "/api/user/identities/gitea").send().await.unwrap();
    let tie = begun.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let (name_of_tie, value) = tie.split_once('=').unwrap();
    visitor.cookies.insert((site, name_of_tie.to_owned()), value.to_owned());
    let begun: Value = begun.json().await.unwrap();
    assert_eq!((&begun["account"], &begun["client"]), (&json!("default"), &json!("gitea")));
    let seen = visitor.go(begun["url"].as_str().unwrap(), None).await;
    let seen =
        visitor.submit(&seen, "/user/login", &[("user_name", &name), ("password", gitea::PASSWORD)]).await;
    let linked = match seen.address.path() {
        "/profile" => seen,
        _ => visitor.submit(&seen, "/login/oauth/grant", &[("granted", "true")]).await,
    };
    assert_eq!(linked.address.path(), "/profile", "{}", linked.text);
    let again = user(&sign_in(&platform, &mut Visitor::new(), &name).await);
    assert_eq!(again["_id"], browser.user["_id"], "known by issuer and subject from now on");
}
