//! The yardstick: knows the model of interference and what every pod takes now.
//!
//! It takes the node where the slowdowns of all pods, squared so that bad ones count more, grow
//! least. It does not know the future, so it is no bound, but nobody can measure as much.

use super::{Rule, View};
use crate::place::interference::{Meets, slowdown};
use crate::place::kind::Use;

/// Chooses by what nobody can measure.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oracle;

impl Rule for Oracle {
    fn score(&mut self, view: &View<'_>, candidates: &[usize], scores: &mut Vec<f64>) {
        let pod = view.pod;
        let new = pod.kind.appetite().times(pod.mean_cores * pod.intensity);
        let new = Use { cores: pod.mean_cores, ..new };
        scores.clear();
        for &place in candidates {
            let (node, site) = (&view.cluster.nodes[place], &view.town.sites[place]);
            // Who came a moment ago has told no wish yet, and takes its mean.
            let takes = |guest: &crate::place::cluster::Guest| {
                let plan = &view.town.pods[guest.pod];
                if guest.is_seen {
                    guest.wish.take
                } else {
                    let take = plan.kind.appetite().times(plan.mean_cores * plan.intensity);
                    Use { cores: plan.mean_cores, ..take }
                }
            };
            let guests =
                node.guests.iter().map(|guest| (view.town.pods[guest.pod].kind, takes(guest)));
            let guests: Vec<_> = guests.collect();
            let before =
                guests.iter().fold(site.system(view.step), |all, (_, take)| all.and(*take));
            let cost = |all: Use| {
                let got = (site.shape.cores / all.cores.max(1e-9)).min(1.0);
                let of = |kind, own| {
                    let meets = Meets::of(own, all, got, site.shape.cores);
                    let slow = slowdown(kind, &meets, &site.shape);
                    slow * slow
                };
                (guests.iter().map(|(kind, own)| of(*kind, *own)).sum::<f64>(), of(pod.kind, new))
            };
            let (without, _) = cost(before);
            let (others, own) = cost(before.and(new));
            scores.push(-(others + own - without));
        }
    }
}
