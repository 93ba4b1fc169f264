//! Snapshots of a machine's disks, inside of their qcow2 images.
//!
//! A machine that runs is asked to take one of all its disks at the same moment; what its guest had
//! not written yet is not in it, as after a power failure. One that does not run is served by
//! `qemu-img`. Only a machine that does not run can go back.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::error::VmError;
use crate::spec::{DiskFormat, SpecError, is_name};

use super::{Qemu, failed, output};

/// The most snapshots of a machine.
const SNAPSHOTS_MAX: usize = 100;

/// A snapshot that all disks have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its name.
    pub name: String,
    /// When it was taken, in seconds since 1970.
    pub taken_s: i64,
}

/// A disk that can have snapshots.
struct Image {
    /// QEMU's name of it while the machine runs.
    node: String,
    path: PathBuf,
}

#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    snapshots: Vec<InfoSnapshot>,
}

#[derive(Deserialize)]
struct InfoSnapshot {
    name: String,
    #[serde(rename = "date-sec")]
    date_s: i64,
}

impl Qemu {
    /// The snapshots that all of a machine's disks have, oldest first.
    ///
    /// # Errors
    /// It is not defined, has no disk with snapshots, or an image cannot be read.
    pub async fn snapshots(&self, name: &str) -> Result<Vec<Snapshot>, VmError> {
        let images = self.images(name)?;
        let mut common: Option<Vec<Snapshot>> = None;
        for image in &images {
            // A machine that runs has the image locked; nothing of it is changed here.
            let args = ["info", "--output=json", "--force-share"].map(str::to_owned);
            let told = self.image_tool(name, image, args.to_vec(), None).await?;
            let info: Info = serde_json::from_str(&told)
                .map_err(|error| failed(name, "read an image", io::Error::other(error)))?;
            let found = info.snapshots.into_iter();
            let found = found.map(|it| Snapshot { name: it.name, taken_s: it.date_s });
            let found: Vec<Snapshot> = found.collect();
            common = Some(match common {
                None => found,
                Some(others) => {
                    let names: BTreeSet<String> = found.into_iter().map(|it| it.name).collect();
                    others.into_iter().filter(|it| names.contains(&it.name)).collect()
                }
            });
        }
        Ok(common.unwrap_or_default())
    }

    /// Keeps all disks as they are now.
    ///
    /// # Errors
    /// There is such a snapshot, or it cannot be taken; none is left of it then.
    pub async fn take_snapshot(self: &Arc<Self>, name: &str, tag: &str) -> Result<(), VmError> {
        if !is_name(tag, 64) {
            let because = "is no name: 1 to 64 letters, digits, `-`, `_` and `.`";
            return Err(wrong(tag, because));
        }
        let there = self.snapshots(name).await?;
        if there.iter().any(|one| one.name == tag) {
            return Err(wrong(tag, "is there already"));
        }
        if there.len() >= SNAPSHOTS_MAX {
            return Err(wrong(tag, "is one too many: 100 are there; drop one first"));
        }
        let images = self.images(name)?;
        match self.machine(name).await {
            Ok(machine) => {
                let actions: Vec<Value> = images
                    .iter()
                    .map(|image| {
                        let data = json!({ "device": image.node, "name": tag });
                        json!({ "type": "blockdev-snapshot-internal-sync", "data": data })
                    })
                    .collect();
                machine.ask("transaction", json!({ "actions": actions })).await.map(|_| ())
            }
            Err(VmError::Gone { .. }) => self.take_at_rest(name, &images, tag).await,
            Err(error) => Err(error),
        }
    }

    async fn take_at_rest(&self, name: &str, images: &[Image], tag: &str) -> Result<(), VmError> {
        for (index, image) in images.iter().enumerate() {
            if let Err(error) = self.image_tool(name, image, snapshot("-c"), Some(tag)).await {
                // All of them, or none.
                for taken in &images[..index] {
                    self.image_tool(name, taken, snapshot("-d"), Some(tag)).await?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Makes all disks what they were. What was written since is lost.
    ///
    /// # Errors
    /// It runs, there is no such snapshot, or an image cannot be written.
    pub async fn revert(self: &Arc<Self>, name: &str, tag: &str) -> Result<(), VmError> {
        self.known(name, tag).await?;
        if self.pid(name).is_some() {
            return Err(wrong(tag, "cannot be gone back to while the machine runs; stop it first"));
        }
        for image in self.images(name)? {
            self.image_tool(name, &image, snapshot("-a"), Some(tag)).await?;
        }
        Ok(())
    }

    /// Forgets a snapshot.
    ///
    /// # Errors
    /// There is none of that name, or an image cannot be written.
    pub async fn drop_snapshot(self: &Arc<Self>, name: &str, tag: &str) -> Result<(), VmError> {
        self.known(name, tag).await?;
        for image in self.images(name)? {
            match self.machine(name).await {
                Ok(machine) => {
                    let which = json!({ "device": image.node, "name": tag });
                    machine.ask("blockdev-snapshot-delete-internal-sync", which).await?;
                }
                Err(VmError::Gone { .. }) => {
                    self.image_tool(name, &image, snapshot("-d"), Some(tag)).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn known(&self, name: &str, tag: &str) -> Result<(), VmError> {
        let there = self.snapshots(name).await?;
        if there.iter().any(|one| one.name == tag) {
            return Ok(());
        }
        let names: Vec<String> = there.into_iter().map(|one| one.name).collect();
        Err(wrong(tag, &format!("is not there; there are: {}", names.join(", "))))
    }

    /// The disks of a machine that can have snapshots: all that it can write must.
    fn images(&self, name: &str) -> Result<Vec<Image>, VmError> {
        let saved = self.folder(name).load();
        let saved = saved.map_err(|source| failed(name, "read what it is", source))?;
        let written = saved.spec.disks.into_iter().enumerate().filter(|(_, disk)| !disk.read_only);
        let mut images = Vec::new();
        for (index, disk) in written {
            if disk.format != DiskFormat::Qcow2 {
                let because = "is raw, and only qcow2 has snapshots";
                let fault = SpecError::new("disks", disk.path.display(), because);
                return Err(VmError::Spec(vec![fault]));
            }
            images.push(Image { node: format!("disk{index}"), path: disk.path });
        }
        if images.is_empty() {
            let because = "has no disk that it can write, so there is nothing to keep";
            return Err(VmError::Spec(vec![SpecError::new("disks", name, because)]));
        }
        Ok(images)
    }

    async fn image_tool(
        &self,
        name: &str,
        image: &Image,
        mut args: Vec<String>,
        tag: Option<&str>,
    ) -> Result<String, VmError> {
        args.extend(tag.map(str::to_owned));
        args.push(image.path.to_string_lossy().into_owned());
        let done = output(&self.options.image_program, args).await;
        done.map_err(|source| failed(name, &format!("use {}", image.path.display()), source))
    }
}

fn snapshot(how: &str) -> Vec<String> {
    ["snapshot", "-q", how].map(str::to_owned).to_vec()
}

fn wrong(tag: &str, because: &str) -> VmError {
    VmError::Spec(vec![SpecError::new("snapshot", tag, because)])
}
