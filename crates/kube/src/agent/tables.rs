//! What was learned, kept where it outlives the agent: in a ConfigMap for the node, or in a folder.
//!
//! The loop asks [`Ledger::due`] after every turn and hands on what it gets; another thread
//! writes, and is never waited for. Nothing is saved before what was kept has been loaded,
//! since a save replaces all of it. There is a bound on how large it all may be: what was not
//! updated for longest is left out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use walras_core::node::Node;
use walras_core::units::{FamilyKey, Moment, Span};

use crate::names;

/// A ConfigMap may have a megabyte; names and quotes take some of it.
pub const BYTES_MAX: usize = 900_000;
/// The least time between two saves.
const BETWEEN: Span = Span::from_s(30);

/// What begins the name of a record of use, beside that of a table. No family's name begins with
/// it: there is no dot in the name of a namespace.
pub const USE_PREFIX: &str = "use.";
/// Windows in which use is counted, between two saves for their sake alone: an hour of them. More
/// often would be a write a second from every few hundred nodes.
const USE_WINDOWS: u64 = 12;
/// Tables and records of use as text, by family.
pub type Tables = BTreeMap<String, String>;

/// What was kept of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept<'a> {
    /// A learned table, of this family.
    Table(&'a str),
    /// What it used, for this family.
    Use(&'a str),
}

/// Remembers what was saved last, and when each table last changed.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Whether what was kept is known.
    loaded: bool,
    seen: BTreeMap<String, Seen>,
    saved: u64,
    last: Option<Moment>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    updates: u64,
    changed_at: Moment,
}

// === impl Ledger ===

impl Ledger {
    /// What was kept is in `node` now, and so is no news.
    pub fn loaded(&mut self, node: &Node, now: Moment) {
        self.loaded = true;
        self.changed(node, now);
    }

    /// What is to be saved now, if that is due and something was learned since.
    pub fn due(&mut self, node: &Node, now: Moment) -> Option<Tables> {
        if self.last.is_some_and(|last| now.since(last) < BETWEEN) {
            return None;
        }
        self.last = Some(now);
        self.changed(node, now)
    }

    /// What is to be saved, if something was learned since the last time.
    pub fn changed(&mut self, node: &Node, now: Moment) -> Option<Tables> {
        if !self.loaded {
            return None;
        }
        let tables = node.tables().map(|(key, table)| (key.as_str().to_owned(), table.updates()));
        let records = node
            .records()
            .map(|(key, record)| (use_key(key), u64::from(record.windows()) / USE_WINDOWS));
        let mut total = 0_u64;
        for (key, updates) in tables.chain(records) {
            total = total.wrapping_add(updates);
            let seen = self.seen.entry(key).or_insert(Seen { updates, changed_at: now });
            if seen.updates != updates {
                *seen = Seen { updates, changed_at: now };
            }
        }
        if total == self.saved {
            return None;
        }
        self.saved = total;
        let tables = node.tables().map(|(key, table)| (key.as_str().to_owned(), table.save()));
        let records = node.records().map(|(key, record)| (use_key(key), record.save()));
        let all = tables.chain(records).map(|(key, saved)| {
            let changed_at = self.seen.get(&key).map_or(now, |seen| seen.changed_at);
            (changed_at, key, saved)
        });
        Some(bounded(all.collect(), BYTES_MAX))
    }
}

/// What is kept under this name.
#[must_use]
pub fn kept(key: &str) -> Kept<'_> {
    key.strip_prefix(USE_PREFIX).map_or(Kept::Table(key), Kept::Use)
}

/// The name that the record of a family is kept under.
fn use_key(family: &FamilyKey) -> String {
    format!("{USE_PREFIX}{}", family.as_str())
}

/// As many as fit, the latest changed first.
fn bounded(mut tables: Vec<(Moment, String, String)>, most: usize) -> Tables {
    tables.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    let mut bytes = 0;
    let mut kept = Tables::new();
    for (_, family, table) in tables {
        bytes += family.len() + table.len();
        if bytes > most {
            break;
        }
        kept.insert(family, table);
    }
    kept
}

/// The name of a node's ConfigMap.
#[must_use]
pub fn name_of(node: &str) -> String {
    format!("{}{node}", names::TABLES_PREFIX)
}

/// What a ConfigMap has.
///
/// # Errors
/// The API server does not answer, or does not allow it.
pub async fn load(client: &Client, namespace: &str, node: &str) -> kube::Result<Tables> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let map = maps.get_opt(&name_of(node)).await?;
    Ok(map.and_then(|map| map.data).unwrap_or_default())
}

/// Replaces what a ConfigMap has. It belongs to the Node with this uid, where that is known, so
/// that Kubernetes removes it with its node.
///
/// # Errors
/// The API server does not answer, or does not allow it.
pub async fn save(
    client: &Client,
    namespace: &str,
    (node, uid): (&str, Option<&str>),
    all: &Tables,
) -> kube::Result<()> {
    let maps = Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let owner =
        uid.map(|uid| json!({ "apiVersion": "v1", "kind": "Node", "name": node, "uid": uid }));
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name_of(node),
            "labels": { "app.kubernetes.io/name": "walras" },
            "ownerReferences": Vec::from_iter(owner),
        },
        "data": all,
    });
    let params = PatchParams::apply(names::AGENT_MANAGER).force();
    maps.patch(&name_of(node), &params, &Patch::Apply(&map)).await.map(drop)
}

