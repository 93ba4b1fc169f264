//! Which pods would be better off elsewhere, and which nodes could be emptied.
//!
//! A driver tells the [`Rebalancer`] every minute how pods score where they are and elsewhere. A
//! pod is *named* for another node when its own scores below 40 and one where it fits scores at
//! least 20 points more, both smoothed over several looks; the name is taken back when that no
//! longer holds. Only who was named before is evicted, one of each node in a pass. Nothing moves
//! twice within the least age of [`stay::MoveRules`]. `fit` says whether a pod fits, `stay` who is
//! never moved, `empty` which nodes are not needed, and `consolidate` how they are emptied.

pub mod consolidate;
pub mod empty;
pub mod fit;
pub mod stay;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use self::fit::Rooms;
use crate::place::Points;
use crate::units::{Ratio, WorkloadUid};

/// When pods are named and evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A pod may go whose node scores less than this.
    pub below: Points,
    /// To a node that scores at least so much more.
    pub better_by: Points,
    /// A name is kept while both hold by so much less.
    pub slack: Points,
    /// How much of the newest look counts.
    pub newest: Ratio,
    /// So many looks have to agree.
    pub looks_min: u32,
    /// How many pods are named anew, and how many evicted, in one pass.
    pub moves_max: usize,
}

/// A pod as the driver sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Who.
    pub uid: WorkloadUid,
    /// The node that it is named for, if it is.
    pub named_for: Option<String>,
    /// Why it may not be named, if so.
    pub stays: Option<stay::Stay>,
    /// Why it may not be evicted, if so.
    pub not_evicted: Option<stay::Stay>,
    /// Its owner, of whose pods one is evicted at a time.
    pub owner: String,
}

/// A pod that would be better off elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Who.
    pub uid: WorkloadUid,
    /// Where it is.
    pub from: String,
    /// Where it would be better off.
    pub target: String,
    /// What its node scores, smoothed.
    pub points: Points,
    /// By how much the other one is better, smoothed.
    pub delta: Points,
}

/// What to do after one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// Pods to be named, or named before and still so.
    pub named: Vec<Named>,
    /// Pods whose name is to be taken back.
    pub cleared: Vec<WorkloadUid>,
    /// Those of `named` that may be evicted now.
    pub evict: Vec<Named>,
}

/// What is remembered from one look to the next.
#[derive(Clone, Debug, Default)]
pub struct Rebalancer {
    trends: BTreeMap<WorkloadUid, Trend>,
}

#[derive(Clone, Debug)]
struct Trend {
    node: String,
    points: Points,
    delta: Points,
    looks: u32,
    /// The target, and for how many passes the pod has been named for it.
    named: Option<(String, u32)>,
}

/// How a node scores for a pod; nothing where that is not known, which is never a reason to move.
pub type Score<'a> = &'a dyn Fn(&WorkloadUid, &str) -> Option<Points>;

/// So many of the best nodes are tried for each pod.
const TRIED_MAX: usize = 16;

// === impl Rules ===

impl Rules {
    /// Below 40, 20 better, kept within 5; half of the newest look; two looks; five moves.
    pub const DEFAULT: Self = Self {
        below: Points::from_whole(40),
        better_by: Points::from_whole(20),
        slack: Points::from_whole(5),
        newest: Ratio::from_percent(50),
        looks_min: 2,
        moves_max: 5,
    };
}

// === impl Rebalancer ===

