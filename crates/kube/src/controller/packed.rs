//! What is kept of each object, in few bytes: a cluster has a hundred thousand of them, and each is
//! looked at now and then.
//!
//! A value is written field by field, without names: numbers as short as they are, texts that were
//! written before as their place, uids as the sixteen bytes that they stand for. Only this process
//! reads it. What is unpacked is what was packed; a struct that gets another field does not compile
//! until it is packed as well.

use std::marker::PhantomData;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use walras_core::resize::{
    Allocation, Autoscaler, CameWith, ContainerSeen, ContainerView, InProgress, Observed, Original,
    Pending, Phase, PodView, QosClass,
};
use walras_core::units::{Millicores, Moment};

use super::facts::{AllocationFacts, PodFacts};
use crate::autoscaler::Workload;
use crate::crd::{Phase as Stands, PodAllocationStatus};

/// Texts that most objects have, by their place. Others are written out.
const COMMON: [&str; 24] = [
    "",
    "app",
    "apps",
    "Applied",
    "AlreadyApplied",
    "True",
    "False",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "batch",
    "Applying",
    "RecommendOnly",
    "Restored",
    "Infeasible",
    "Deferred",
    "RateLimited",
    "QuotaExceeded",
    "PodNotFound",
    "GuaranteedQoS",
    "default",
    "main",
];

/// A value in few bytes.
#[derive(Debug)]
pub(crate) struct Packed<T> {
    bytes: Box<[u8]>,
    of: PhantomData<fn() -> T>,
}

impl<T: Pack> Packed<T> {
    pub(crate) fn new(value: &T) -> Self {
        let mut to = Writer::default();
        value.pack(&mut to);
        Self { bytes: to.bytes.into_boxed_slice(), of: PhantomData }
    }

    pub(crate) fn get(&self) -> T {
        let mut from = Reader { bytes: &self.bytes, texts: Vec::new() };
        T::unpack(&mut from).expect("it was packed by this process")
    }
}

/// Something that can be written in few bytes, and read again.
pub(crate) trait Pack: Sized {
    fn pack(&self, to: &mut Writer);
    /// Nothing where the bytes are not what this wrote.
    fn unpack(from: &mut Reader<'_>) -> Option<Self>;
}

#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    texts: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    texts: Vec<String>,
}

/// How a text is written: the lowest two bits of the number before it.
const PLAIN: u64 = 0;
const AGAIN: u64 = 1;
const FROM_COMMON: u64 = 2;
const UID: u64 = 3;

// === impl Writer ===

impl Writer {
    /// Seven bits in each byte, the lowest first; the eighth says that more follow.
    fn number(&mut self, mut number: u64) {
        loop {
            let low = u8::try_from(number & 0x7f).unwrap_or(0);
            number >>= 7;
            if number == 0 {
                self.bytes.push(low);
                return;
            }
            self.bytes.push(low | 0x80);
        }
    }

    fn tagged(&mut self, number: usize, tag: u64) {
        self.number(u64::try_from(number).unwrap_or(0) << 2 | tag);
    }

    fn text(&mut self, text: &str) {
        if let Some(place) = COMMON.iter().position(|common| *common == text) {
            self.tagged(place, FROM_COMMON);
        } else if let Some(place) = self.texts.iter().position(|known| known == text) {
            self.tagged(place, AGAIN);
        } else {
            self.texts.push(text.to_owned());
            match uid_bytes(text) {
                Some(uid) => {
                    self.tagged(0, UID);
                    self.bytes.extend(uid);
                }
                None => {
                    self.tagged(text.len(), PLAIN);
                    self.bytes.extend(text.as_bytes());
                }
            }
        }
    }
}

// === impl Reader ===

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn text(&mut self) -> Option<String> {
        let head = self.number()?;
        let number = usize::try_from(head >> 2).ok()?;
        let text = match head & 3 {
            FROM_COMMON => return COMMON.get(number).map(|text| (*text).to_owned()),
            AGAIN => return self.texts.get(number).cloned(),
            UID => uid_text(self.take(16)?),
            _ => String::from_utf8(self.take(number)?.to_vec()).ok()?,
        };
        self.texts.push(text.clone());
        Some(text)
    }
}

