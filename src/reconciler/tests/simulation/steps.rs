//! One run: a world by a seed, some steps, and the calm after them.

use k8s_openapi::jiff::SignedDuration;

use super::choices::Choices;
use super::process::PODS;
use super::world::{Due, Millis, World};
use crate::reconciler::effect::Observation;

/// How long a process, or a watch, is silent at most: longer than a Lease lasts.
const LONG: Millis = 40_000;
/// How long the watch of pods is: longer than it counts as live.
const STALE: Millis = 100_000;
/// How long it is until the next step.
const PAUSES: [Millis; 10] = [0, 1, 3, 10, 100, 500, 1000, 3000, 10_000, 30_000];

/// Makes a world, and lets it go on for so many steps, or as many as there are choices for.
pub(super) fn run(choices: Choices, steps: usize, is_recorded: bool) -> World {
    let mut world = World::new(choices, is_recorded);
    world.begin();
    for _ in 0..steps {
        if world.violation.is_some() || !world.choices.begin_step() {
            break;
        }
        let pause = world.choices.one_of(&PAUSES);
        world.run_until(world.now + pause);
        if world.violation.is_none() {
            world.step();
        }
    }
    if world.violation.is_none() {
        world.choices.begin_step();
        world.calm_down();
    }
    world
}

/// Makes a world without faults, whose API server is overloaded for five minutes. Returns how often leadership changed in
/// that time.
pub(super) fn changes_of_leadership_under_overload(seed: u64) -> u64 {
    let mut world = World::new(Choices::of_seed(seed), false);
    world.begin();
    world.faults = 0;
    world.run_until(60_000);
    let changes = |world: &World| {
        ["leadership gained", "leadership lost"].map(|what| world.story.tally.get(what).copied().unwrap_or_default())
    };
    let [gained, lost] = changes(&world);
    assert!(gained > lost, "nobody leads");
    world.queue_requests(300_000);
    world.run_until(360_000);
    assert_eq!(world.violation, None);
    changes(&world).iter().sum::<u64>() - gained - lost
}

impl World {
    fn begin(&mut self) {
        let nodes = self.choices.below(3) as usize + 2;
        let rules = self.choices.below(4) as usize;
        let processes = u64::from(self.choices.below(3)) + 1;
        let young = self.choices.percent(40);
        self.faults = self.choices.one_of(&[0, 5, 5, 15, 40]);
        self.is_confined = self.choices.percent(50);
        if !young {
            self.set_age(SignedDuration::from_hours(2));
            (0..nodes).for_each(|number| self.add_machine(number));
        }
        self.set_age(SignedDuration::from_hours(1));
        for rule in 0..rules {
            self.create_rule(&format!("rule-{}", rule + 1));
        }
        self.set_age(SignedDuration::ZERO);
        if young {
            (0..nodes).for_each(|number| self.add_machine(number));
        }
        for process in 0..processes {
            self.after(process * 700, Due::Start);
        }
    }

    fn step(&mut self) {
        let machine = self.choices.below(self.machines.len() as u32) as usize;
        let process = self.choices.below(self.processes.len().max(1) as u32) as usize;
        let is_alive = self.processes.get(process).is_some_and(|process| !process.is_dead);
        match self.choices.below(49) {
            1..=8 => self.change_rules(),
            9..=13 => self.edit_node(machine),
            14..=21 => self.change_pod(machine),
            22..=24 => {
                let is_boot = !self.choices.percent(30);
                self.start_kubelet(machine, is_boot);
            }
            25 => self.delete_node(machine),
            26 | 27 => self.register(machine),
            28 => {
                self.delete_node(machine);
                self.register(machine);
            }
            29 => self.change_plugin(machine),
            30 | 31 if is_alive => {
                self.count("process killed");
                self.kill(process, "is killed");
                let pause = self.choices.one_of(&[100, 1000, 5000, 20_000]);
                self.after(pause, Due::Start);
            }
            46 if is_alive && !self.processes[process].is_paused => {
                self.count("process stopped");
                let name = std::sync::Arc::clone(&self.processes[process].name);
                self.record(|| format!("{name} is asked to end"));
                self.observe(process, Observation::Stop);
                self.after(1000, Due::Start);
            }
            32..=34 if is_alive => {
                let time = self.choices.one_of(&[100, 1000, 5000, 12_000, 20_000, LONG]);
                let with_clock = self.choices.percent(20);
                self.pause(process, time, with_clock);
            }
            35..=41 if is_alive => self.disturb_watch(process),
            42 if self.processes.iter().filter(|process| !process.is_dead).count() < 3 => {
                self.start_process();
            }
            43 => {
                let what = self.choices.one_of(&["node-1", "node-2", "example.com/dongle"]);
                let all = self.choices.percent(50);
                self.record(|| format!("admission rejects patches of {what}: {}", !all));
                self.rejected.clear();
                if !all {
                    self.rejected.insert(what.to_owned());
                }
            }
            44 => {
                self.faults = self.choices.one_of(&[0, 5, 15, 40, 80]);
                let faults = self.faults;
                self.record(|| format!("{faults} in a hundred requests fail"));
            }
            45 => {
                let version = self.server.version();
                let age = u64::from(self.choices.below(20));
                self.server.compact(version.saturating_sub(age));
                self.count("compaction");
                self.record(|| "etcd is compacted".to_owned());
            }
            47 => {
                let time = self.choices.one_of(&[10_000, 60_000, 300_000]);
                self.queue_requests(time);
            }
            48 => self.change_policy(),
            _ => {}
        }
    }

    /// Every request waits for two seconds, for so long.
    pub(super) fn queue_requests(&mut self, time: Millis) {
        self.queued_until = self.now + time;
        self.record(|| format!("the API server is overloaded: requests are queued for {} s", time / 1000));
    }

    /// A watch of a process lags, shows nothing for a while, breaks, or cannot list.
    fn disturb_watch(&mut self, process: usize) {
        let place = self.choices.below(4) as usize;
        let longest = if place == PODS { STALE } else { LONG };
        let time = self.choices.one_of(&[500, 3000, 10_000, longest]);
        let what = self.choices.below(5);
        let now = self.now;
        let stream = &mut self.processes[process].streams[place];
        let (done, text) = match what {
            0 => {
                stream.lag = time / 4;
                ("watch lags", format!("lags by {} ms", time / 4))
            }
            1 => {
                stream.lag = 2;
                ("watch lags no more", "lags no more".to_owned())
            }
            2 => {
                stream.silent_until = now + time;
                ("watch silent", format!("is silent for {time} ms"))
            }
            3 => {
                stream.restart();
                ("watch begins anew", "begins anew".to_owned())
            }
            _ => {
                stream.restart();
                stream.fails_until = now + time;
                ("watch cannot list", format!("cannot list for {time} ms"))
            }
        };
        self.count(done);
        let kind = ["Leases", "rules", "nodes", "pods"][place];
        let name = std::sync::Arc::clone(&self.processes[process].name);
        self.record(|| format!("the watch of {kind} of {name} {text}"));
        self.wake_watches(process);
    }
}
