//! Every choice of a run, so that it can be replayed and shortened.

use fastrand::Rng;

/// The numbers that a run goes by, a list for each of its steps. Where a list comes to its end, or all of them do, the
/// numbers are 0: each choice is such that 0 is the one with which nothing happens.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    steps: Vec<Vec<u32>>,
    step: usize,
    place: usize,
    /// Where further numbers come from while a run is recorded.
    random: Option<Rng>,
}

impl Choices {
    /// Chooses at random, and records that.
    pub(super) fn of_seed(seed: u64) -> Self {
        let random = Some(Rng::with_seed(seed));
        Self { steps: vec![Vec::new()], step: 0, place: 0, random }
    }

    /// Chooses what has been recorded.
    pub(super) fn replay(steps: Vec<Vec<u32>>) -> Self {
        Self { steps, step: 0, place: 0, random: None }
    }

    /// What has been recorded.
    pub(super) fn into_steps(self) -> Vec<Vec<u32>> {
        self.steps
    }

    /// Begins the next step. False where there is none.
    pub(super) fn begin_step(&mut self) -> bool {
        self.step += 1;
        self.place = 0;
        if self.random.is_some() {
            self.steps.push(Vec::new());
        }
        self.step < self.steps.len()
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        let place = self.place;
        self.place += 1;
        let Some(numbers) = self.steps.get_mut(self.step) else { return 0 };
        if let Some(number) = numbers.get(place) {
            return number % limit;
        }
        let Some(random) = &mut self.random else { return 0 };
        let number = random.u32(0..limit);
        numbers.push(number);
        number
    }

    /// True in so many of a hundred cases.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.below(100) >= 100 - percent
    }

    /// One of these; the first is the one of 0.
    pub(super) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(u32::try_from(all.len()).unwrap()) as usize]
    }
}
