//! The rows about one node during the rollout of a second rule, as slow as in an installation.

use std::time::Duration;

use anyhow::{Result, ensure};
use node_resource_advertiser::model::api::ShrinkPolicy;

use crate::controller::Controller;
use crate::machine::Cpu;
use crate::other;
use crate::pair::Bench;
use crate::sample::Sample;

/// The rows, and the shrink policy of the second rule. With `WhenFree`, its patches wait until pods are known, of which there
/// are none here.
const ROWS: [([&str; 2], ShrinkPolicy); 2] = [
    (["repair in rollout", "new node in rollout"], ShrinkPolicy::WhenFree),
    (["repair, no pods", "new node, no pods"], ShrinkPolicy::Immediate),
];
/// Smaller clusters are rolled out before the rows about one node end.
const MIN_NODES: usize = 1000;
/// The patches of a rollout's first second are sent at once.
const BURST: Duration = Duration::from_secs(2);
/// A new leader treats young nodes, which the bench has just created, as changed by themselves until it has planned them.
const UNTIL_PLANNED: Duration = Duration::from_secs(5);

impl Bench {
    pub fn has_rows_in_rollouts(&self) -> bool {
        self.cluster.node_count >= MIN_NODES
    }

    /// Measures them while the baseline sends the same patches, and `client` repairs the values of the first rule.
    pub async fn baseline_in_rollouts(&self, client: Cpu, sample: &mut Sample) -> Result<()> {
        let Self { cluster, .. } = self;
        for (rows, _) in ROWS {
            let rollout = other::start(&cluster.client, cluster.node_count)?;
            self.edit_in_rollout(rows, client, sample).await?;
            drop(rollout);
            other::withdraw(cluster).await?;
        }
        Ok(())
    }

    /// Measures them in rollouts of the controller, in place of the one that runs. Returns the one that runs afterwards, as
    /// fast as that.
    pub async fn controller_in_rollouts(&self, mut unlimited: Controller, sample: &mut Sample) -> Result<Controller> {
        let Self { cluster, .. } = self;
        for (rows, shrink_policy) in ROWS {
            unlimited.stop()?;
            let controller = Controller::start_limited(cluster)?;
            controller.wait_leader(cluster.deadline())?;
            tokio::time::sleep(UNTIL_PLANNED).await;
            cluster.create_other_rule(shrink_policy).await?;
            self.edit_in_rollout(rows, controller.cpu(), sample).await?;
            cluster.delete_other_rule().await?;
            controller.stop()?;
            (unlimited, _) = Controller::start(cluster)?;
            cluster.wait_other_withdrawn().await?;
        }
        Ok(unlimited)
    }

    async fn edit_in_rollout(&self, rows: [&'static str; 2], client: Cpu, sample: &mut Sample) -> Result<()> {
        let Self { cluster, .. } = self;
        tokio::time::sleep(BURST).await;
        self.edit(rows, client, sample).await?;
        let patched = cluster.count_other().await?;
        ensure!((1..cluster.node_count).contains(&patched), "the rollout did not last: {patched} nodes are patched");
        Ok(())
    }
}