impl Rebalancer {
    /// One look at the cluster: takes note of it, and says what to do.
    pub fn pass(&mut self, rules: &Rules, rooms: &Rooms, pods: &[Seen], score: Score<'_>) -> Pass {
        let there: BTreeSet<&WorkloadUid> = pods.iter().map(|pod| &pod.uid).collect();
        self.trends.retain(|uid, _| there.contains(uid));
        let mut rooms = rooms.clone();
        let mut pass = Pass::default();
        let mut wishes: Vec<Named> = Vec::new();
        for pod in pods {
            match self.look(rules, &rooms, pod, score) {
                Some(wish) if self.is_named(&pod.uid) => {
                    // Its place is taken before anybody new is promised it.
                    rooms.moved(&wish.uid, &wish.target);
                    pass.named.push(wish);
                }
                Some(wish) => wishes.push(wish),
                None if pod.named_for.is_some() => pass.cleared.push(pod.uid.clone()),
                None => {}
            }
        }
        pass.evict = self.choose_to_evict(rules, &pass.named, pods);
        self.name(rules, rooms, wishes, score, &mut pass);
        pass
    }

    /// Whether a pod should go, by all looks so far. Forgets whom it should not.
    fn look(
        &mut self,
        rules: &Rules,
        rooms: &Rooms,
        pod: &Seen,
        score: Score<'_>,
    ) -> Option<Named> {
        let wish = self.wish(rules, rooms, pod, score);
        if wish.is_none()
            && let Some(trend) = self.trends.get_mut(&pod.uid)
        {
            trend.named = None;
        }
        wish
    }

    fn wish(
        &mut self,
        rules: &Rules,
        rooms: &Rooms,
        pod: &Seen,
        score: Score<'_>,
    ) -> Option<Named> {
        let node = rooms.resident(&pod.uid)?.node.clone();
        let now = score(&pod.uid, &node).filter(|_| pod.stays.is_none());
        let Some(now) = now else {
            self.trends.remove(&pod.uid);
            return None;
        };
        let worth = now < plus(rules.below, rules.slack) || self.trends.contains_key(&pod.uid);
        if !worth {
            return None;
        }
        let held = self.target_of(pod).filter(|target| {
            rooms.fits(&pod.uid, target).is_ok() && score(&pod.uid, target).is_some()
        });
        let is_held = held.is_some();
        let target = held.or_else(|| best(rooms, &pod.uid, &node, score))?;
        let there = score(&pod.uid, &target)?;
        let trend = self.trend(rules, pod, &node, (now, there.saturating_sub(now)));
        let slack = if is_held { rules.slack } else { Points::ZERO };
        let bad = trend.points < plus(rules.below, slack);
        let better = plus(trend.delta, slack) >= rules.better_by;
        let sure = is_held || trend.looks >= rules.looks_min;
        let (points, delta) = (trend.points, trend.delta);
        (bad && better && sure).then_some(Named {
            uid: pod.uid.clone(),
            from: node,
            target,
            points,
            delta,
        })
    }

    /// The node that a pod is named for, here or by what is written on it.
    fn target_of(&mut self, pod: &Seen) -> Option<String> {
        let remembered = self.trends.get(&pod.uid).and_then(|trend| trend.named.as_ref());
        match (remembered, &pod.named_for) {
            (Some((target, _)), _) => Some(target.clone()),
            // Named before this process began.
            (None, Some(target)) => Some(target.clone()),
            (None, None) => None,
        }
    }

    fn is_named(&self, uid: &WorkloadUid) -> bool {
        self.trends.get(uid).is_some_and(|trend| trend.named.is_some())
    }

    /// Takes a look into account. A pod on another node than before is looked at anew.
    fn trend(&mut self, rules: &Rules, pod: &Seen, node: &str, now: (Points, Points)) -> &Trend {
        let (points, delta) = now;
        let fresh = Trend {
            node: node.into(),
            points,
            delta,
            looks: 0,
            named: pod.named_for.clone().map(|target| (target, 0)),
        };
        let trend = self.trends.entry(pod.uid.clone()).or_insert_with(|| fresh.clone());
        if trend.node != node {
            *trend = Trend { named: None, ..fresh };
        }
        trend.points = smooth(rules.newest, trend.points, points);
        trend.delta = smooth(rules.newest, trend.delta, delta);
        trend.looks = trend.looks.saturating_add(1);
        trend
    }

