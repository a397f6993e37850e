//! Takes a sample every few seconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use harness::ControlPlane;

use crate::load::{Load, RequestKind};
use crate::observer::Observer;
use crate::replicas::Replicas;
use crate::report::{Convergence, Disruption, Repair, Sample};

const INTERVAL: Duration = Duration::from_secs(5);

/// The resources that the controllers request. The API server renews its own Leases too, one every ten seconds.
const RESOURCES: [&str; 5] = ["nodes", "nodeextendedresources", "leases", "events", "pods"];

pub struct Recorder {
    start: Instant,
    sampled: Instant,
    counts: BTreeMap<RequestKind, u64>,
    /// Whether there was a disruption since the cluster was last as declared.
    pub is_disturbed: bool,
    pub samples: Vec<Sample>,
    pub repairs: Vec<Repair>,
    pub disruptions: Vec<Disruption>,
    pub convergences: Vec<Convergence>,
}

impl Recorder {
    pub fn start(control_plane: &ControlPlane) -> Result<Self> {
        let now = Instant::now();
        Ok(Self {
            start: now,
            sampled: now,
            counts: counts(control_plane)?,
            is_disturbed: false,
            samples: Vec::new(),
            repairs: Vec::new(),
            disruptions: Vec::new(),
            convergences: Vec::new(),
        })
    }

    /// Returns the seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Records the disruption that starts now, and its minimum duration.
    pub fn disrupted(&mut self, name: String, duration: Duration) {
        let at = self.seconds();
        let until = at + duration.as_secs_f64();
        self.disruptions.push(Disruption { at, until, name });
        self.is_disturbed = true;
    }

    /// Takes a sample if one is due.
    pub fn tick(
        &mut self,
        control_plane: &ControlPlane,
        replicas: &Replicas,
        load: &mut Load,
        observer: &Observer,
    ) -> Result<()> {
        observer.follow(control_plane)?;
        self.take_repairs(observer);
        let elapsed = self.sampled.elapsed();
        if elapsed < INTERVAL {
            return Ok(());
        }
        self.sampled = Instant::now();
        let counts = counts(control_plane)?;
        let own = std::mem::take(&mut load.requests);
        let mut requests_per_s = BTreeMap::new();
        for (kind, count) in &counts {
            // A restarted API server counts from 0.
            let before = self.counts.get(kind).filter(|before| *before <= count);
            let own = own.get(kind).copied().unwrap_or_default();
            let sent = (count - before.copied().unwrap_or_default()).saturating_sub(own);
            if sent > 0 {
                let [verb, resource, subresource, code] = kind;
                let slash = if subresource.is_empty() { "" } else { "/" };
                let name = format!("{verb} {resource}{slash}{subresource} {code}");
                requests_per_s.insert(name, sent as f64 / elapsed.as_secs_f64());
            }
        }
        self.counts = counts;
        self.samples.push(Sample {
            at: self.seconds(),
            memory_mib: replicas.memory_mib()?,
            leader: replicas.leader(),
            requests_per_s,
        });
        Ok(())
    }

    /// Records the observed repairs.
    pub fn take_repairs(&mut self, observer: &Observer) {
        for (sent, took) in observer.take_repaired() {
            let at = sent.saturating_duration_since(self.start).as_secs_f64();
            let ms = took.as_secs_f64() * 1000.0;
            self.repairs.push(Repair { at, ms, disturbed: self.is_disturbed });
        }
    }
}

fn counts(control_plane: &ControlPlane) -> Result<BTreeMap<RequestKind, u64>> {
    let mut counts = control_plane.request_counts_by(["verb", "resource", "subresource", "code"])?;
    counts.retain(|[_, resource, ..], _| RESOURCES.contains(&resource.as_str()));
    Ok(counts)
}