/// The bytes of a uid as Kubernetes writes them, if it is one.
fn uid_bytes(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let digits: String = text.split('-').collect();
    if digits.len() != 32 || !digits.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    // What would be written otherwise, such as in capitals, is kept as it is.
    (uid_text(&bytes) == text).then_some(bytes)
}

fn uid_text(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(36);
    for (place, byte) in bytes.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // A text can always be written to.
        write!(text, "{byte:02x}").ok();
    }
    text
}

// === impl Pack: what everything is made of ===

impl Pack for u64 {
    fn pack(&self, to: &mut Writer) {
        to.number(*self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.number()
    }
}

impl Pack for i64 {
    fn pack(&self, to: &mut Writer) {
        // Small numbers are short, whatever their sign.
        to.number((self << 1 ^ self >> 63).cast_unsigned());
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        let number = from.number()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }
}

impl Pack for f64 {
    fn pack(&self, to: &mut Writer) {
        to.number(self.to_bits().swap_bytes());
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        Some(Self::from_bits(from.number()?.swap_bytes()))
    }
}

impl Pack for String {
    fn pack(&self, to: &mut Writer) {
        to.text(self);
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        from.text()
    }
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, to: &mut Writer) {
        self.is_some().pack(to);
        if let Some(value) = self {
            value.pack(to);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        if bool::unpack(from)? { T::unpack(from).map(Some) } else { Some(None) }
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, to: &mut Writer) {
        self.len().pack(to);
        for value in self {
            value.pack(to);
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        let count = usize::unpack(from)?;
        (0..count).map(|_| T::unpack(from)).collect()
    }
}

impl<T: Pack> Pack for Result<T, String> {
    fn pack(&self, to: &mut Writer) {
        self.is_ok().pack(to);
        match self {
            Ok(value) => value.pack(to),
            Err(because) => because.pack(to),
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        if bool::unpack(from)? { T::unpack(from).map(Ok) } else { String::unpack(from).map(Err) }
    }
}

/// Packs a type as another one that it can be made of, and may not.
macro_rules! packs_as {
    ($($type:ty: $as:ty, $to:expr, $from:expr;)*) => {$(
        impl Pack for $type {
            fn pack(&self, to: &mut Writer) {
                let become_it: fn(&$type) -> $as = $to;
                become_it(self).pack(to);
            }

            fn unpack(from: &mut Reader<'_>) -> Option<Self> {
                let become_it: fn($as) -> Option<$type> = $from;
                become_it(<$as>::unpack(from)?)
            }
        }
    )*};
}

packs_as! {
    bool: u64, |it| u64::from(*it), |it| Some(it == 1);
    u32: u64, |it| u64::from(*it), |it| Self::try_from(it).ok();
    usize: u64, |it| u64::try_from(*it).unwrap_or(u64::MAX), |it| Self::try_from(it).ok();
    Millicores: u64, |it| it.get(), |it| Some(Self::new(it));
    Moment: u64, |it| it.since(Self::ORIGIN).as_us(), |it| Some(Self::from_us(it));
    Time: i64, |it| it.0.as_microsecond(), |it| Timestamp::from_microsecond(it).ok().map(Time);
}

/// Packs an enum without contents by the place of its variants.
macro_rules! packs_variants {
    ($($type:ident: $($variant:ident),*;)*) => {$(
        impl Pack for $type {
            fn pack(&self, to: &mut Writer) {
                const ALL: &[$type] = &[$($type::$variant),*];
                // Makes a variant that is missing above an error.
                match self { $($type::$variant)|* => {} }
                ALL.iter().position(|one| one == self).unwrap_or(0).pack(to);
            }

            fn unpack(from: &mut Reader<'_>) -> Option<Self> {
                [$($type::$variant),*].get(usize::unpack(from)?).copied()
            }
        }
    )*};
}

packs_variants! {
    Phase: Pending, Running, Succeeded, Failed, Unknown;
    QosClass: Guaranteed, Burstable, BestEffort;
    Stands: Pending, Applied, Failed;
}

/// Packs a struct field by field.
macro_rules! packs_fields {
    ($($type:ident: $($field:ident),*;)*) => {$(
        impl Pack for $type {
            fn pack(&self, to: &mut Writer) {
                let Self { $($field),* } = self;
                $($field.pack(to);)*
            }

            fn unpack(from: &mut Reader<'_>) -> Option<Self> {
                Some(Self { $($field: Pack::unpack(from)?),* })
            }
        }
    )*};
}

packs_fields! {
    Allocation: request, limit;
    CameWith: request, limit;
    ContainerView: name, request, limit, came_with, memory_request_equals_limit;
    ContainerSeen: name, request, limit, allocated, restarts;
    InProgress: error;
    Observed: generation, pending, in_progress, containers;
    Original: name, request, limit;
    PodView: phase, deleting, excluded, static_pod, qos, autoscaler, containers;
    Workload: group, kind, name;
    Condition: last_transition_time, message, observed_generation, reason, status, type_;
    PodAllocationStatus: applied_cpu_request, applied_cpu_limit, phase, reason, message,
        last_applied_time, last_attempt_time, next_attempt_time, shadow_price_cpu,
        observed_generation, conditions;
    PodFacts: uid, version, generation, node, view, sidecars, seen, originals, forged, mode,
        workloads, mark, manage_guaranteed, resized_at;
    AllocationFacts: uid, version, generation, namespace, pod, desired, price, owners, node_label,
        status;
}

impl Pack for Pending {
    fn pack(&self, to: &mut Writer) {
        match self {
            Self::Deferred { since, message } => {
                Some(*since).pack(to);
                message.pack(to);
            }
            Self::Infeasible { message } => {
                None::<Moment>.pack(to);
                message.pack(to);
            }
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        let (since, message) = (Option::<Moment>::unpack(from)?, String::unpack(from)?);
        Some(match since {
            Some(since) => Self::Deferred { since, message },
            None => Self::Infeasible { message },
        })
    }
}

impl Pack for Autoscaler {
    fn pack(&self, to: &mut Writer) {
        match self {
            Self::Vertical(name) => Err::<String, _>(name.clone()).pack(to),
            Self::Utilization(name) => Ok::<_, String>(name.clone()).pack(to),
        }
    }

    fn unpack(from: &mut Reader<'_>) -> Option<Self> {
        let name = Result::<String, String>::unpack(from)?;
        Some(name.map_or_else(Self::Vertical, Self::Utilization))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check<T: Pack + PartialEq + std::fmt::Debug>(value: &T) -> usize {
        let packed = Packed::new(value);
        assert_eq!(packed.get(), *value);
        for cut in 0..packed.bytes.len() {
            let mut from = Reader { bytes: &packed.bytes[..cut], texts: Vec::new() };
            assert_eq!(T::unpack(&mut from), None, "the first {cut} bytes alone");
        }
        packed.bytes.len()
    }

    #[test]
    fn numbers_and_texts_come_back_as_they_were() {
        for number in [0, 1, 127, 128, 300, u64::MAX] {
            check(&number);
        }
        for number in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            check(&number);
        }
        for number in [0.0, 0.5, -31_343_193.25, f64::MAX] {
            check(&number);
        }
        let uid = "0f6c1d2e-8a4b-4c3d-9e8f-001122334455".to_owned();
        assert_eq!(check(&uid), 17);
        for text in ["", "Applied", "web", "ümlaut", &uid.to_uppercase(), &uid.replace('-', "")] {
            check(&text.to_owned());
        }
        let again = vec![uid.clone(), "web".to_owned(), uid, "web".to_owned()];
        assert_eq!(check(&again), 1 + 17 + 4 + 1 + 1);
    }

    /// A pod as clusters have them, with `more` of its status.
    fn pod(more: &Value) -> PodFacts {
        let cpu = json!({ "requests": { "cpu": "150m" }, "limits": { "cpu": "300m" } });
        let mut status = json!({
            "phase": "Running", "qosClass": "Burstable",
            "containerStatuses": [{ "name": "server", "resources": cpu, "restartCount": 2 }],
        });
        for (field, value) in more.as_object().unwrap() {
            status[field] = value.clone();
        }
        let owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c7",
            "uid": "0f6c1d2e-8a4b-4c3d-9e8f-001122334455", "controller": true });
        let pod = json!({
            "metadata": { "name": "web-5d9c7-x2x4z", "namespace": "shop", "generation": 3,
                "uid": "1f6c1d2e-8a4b-4c3d-9e8f-001122334455", "resourceVersion": "123456",
                "labels": { "pod-template-hash": "5d9c7" }, "ownerReferences": [owner] },
            "spec": { "nodeName": "node-1234", "containers":
                [{ "name": "server", "resources": cpu }] },
            "status": status,
        });
        PodFacts::of(&serde_json::from_value(pod).unwrap())
    }

    fn allocation() -> AllocationFacts {
        let message = "The pod has a request of 150m and a limit of 300m, as it should.";
        let condition = json!({ "type": "Applied", "status": "True", "reason": "Applied",
            "message": message, "observedGeneration": 4,
            "lastTransitionTime": "2027-01-15T07:53:20Z" });
        let object = json!({
            "apiVersion": "allocation.mbcas.io/v1alpha1", "kind": "PodAllocation",
            "metadata": { "name": "shop-web-5d9c7-x2x4z", "namespace": "shop", "generation": 4,
                "uid": "2f6c1d2e-8a4b-4c3d-9e8f-001122334455", "resourceVersion": "123459",
                "labels": { "walras.dev/node": "node-1234" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "web-5d9c7-x2x4z",
                    "uid": "1f6c1d2e-8a4b-4c3d-9e8f-001122334455" }] },
            "spec": { "namespace": "shop", "podName": "web-5d9c7-x2x4z", "shadowPriceCPU": 0.25,
                "desiredCPURequest": "150m", "desiredCPULimit": "300m" },
            "status": { "phase": "Applied", "reason": "Applied", "message": message,
                "observedGeneration": 4, "conditions": [condition], "shadowPriceCPU": 0.25,
                "appliedCPURequest": "150m", "appliedCPULimit": "300m",
                "lastAppliedTime": "2027-01-15T07:53:20Z" },
        });
        AllocationFacts::of(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_is_kept_of_a_pod_and_its_allocation_is_small_and_nothing_of_it_is_lost() {
        let (of_pod, of_allocation) = (check(&pod(&json!({}))), check(&allocation()));
        assert!(of_pod <= 150, "{of_pod} bytes");
        assert!(of_allocation <= 240, "{of_allocation} bytes");
    }

    #[test]
    fn pods_in_trouble_come_back_as_they_were() {
        let at = "2027-01-15T07:53:20Z";
        for (kind, reason) in [
            ("PodResizePending", "Deferred"),
            ("PodResizePending", "Infeasible"),
            ("PodResizeInProgress", "Error"),
            ("PodResizeInProgress", ""),
        ] {
            let condition = json!({ "type": kind, "status": "True", "reason": reason,
                "message": "no room", "lastTransitionTime": at });
            check(&pod(&json!({ "conditions": [condition] })));
        }
        check(&PodFacts { view: Err("no view".to_owned()), ..pod(&json!({})) });
        check(&PodFacts { originals: Err("no json".to_owned()), ..pod(&json!({})) });
        let original = Original { name: "server".to_owned(), request: None, limit: None };
        check(&PodFacts { originals: Ok(Some(vec![original])), ..pod(&json!({})) });
        for autoscaler in [Autoscaler::Vertical("v".into()), Autoscaler::Utilization("h".into())] {
            check(&autoscaler);
        }
    }
}