    /// Who of those that were named before may go now.
    fn choose_to_evict(&mut self, rules: &Rules, named: &[Named], pods: &[Seen]) -> Vec<Named> {
        let seen: BTreeMap<&WorkloadUid, &Seen> = pods.iter().map(|pod| (&pod.uid, pod)).collect();
        let mut order: Vec<&Named> = named.iter().collect();
        order.sort_by(|one, other| (other.delta, &one.uid).cmp(&(one.delta, &other.uid)));
        let (mut nodes, mut owners) = (BTreeSet::new(), BTreeSet::new());
        let mut evict = Vec::new();
        for one in order {
            let Some((_, passes)) =
                self.trends.get_mut(&one.uid).and_then(|trend| trend.named.as_mut())
            else {
                continue;
            };
            *passes = passes.saturating_add(1);
            let Some(pod) = seen.get(&one.uid) else { continue };
            let enough = self.trends.get(&one.uid).is_some_and(|it| it.looks >= rules.looks_min);
            let free = enough
                && pod.not_evicted.is_none()
                && evict.len() < rules.moves_max
                && !nodes.contains(&one.from)
                && !owners.contains(&pod.owner);
            if free {
                nodes.insert(one.from.clone());
                owners.insert(pod.owner.clone());
                evict.push(one.clone());
            }
        }
        evict
    }

    /// Names the most urgent of those who should go, as long as all of them together fit.
    fn name(
        &mut self,
        rules: &Rules,
        mut rooms: Rooms,
        mut wishes: Vec<Named>,
        score: Score<'_>,
        pass: &mut Pass,
    ) {
        wishes.sort_by(|one, other| (other.delta, &one.uid).cmp(&(one.delta, &other.uid)));
        let mut fuller: BTreeMap<String, Points> = BTreeMap::new();
        let mut new = 0;
        for wish in wishes {
            if new >= rules.moves_max {
                break;
            }
            let lost = fuller.get(&wish.target).copied().unwrap_or(Points::ZERO);
            let delta = wish.delta.saturating_sub(lost);
            let fits = rooms.fits(&wish.uid, &wish.target).is_ok();
            let better = delta >= rules.better_by && score(&wish.uid, &wish.target).is_some();
            let Some(trend) = self.trends.get_mut(&wish.uid).filter(|_| fits && better) else {
                continue;
            };
            trend.named = Some((wish.target.clone(), 0));
            let costs = rooms.resident(&wish.uid).zip(rooms.node(&wish.target));
            let costs = costs.map_or(Points::ZERO, |(pod, node)| {
                let share = pod.needs.requests.cpu.ratio_of(node.allocatable.cpu);
                Points::MAX.scale_floor(share)
            });
            fuller.insert(wish.target.clone(), plus(lost, costs));
            rooms.moved(&wish.uid, &wish.target);
            pass.named.push(Named { delta, ..wish });
            new += 1;
        }
    }
}

/// The node where a pod is best off, of those where it fits.
fn best(rooms: &Rooms, uid: &WorkloadUid, from: &str, score: Score<'_>) -> Option<String> {
    let others = rooms.nodes().filter(|node| node.open && node.name != from);
    let mut scored: Vec<(Points, &str)> =
        others.filter_map(|node| Some((score(uid, &node.name)?, node.name.as_str()))).collect();
    scored.sort_by(|one, other| (other.0, one.1).cmp(&(one.0, other.1)));
    let mut fitting = scored.into_iter().take(TRIED_MAX);
    fitting.find(|(_, node)| rooms.fits(uid, node).is_ok()).map(|(_, node)| node.into())
}

fn smooth(newest: Ratio, before: Points, now: Points) -> Points {
    plus(before.scale_floor(newest.at_most_one().complement()), now.scale_floor(newest))
}

fn plus(one: Points, other: Points) -> Points {
    Points::from_hundredths(one.hundredths() + other.hundredths())
}

#[cfg(test)]
mod tests;