/// What a folder has; nothing if it has none yet.
///
/// # Errors
/// The file is there and cannot be read; one that is damaged makes [`io::ErrorKind::InvalidData`]
/// or [`io::ErrorKind::UnexpectedEof`].
pub fn load_from(folder: &Path) -> io::Result<Tables> {
    match std::fs::read(file_in(folder)) {
        Ok(text) => serde_json::from_slice(&text).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Tables::new()),
        Err(error) => Err(error),
    }
}

/// Replaces what a folder has. A crash in between leaves what was there.
///
/// # Errors
/// It cannot be written.
pub fn save_to(folder: &Path, all: &Tables) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let text = serde_json::to_vec(all).map_err(io::Error::other)?;
    let fresh = folder.join("tables.json.new");
    std::fs::write(&fresh, text)?;
    std::fs::File::open(&fresh)?.sync_all()?;
    std::fs::rename(fresh, file_in(folder))
}

fn file_in(folder: &Path) -> PathBuf {
    folder.join("tables.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use walras_core::learn::{Action, Experience, LearnConfig, QTable, State};
    use walras_core::profile::Profile;
    use walras_core::request::UseRecord;
    use walras_core::units::Millicores;

    #[test]
    fn what_was_not_updated_for_longest_is_left_out() {
        let table = |at, name: &str| (Moment::from_ms(at), name.to_owned(), "x".repeat(90));
        let tables = vec![table(1, "old-000000"), table(3, "new-000000"), table(2, "mid-000000")];
        let kept: Vec<_> = bounded(tables.clone(), 200).into_keys().collect();
        assert_eq!(kept, ["mid-000000", "new-000000"]);
        assert_eq!(bounded(tables, 1000).len(), 3);
    }

    /// A table that has learned from so many steps.
    fn learned(steps: u32) -> String {
        let (config, state) = (LearnConfig::DEFAULT, State::all().next().unwrap());
        let step = Experience { state, action: Action::Normal, reward: 1.0, next: state };
        let mut table = QTable::new(1, &config);
        for _ in 0..steps {
            table.update(&step, &config);
        }
        table.save()
    }

    #[test]
    fn nothing_is_saved_before_what_was_kept_is_loaded() {
        let mut node = Node::new(Millicores::new(4000), Profile::API);
        let mut ledger = Ledger::default();
        let at = Moment::from_ms;
        node.table_restored(FamilyKey::new("new"), learned(1).as_bytes());
        assert_eq!(ledger.due(&node, at(60_000)), None);
        assert_eq!(ledger.changed(&node, at(60_000)), None, "also not at the end");
        ledger.loaded(&node, at(61_000));
        assert_eq!(ledger.changed(&node, at(62_000)), None, "what was loaded is no news");
        node.table_restored(FamilyKey::new("new"), learned(2).as_bytes());
        assert!(ledger.changed(&node, at(63_000)).is_some());
    }

    #[test]
    fn between_two_saves_are_thirty_seconds() {
        let mut node = Node::new(Millicores::new(4000), Profile::API);
        let mut ledger = Ledger::default();
        let at = Moment::from_ms;
        ledger.loaded(&node, at(0));
        let mut learn = |steps| {
            node.table_restored(FamilyKey::new("new"), learned(steps).as_bytes());
            node.clone()
        };
        let first = learn(1);
        assert!(ledger.due(&first, at(100_000)).is_some());
        let second = learn(2);
        assert_eq!(ledger.due(&second, at(129_999)), None, "too soon");
        let saved = ledger.due(&second, at(130_000)).expect("it is time");
        assert_eq!(saved, Tables::from([("new".to_owned(), learned(2))]));
        assert_eq!(ledger.due(&second, at(160_000)), None, "nothing was learned since");
    }

    #[test]
    fn what_a_family_used_is_kept_beside_what_it_learned_and_saved_by_the_hour() {
        let mut node = Node::new(Millicores::new(4000), Profile::API);
        let mut ledger = Ledger::default();
        let at = Moment::from_ms;
        ledger.loaded(&node, at(0));
        let web = FamilyKey::new("shop_ReplicaSet_web_app");
        let mut record = UseRecord::default();
        let mut windows = |count: u64, node: &mut Node| {
            for _ in 0..count {
                record.window_passed(&[Millicores::new(70)]);
            }
            node.use_restored(web.clone(), record.save().as_bytes());
            record.save()
        };
        windows(11, &mut node);
        assert_eq!(ledger.changed(&node, at(1)), None, "not yet an hour");
        let saved = windows(1, &mut node);
        let key = "use.shop_ReplicaSet_web_app";
        let expected = Tables::from([(key.to_owned(), saved)]);
        assert_eq!(ledger.changed(&node, at(2)), Some(expected));
        assert_eq!(kept(key), Kept::Use("shop_ReplicaSet_web_app"));
        assert_eq!(kept("shop_Pod_web_app"), Kept::Table("shop_Pod_web_app"));
        assert_eq!(ledger.changed(&node, at(3)), None);
    }

    #[test]
    fn a_folder_gives_back_what_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("deeper");
        assert_eq!(load_from(&place).unwrap(), Tables::new());
        let tables = Tables::from([("shop_Pod_web_app".to_owned(), "{\"v\":1}".to_owned())]);
        save_to(&place, &tables).unwrap();
        assert_eq!(load_from(&place).unwrap(), tables);
        std::fs::write(place.join("tables.json"), "{").unwrap();
        assert!(load_from(&place).is_err());
    }
}
