use crate::world::{World, automated, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_applications_are_synced_together() {
    let world = World::new().await;
    let mut files = Vec::new();
    for app in 0..40 {
        for map in 0..5 {
            files.push((format!("apps/{app}/{map}.yaml"), config_map(&format!("a{app}-m{map}"), "1")));
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let revision = world.commit(&files);
    for app in 0..40 {
        world.application_at(&format!("app{app}"), &format!("apps/{app}"), "shop", automated()).await;
    }
    world.start();
    for app in 0..40 {
        world.until_synced(&format!("app{app}"), &revision).await;
    }
}
