//! The room against the embedded cluster, and against a server that misbehaves on purpose.

mod embedded;
mod scripted;

/// Somebody's rule: objects say by a label whose they are.
fn by_label() -> slipway_cluster::Tracking {
    slipway_cluster::Tracking::new("label", |object, _| {
        object["metadata"]["labels"]["of"].as_str().map(str::to_owned)
    })
}
