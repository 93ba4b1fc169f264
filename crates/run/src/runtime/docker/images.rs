//! Removes images that nobody needs any more.
//!
//! An image goes when no container uses it, no workload names it, and it was found so for long
//! enough. Docker itself refuses to remove what is in use. Off unless somebody asks for it: others
//! may keep images on the same Docker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bollard::query_parameters::{ListContainersOptions, ListImagesOptions, RemoveImageOptions};
use tracing::{info, warn};
use walras_core::run::Fault;

use super::Docker;

/// Since when each image was seen to be needed by nobody.
#[derive(Debug, Default)]
pub struct Unneeded(BTreeMap<String, Instant>);

/// An image, as far as it matters here.
#[derive(Clone, Debug)]
struct Image {
    id: String,
    names: Vec<String>,
}

impl Unneeded {
    /// Takes note of what is needed by nobody at `now`, and says what was so for longer than
    /// `after`.
    fn over(
        &mut self,
        images: &[Image],
        used: &BTreeSet<String>,
        named: &BTreeSet<String>,
        after: Duration,
        now: Instant,
    ) -> Vec<Image> {
        let needed = |image: &Image| {
            used.contains(&image.id) || image.names.iter().any(|name| named.contains(name))
        };
        let unneeded: Vec<&Image> = images.iter().filter(|image| !needed(image)).collect();
        self.0.retain(|id, _| unneeded.iter().any(|image| image.id == *id));
        for image in &unneeded {
            self.0.entry(image.id.clone()).or_insert(now);
        }
        let long = |image: &&&Image| {
            self.0.get(&image.id).is_some_and(|since| now.duration_since(*since) >= after)
        };
        unneeded.iter().filter(long).map(|image| (*image).clone()).collect()
    }
}

impl Docker {
    /// Removes the images that no container used and no workload named for longer than `after`.
    ///
    /// # Errors
    /// Docker does not answer. What it does not remove is tried again the next time.
    pub async fn remove_images(
        &self,
        unneeded: &mut Unneeded,
        named: &BTreeSet<String>,
        after: Duration,
    ) -> Result<usize, Fault> {
        let engine = self.engine().await?;
        let all = ListContainersOptions { all: true, ..Default::default() };
        let containers = self.soon(engine.list_containers(Some(all))).await?;
        let used = containers.into_iter().filter_map(|container| container.image_id).collect();
        let listed = self.soon(engine.list_images(None::<ListImagesOptions>)).await?;
        let images = listed.into_iter().map(|image| Image { id: image.id, names: image.repo_tags });
        let images: Vec<Image> = images.collect();
        let named = named.iter().map(|name| tagged(name)).collect();
        let mut removed = 0;
        for image in unneeded.over(&images, &used, &named, after, Instant::now()) {
            let options = Some(RemoveImageOptions::default());
            let name = image.names.first().unwrap_or(&image.id);
            match engine.remove_image(name, options, None).await {
                Ok(_) => {
                    removed += 1;
                    info!("the image {name} was needed by nobody, and is removed");
                }
                Err(error) => warn!("the image {name} is not removed: {error}"),
            }
        }
        Ok(removed)
    }
}

/// An image's name as Docker lists it.
fn tagged(image: &str) -> String {
    let has_tag = image.rsplit_once(':').is_some_and(|(_, tag)| !tag.contains('/'));
    if has_tag || image.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_goes_when_it_was_needed_by_nobody_for_long_enough() {
        let image =
            |id: &str, name: &str| Image { id: id.to_owned(), names: vec![name.to_owned()] };
        let images = [image("a", "a:1"), image("b", "b:latest"), image("c", "c:1")];
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (used, named): (BTreeSet<String>, BTreeSet<String>) = (set(&["a"]), set(&["b:latest"]));
        let mut unneeded = Unneeded::default();
        let (began, hour) = (Instant::now(), Duration::from_secs(3600));
        let mut over = |images: &[Image], used: &BTreeSet<String>, hours: u32| -> Vec<String> {
            let found = unneeded.over(images, used, &named, 2 * hour, began + hours * hour);
            found.into_iter().map(|image| image.id).collect()
        };
        assert!(over(&images, &used, 0).is_empty());
        assert!(over(&images, &used, 1).is_empty());
        assert_eq!(over(&images, &used, 2), ["c"]);
        // Needed for a while: the time begins anew.
        assert!(over(&images, &set(&["a", "c"]), 3).is_empty());
        assert!(over(&images, &used, 4).is_empty());
        assert_eq!(over(&images, &used, 6), ["c"]);
        assert_eq!(tagged("host:5000/a"), "host:5000/a:latest");
        assert_eq!(tagged("a:1"), "a:1");
    }
}
