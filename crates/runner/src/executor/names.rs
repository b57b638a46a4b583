//! Names of images: which host, which tag.

/// `localhost/` keeps an image that was made here from being looked for elsewhere.
pub(super) fn qualified(name: &str, registry: Option<&str>) -> String {
    match registry {
        Some(registry) => format!("{}/{}", registry.trim_end_matches('/'), bare(name)),
        None if has_host(name) => name.to_owned(),
        None => format!("localhost/{name}"),
    }
}

pub(super) fn has_host(name: &str) -> bool {
    name.split_once('/').is_some_and(|(host, _)| host == "localhost" || host.contains(['.', ':']))
}

/// The name without the registry's host.
pub(super) fn bare(name: &str) -> &str {
    if has_host(name) { name.split_once('/').map_or(name, |(_, rest)| rest) } else { name }
}

pub(super) fn split_tag(image: &str) -> (&str, Option<&str>) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
        _ => (image, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_of_this_machine_unless_they_say_otherwise() {
        assert_eq!(qualified("app", None), "localhost/app");
        assert_eq!(qualified("team/app", None), "localhost/team/app");
        assert_eq!(qualified("registry.example/team/app", None), "registry.example/team/app");
        assert_eq!(qualified("localhost/app", Some("localhost:5000")), "localhost:5000/app");
        assert_eq!(split_tag("localhost:5000/app:v1"), ("localhost:5000/app", Some("v1")));
        assert_eq!(split_tag("localhost:5000/app"), ("localhost:5000/app", None));
    }
}
