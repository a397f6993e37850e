//! Breadth first through every state that can be reached, each once; and what the transitions of calm end in.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Instant;

use super::components::Edges;

/// A world whose states are counted in millions: small, and compared by value.
pub(super) trait Model {
    type State: Copy + Eq + Hash + Display;
    type Step: Copy + Eq;

    fn starts(&self) -> Vec<Self::State>;

    /// All that may happen next.
    fn steps(&mut self, state: &Self::State, taken: &mut Vec<Taken<Self>>) -> Result<(), (Self::Step, String)>;

    /// Returns a step in words.
    fn describe(&self, step: &Self::Step) -> String;

    /// Whether it may happen where processes take turns in leading, and no watch shows them anything.
    fn is_turn(&self, step: &Self::Step) -> bool;

    /// Whether a transition writes to the node.
    fn writes(&self, from: &Self::State, to: &Self::State) -> bool;

    /// Checks one that calm does not leave any more.
    fn check_end(&mut self, state: &Self::State) -> Result<(), String>;
}

/// One transition.
pub(super) struct Taken<M: Model + ?Sized> {
    pub(super) step: M::Step,
    pub(super) to: M::State,
    /// Whether it happens, sooner or later, though nothing else does.
    pub(super) is_calm: bool,
}

/// What has been explored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) states: usize,
    pub(super) transitions: usize,
    pub(super) ends: usize,
}

pub(super) struct Search<M: Model> {
    model: M,
    states: Vec<M::State>,
    /// The state from which each was reached first; the starts have themselves.
    parents: Vec<u32>,
    places: HashMap<M::State, u32, BuildHasherDefault<FastHasher>>,
    /// Where the transitions of calm lead, and those of turns.
    calm: Edges,
    turns: Edges,
}

impl<M: Model> Search<M> {
    pub(super) fn new(model: M) -> Self {
        let (states, parents, places) = (Vec::new(), Vec::new(), HashMap::default());
        Self { model, states, parents, places, calm: Edges::default(), turns: Edges::default() }
    }

    /// Explores everything. An error is a violation, with the shortest story that leads to it.
    pub(super) fn run(&mut self) -> Result<Counts, String> {
        for start in self.model.starts() {
            let place = self.states.len() as u32;
            self.enter(start, place);
        }
        let mut counts = Counts::default();
        let mut taken = Vec::new();
        let mut next = 0;
        while let Some(state) = self.states.get(next).copied() {
            self.calm.begin();
            self.turns.begin();
            taken.clear();
            if let Err((step, violation)) = self.model.steps(&state, &mut taken) {
                let story = self.story(next);
                let step = self.model.describe(&step);
                return Err(format!("{story}\n  {step}\nviolation: {violation}"));
            }
            counts.transitions += taken.len();
            for Taken { to, is_calm, step } in &taken {
                let place = self.enter(*to, next as u32);
                if *is_calm && place as usize != next {
                    self.calm.add(place);
                }
                if self.model.is_turn(step) {
                    self.turns.add(place);
                }
            }
            next += 1;
        }
        self.check_turns()?;
        counts.states = self.states.len();
        for end in self.calm.bottoms() {
            counts.ends += 1;
            let place = end.iter().copied().min().unwrap_or_default() as usize;
            let checked = match end.as_slice() {
                [_] => self.model.check_end(&self.states[place]),
                _ => {
                    let states = end.iter().take(8).map(|place| self.states[*place as usize]);
                    let states: Vec<_> = states.map(|state| format!("\n  {state}")).collect();
                    Err(format!("{} states follow each other forever:{}", end.len(), states.concat()))
                }
            };
            checked
                .map_err(|error| format!("{}\nviolation: where nothing else happens, {error}", self.story(place)))?;
        }
        Ok(counts)
    }

    /// Checks that no two leaders write forever what the other undoes.
    fn check_turns(&mut self) -> Result<(), String> {
        let components = self.turns.components();
        for place in 0..self.states.len() {
            let alike = |target: &&u32| components[**target as usize] == components[place];
            let writes = |target: &&u32| self.model.writes(&self.states[place], &self.states[**target as usize]);
            let mut again = self.turns.of(place as u32).iter().filter(alike);
            if again.any(|target| writes(&target)) {
                let story = self.story(place);
                return Err(format!("{story}\nviolation: from here leaders alternate forever"));
            }
        }
        Ok(())
    }

    fn enter(&mut self, state: M::State, parent: u32) -> u32 {
        let place = self.states.len() as u32;
        let place = *self.places.entry(state).or_insert(place);
        if place as usize == self.states.len() {
            self.states.push(state);
            self.parents.push(parent);
        }
        place
    }

    /// Returns how a state is reached: a line for each step.
    fn story(&mut self, place: usize) -> String {
        let mut path = vec![place];
        while let Some(&last) = path.last() {
            let parent = self.parents[last] as usize;
            if parent == last {
                break;
            }
            path.push(parent);
        }
        path.reverse();
        let mut story = format!("  at first: {}", self.states[path[0]]);
        for pair in path.windows(2) {
            let [from, to] = [self.states[pair[0]], self.states[pair[1]]];
            let mut taken = Vec::new();
            let _ = self.model.steps(&from, &mut taken);
            let step = taken.into_iter().find(|taken| taken.to == to);
            let step = step.map(|taken| self.model.describe(&taken.step)).unwrap_or_default();
            story += &format!("\n  {step}\n      -> {to}");
        }
        story
    }
}

/// Runs models on all cores. Prints a line for each, and one for all; panics where any is violated.
pub(super) fn run_all<M: Model + Send>(models: Vec<(&'static str, M)>)
where
    M::State: Send,
{
    let begun = Instant::now();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = std::sync::Mutex::new(models.into_iter());
    let results = std::sync::Mutex::new((Counts::default(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some((name, model)) = next else { return };
                    let begun = Instant::now();
                    let mut search = Search::new(model);
                    let result = search.run();
                    let seconds = begun.elapsed().as_secs_f64();
                    let mut results = results.lock().unwrap();
                    match result {
                        Ok(Counts { states, transitions, ends }) => {
                            println!("{name}: {states} states, {transitions} transitions, {ends} ends, {seconds:.1} s");
                            results.0.states += states;
                            results.0.transitions += transitions;
                        }
                        Err(story) => {
                            println!("{name}: violated after {} states\n{story}", search.states.len());
                            results.1.push(format!("{name}:\n{story}"));
                        }
                    }
                }
            });
        }
    });
    let (Counts { states, transitions, .. }, violations) = results.into_inner().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    println!("explored {states} states, {transitions} transitions, {seconds:.0} s: {} violations", violations.len());
    assert!(violations.is_empty(), "{}", violations.join("\n\n"));
}

/// A hash of few instructions, for keys that nobody chooses to collide.
#[derive(Default)]
pub(super) struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        // The table takes its place from the lowest bits and its tags from the highest.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u8(*byte));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}
